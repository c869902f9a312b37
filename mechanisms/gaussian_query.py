"""The plain Gaussian mechanism on a scalar query: a baseline whose every number is known."""

from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .base import Contrast, Sampler
from .data import Dataset, Record
from .errors import InputError
from .moments import Moments
from .pair import PairLaw, QuadraticForm
from .path_law import PathLaw
from .regimes import Sensitivity
from .release import Release, Tuning
from .renyi import RenyiCurve


@dataclass(frozen=True, eq=False)
class QuerySampler:
    """Draws ``total + scale z``, the same value at every point."""

    total: float
    scale: float
    points: int
    jitter: float = 0.0

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent releases, ``(releases, paths, points)``."""
        values = self.total + self.scale * rng.standard_normal((releases, paths, 1))
        return np.broadcast_to(values, (releases, paths, self.points)).copy()


@dataclass(frozen=True)
class GaussianQuery:
    """The sum of all responses plus normal noise of standard deviation `scale`; L draws of it.

    Exactly mu-GDP with ``mu = 2 M sqrt(L) / scale`` (THEORY section 10). Kernel, ridge and covariates play no part.

    Raises:
        InputError: The release states prior noise, which this mechanism does not add.
    """

    release: Release
    name: str = "gaussian"

    def __post_init__(self) -> None:
        if self.release.prior_noise != 0:
            raise InputError("mechanism gaussian adds no prior noise: set prior_noise to 0")

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Noisy sums of the responses of `data`."""
        return QuerySampler(float(data.responses.sum()), self.release.scale, len(points))

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """One normal number, seen at every point."""
        size, variance = len(points), self.release.scale**2
        return PathLaw(np.full((1, size), data.responses.sum()), np.full((1, size, size), variance), variance)

    def renyi(self, sensitivity: Sensitivity, tuning: Tuning | None = None) -> RenyiCurve:  # noqa: ARG002 - bounded
        """``R(alpha) = alpha (2 M)^2 / (2 scale^2)``, for every order."""
        rate = 2.0 * (self.release.response_bound / (tuning or self.release.tuning).scale) ** 2
        return RenyiCurve(np.full_like(rate, np.inf), lambda excess: np.asarray((1.0 + excess) * rate))

    def dominating_pair(self, sensitivity: Sensitivity) -> QuadraticForm:  # noqa: ARG002 - bounded responses suffice
        """Normal distributions ``2 M / scale`` apart."""
        return QuadraticForm(np.zeros((1, 2)), np.array([[self.mu(), 0.0]]))

    def mu(self) -> float:
        """``2 M / scale``."""
        return 2.0 * self.release.response_bound / self.release.scale

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair, ``(n, replacements)``."""
        return self._law(data.responses[:, None], replacements.responses)

    def value_law(self, posterior: Moments) -> Moments:  # noqa: ARG002 - there is none
        """A query is no path: nothing to see at a location.

        Raises:
            InputError: Always.
        """
        raise InputError("mechanism gaussian releases no path: use audit.adversaries = ['core']")

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """The released value, less the sum of the other responses."""
        rest, scale = float(np.delete(data.responses, row).sum()), self.release.scale
        law = self._law(np.asarray(data.responses[row]), np.asarray(replacement.response))
        points = self.release.domain.sides[:, 0][None]
        weights = np.full((1, 2), 1.0 / scale)
        return Contrast(points, weights, np.full(2, rest / scale), law, data.replaced(row, replacement))

    def _law(self, response: Array, other: Array) -> PairLaw:
        one, zero = np.ones(()), np.zeros(())
        scale = self.release.scale
        return PairLaw(response / scale, other / scale, zero, zero, one, one, one, one, one)
