"""A publisher of sample maps as somebody might deploy it, and the same after a clean-up that lost a factor.

The table stands in for a private one: nitrate in 80 wells, each on somebody's land. It is made here, from a fixed seed.
"""

from dataclasses import dataclass

import numpy as np

import gpleak

DOMAIN = gpleak.Domain([[0.0, 4.0], [0.0, 3.0]])  # km
STATED = gpleak.Release(  # what the publisher says of the maps; all of it was chosen without the table
    kernel=gpleak.matern32(1.2),
    ridge=4.0,
    scale=0.2,
    domain=DOMAIN,
    response_bound=1.0,  # log10 of nitrate over the national mean
    records=80,
    points=DOMAIN.grid((9, 7)),
)


def wells() -> gpleak.Dataset:
    """The records: where each well is, km east and north, and what was measured in it."""
    rng = np.random.default_rng(80)
    where = rng.uniform(0.0, 1.0, (80, 2)) * DOMAIN.sides[:, 1]
    trend = 0.5 * np.sin(where[:, 0]) * np.cos(where[:, 1])
    return gpleak.Dataset(where, np.clip(trend + rng.normal(0.0, 0.3, 80), -1.0, 1.0))


@dataclass(frozen=True)
class Maps:
    """Sample maps from their mean and a root of their covariance."""

    mean: np.ndarray
    root: np.ndarray
    jitter: float = 0.0

    def draw(self, releases, *, paths, rng):
        """``(releases, paths, points)``; all randomness comes from `rng`."""
        return self.mean + rng.standard_normal((releases, paths, len(self.mean))) @ self.root.T


class Publisher:
    """Draws maps from the posterior."""

    name = "well maps"
    spread = STATED.scale

    def sampler(self, data, points):
        """Maps of `data` at points ``(t, 2)``."""
        kernel, across = STATED.kernel, STATED.kernel(data.covariates, points)
        noisy = kernel(data.covariates, data.covariates) + STATED.ridge**2 * np.eye(len(data))
        weights = np.linalg.solve(noisy, across)
        values, vectors = np.linalg.eigh(kernel(points, points) - across.T @ weights)
        return Maps(weights.T @ data.responses, self.spread * vectors * np.sqrt(np.maximum(values, 0.0)))


class VarianceForScale(Publisher):
    """Takes the scale for a variance and squares it: maps look sharper, and betray the wells."""

    spread = STATED.scale**2
