"""Likelihood-ratio membership inference as published: densities fitted to statistics of the values at the target."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from ..mechanisms import Array, InputError, NumericalError
from .attack import FeatureAttack, Fitted, Learner, Releases, Sees, Shadows, rounding_variance

Density = Literal["gaussian", "mixture", "kernel"]
Mode = Literal["online", "offline", "offline_tail"]
_Curve = Callable[[Array], Array]  # log of a density, or of a probability

_MODE_NOTES: dict[Mode, str] = {
    "online": "online: log p_in - log p_out, summed over the statistics",
    "offline": "offline, density: -log p_out, summed over the statistics",
    "offline_tail": "offline, one tail: -log P_out of a mean beyond",
}
_STATISTICS = ("mean", "log variance")
_EPS = float(np.finfo(np.float64).eps)
_FLOOR = 1e-3  # least standard deviation or bandwidth, in pooled spreads
_NORMAL_REFERENCE = 1.06  # bandwidth 1.06 s n^(-1/5), s = min(sd, interquartile range / 1.349) (as R's bw.nrd)
_MARGIN = 8.0  # bandwidths that the grid goes beyond the shadows
_GRID_STEPS = 4  # a bandwidth, at first
_GRID_ERROR = 1e-3  # allowed in a log density
_TREE_ERROR = 1e-8  # likewise, where groups of far shadows are taken together


@dataclass(frozen=True)
class Lira(FeatureAttack):
    """The published attack (THEORY section 8): fit densities of statistics on shadows, plug in, add up.

    The statistics are the mean f^ of the L values at the target and, for L > 1, the log of their variance
    ``v^ = (1/L) sum (f_l - f^)^2``. The published v^ is divided by sigma^2 and not in logs; neither changes a ratio of
    densities. Minus the log of ONE density (mode "offline") does depend on it: there it is the density of log v^.
    Where the L values are equal up to rounding, v^ is the rounding of f^ squared.

    The default was fixed once, on the published stress test: in none of its settings is it worse than the published
    figures beyond their error, with 500 or 10,000 shadows; the single normals are. Nothing is tuned to data.

    Attributes:
        density: Of one statistic on one side: normal, mixture of two normals, or kernel estimate.
        pooled: One variance for both sides.
        mode: "online": log p_in - log p_out, summed over the statistics. "offline": only shadows without the record
            are used, -log p_out, summed; what is unusual on either side looks like a member. "offline_tail":
            -log P_out(a value beyond f^), normal, f^ alone.
        response: Response of the target, in the units of the values; `learner` takes it from the target. Mode
            "offline_tail" needs it: the record pulls f^ towards its response, so "beyond" is above if the response is
            at least the mean of the shadows without the record, and below otherwise.
        name: In the configuration and the report.
        sees: Values at the target.

    Raises:
        InputError: The options contradict each other.
    """

    density: Density = "kernel"
    pooled: bool = False
    mode: Mode = "online"
    response: float | None = None
    name: str = "lira"
    sees: Sees = "values"

    def __post_init__(self) -> None:
        got = f"got density {self.density!r}, mode {self.mode!r}, response {self.response!r}"
        if self.density not in get_args(Density) or self.mode not in get_args(Mode):
            raise InputError(f"lira: density is one of {get_args(Density)}, mode one of {get_args(Mode)}; {got}")
        if self.pooled and (self.density != "gaussian" or self.mode != "online"):
            raise InputError(f'lira: pooled = True needs density = "gaussian" and mode = "online"; {got}')
        if self.mode == "offline_tail" and self.density != "gaussian":
            raise InputError(f'lira: mode "offline_tail" needs density = "gaussian"; {got}')

    def learner(self, pilot: Shadows) -> Learner:
        """See `Attack`."""
        return replace(self, response=pilot.target.response).of_features()

    def features(self, releases: Releases) -> Array:
        """Statistics of the values, ``(..., 2)``; ``(..., 1)`` for L = 1 and in mode "offline_tail"."""
        values = releases.values
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by whoever uses it
            centre = values.mean(axis=-1)
            if values.shape[-1] == 1 or self.mode == "offline_tail":
                return np.asarray(centre[..., None])
            spread = np.maximum(values.var(axis=-1), rounding_variance(centre))
            return np.stack([centre, np.log(spread)], axis=-1)

    def fit(self, member: Array, nonmember: Array) -> Fitted:
        """See `FeatureAttack`; `member` is not looked at in the offline modes."""
        if self.mode == "offline_tail" and self.response is None:
            raise InputError('lira: mode "offline_tail" needs the response of the target')
        online = self.mode == "online"
        sides = (member, nonmember) if online else (nonmember,)
        if min(len(side) for side in sides) < 2:
            have = f"{len(member)} shadow(s) with the record and {len(nonmember)} without: at least 2 each"
            have = have if online else f"{len(nonmember)} shadow(s) without the record: at least 2"
            raise InputError(f"lira: {have} are needed: raise audit.shadows")
        parts = [self._part([side[:, column] for side in sides]) for column in range(nonmember.shape[1])]
        kind = f"{self.density} density" + (", one variance for both sides" if self.pooled else "")
        notes = [_MODE_NOTES[self.mode], kind]
        for part, statistic in zip(parts, _STATISTICS, strict=False):
            notes += [f"{statistic}: {remark}" for remark in part.remarks]
        if nonmember.shape[1] > 1:
            equal = sum(int((side[:, 1] <= np.log(rounding_variance(side[:, 0]))).sum()) for side in sides)
            notes += [f"the values of {equal} shadow releases are equal up to rounding"] if equal else []
        return _Sum(tuple(parts), tuple(notes))

    def _part(self, sides: list[Array]) -> "_Part":
        """Score of one statistic from its values in the shadows: in, then out; or out alone."""
        everything = np.concatenate(sides)
        centre, spread = float(everything.mean()), float(everything.std())
        if spread <= 8.0 * _EPS * float(np.abs(everything).max()):
            spread = 0.0  # nothing but rounding
        unit, floor = (spread, _FLOOR) if spread else (1.0, 1.0)
        scaled = [(side - centre) / unit for side in sides]
        log_unit, remarks = math.log(unit), []
        if self.mode == "offline_tail":
            upper = self.response is not None and self.response >= centre
            mean, deviation = float(scaled[0].mean()), float(scaled[0].std())
            curve = _Tail(mean, max(deviation, floor), 1.0 if upper else -1.0)
            fits, log_unit = [_Fit(curve, deviation < floor)], 0.0
            remarks = ["beyond is " + ("above" if upper else "below")]
        elif self.pooled:
            deviation = math.sqrt(sum(len(z) * float(z.var()) for z in scaled) / len(everything))
            fits = [_normal(z, floor, deviation) for z in scaled]
        else:
            fits = [_FITS[self.density](z, floor) for z in scaled]
        floored = sum(fit.floored for fit in fits)
        if floored:
            least = f"{_FLOOR:g} of the pooled spread" if spread else "1, for nothing spreads"
            remarks.append(f"spread floored at {least} in {floored} of {len(fits)} densities")
        remarks += [fit.remark for fit in fits if fit.remark]
        return _Part(centre, unit, log_unit, tuple(fit.curve for fit in fits), tuple(dict.fromkeys(remarks)))


@dataclass(frozen=True, eq=False)
class _Sum:
    """Sum of the scores of the statistics."""

    parts: tuple["_Part", ...]
    notes: tuple[str, ...]

    def score(self, features: Array) -> Array:
        """See `Fitted`."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.sum([part.score(features[:, column]) for column, part in enumerate(self.parts)], axis=0)
        if not np.isfinite(scores).all():
            raise NumericalError("lira: a release is so far from all shadows that its log density overflows")
        return np.asarray(scores)


