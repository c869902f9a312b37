"""Predictive draws: a posterior path at listed points, each value with fresh measurement noise."""

from dataclasses import dataclass

from .arrays import Array
from .base import Contrast, Sampler
from .data import Dataset, Record
from .errors import InputError
from .gaussian import Paths
from .leave_one_out import leave_one_out_laws
from .moments import Moments
from .pair import PairLaw
from .path_law import PathLaw
from .regimes import Sensitivity
from .release import Release, Tuning
from .renyi import RenyiCurve, posterior_curve


@dataclass(frozen=True)
class Predictive:
    """Values ``f(t) + noise`` at listed points: what a model with noise predicts for a new observation, not f itself.

    The noise is that of the model, of variance ``(r sigma)^2``, and independent from value to value. It is added to
    paths of exact posterior sampling, whose certificates therefore hold.

    Raises:
        InputError: No points are listed, or the release states prior noise, which this mechanism does not add.
    """

    release: Release
    name: str = "predictive"

    def __post_init__(self) -> None:
        if self.release.prior_noise != 0:
            raise InputError("mechanism predictive adds the model's noise only: set prior_noise to 0")
        if self.release.points is None:
            raise InputError(
                "mechanism predictive releases values with noise of their own, which are no function: list "
                "release.points"
            )

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a released value."""
        return self.release.ridge * self.release.scale

    @property
    def path_recipe(self) -> Paths:
        """How its paths are made of a posterior."""
        at = self.release
        return Paths(kernel=at.kernel, ridge=at.ridge, points=at.points, scale=at.scale, white_noise=self.noise)

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Noisy values of the posterior of `data` at points ``(t, d)``; two values at one place differ."""
        return self.path_recipe.sampler(data, points)

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """``N(mu_D, sigma^2 (k_D + r^2 I))`` at points ``(t, d)``."""
        return self.path_recipe.law(data, points)

    def renyi(self, sensitivity: Sensitivity, tuning: Tuning | None = None) -> RenyiCurve:
        """Theorem 3.1, for the paths without the noise."""
        at = tuning or self.release.tuning
        return posterior_curve(sensitivity, ridge=at.ridge, scale=at.scale, prior_noise=at.prior_noise)

    def exact_paths(self) -> Release:
        """The release itself: the noise is added afterwards."""
        return self.release

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair at the listed points, ``(n, replacements)``."""
        return leave_one_out_laws(self.path_recipe, data, replacements)

    def value_law(self, posterior: Moments) -> Moments:
        """``N(mu, sigma^2 (v + r^2))``."""
        return Moments(posterior.mean, self.release.scale**2 * posterior.variance + self.noise**2)

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """The best linear statistics of the listed points."""
        return self.path_recipe.contrast(data, row, replacement)
