"""Is the implementation the mechanism it claims to be? Released paths, whitened by the stated law.

If releases follow the law, the whitened numbers are independent standard normals, for which every check below has an
exact p-value; their smallest, times their number, is the p-value of all. It is small for faults that leak more and for
faults that leak less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import chi2, kstest, norm

from ..mechanisms import Array, Dataset, HasPathLaw, InputError, Mechanism, Whitening

_MOST_VALUES = 256  # whitened directions of one release
_MOST_PATHS = 100  # of one release
_TWINS, _ANYWHERE = 24, 16  # points very close to a record, and points that have nothing to do with one
_SHAPE_SAMPLE = 200_000
_OPENLY_ADDED = 1e-6  # of the prior variance: a jitter above it is held for a choice, below it for rounding
_FIDELITY = 4  # first key of a seed, as in audit/run.py; then the dataset and the call


@dataclass(frozen=True)
class Check:
    """One exact test of the whitened paths.

    Attributes:
        name: What was looked at.
        p_value: Probability of something at least as odd if the releases follow the stated law.
        dataset: Index of the dataset it was seen on: 0 the private one, 1 its neighbour.
    """

    name: str
    p_value: float
    dataset: int


@dataclass(frozen=True)
class Fidelity:
    """Whether released paths are those of the stated mechanism.

    Attributes:
        p_value: Smallest of all checks times their number, at most 1.
        significance: Probability of failing the right mechanism.
        checks: All of them, the oddest first.
        paths: Paths drawn from each dataset, or in the file.
        points: Where they were looked at.
        source: Where they came from: a "sampler" that was asked for them, or a "file" that was released.
    """

    p_value: float
    significance: float
    checks: tuple[Check, ...]
    paths: int
    points: int
    source: Literal["sampler", "file"] = "sampler"

    @property
    def passed(self) -> bool:
        """Whether the releases are compatible with the stated law at the significance."""
        return self.p_value > self.significance


def fidelity(
    mechanism: Mechanism, datasets: Sequence[Dataset], points: Array, *, paths: int, significance: float, seed: int
) -> Fidelity:
    """Hold released paths of each dataset against the law that the mechanism states for it.

    Every dataset is drawn from twice, by samplers of their own and with the others in between, so that what one
    release remembers of another shows.

    Args:
        mechanism: What is audited; it must state the law of its paths (`HasPathLaw`).
        datasets: The private dataset and a neighbour of it.
        points: Where to look, ``(t, d)``; they must be among the released ones.
        paths: Paths to draw from each dataset.
        significance: Probability of failing the right mechanism.
        seed: Root of all seeds.

    Raises:
        InputError: The mechanism states no such law, a released value is NaN or infinite, or a release has the wrong
            shape.
    """
    if not isinstance(mechanism, HasPathLaw):
        raise InputError(f"mechanism {mechanism.name} states no law of its paths: it has no path_law")
    together = min(mechanism.release.paths, _MOST_PATHS)
    half = max(2, paths // (2 * together))
    drawn: list[list[Array]] = [[] for _ in datasets]
    jitter = [0.0 for _ in datasets]
    for call in (0, 1):
        for index, data in enumerate(datasets):
            key = np.random.SeedSequence(seed, spawn_key=(_FIDELITY, index, call))
            sampler = mechanism.sampler(data, points)
            released = sampler.draw(half, paths=together, rng=np.random.default_rng(key))
            drawn[index].append(_checked(released, half, together))
            jitter[index] = max(jitter[index], sampler.jitter)
    checks = []
    for index, data in enumerate(datasets):
        law, added = mechanism.path_law(data, points), jitter[index]
        if added > _OPENLY_ADDED * law.prior_variance:  # stated openly, it is part of the law
            law, added = law.widened(added), 0.0
        release = mechanism.release
        floor = rounding_floor(law.prior_variance, records=release.records, ridge=release.ridge, jitter=added)
        whitening = law.whitening(floor=floor)
        if not whitening.kept.any():
            raise InputError("every released value is known beforehand to rounding: there is nothing to be tested")
        if drawn[index][0].shape[-1] != law.mean.size:
            raise InputError(
                f"mechanism {mechanism.name} releases {drawn[index][0].shape[-1]} values a path at {len(points)} "
                f"points and states the law of {law.mean.size}: they must be the same"
            )
        checks += [Check(name, p, index) for name, p in _checks(whitening, *drawn[index]).items()]
    return combined(checks, significance=significance, paths=2 * half * together, points=len(points), source="sampler")


def combined(
    checks: list[Check], *, significance: float, paths: int, points: int, source: Literal["sampler", "file"]
) -> Fidelity:
    """All checks as one test: the smallest p-value times their number."""
    ordered = sorted(checks, key=lambda check: check.p_value)
    return Fidelity(min(1.0, len(ordered) * ordered[0].p_value), significance, tuple(ordered), paths, points, source)


def fidelity_points(mechanism: Mechanism, data: Dataset, first: Sequence[int], ends: Array, *, seed: int) -> Array:
    """Where released paths are looked at: records, points very close to some of them, and points anywhere.

    A record that is used wrongly shows at its own location, jitter and rounded arithmetic between close points. Where
    the mechanism releases listed points, they are among these.

    Args:
        mechanism: What is audited.
        data: The private records.
        first: Rows that must be looked at: the attacked records.
        ends: Locations of their replacements, ``(k, d)``.
        seed: Root of all seeds.
    """
    release = mechanism.release
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_FIDELITY,)))
    most = _MOST_VALUES
    if isinstance(mechanism, HasPathLaw):
        most = max(1, most // len(mechanism.path_law(data, data.covariates[:1]).mean))
    if release.points is not None:
        return _among(release.points, np.concatenate([data.covariates[list(first)], ends]), most, rng)
    low, high = release.domain.sides.T
    others = rng.permutation(np.setdiff1d(np.arange(len(data)), first))
    records = data.covariates[[*first, *others]]
    direction = rng.standard_normal((_TWINS, len(low)))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    distance = release.kernel.length_scale * 10.0 ** rng.uniform(-4, -1, (_TWINS, 1))
    twins = np.clip(records[np.arange(_TWINS) % len(records)] + distance * direction, low, high)
    anywhere = low + (high - low) * rng.random((_ANYWHERE, len(low)))
    room = max(1, most - len(ends) - _TWINS - _ANYWHERE)
    # Where few points can be looked at (a transcript has a value a round at each), the first ones matter most.
    points = np.concatenate([records[:1], ends, twins[:1], records[1:room], twins[1:], anywhere])
    unique = np.unique(points, axis=0, return_index=True)[1]
    return np.asarray(points[np.sort(unique)][:most])


def _among(points: Array, places: Array, most: int, rng: np.random.Generator) -> Array:
    """The listed points nearest to some places, then others at random."""
    if len(points) <= most:
        return points
    nearest = [int(np.square(points - place).sum(axis=1).argmin()) for place in places]
    chosen = list(dict.fromkeys([*nearest, *map(int, rng.permutation(len(points)))]))[:most]
    return np.asarray(points[np.sort(chosen)])


def rounding_floor(prior_variance: float, *, records: int, ridge: float, jitter: float) -> float:
    """Variance above which a covariance computed in float64 is right to a per cent or better.

    Rounding is relative to the prior variance and grows with the condition of the kernel matrix; so does jitter.
    """
    rounding = 1e3 * np.finfo(float).eps * np.sqrt(records) / ridge
    return float(max(prior_variance * max(1e-9, rounding), 1e4 * jitter))


def _checked(released: Array, releases: int, paths: int) -> Array:
    released = np.asarray(released, dtype=np.float64)
    if released.ndim != 3 or released.shape[:2] != (releases, paths):
        raise InputError(f"a draw of {releases} releases of {paths} path(s) has shape {released.shape}")
    if not np.isfinite(released).all():
        odd = int((~np.isfinite(released)).sum())
        raise InputError(f"{odd} of {released.size} released values are NaN or infinite: the mechanism failed")
    return released


def _checks(whitening: Whitening, first: Array, second: Array) -> dict[str, float]:
    """p-values of all checks; `first` and `second` are releases of two calls, ``(releases, paths, values)``."""
    calls = [whitening.white(first), whitening.white(second)]
    z = np.concatenate(calls)  # (R, L, k)
    flat = z.reshape(-1, z.shape[-1])
    count, size = flat.shape
    marginal = np.concatenate([whitening.standardised(first), whitening.standardised(second)])
    marginal = marginal.reshape(count, -1)
    means, squares = np.sqrt(count) * flat.mean(axis=0), np.square(flat).sum(axis=0)
    found: dict[str, Any] = {
        "mean": two_sided(float(np.square(means).sum()), size),
        "mean in one direction": most_odd(2.0 * norm.sf(np.abs(means))),
        "mean at one point": most_odd(2.0 * norm.sf(np.abs(np.sqrt(count) * marginal.mean(axis=0)))),
        "variance": two_sided(float(squares.sum()), count * size),
        "variance in one direction": most_odd(two_sided(squares, count)),
        "variance at one point": most_odd(two_sided(np.square(marginal).sum(axis=0), count)),
        "shape of the values": float(kstest(flat.reshape(-1)[:_SHAPE_SAMPLE], norm.cdf).pvalue),
        "shape of the paths": float(kstest(np.square(flat).sum(axis=1), chi2(size).cdf).pvalue),
        "independence of two calls": independence(*calls),
        "independence of releases": independence(z[0 : len(z) - 1 : 2], z[1::2]),
    }
    if z.shape[1] > 1:
        found["independence of paths"] = independence(z[:, 0 : z.shape[1] - 1 : 2], z[:, 1::2])
    if 1 < size <= count:
        below = _below_the_diagonal(flat.T @ flat)
        found["correlation"] = two_sided(float(np.square(below).sum()), len(below))
        found["correlation in one pair"] = most_odd(2.0 * norm.sf(np.abs(below)))
    return {name: float(p_value) for name, p_value in found.items()}


def _below_the_diagonal(wishart: Array) -> Array:
    """Independent standard normals (Bartlett): the Cholesky factor of a Wishart matrix below its diagonal."""
    try:
        factor = np.linalg.cholesky(wishart)
    except np.linalg.LinAlgError:  # linearly dependent numbers: nothing is odder
        factor = np.full(wishart.shape, np.inf)
    return np.asarray(factor[np.tril_indices(len(wishart), -1)])


def two_sided(statistic: Array | float, degrees: Array | int) -> Array:
    """p-value of a chi-squared statistic that is too large or too small."""
    return np.minimum(1.0, 2.0 * np.minimum(chi2.sf(statistic, degrees), chi2.cdf(statistic, degrees)))


def most_odd(p_values: Array) -> float:
    """p-value of the smallest of several, whatever their dependence."""
    return min(1.0, float(np.min(p_values)) * p_values.size)


def independence(one: Array, other: Array) -> float:
    """p-value of the inner product of two halves: given the other, it is normal with the other's length."""
    length = float(np.linalg.norm(other))
    return float(2.0 * norm.sf(abs(float(np.vdot(one, other))) / length)) if length > 0 else 0.0
