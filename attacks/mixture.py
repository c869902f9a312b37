"""The optimal score of an adversary who knows the population: a mixture over shadows, no fitted density.

Given a shadow dataset the L values at the target are independent ``N(mu_s, s_s^2)``, so that mean and sum of squares
around it are sufficient and the density of a release is the average over shadows (THEORY section 8): Bayes-optimal for
these values as the number of shadows grows. For one path the two densities are functions of one number; they are added
up on a grid, so that neither memory nor the cost of a score grows with the number of shadows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.interpolate import CubicSpline

from ..mechanisms import Array, Moments, NumericalError
from .attack import Learner, Releases, Scorer, Sees, Shadows

_VALUES_AT_ONCE = 1 << 16  # 512 KiB: a block of trials times shadows, or of shadows times nodes, stays in the cache
_FEWEST_NODES, _MOST_NODES = 65, 4097
_TOLERANCE = 1e-4  # of the log ratio, at the midpoints of the grid, for the pilot's mixture
_REACH = 8.0  # standard deviations beyond the pilot's means
_LEAST = 1e-290  # a smaller sum may have lost its digits
_LOWEST = 600.0  # below the highest log density; what is lower is not added up


@dataclass(frozen=True)
class OptimalMixture:
    """The attack; ``paths`` is L."""

    paths: int
    name: str = "population"
    sees: Sees = "law"

    def learner(self, pilot: Shadows) -> Learner:
        """Sums on a grid that the pilot fixes for one path; else the shadows' laws, 32 bytes a pair.

        They are kept for more paths, and where no grid is fine enough: beside wide shadows there are very narrow ones.
        """
        if not np.all(pilot.law.variance > 0):
            raise NumericalError(_NO_SPREAD)
        if self.paths == 1:
            grid = _Grid.fitting(pilot.law)
            if grid.error <= _TOLERANCE:
                return _OnGrid(grid)
        return _OfLaws(self.paths)


_NO_SPREAD = "a shadow's released value has no spread: its density is not defined"


@dataclass(eq=False)
class _OfLaws:
    paths: int
    parts: list[Moments] = field(default_factory=list)

    def digest(self, shadows: Shadows) -> tuple[Array, ...]:
        return shadows.law.mean, shadows.law.variance

    def add(self, digest: tuple[Array, ...]) -> None:
        self.parts.append(Moments(*digest))

    @property
    def nbytes(self) -> int:
        return sum(part.mean.nbytes + part.variance.nbytes for part in self.parts)

    def scorer(self) -> Scorer:
        self.parts = [Moments.joined(self.parts)]
        return _LawScorer(self.parts[0], self.paths)


@dataclass(frozen=True, eq=False)
class _LawScorer:
    law: Moments
    paths: int
    notes: tuple[str, ...] = ()

    def score(self, releases: Releases) -> Array:
        values = releases.values
        centre = values.mean(axis=-1)
        squares = np.square(values - centre[..., None]).sum(axis=-1)
        ratio = mixture_log_ratio(self.law, centre.ravel(), squares.ravel(), paths=self.paths)
        return ratio.reshape(centre.shape)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Nodes at which two densities are added up, and what they are measured against.

    Attributes:
        nodes: ``(G,)``, equally spaced.
        floor: Log density of the pilot's mixture at the nodes, ``(2, G)``, raised to where a double still holds
            the ratio to it: what is added up are ratios to it.
        pilot: Laws of the first shadows, ``(2, P)``.
        error: Largest error of the log ratio at the midpoints, for the pilot's mixture.
    """

    nodes: Array
    floor: Array
    pilot: Moments
    error: float

    @classmethod
    def fitting(cls, pilot: Moments) -> "_Grid":
        """Nodes are doubled until the pilot's own mixture is interpolated well enough."""
        spread = np.sqrt(pilot.variance)
        low, high = (pilot.mean - _REACH * spread).min(), (pilot.mean + _REACH * spread).max()
        count = _FEWEST_NODES
        while True:
            nodes = np.linspace(low, high, count)
            middle = 0.5 * (nodes[1:] + nodes[:-1])
            density, truth = _both(pilot, nodes), _both(pilot, middle)
            interpolated = CubicSpline(nodes, density[0] - density[1])(middle)
            error = float(np.abs(interpolated - (truth[0] - truth[1])).max())
            if error <= _TOLERANCE or count >= _MOST_NODES:
                break
            count = 2 * count - 1
        highest = -0.5 * np.log(pilot.variance).min()
        return cls(nodes, np.maximum(density, highest - _LOWEST), pilot, error)

    def ratios(self, law: Moments) -> Array:
        """Sums over shadows of their densities, over the floor: ``(2, G)``."""
        if not np.all(law.variance > 0):
            raise NumericalError(_NO_SPREAD)
        middle, half = 0.5 * (self.nodes[0] + self.nodes[-1]), 0.5 * (self.nodes[-1] - self.nodes[0])
        place = (self.nodes - middle) / half
        total = np.zeros((2, len(place)))
        block = max(1, _VALUES_AT_ONCE // len(place))
        for side in (0, 1):
            powers = np.stack([place**2, place, np.ones_like(place), -self.floor[side]])
            mean, precision = (law.mean[side] - middle) / half, half**2 / law.variance[side]
            # log N(f; mu, s^2) as a quadratic in f: one product of matrices gives a block of exponents.
            quadratic = np.stack(
                [
                    -0.5 * precision,
                    precision * mean,
                    -0.5 * precision * mean**2 - 0.5 * np.log(law.variance[side]),
                    np.ones_like(mean),
                ],
                axis=1,
            )
            for start in range(0, len(mean), block):
                exponent = quadratic[start : start + block] @ powers
                np.exp(exponent, out=exponent)
                total[side] += exponent.sum(axis=0)
        return total


@dataclass(eq=False)
class _OnGrid:
    grid: _Grid
    total: Array | float = 0.0
    count: int = 0

    def digest(self, shadows: Shadows) -> tuple[Array, ...]:
        return self.grid.ratios(shadows.law), np.array(shadows.law.mean.shape[1])

    def add(self, digest: tuple[Array, ...]) -> None:
        total, count = digest
        self.total = self.total + total
        self.count += int(count)

    @property
    def nbytes(self) -> int:
        return 2 * self.grid.floor.nbytes + self.grid.nodes.nbytes

    def scorer(self) -> Scorer:
        grid = self.grid
        total = np.asarray(self.total)
        own = _both(grid.pilot, grid.nodes)
        # Where no shadow reaches, the pilot's mixture is all there is.
        reached = total > _LEAST
        log = np.where(reached, np.log(np.where(reached, total, 1.0)) - np.log(self.count) + grid.floor, own)
        return _GridScorer(grid, CubicSpline(grid.nodes, log[0] - log[1]))


@dataclass(frozen=True, eq=False)
class _GridScorer:
    grid: _Grid
    ratio: CubicSpline

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"densities on {len(self.grid.nodes)} nodes, log ratio within {self.grid.error:.1e} of the sum",)

    def score(self, releases: Releases) -> Array:
        values = releases.values[..., 0]
        scores = np.asarray(self.ratio(values))
        outside = ~((values >= self.grid.nodes[0]) & (values <= self.grid.nodes[-1]))
        if outside.any():  # more than eight standard deviations off: the pilot's mixture decides
            density = _both(self.grid.pilot, values[outside])
            scores[outside] = density[0] - density[1]
        return scores


