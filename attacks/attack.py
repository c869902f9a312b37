"""What a population adversary is: something trained on shadow releases that then scores releases."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from ..mechanisms import Array, InputError, Moments, Record

_EPS = float(np.finfo(np.float64).eps)

Sees = Literal["law", "values", "path"]


@dataclass(frozen=True, eq=False)
class Releases:
    """Released paths as an adversary sees them.

    Attributes:
        paths: ``(..., L, p)``: L paths at the p points where the adversary looks.
        at: Which of the points is the target's own, or the nearest to it that is released.
    """

    paths: Array
    at: int

    @property
    def values(self) -> Array:
        """The L values at the target, ``(..., L)``."""
        return np.asarray(self.paths[..., self.at])


@dataclass(frozen=True, eq=False)
class Shadows:
    """Shadow datasets of one target; axis 0 is with the target, then without.

    Attributes:
        target: The attacked record.
        law: Normal law of one released value at the target under each shadow, ``(2, S)``.
        releases: One release of each shadow, ``(2, S, L, p)``; None for attacks that see the law alone.
    """

    target: Record
    law: Moments
    releases: Releases | None


class Scorer(Protocol):
    """A trained attack on one target."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know: mode, floors, approximations; each a short phrase."""
        ...

    def score(self, releases: Releases) -> Array:
        """One score a release, HIGHER FOR MEMBERS: ``(..., L, p)`` gives ``(...)``."""
        ...


class Learner(Protocol):
    """An attack on one target in training."""

    def digest(self, shadows: Shadows) -> tuple[Array, ...]:
        """What is kept of a chunk of shadows: arrays, which a resumable run writes to its folder.

        Done where the chunk is; changes nothing.
        """
        ...

    def add(self, digest: tuple[Array, ...]) -> None:
        """Take the digests in, in the order of the shadows."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held for the shadows that were added."""
        ...

    def scorer(self) -> Scorer:
        """The trained attack.

        Raises:
            InputError: There are too few shadows, or one of their statistics is not finite.
        """
        ...


@runtime_checkable
class Attack(Protocol):
    """An adversary who knows the target and the population. An outsider's attack implements this and nothing else."""

    @property
    def name(self) -> str:
        """Name in the configuration and the report."""
        ...

    @property
    def sees(self) -> Sees:
        """What it is trained on and looks at.

        "law": the stated law of a value under each shadow; it looks at the values at the target. "values": simulated
        values at the target. "path": simulated paths at all released points.
        """
        ...

    def learner(self, pilot: Shadows) -> Learner:
        """Begin. `pilot` are the first shadows, from which scales may be chosen; they are digested again later."""
        ...


class Fitted(Protocol):
    """A score of features; made by `FeatureAttack.fit`."""

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Scorer`."""
        ...

    def score(self, features: Array) -> Array:
        """``(N, k)`` to ``(N,)``, higher for members."""
        ...


class FeatureAttack(ABC):
    """An attack that reduces every release to k numbers and fits a score on those of the shadows.

    An `Attack` for whoever has the two abstract methods. It keeps ``16 k`` bytes a shadow pair.
    """

    name: str
    sees: Sees

    @abstractmethod
    def features(self, releases: Releases) -> Array:
        """``(..., L, p)`` to ``(..., k)``."""

    @abstractmethod
    def fit(self, member: Array, nonmember: Array) -> Fitted:
        """A score from the features of shadows with the target ``(S, k)`` and without it ``(S', k)``.

        Raises:
            InputError: There are too few of them.
        """

    def learner(self, pilot: Shadows) -> Learner:
        """See `Attack`."""
        del pilot
        return self.of_features()

    def of_features(self) -> Learner:
        """A learner that collects the features of all shadows."""
        return _FeatureLearner(self)


@dataclass(eq=False)
class _FeatureLearner:
    attack: FeatureAttack
    parts: list[Array] = field(default_factory=list)

    def digest(self, shadows: Shadows) -> tuple[Array, ...]:
        if shadows.releases is None:
            raise InputError(f"{self.attack.name}: features need releases, but the attack says that it sees the law")
        return (np.asarray(self.attack.features(shadows.releases)),)

    def add(self, digest: tuple[Array, ...]) -> None:
        self.parts.append(digest[0])

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def scorer(self) -> "_FeatureScorer":
        features = np.concatenate(self.parts, axis=1)
        self.parts = [features]
        _refuse_broken(self.attack.name, features, "shadow releases", ": none is left out, so there is no score")
        return _FeatureScorer(self.attack, self.attack.fit(*features))


@dataclass(frozen=True, eq=False)
class _FeatureScorer:
    attack: FeatureAttack
    fitted: Fitted

    @property
    def notes(self) -> tuple[str, ...]:
        return self.fitted.notes

    def score(self, releases: Releases) -> Array:
        features = np.asarray(self.attack.features(releases))
        _refuse_broken(self.attack.name, features, "releases")
        flat = self.fitted.score(features.reshape(-1, features.shape[-1]))
        return np.asarray(flat).reshape(features.shape[:-1])


def _refuse_broken(name: str, features: Array, what: str, remark: str = "") -> None:
    broken = int((~np.isfinite(features)).any(axis=-1).sum())
    if broken:
        count = math.prod(features.shape[:-1])
        raise InputError(f"{name}: {broken} of {count} {what} have a statistic that is not finite{remark}")


def rounding_variance(centre: Array) -> Array:
    """Square of the rounding error of values around `centre`: no variance of them means more. A floor for its log."""
    return np.asarray(np.maximum(np.square(_EPS * centre), np.finfo(np.float64).tiny))
