"""Centred, covariance-only release: paths of ``GP(0, k_D)``."""

from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .base import Contrast, Sampler
from .data import Dataset, Record
from .errors import InputError
from .gaussian import Paths
from .leave_one_out import leave_one_out_laws
from .moments import Moments
from .pair import PairLaw, QuadraticForm
from .path_law import PathLaw
from .regimes import Sensitivity
from .release import Release, Tuning
from .renyi import RenyiCurve, centred_curve


@dataclass(frozen=True)
class Centred:
    """Centred release (THEORY section 2): only the covariance, hence only the covariates, can leak.

    The release's scale is not used: multiplying a centred path by a public number changes no leakage.

    Raises:
        InputError: The release states prior noise, which this mechanism does not add.
    """

    release: Release
    name: str = "centred"

    def __post_init__(self) -> None:
        if self.release.prior_noise != 0:
            raise InputError(
                f"mechanism centred adds no prior noise, got prior_noise = {self.release.prior_noise:g}: set it to 0"
            )

    @property
    def path_recipe(self) -> Paths:
        """How its paths are made of a posterior."""
        return Paths(kernel=self.release.kernel, ridge=self.release.ridge, points=self.release.points, mean_weight=0.0)

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Centred paths with the posterior covariance of `data` at points ``(t, d)``."""
        return self.path_recipe.sampler(data, points)

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """``N(0, k_D)`` at points ``(t, d)``."""
        return self.path_recipe.law(data, points)

    def renyi(self, sensitivity: Sensitivity, tuning: Tuning | None = None) -> RenyiCurve:
        """The covariance term of Theorem 3.1 alone."""
        return centred_curve(sensitivity, ridge=(tuning or self.release.tuning).ridge)

    def dominating_pair(self, sensitivity: Sensitivity) -> QuadraticForm:
        """One Gaussian pair of which every dataset pair is a post-processing (THEORY section 3, "sharper 1").

        ``N(0, diag(1-s, 1))`` against ``N(0, diag(1, 1-s))``, ``s = V / (V + r^2)``; the same in both directions.
        """
        variance, noise = float(sensitivity.variance), self.release.ridge**2
        return QuadraticForm(np.array([[-variance / (variance + noise), variance / noise]]), np.zeros((1, 2)))

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair, ``(n, replacements)``."""
        return leave_one_out_laws(self.path_recipe, data, replacements)

    def value_law(self, posterior: Moments) -> Moments:
        """``N(0, v)``."""
        return Moments(np.zeros_like(posterior.mean), posterior.variance)

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """As for exact posterior sampling with scale 1, without the means."""
        return self.path_recipe.contrast(data, row, replacement)