def mixture_log_ratio(law: Moments, centre: Array, squares: Array, *, paths: int) -> Array:
    """``log p(paths | in) - log p(paths | out)``; higher speaks for membership. Every shadow at every trial.

    Args:
        law: Of one released value under each shadow, ``(2, S)``: in, then out.
        centre: Mean of the L values of each trial, ``(B,)``.
        squares: Sum of their squared distances from it, ``(B,)``.
        paths: L.

    Raises:
        NumericalError: A shadow's variance is not positive: its density is not defined.
    """
    if not np.all(law.variance > 0):
        raise NumericalError(_NO_SPREAD)
    one, other = (_log_density(*side, centre, squares, paths) for side in _sides(law))
    return one - other


def _both(law: Moments, values: Array) -> Array:
    """Log densities of single values under both mixtures, up to one constant: ``(2, B)``."""
    return np.stack([_log_density(*side, values, np.zeros(len(values)), 1) for side in _sides(law)])


def _sides(law: Moments) -> Iterator[tuple[Array, Array]]:
    return zip(law.mean, law.variance, strict=True)


def _log_density(mean: Array, variance: Array, centre: Array, squares: Array, paths: int) -> Array:
    """Log of the average over shadows, up to a constant that both hypotheses share: ``(B,)``."""
    half_precision, log_scale = 0.5 / variance, -0.5 * paths * np.log(variance)
    result = np.empty(len(centre))
    block = max(1, _VALUES_AT_ONCE // len(mean))
    for start in range(0, len(centre), block):
        part = slice(start, start + block)
        exponent = centre[part, None] - mean
        np.square(exponent, out=exponent)
        exponent *= paths
        exponent += squares[part, None]
        exponent *= -half_precision
        exponent += log_scale
        top = exponent.max(axis=1, keepdims=True)
        exponent -= top
        np.exp(exponent, out=exponent)
        result[part] = np.log(exponent.mean(axis=1)) + top[:, 0]
    return result
