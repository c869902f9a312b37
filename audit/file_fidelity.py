"""Is a released file a release of the stated mechanism for these data? Exact tests of the very paths, even of one.

Whitened by the stated law, L paths are L times k independent standard normal numbers. The k directions are turned,
which the law allows, so that those come first which the data determine most: there a wrong ridge or other data show.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, kstest, norm
from scipy.stats import t as student

from ..mechanisms import Array, Dataset, InputError, Paths, Whitening
from .fidelity import Check, Fidelity, combined, independence, most_odd, rounding_floor, two_sided
from .released import Released

_STEP = 1.0 / np.sqrt(12.0)  # standard deviation of a rounding error, in steps
_DRAWN_OUT = 100.0  # a direction is used from this many times the variance by which independence may be wrong
_HARMONICS = 20
_BLOCK = 1000  # paths that are compared with all others at a time


@dataclass(frozen=True, eq=False)
class StatedLaw:
    """The law that a mechanism states of a file for some data, at the points and to the step of the file.

    Attributes:
        recipe: How paths are made, with the points and the rounding of the file.
        whitening: Of one path; directions below the floor are left out.
        floor: Variance below which rounding, of the file or of float64, hides what the law says.
        rotation: Whitened coordinates to those in the order of what the data determine, ``(k, k)``.
        growth: Share by which the variances grow, in these, for every share that the squared ridges do, ``(k,)``,
            largest first: about 1 where the data determine all, 0 where they say nothing.
        drift: What the mean moves by, in these, for the same, ``(k,)``.
    """

    recipe: Paths
    whitening: Whitening
    floor: float
    rotation: Array
    growth: Array
    drift: Array

    @property
    def directions(self) -> int:
        """k, how many numbers of a path are told from rounding."""
        return int(self.whitening.kept.sum())


def stated_law(recipe: Paths, data: Dataset, released: Released) -> StatedLaw:
    """The law of what is in the file.

    A rounding error is taken for independent noise of variance ``step^2 / 12``; directions where that would matter and
    may be wrong are left out.

    Raises:
        InputError: The file is rounded so coarsely that nothing is left, or points do not fit the data.
    """
    points, step = released.points, released.resolution
    jitter = recipe.sampler(data, points).jitter  # what float64 takes to draw from this law
    recipe = replace(recipe, points=points, white_noise=float(np.hypot(recipe.white_noise, _STEP * step)))
    law = recipe.law(data, points)
    floor = rounding_floor(law.prior_variance, records=len(data), ridge=float(np.min(recipe.ridge)), jitter=jitter)
    if step:
        floor = max(floor, rounding_variance(law.covariance[0], step))
    whitening = law.whitening(floor=floor)
    if not whitening.kept.any():
        raise InputError(
            f"release.released holds values rounded to {step:.3g}: no more of them is left than float64 and that "
            "rounding hide, so there is nothing to be tested"
        )
    # d k_D / d r^2 = k A^-1 A^-1 k and d mu / d r^2 = -k A^-1 A^-1 y, in the notation of `leave_one_out`.
    posterior, columns = recipe.condition(data), whitening.columns[0][:, whitening.kept[0]]
    part = columns.T @ posterior.factor.solve(recipe.kernel(data.covariates, points)).T
    squares = np.broadcast_to(np.square(recipe.ridges(data)), len(data))
    growth, rotation = np.linalg.eigh(recipe.scale**2 * (part * squares) @ part.T)
    drift = -recipe.mean_weight * part @ (squares * posterior.factor.solve(data.responses))
    rotation = rotation[:, ::-1]
    return StatedLaw(recipe, whitening, floor, rotation, np.maximum(growth[::-1], 0.0), drift @ rotation)


def rounding_variance(covariance: Array, step: float) -> float:
    """Variance of a direction above which rounding errors pass for independent normal noise of ``step^2 / 12``.

    Errors are uniform, which nobody sees where they make up a twelfth or less. Two of them are alike where the values
    are: for normal values whose difference has standard deviation ``s`` their covariance is at most
    ``step^2 / (2 pi^2) sum_m exp(-2 pi^2 m^2 s^2 / step^2) / m^2`` (the Fourier series of the error).

    Args:
        covariance: Of the values, ``(t, t)``.
        step: To which they are rounded.
    """
    own = np.diag(covariance)
    apart = np.maximum(own[:, None] + own - 2.0 * covariance, 0.0) * 2.0 * (np.pi / step) ** 2
    alike = np.zeros_like(apart)
    for harmonic in range(1, _HARMONICS + 1):
        alike += np.exp(-(harmonic**2) * apart) / harmonic**2
    alike *= step**2 / (2.0 * np.pi**2)
    alike[np.diag_indices_from(alike)] = 0.0
    return float(max(step**2, _DRAWN_OUT * np.linalg.eigvalsh(alike)[-1]))


def file_fidelity(stated: StatedLaw, released: Released, *, significance: float) -> Fidelity:
    """Hold the paths of a file against the stated law.

    Args:
        stated: The law.
        released: The file.
        significance: Probability of failing a release of the right mechanism.
    """
    z = stated.whitening.white(released.paths)  # (L, k), in order of variance, smallest first
    marginal = stated.whitening.standardised(released.paths)
    mean = stated.whitening.mean[0] @ stated.whitening.columns[0][:, stated.whitening.kept[0]]
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
    """p-value of the largest cosine between two paths: one of k - 1 degrees of freedom, whatever their lengths."""
    count, size = z.shape
    lengths = np.linalg.norm(z, axis=1)
    if not np.all(lengths > 0):
        return 0.0
    unit, largest = z / lengths[:, None], 0.0
    for start in range(0, count, _BLOCK):
        cosines = np.abs(unit[start : start + _BLOCK] @ unit.T)
        cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))] = 0.0
        largest = max(largest, float(cosines.max()))
    if largest >= 1.0:
        return 0.0
    statistic = largest * np.sqrt((size - 1) / ((1.0 - largest) * (1.0 + largest)))
    return float(min(1.0, count * (count - 1) * student.sf(statistic, size - 1)))  # both signs of half as many pairs


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
        return float(0.5 * count * terms.sum() - tilt * abs(score))

    spread = np.sqrt(count * float((0.5 * growth**2 + drift**2).sum()))
    if spread == 0.0:
        return 1.0
    most = 20.0 * abs(score) / spread**2 + 1.0 / spread  # beyond the best tilt, which is about score / spread^2
    if weights.max() > 0:
        most = min(most, (1.0 - 1e-9) / weights.max())
    found = minimize_scalar(exponent, bounds=(0.0, most), method="bounded")
    return float(min(1.0, 2.0 * np.exp(min(0.0, float(found.fun)))))


def _hidden(stated: StatedLaw, paths: Array) -> float | None:
    """p-value of what lies in the directions that were left out: there no variance exceeds the floor.

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
    return float(chi2.sf(float(np.square(left).sum()) / stated.floor, len(paths) * int(dropped.sum())))


def _both_tails(values: Any) -> Any:
    return 2.0 * norm.sf(np.abs(values))
