"""Exact posterior sampling of a model that knows how noisy each row is: the law is exact, but nothing is certified."""

from dataclasses import dataclass

import numpy as np

from .arrays import Array, frozen_array
from .base import Contrast, Sampler
from .data import Dataset, Record
from .errors import InputError
from .gaussian import Paths
from .leave_one_out import leave_one_out_laws
from .moments import Moments
from .pair import PairLaw
from .path_law import PathLaw
from .regimes import Sensitivity
from .release import Release
from .renyi import RenyiCurve, nothing_certified


@dataclass(frozen=True, eq=False)
class PerRowNoise:
    """Paths of ``GP(mu_D, sigma^2 k_D)`` with a noise level for each row, which no certificate covers.

    A row keeps its level whichever record is in it: the levels are public and belong to the rows. The release's ridge
    is not used.

    Attributes:
        release: The public parameters.
        ridges: r of each row, ``(n,)``.

    Raises:
        InputError: There are not as many ridges as records, one is not positive, or the release states prior noise.
    """

    release: Release
    ridges: Array
    name: str = "per_row_noise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridges", frozen_array(self.ridges, ndim=1, name="noise levels"))
        if len(self.ridges) != self.release.records:
            raise InputError(
                f"there are {len(self.ridges)} noise levels but {self.release.records} records: give one a row"
            )
        if not np.all(self.ridges > 0):
            raise InputError("every row's noise must be positive")
        if self.release.prior_noise != 0:
            raise InputError("a model with a noise level for each row adds no prior noise: set prior_noise to 0")

    @property
    def path_recipe(self) -> Paths:
        """How its paths are made of a posterior."""
        at = self.release
        return Paths(kernel=at.kernel, ridge=self.ridges, points=at.points, scale=at.scale)

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Paths of the posterior of `data` at points ``(t, d)``."""
        return self.path_recipe.sampler(data, points)

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """``N(mu_D, sigma^2 k_D)`` at points ``(t, d)``."""
        return self.path_recipe.law(data, points)

    def renyi(self, sensitivity: Sensitivity) -> RenyiCurve:
        """Infinite for every order: the theorem assumes one ridge."""
        return nothing_certified(sensitivity)

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair, ``(n, replacements)``."""
        return leave_one_out_laws(self.path_recipe, data, replacements)

    def value_law(self, posterior: Moments) -> Moments:  # noqa: ARG002 - there is none
        """Shadow datasets have no rows to take noise levels from.

        Raises:
            InputError: Always.
        """
        raise InputError(
            "with a noise level for each row only the core adversary is known: audit.adversaries = ['core']"
        )

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """As for exact posterior sampling; the replacement has the row's noise."""
        return self.path_recipe.contrast(data, row, replacement)
