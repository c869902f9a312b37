"""Is a released file a release of the stated mechanism for these data? Exact tests of the very paths, even of one.

Whitened by the stated law, L paths are L times k independent standard normal numbers. The k directions are turned,
which the law allows, so that those come first which the data determine most: there a wrong ridge or other data show.

Of a rounded file the tests see the values with noise of about a step: rounded values are a lattice, of which no test is
exact that counts on a density. What rounding may still do is kept too small to be seen (`rounding`).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc
from scipy.stats import chi2, kstest, norm

from ..mechanisms import Array, Dataset, InputError, PathLaw, Paths, Whitening, shortened
from .fidelity import Check, Fidelity, combined, independence, most_odd, rounding_floor, two_sided
from .released import Released
from .rounding import ERROR, hiding_noise, least_variance, noisy, on_lattice, widened

_BLOCK = 2**18  # pairs of paths that are compared at a time: 2 MiB
_CLOSE = 1e-13  # cosines nearer to 1 than float64 adds them up for certain
_MOST_EQUAL = 1000
_LEAST_ANGLE = 4.0 * np.finfo(float).eps
_FURTHEST = 1e100  # prior standard deviations that a value may be away: squares of what is whitened are finite
_FURTHEST_SCORE = 1e4  # of its standard deviations; the limit is 0 in float64 from about a thousand on


@dataclass(frozen=True, eq=False)
class StatedLaw:
    """The law that a mechanism states of a file for some data, at the points and to the step of the file.

    Attributes:
        recipe: How paths are made, with the points and the rounding of the file.
        whitening: Of one path; directions below the floor are left out.
        floor: Variance below which rounding, of the file or of float64, hides what the law says.
        ceiling: Variance that no direction which was left out exceeds, rounding included.
        noise: Standard deviation of the noise that tests add to rounded values, 0 where none are.
        tested: The same directions, for values with that noise.
        rotation: Coordinates by `tested` to those in the order of what the data determine, ``(k, k)``.
        growth: Share by which the variances grow, in these, for every share that the squared ridges do, ``(k,)``,
            largest first: about 1 where the data determine all, 0 where they say nothing.
        drift: What the mean moves by, in these, for the same, ``(k,)``.
    """

    recipe: Paths
    whitening: Whitening
    floor: float
    ceiling: float
    noise: float
    tested: Whitening
    rotation: Array
    growth: Array
    drift: Array

    @property
    def directions(self) -> int:
        """k, how many numbers of a path are told from rounding."""
        return int(self.whitening.kept.sum())


def stated_law(recipe: Paths, data: Dataset, released: Released) -> StatedLaw:
    """The law of what is in the file.

    A rounding error is taken for independent noise of variance ``step^2 / 12``; values with less than a step of
    standard deviation and directions where that would matter and may be wrong are left out.

    Raises:
        InputError: The file is rounded so coarsely that nothing is left, points do not fit the data, or a value is so
            large that float64 has no room for its square.
    """
    points, step = released.points, released.resolution
    jitter = recipe.sampler(data, points).jitter  # what float64 takes to draw from this law
    recipe = replace(recipe, points=points, white_noise=float(np.hypot(recipe.white_noise, ERROR * step)))
    law = recipe.law(data, points)
    _check_size(released.paths - law.mean, law.prior_variance)
    floor = rounding_floor(law.prior_variance, records=len(data), ridge=float(np.min(recipe.ridge)), jitter=jitter)
    noise, unused = 0.0, 0.0
    if step:
        law, unused = _above(law, step**2)
        latent = law.covariance[0] - np.diag(np.where(np.diag(law.covariance[0]) > 0, (ERROR * step) ** 2, 0.0))
        even, count = on_lattice(released.paths, step), len(released.paths)
        floor = max(floor, least_variance(latent, step, paths=count, even=even))
        noise = hiding_noise(latent, step)
    whitening = law.whitening(floor=floor)
    if not whitening.kept.any():
        raise InputError(
            f"release.released holds values rounded to {step:.3g}: no more of them is left than float64 and that "
            "rounding hide, so there is nothing to be tested"
        )
    # d k_D / d r^2 = k A^-1 A^-1 k and d mu / d r^2 = -k A^-1 A^-1 y, in the notation of `leave_one_out`.
    tested = widened(whitening, noise**2)
    posterior, columns = recipe.condition(data), tested.columns[0][:, tested.kept[0]]
    part = columns.T @ posterior.factor.solve(recipe.kernel(data.covariates, points)).T
    squares = np.broadcast_to(np.square(recipe.ridges(data)), len(data))
    growth, rotation = np.linalg.eigh(recipe.scale**2 * (part * squares) @ part.T)
    drift = -recipe.mean_weight * part @ (squares * posterior.factor.solve(data.responses))
    rotation, growth = rotation[:, ::-1], np.maximum(growth[::-1], 0.0)
    return StatedLaw(recipe, whitening, floor, floor + unused, noise, tested, rotation, growth, drift @ rotation)


def _above(law: PathLaw, variance: float) -> tuple[PathLaw, float]:
    """The law without what it says of values of no more than this variance: those count as fixed, so are not used.

    Also the variance that no direction among them exceeds: the largest sum of a row.
    """
    covariance = law.covariance[0]
    used = np.diag(covariance) > variance
    unused = float(np.abs(covariance[np.ix_(~used, ~used)]).sum(axis=1).max(initial=0.0))
    return replace(law, covariance=np.where(used[:, None] & used, law.covariance, 0.0)), unused


def _check_size(deviations: Array, variance: float) -> None:
    odd = np.abs(deviations) / np.sqrt(variance) > _FURTHEST
    if odd.any():
        where = shortened([int(row) for row in np.flatnonzero(odd.any(axis=0))])
        raise InputError(
            f"release.released holds values at point {where} (0-based) that are more than {_FURTHEST:.0e} prior "
            "standard deviations away: they are in another unit, or the release is broken there"
        )


def file_fidelity(stated: StatedLaw, released: Released, *, significance: float) -> Fidelity:
    """Hold the paths of a file against the stated law.

    Args:
        stated: The law.
        released: The file.
        significance: Probability of failing a release of the right mechanism.
    """
    tested, paths = stated.tested, noisy(released.paths, stated.noise)
    z = tested.white(paths)  # (L, k), in order of variance, smallest first
    marginal = tested.standardised(paths)
    mean = tested.mean[0] @ tested.columns[0][:, tested.kept[0]]
    found = _checks(z[:, ::-1], z @ stated.rotation, marginal, mean @ stated.rotation)
    found["what another ridge would change"] = _tilted(z @ stated.rotation, stated.growth, stated.drift)
    hidden = _hidden(stated, released.paths)
    if hidden is not None:
        found["what should not vary"] = hidden
    checks = [Check(name, p_value, 0) for name, p_value in found.items()]
    return combined(checks, significance=significance, paths=len(z), points=len(released.points), source="file")


def _checks(z: Array, determined: Array, marginal: Array, mean: Array) -> dict[str, float]:
    """p-values of all checks.

    Args:
        z: White numbers of L paths, ``(L, k)``, the direction of largest variance first.
        determined: The same, turned so that the direction which the data determine most comes first.
        marginal: Values that are standard normal one by one, ``(L, t)``.
        mean: Mean of a path in the coordinates of `determined`, ``(k,)``.
    """
    count, size = z.shape
    flat = determined.reshape(-1)
    largest = float(np.abs(flat).max())
    found: dict[str, Any] = {
        "size of all deviations": two_sided(float(np.square(flat).sum()), flat.size),
        "largest deviation": 1.0 if largest == 0.0 else -np.expm1(flat.size * np.log1p(-_both_tails(largest))),
        "size of deviations in a band of variance": _bands(z),
        "size of deviations in a band of what the data determine": _bands(determined),
        "shape of the deviations": float(kstest(flat, norm.cdf).pvalue),
    }
    if flat.size > 1:
        found["independence of neighbouring deviations"] = independence(flat[0 : flat.size - 1 : 2], flat[1::2])
    if marginal.size:
        found["largest deviation at one point"] = most_odd(_both_tails(marginal))
    length = float(np.linalg.norm(mean))
    if length > 0:
        found["deviation along the mean"] = _both_tails(np.sqrt(count) * (determined.mean(axis=0) @ mean) / length)
    if count > 1:
        means, squares = np.sqrt(count) * determined.mean(axis=0), np.square(determined).sum(axis=0)
        found["mean of the paths"] = two_sided(float(np.square(means).sum()), size)
        found["mean of the paths in one direction"] = most_odd(_both_tails(means))
        found["variance in one direction"] = most_odd(two_sided(squares, count))
        found["size of one path"] = most_odd(two_sided(np.square(determined).sum(axis=1), size))
        if size > 1:
            found["independence of two paths"] = _closest(determined)
    return {name: float(p_value) for name, p_value in found.items()}


def _bands(z: Array) -> float:
    """Sums of squares of the first direction, the next two, the next four and so on: each an exact chi-squared test."""
    size = z.shape[1]
    starts = 2 ** np.arange(int(np.log2(size)) + 1) - 1  # 0, 1, 3, 7, ...
    if len(starts) > 1 and size - starts[-1] < starts[-1] - starts[-2]:
        starts = starts[:-1]  # what is left over goes to the last full band
    widths = np.diff(np.append(starts, size))
    squares = np.add.reduceat(np.square(z).sum(axis=0), starts)
    return most_odd(two_sided(squares, len(z) * widths))


def _closest(z: Array) -> float:
    """p-value of the smallest angle between two lines along paths: of k - 1 degrees of freedom, whatever the lengths.

    The squared sine of each has a beta distribution. It is computed from the distance of the unit vectors, which keeps
    its digits where the cosine has rounded to 1; below that the angle is taken for the least that float64 tells from 0,
    so that equal paths have the p-value of the closest ones that can be told apart.
    """
    count, size = z.shape
    lengths = np.linalg.norm(z, axis=1)
    if not np.all(lengths > 0):
        return 0.0
    unit, nearest, largest = z / lengths[:, None], 2.0, 0.0
    block = max(1, _BLOCK // count)
    for start in range(0, count - 1, block):
        cosines = unit[start : start + block] @ unit[start:].T
        cosines[np.tril_indices(len(cosines))] = 0.0  # each pair once
        found = max(float(cosines.max()), -float(cosines.min()))
        if found < largest - _CLOSE:
            continue
        largest = max(largest, found)
        # All that may be the largest; of many equal ones some are enough.
        first, second = np.nonzero(np.abs(cosines) >= largest - _CLOSE)
        one, other = unit[start + first[:_MOST_EQUAL]], unit[start + second[:_MOST_EQUAL]]
        squares = np.minimum(np.square(one - other).sum(axis=1), np.square(one + other).sum(axis=1))
        nearest = min(nearest, float(squares.min()))
    nearest = max(nearest, _LEAST_ANGLE**2)
    smaller = betainc((size - 1) / 2.0, 0.5, nearest * (1.0 - nearest / 4.0))
    return float(min(1.0, 0.5 * count * (count - 1) * smaller))


def _tilted(z: Array, growth: Array, drift: Array) -> float:
    """p-value of the score ``sum_i growth_i (z_i^2 - 1) / 2 + drift_i z_i`` over all paths, the best test of a little.

    By Chernoff's bound, so an upper limit: the true one is smaller by a factor of ten or so.
    """
    count = len(z)
    score = float((0.5 * growth * (np.square(z) - 1.0) + drift * z).sum())
    sign = 1.0 if score >= 0 else -1.0
    weights = sign * growth

    def exponent(tilt: float) -> float:
        left = 1.0 - tilt * weights
        terms = -np.log(left) - tilt * weights + np.square(tilt * drift) / left
        return float(0.5 * count * terms.sum() - tilt * size)

    spread = np.sqrt(count * float((0.5 * growth**2 + drift**2).sum()))
    if spread == 0.0:
        return 1.0
    size = min(abs(score), _FURTHEST_SCORE * spread)  # less of it is a weaker limit, and still one
    most = 20.0 * size / spread**2 + 1.0 / spread  # beyond the best tilt, which is about score / spread^2
    if weights.max() > 0:
        most = min(most, (1.0 - 1e-9) / weights.max())
    found = minimize_scalar(exponent, bounds=(0.0, most), method="bounded")
    return float(min(1.0, 2.0 * np.exp(min(0.0, float(found.fun)))))


def _hidden(stated: StatedLaw, paths: Array) -> float | None:
    """p-value of what lies in the directions that were left out: there no variance exceeds the ceiling.

    An upper limit, not exact: a small one is as good a reason, a large one says nothing.
    """
    whitening = stated.whitening
    dropped = ~whitening.kept[0]
    if not dropped.any():
        return None
    left: NDArray[np.float64] = paths - whitening.mean
    basis = whitening.columns[0][:, whitening.kept[0]]
    basis = basis / np.linalg.norm(basis, axis=0)
    left = left - left @ basis @ basis.T
    return float(chi2.sf(float(np.square(left).sum()) / stated.ceiling, len(paths) * int(dropped.sum())))


def _both_tails(values: Any) -> Any:
    return 2.0 * norm.sf(np.abs(values))
