"""Someone else's implementation under audit, beside the mechanism of ours that it claims, or is taken, to be."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ..arrays import Array
from ..base import Contrast, HasPathLaw, Mechanism, Sampler
from ..data import Dataset, Record
from ..errors import InputError
from ..moments import Moments
from ..pair import PairLaw
from ..path_law import PathLaw
from ..regimes import Sensitivity
from ..release import Release
from ..renyi import RenyiCurve, nothing_certified

SMOOTHNESS = {0.5: "exponential", 1.5: "matern32", 2.5: "matern52"}  # our names of Matern kernels, by nu
Statement = Literal["hyperparameters", "noise"]  # what a publisher may state to have been chosen publicly


class Model(Protocol):
    """Someone else's code that draws releases, whatever data it is given. It is pickled for workers."""

    @property
    def name(self) -> str:
        """Name in the configuration and the report."""
        ...

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Releases of `data` at points ``(t, d)``, by that code."""
        ...


@dataclass(frozen=True, eq=False)
class Reported:
    """What foreign code says of the values that it releases at t points.

    Attributes:
        mean: ``(t,)``.
        covariance: ``(t, t)``; or variances alone, ``(t,)``, where it tells no more.
        accuracy: How far both may be off by the code's own approximations, in units of the prior's.
    """

    mean: Array
    covariance: Array
    accuracy: float = 1e-6


@runtime_checkable
class TellsMoments(Protocol):
    """A model whose mean and covariance can be asked for, and so compared with ours before anything is drawn."""

    def reported(self, data: Dataset, points: Array) -> Reported:
        """Mean and covariance of what is released at points ``(t, d)``."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Reading:
    """What an adapter reads off a deployed model. None: the configuration must say it.

    Attributes:
        model: Draws releases.
        kernel: Name of the kernel, as in the configuration.
        length_scale: In units of the covariates.
        ridge: r, with ``r^2`` the noise variance over the kernel's; of several the smallest.
        scale: sigma, the standard deviation of the prior.
        ridges: r of each row, ``(n,)``, where rows have their own.
        draws: "latent" values of the function, or "predictive" ones with the model's noise on each.
        trained_on: Covariates and responses that it was fitted to, if it was: they must be the private data.
        approximate: Why the draws are not those of the posterior; None where they claim to be.
        notes: What the report says about the implementation, a sentence each.
        code: Hash of the file that the configuration names: other code is another model.
    """

    model: Model
    kernel: str | None = None
    length_scale: float | None = None
    ridge: float | None = None
    scale: float | None = None
    ridges: Array | None = None
    draws: Literal["latent", "predictive"] | None = None
    trained_on: tuple[Array, Array] | None = None
    approximate: str | None = None
    notes: tuple[str, ...] = ()
    code: str = ""


@dataclass(frozen=True, eq=False)
class _Foreign:
    """What both kinds share: draws are the model's, laws those of one of our mechanisms.

    Attributes:
        model: Draws releases.
        like: The mechanism of ours whose laws are used.
        notes: What the report says about the implementation.
        code: Hash of the file that the configuration names.
    """

    model: Model
    like: Mechanism
    notes: tuple[str, ...] = ()
    code: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.like, HasPathLaw):
            raise InputError(f"mechanism {self.like.name} states no law of its paths to hold a model against")

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def release(self) -> Release:
        """The public parameters."""
        return self.like.release

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """The model's."""
        return self.model.sampler(data, points)

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Law of every pair, ``(n, replacements)``."""
        return self.like.leave_one_out(data, replacements)

    def value_law(self, posterior: Moments) -> Moments:
        """Law of one released value."""
        return self.like.value_law(posterior)

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """What an adversary looks at who takes the law for true."""
        return self.like.contrast(data, row, replacement)

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """The law that draws are held against."""
        assert isinstance(self.like, HasPathLaw)  # checked when it was made
        return self.like.path_law(data, points)


@dataclass(frozen=True, eq=False)
class Deployed(_Foreign):
    """An implementation that is stated to be `like`: what is proved of `like` is claimed of it.

    Raises:
        InputError: `like` states no law of its paths.
    """

    def renyi(self, sensitivity: Sensitivity) -> RenyiCurve:
        """That of the stated mechanism."""
        return self.like.renyi(sensitivity)


@dataclass(frozen=True, eq=False)
class BlackBox(_Foreign):
    """A release of which nothing is certified or exact; adversaries take it for `like`, which only guides them.

    Raises:
        InputError: `like` states no law of its paths.
    """

    def renyi(self, sensitivity: Sensitivity) -> RenyiCurve:
        """Infinite for every order."""
        return nothing_certified(sensitivity)


def stated_by(mechanism: Mechanism) -> Mechanism | None:
    """The mechanism that certificates are about: itself, what a deployed model is stated to be, None of a black box."""
    if isinstance(mechanism, BlackBox):
        return None
    return mechanism.like if isinstance(mechanism, Deployed) else mechanism
