"""A small posterior sampler as somebody might deploy it, and fourteen ways to get it wrong.

`Right` states the law of gpleak's `Noised` and follows it. Every fault changes one line of it and states the same law.
Where a fault needs machinery of its own (a cache, a raw table), the right use of that machinery stands beside it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gpleak import Dataset, Noised


@dataclass(frozen=True)
class Draws:
    """Normal paths from a mean and a root of the covariance."""

    mean: np.ndarray
    root: np.ndarray
    jitter: float = 0.0

    def draw(self, releases, *, paths, rng):
        return self.mean + rng.standard_normal((releases, paths, self.root.shape[1])) @ self.root.T


class Right:
    """Posterior sampling with prior noise."""

    name = "deployed"

    def __init__(self, release):
        self.release, stated = release, Noised(release)
        self.renyi, self.leave_one_out, self.contrast = stated.renyi, stated.leave_one_out, stated.contrast
        self.value_law, self.path_law = stated.value_law, stated.path_law

    def records(self, data):
        """The records that the posterior is conditioned on."""
        return data

    def ridge_on(self, size):
        """What is added to the kernel matrix."""
        return self.release.ridge**2 * np.eye(size)

    def variance(self, posterior, prior):
        """Covariance of a path."""
        return self.release.scale**2 * posterior + self.release.prior_noise**2 * prior

    def sampler(self, data, points):
        data, kernel = self.records(data), self.release.kernel
        across = kernel(data.covariates, points)
        weights = np.linalg.solve(kernel(data.covariates, data.covariates) + self.ridge_on(len(data)), across)
        prior = kernel(points, points)
        return self.draws(weights.T @ data.responses, self.variance(prior - across.T @ weights, prior))

    def draws(self, mean, covariance):
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        return Draws(mean, vectors * np.sqrt(np.maximum(values, 0.0)))


class ScaleIgnored(Right):
    def variance(self, posterior, prior):
        return posterior + self.release.prior_noise**2 * prior


class ScaleAsVariance(Right):
    def variance(self, posterior, prior):
        return self.release.scale * posterior + self.release.prior_noise**2 * prior


class RidgeAsVariance(Right):
    def ridge_on(self, size):
        return self.release.ridge * np.eye(size)


class RidgeScaledTwice(Right):
    """Adds scale^2 ridge^2, as for a kernel of variance scale^2, to a kernel matrix of variance 1."""

    def ridge_on(self, size):
        return self.release.scale**2 * self.release.ridge**2 * np.eye(size)


class MeanReleased(Right):
    def draws(self, mean, covariance):  # noqa: ARG002 - that is the fault
        return Draws(mean, np.zeros((len(mean), 1)))


@dataclass(frozen=True)
class SharedNoise(Draws):
    def draw(self, releases, *, paths, rng):
        return np.repeat(super().draw(releases, paths=1, rng=rng), paths, axis=1)


class SameNoiseInEveryPath(Right):
    def draws(self, mean, covariance):
        right = super().draws(mean, covariance)
        return SharedNoise(right.mean, right.root)


@dataclass(frozen=True)
class SameSeed(Draws):
    def draw(self, releases, *, paths, rng):  # noqa: ARG002 - that is the fault
        one = super().draw(1, paths=paths, rng=np.random.default_rng(0))
        return np.repeat(one, releases, axis=0)


class SameSeedInEveryRelease(Right):
    def draws(self, mean, covariance):
        right = super().draws(mean, covariance)
        return SameSeed(right.mean, right.root)


class OneNoiseForAllPoints(Right):
    def draws(self, mean, covariance):
        return Draws(mean, np.sqrt(np.maximum(np.diag(covariance), 0.0))[:, None])


class PriorNoiseForgotten(Right):
    def variance(self, posterior, prior):  # noqa: ARG002 - that is the fault
        return self.release.scale**2 * posterior


class SilentJitter(Right):
    """Single precision, with a jitter so that the factorisation succeeds, and nobody told of it."""

    jitter, precision = 1e-4, np.float32

    def draws(self, mean, covariance):
        rough = covariance.astype(self.precision) + self.jitter * np.eye(len(mean), dtype=self.precision)
        return Draws(mean, np.linalg.cholesky(rough).astype(np.float64))


class StatedJitter(SilentJitter):
    """The twin: double precision, and the jitter is stated."""

    jitter, precision = 1e-12, np.float64

    def draws(self, mean, covariance):
        right = super().draws(mean, covariance)
        return Draws(right.mean, right.root, self.jitter)


class Joined(Right):
    """Takes the response of a known location from the raw table, and clips it."""

    def __init__(self, release):
        super().__init__(release)
        self.table = pd.read_csv(Path(__file__).parent / "sales.csv").to_numpy()

    def raw(self, data):
        same = (data.covariates[:, None] == self.table[:, :-1]).all(axis=-1)
        return np.where(same.any(axis=1), self.table[same.argmax(axis=1), -1], data.responses)

    def records(self, data):
        bound = self.release.response_bound
        return Dataset(data.covariates, np.clip(self.raw(data), -bound, bound))


class NotClipped(Joined):
    def records(self, data):
        return Dataset(data.covariates, self.raw(data))


class RecordUsedTwice(Right):
    def records(self, data):
        rows = [*range(len(data)), 0]
        return Dataset(data.covariates[rows], data.responses[rows])


class PriorCovariance(Right):
    def variance(self, posterior, prior):  # noqa: ARG002 - that is the fault
        return (self.release.scale**2 + self.release.prior_noise**2) * prior


class Cached(Right):
    """Keeps the records it has seen under a key of their values."""

    def __init__(self, release):
        super().__init__(release)
        self.cache = {}

    def records(self, data):
        return self.cache.setdefault((data.covariates.tobytes(), data.responses.tobytes()), data)


class NeighbourKept(Cached):
    """Keeps them by their row: a record that was replaced is still there."""

    def records(self, data):
        known = self.cache.setdefault("rows", data)
        return known if len(known) == len(data) else data


# Each fault beside its right twin.
FAULTS = {
    ScaleIgnored: Right,
    ScaleAsVariance: Right,
    RidgeAsVariance: Right,
    RidgeScaledTwice: Right,
    MeanReleased: Right,
    SameNoiseInEveryPath: Right,
    SameSeedInEveryRelease: Right,
    OneNoiseForAllPoints: Right,
    PriorNoiseForgotten: Right,
    SilentJitter: StatedJitter,
    NotClipped: Joined,
    RecordUsedTwice: Right,
    PriorCovariance: Right,
    NeighbourKept: Cached,
}
