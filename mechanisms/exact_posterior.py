"""Exact posterior sampling: paths of ``GP(mu_D, sigma^2 k_D)``."""

from dataclasses import dataclass

import numpy as np

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
class ExactPosterior:
    """Exact posterior sampling (THEORY section 2).

    Raises:
        InputError: The release states prior noise, which this mechanism does not add.
    """

    release: Release
    name: str = "posterior"

    def __post_init__(self) -> None:
        if self.release.prior_noise != 0:
            raise InputError(
                f"mechanism posterior adds no prior noise, got prior_noise = {self.release.prior_noise:g}: "
                "set it to 0 or use mechanism noised"
            )

    @property
    def path_recipe(self) -> Paths:
        """How its paths are made of a posterior."""
        at = self.release
        return Paths(kernel=at.kernel, ridge=at.ridge, points=at.points, scale=at.scale)

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Paths of the posterior of `data` at points ``(t, d)``."""
        return self.path_recipe.sampler(data, points)

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """``N(mu_D, sigma^2 k_D)`` at points ``(t, d)``."""
        return self.path_recipe.law(data, points)

    def renyi(self, sensitivity: Sensitivity, tuning: Tuning | None = None) -> RenyiCurve:
        """Theorem 3.1."""
        at = tuning or self.release.tuning
        return posterior_curve(sensitivity, ridge=at.ridge, scale=at.scale, prior_noise=np.zeros(()))

    def exact_paths(self) -> Release:
        """The release itself."""
        return self.release

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair, ``(n, replacements)``."""
        return leave_one_out_laws(self.path_recipe, data, replacements)

    def value_law(self, posterior: Moments) -> Moments:
        """``N(mu, sigma^2 v)``."""
        return Moments(posterior.mean, self.release.scale**2 * posterior.variance)

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """The two values ``f(x), f(x')``, or the best linear statistics of the listed points."""
        return self.path_recipe.contrast(data, row, replacement)
