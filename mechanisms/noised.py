"""Posterior sampling with prior noise: paths of ``GP(mu_D, sigma^2 k_D)`` plus independent ``GP(0, eta^2 k)``."""

from dataclasses import dataclass, replace

from .arrays import Array
from .base import Contrast, Sampler
from .data import Dataset, Record
from .gaussian import Paths
from .leave_one_out import leave_one_out_laws
from .moments import Moments
from .pair import PairLaw
from .path_law import PathLaw
from .regimes import Sensitivity
from .release import Release, Tuning
from .renyi import RenyiCurve, posterior_curve


@dataclass(frozen=True)
class Noised:
    """Posterior sampling with prior noise (THEORY section 2); ``prior_noise = 0`` is exact posterior sampling."""

    release: Release
    name: str = "noised"

    @property
    def path_recipe(self) -> Paths:
        """How its paths are made of a posterior."""
        at = self.release
        return Paths(kernel=at.kernel, ridge=at.ridge, points=at.points, scale=at.scale, prior_noise=at.prior_noise)

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Noised paths of the posterior of `data` at points ``(t, d)``."""
        return self.path_recipe.sampler(data, points)

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """``N(mu_D, sigma^2 k_D + eta^2 k)`` at points ``(t, d)``."""
        return self.path_recipe.law(data, points)

    def renyi(self, sensitivity: Sensitivity, tuning: Tuning | None = None) -> RenyiCurve:
        """The noised form of Theorem 3.1."""
        at = tuning or self.release.tuning
        return posterior_curve(sensitivity, ridge=at.ridge, scale=at.scale, prior_noise=at.prior_noise)

    def exact_paths(self) -> Release:
        """The release without the noise, which is added to its paths afterwards."""
        return replace(self.release, prior_noise=0.0)

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair, ``(n, replacements)``."""
        return leave_one_out_laws(self.path_recipe, data, replacements)

    def value_law(self, posterior: Moments) -> Moments:
        """``N(mu, sigma^2 v + eta^2)``."""
        scale, noise = self.release.scale, self.release.prior_noise
        return Moments(posterior.mean, scale**2 * posterior.variance + noise**2)

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """Values at the core's locations and both ends: ``f(x), f(x')`` alone would not be sufficient."""
        return self.path_recipe.contrast(data, row, replacement)
