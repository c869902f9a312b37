"""GP Thompson sampling: a full transcript of paths, one after each observation but the last (THEORY section 5).

The covariates are the public actions, in order; the responses are private. After t observations a path
``f ~ GP(mu_t, sigma_t^2 k_t)`` is released and its argmax is the next action, which is post-processing. Neighbours
differ in one response. The covariances agree, so a transcript is exactly Gaussian: with
``h_j(t) = [K_t (K_t + r^2)^-1]_jj = k_t(x_j, x_j) / r^2`` a change of response j by d shifts it by
``mu^2 = sum_t d^2 h_j(t) / (sigma_t^2 r^2)``, and the values ``f_t(x_j)`` are sufficient.
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .base import Contrast, Sampler
from .cholesky import Factor, factorise
from .data import Dataset, Record
from .errors import InputError
from .moments import Moments
from .pair import PairLaw, QuadraticForm
from .path_law import PathLaw
from .posterior import condition
from .regimes import Sensitivity
from .release import Release, Tuning
from .renyi import RenyiCurve


@dataclass(frozen=True, eq=False)
class TranscriptSampler:
    """Draws whole transcripts; a "path" is all rounds side by side, ``rounds * points`` values, earliest round first.

    Attributes:
        means: ``(rounds, points)``.
        factors: Of the covariance of each round.
    """

    means: Array
    factors: tuple[Factor, ...]

    @property
    def jitter(self) -> float:
        """Largest variance that was added in a round."""
        return max((factor.jitter for factor in self.factors), default=0.0)

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent transcripts, ``(releases, paths, rounds * points)``."""
        normal = rng.standard_normal((releases * paths, *self.means.shape))
        for index, factor in enumerate(self.factors):
            normal[:, index] = normal[:, index] @ factor.lower.T + self.means[index]
        return normal.reshape(releases, paths, -1)