@dataclass(frozen=True, eq=False)
class _Part:
    """Score of one statistic; its curves are those of ``(x - centre) / unit``: in, then out; or out alone."""

    centre: float
    unit: float
    log_unit: float
    curves: tuple[_Curve, ...]
    remarks: tuple[str, ...]

    def score(self, x: Array) -> Array:
        """``(N,)`` to ``(N,)``, higher for members."""
        z = (x - self.centre) / self.unit
        *inside, outside = [curve(z) for curve in self.curves]
        return inside[0] - outside if inside else self.log_unit - outside


@dataclass(frozen=True, eq=False)
class _Fit:
    curve: _Curve
    floored: bool
    remark: str = ""


@dataclass(frozen=True, eq=False)
class _Normals:
    """A mixture of normals; parameters ``(K,)``."""

    weight: Array
    mean: Array
    deviation: Array

    def __call__(self, z: Array) -> Array:
        exponents = -0.5 * np.square((z[:, None] - self.mean) / self.deviation)
        exponents += np.log(self.weight / self.deviation) - 0.5 * math.log(2.0 * math.pi)
        return np.asarray(logsumexp(exponents, axis=1))


@dataclass(frozen=True, eq=False)
class _Tail:
    """Log of the probability of a value beyond, above for sign 1 and below for -1."""

    mean: float
    deviation: float
    sign: float

    def __call__(self, z: Array) -> Array:
        return np.asarray(log_ndtr(-self.sign * (z - self.mean) / self.deviation))


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A kernel estimate; between `low` and `high` its logs are interpolated if there is a spline."""

    estimate: KernelDensity
    low: float
    high: float
    spline: CubicSpline | None

    def __call__(self, z: Array) -> Array:
        if self.spline is None:
            return _exact(self.estimate, z)
        logs = np.asarray(self.spline(np.clip(z, self.low, self.high)))
        far = (z < self.low) | (z > self.high)
        if far.any():
            logs[far] = _exact(self.estimate, z[far])
        return logs


def _exact(estimate: KernelDensity, z: Array) -> Array:
    """Log-sum-exp over all shadows, right to `_TREE_ERROR`; it does not underflow."""
    return np.asarray(estimate.score_samples(z[:, None]))


def _normal(z: Array, floor: float, deviation: float | None = None) -> _Fit:
    """The normal of greatest likelihood, or with a given standard deviation."""
    deviation = float(z.std()) if deviation is None else deviation
    curve = _Normals(np.ones(1), np.array([z.mean()]), np.array([max(deviation, floor)]))
    return _Fit(curve, deviation < floor)


def _mixture(z: Array, floor: float) -> _Fit:
    """Two normals by expectation maximisation from 2-means; the floor's square is added to both variances."""
    if float(z.std()) < floor:
        return _normal(z, floor)
    model = GaussianMixture(2, tol=1e-6, reg_covar=floor**2, max_iter=1000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is in the remark
        model.fit(z[:, None])
    deviation = np.sqrt(model.covariances_[:, 0, 0])
    remark = "" if model.converged_ else "the mixture's fit was stopped before it converged"
    floored = bool(deviation.min() < 2.0 * floor)
    return _Fit(_Normals(np.asarray(model.weights_), np.asarray(model.means_[:, 0]), deviation), floored, remark)


def _kernel(z: Array, floor: float) -> _Fit:
    """A normal kernel; bandwidth by the normal reference rule. Large estimates are tabulated."""
    spread = float(np.subtract(*np.quantile(z, [0.75, 0.25]))) / 1.349
    spread = min(float(z.std()), spread) if spread > 0 else float(z.std())
    bandwidth = _NORMAL_REFERENCE * spread * len(z) ** -0.2
    floored, bandwidth = bandwidth < floor, max(bandwidth, floor)
    estimate = KernelDensity(bandwidth=bandwidth, rtol=_TREE_ERROR).fit(z[:, None])
    low, high = float(z.min()) - _MARGIN * bandwidth, float(z.max()) + _MARGIN * bandwidth
    nodes = np.linspace(low, high, math.ceil(_GRID_STEPS * (high - low) / bandwidth) + 1)
    logs = _exact(estimate, nodes) if 4 * len(nodes) < len(z) else np.empty(0)
    while 4 * len(nodes) < len(z):  # halve steps where the error is large, until the table no longer pays
        spline, middle = CubicSpline(nodes, logs), 0.5 * (nodes[1:] + nodes[:-1])
        between = _exact(estimate, middle)
        rough = np.flatnonzero(np.abs(spline(middle) - between) > _GRID_ERROR)
        if len(rough) == 0:
            remark = f"log densities are interpolated, off by at most {_GRID_ERROR:g} half-way between nodes"
            return _Fit(_Kernel(estimate, low, high, spline), floored, remark)
        nodes, logs = np.insert(nodes, rough + 1, middle[rough]), np.insert(logs, rough + 1, between[rough])
    return _Fit(_Kernel(estimate, low, high, None), floored)


_FITS: dict[Density, Callable[[Array, float], _Fit]] = {"gaussian": _normal, "mixture": _mixture, "kernel": _kernel}