@dataclass(frozen=True)
class Thompson:
    """GP Thompson sampling with public actions and private responses bounded by M.

    Attributes:
        release: ``release.schedule`` gives sigma_t for rounds 2..n; without it every round has ``release.scale``.

    Raises:
        InputError: Prior noise, fewer than two records, or a schedule of another length.
    """

    release: Release
    name: str = "thompson"

    def __post_init__(self) -> None:
        stated = self.release
        if stated.prior_noise != 0:
            raise InputError("mechanism thompson adds no prior noise: set prior_noise to 0")
        if stated.records < 2:
            raise InputError("mechanism thompson needs at least 2 records: the first round has nothing to learn from")
        if stated.schedule is not None and len(stated.schedule) != stated.records - 1:
            raise InputError(
                f"schedule has {len(stated.schedule)} scales, but {stated.records} records make {stated.records - 1} "
                "rounds: give one a round"
            )

    @property
    def scales(self) -> Array:
        """sigma_t of each round, ``(n - 1,)``."""
        stated = self.release
        return np.full(stated.records - 1, stated.scale) if stated.schedule is None else np.array(stated.schedule)

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """Transcripts of `data` with the paths seen at points ``(t, d)``.

        The factor of the first t records is the leading block of that of all: one Cholesky serves every round.
        """
        law = self.path_law(data, points)
        return TranscriptSampler(law.mean, tuple(factorise(covariance) for covariance in law.covariance))

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """One independent block a round, ``N(mu_t, sigma_t^2 k_t)`` at points ``(t, d)``."""
        posterior = condition(data, kernel=self.release.kernel, ridge=self.release.ridge)
        white = posterior.factor.whiten(self.release.kernel(data.covariates, points))[:-1]
        response = posterior.factor.whiten(data.responses)[:-1]
        left = self.release.kernel(points, points) - np.cumsum(white[:, :, None] * white[:, None, :], axis=0)
        variances = self.scales**2
        means = np.cumsum(white * response[:, None], axis=0)
        return PathLaw(means, variances[:, None, None] * left, float(variances.max()))

    def renyi(self, sensitivity: Sensitivity, tuning: Tuning | None = None) -> RenyiCurve:  # noqa: ARG002 - bounded
        """``R(alpha) = alpha rho_T``, ``rho_T = (2 M^2 / r^2) (1 / (1 + r^2)) sum 1 / sigma_t^2``, for every order."""
        ridge = (tuning or self.release.tuning).ridge
        if tuning is None or self.release.schedule is not None:
            total = np.asarray(np.sum(self.scales**-2.0))
        else:
            total = (self.release.records - 1) / np.square(tuning.scale)
        rate = self._rate(ridge, total)
        return RenyiCurve(np.full_like(rate, np.inf), lambda excess: np.asarray((1.0 + excess) * rate))

    def _rate(self, ridge: Array | float, total: Array | float) -> Array:
        """``rho_T`` for the sum of ``1 / sigma_t^2``."""
        return np.asarray(2.0 * self.release.response_bound**2 / ridge**2 / (1.0 + ridge**2) * total)

    def dominating_pair(self, sensitivity: Sensitivity) -> QuadraticForm:  # noqa: ARG002 - bounded responses suffice
        """Normal distributions ``sqrt(2 rho_T)`` apart: the lossless conversion."""
        return QuadraticForm(np.zeros((1, 2)), np.array([[self.mu(), 0.0]]))

    def mu(self) -> float:
        """``sqrt(2 rho_T)``: a transcript is exactly Gaussian."""
        return float(np.sqrt(2.0 * self._rate(self.release.ridge, np.sum(self.scales**-2.0))))

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair, ``(n, replacements)``; of a replacement only the response is used."""
        seen = self._seen(data, data.covariates)
        return _law(data.responses[:, None], replacements.responses, seen.gram[:, None], seen.jitter)

    def value_law(self, posterior: Moments) -> Moments:  # noqa: ARG002 - there is none
        """A transcript is no single path.

        Raises:
            InputError: Always.
        """
        raise InputError("mechanism thompson releases a transcript: use audit.adversaries = ['core']")

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """The best linear statistic of all rounds after the response was observed; everywhere, that of ``f_t(x_j)``."""
        neighbour = Record(data.covariates[row], replacement.response)
        at = data.covariates[row : row + 1]
        points = at if self.release.points is None else self.release.points
        seen = self._seen(data, at, row)
        both = np.repeat(seen.weights.reshape(-1, 1), 2, axis=1)
        without = data.replaced(row, Record(data.covariates[row], 0.0))
        means = self.path_law(without, points).mean.reshape(-1)
        law = _law(np.asarray(data.responses[row]), np.asarray(neighbour.response), seen.gram[0], seen.jitter)
        return Contrast(points, both, means @ both, law, data.replaced(row, neighbour))

    def _seen(self, data: Dataset, at: Array, row: int | None = None) -> "_Seen":
        """What the rounds tell of records at `at`: all of them, or the one in `row` alone.

        A round that knows record j has its mean moved by ``k_t(., x_j) / r^2`` a unit of the response, in units of
        paths with covariance ``sigma_t^2 k_t``: everywhere that is ``k_t(x_j, x_j) / (r^2 sigma_t)^2``, at points T
        ``k_t(x_j, T) k_t(T, T)^-1 k_t(T, x_j) / (r^2 sigma_t)^2``.
        """
        posterior = condition(data, kernel=self.release.kernel, ridge=self.release.ridge)
        points, noise = self.release.points, float(posterior.noise)
        first = np.arange(len(data)) if row is None else np.array([row])  # a record is known from its round on
        white = posterior.factor.whiten(self.release.kernel(data.covariates, at))
        if points is None:
            left = np.maximum(1.0 - np.cumsum(white**2, axis=0)[:-1], 0.0)
            weights = np.where(np.arange(len(left))[:, None] >= first, 1.0 / (noise * self.scales[:, None] ** 2), 0.0)
            return _Seen(np.sum(weights * left, axis=0) / noise, weights, posterior.factor.jitter)
        rows = posterior.factor.whiten(self.release.kernel(data.covariates, points))
        covariance, reach = self.release.kernel(points, points), self.release.kernel(points, at)
        gram, jitter = np.zeros(len(at)), posterior.factor.jitter
        weights = np.zeros((len(self.scales), len(points), len(at) if row is not None else 0))
        for index, scale in enumerate(self.scales):
            covariance -= rows[index][:, None] * rows[index]
            reach -= rows[index][:, None] * white[index]
            if (known := first <= index).any():
                factor = factorise(covariance)
                half = factor.whiten(np.ascontiguousarray(reach[:, known]))
                gram[known] += np.square(half).sum(axis=0) / (noise * scale) ** 2
                jitter = max(jitter, factor.jitter)
                if row is not None:
                    weights[index] = factor.solve(reach) / (noise * scale**2)
        return _Seen(gram, weights, jitter)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Squared length of what all rounds tell of each record, ``(records,)``, and the weights of a round's values."""

    gram: Array
    weights: Array
    jitter: float


def _law(response: Array, other: Array, gram: Array, jitter: float) -> PairLaw:
    zero, one = np.zeros(()), np.ones(())
    return PairLaw(response, other, zero, zero, gram, gram, gram, one, one, jitter=jitter)
