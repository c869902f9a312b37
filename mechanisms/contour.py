"""Privacy profile of a pair by a contour integral, for any number of paths and any epsilon.

With ``LLR`` summed over the paths and ``M(z) = E_D exp(z LLR)``, elementary for a quadratic form,

    delta(eps) = (1 / 2 pi i) integral over Re z = a of  exp(-z eps) M(z) / (z (z + 1)) dz,   a > 0

(THEORY section 6). Nothing is subtracted, so tails of 1e-300 keep their digits. Moving the line left of the
pole at 0 gives ``1 - delta`` in the same way, which keeps the digits of profiles close to 1.

The line is bent into a branch of a hyperbola through the saddle point. The two singular half-lines of M lie on
the real axis, outside the branch, so the value does not depend on the bend; on a bent branch the integrand
falls off exponentially and the trapezoidal rule converges geometrically. The error is measured, not
assumed: the rule with every other node must agree.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .errors import NumericalError
from .pair import QuadraticForm

# (bend in radians, step): a smaller bend follows integrands with two widely separated scales, and needs a
# smaller step for the same convergence, exp(-2 pi bend / step).
_LEVELS = tuple((np.pi / 8 / 2**level, 0.1 / 2**level) for level in range(5))
_LAST_NODE = 20.0  # in units where the branch grows like exp(node); the integrand falls at least like z^-3
_HALVING_TOLERANCE = 1e-6  # every other node; the full rule is then right to about its square
_AGREEMENT_TOLERANCE = 1e-9  # between two levels, in log delta, where halving does not converge as fast
_NEGLIGIBLE = 1e-18
_VANISHING = -1e4  # in log delta; beneath it rounding of the exponent drowns the digits and nothing needs them
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class _Integrand:
    """``exp(linear z) prod_j (1 - k_j z)^(-L/2) exp(L b_j z^2 / 2 (1 - k_j z)) / (+-z (z + 1))``."""

    curvature: Array
    bend: Array
    linear: Array
    paths: float

    def log(self, z: NDArray[np.complex128], upper: NDArray[np.bool_]) -> NDArray[np.complex128]:
        """Log of the integrand, `z` of shape ``(pairs, nodes)``; `upper` pairs use the strip left of 0."""
        value = z * self.linear[:, None] - np.log(np.where(upper[:, None], -z, z)) - np.log1p(z)
        for j in (0, 1):
            reach = 1.0 - self.curvature[:, j, None] * z
            value += self.paths * (0.5 * self.bend[:, j, None] * z * z / reach - 0.5 * np.log(reach))
        return value

    def slope(self, z: Array) -> Array:
        """First derivative of the log on the real axis, ``(pairs,)``; increasing in z."""
        reach = 1.0 - self.curvature * z[:, None]
        terms = 0.5 * self.curvature / reach + 0.5 * self.bend * z[:, None] * (1.0 + reach) / reach**2
        return np.asarray(self.linear + self.paths * terms.sum(axis=1) - 1.0 / z - 1.0 / (1.0 + z))

    def curvature_at(self, z: Array) -> Array:
        """Second derivative of the log on the real axis, ``(pairs,)``; positive."""
        reach = 1.0 - self.curvature * z[:, None]
        terms = 0.5 * (self.curvature / reach) ** 2 + self.bend / reach**3
        return np.asarray(self.paths * terms.sum(axis=1) + 1.0 / z**2 + 1.0 / (1.0 + z) ** 2)

    def saddle(self, upper: NDArray[np.bool_]) -> Array:
        """The minimum of the integrand on the real axis, in ``(-1, 0)`` or in ``(0, 1 / max k)``.

        To about 1e-5 of its distance from the ends; the integral does not depend on where the branch crosses.
        """
        largest = self.curvature.max(axis=1)
        end = np.divide(1.0, largest, out=np.ones_like(largest), where=largest > 0)

        def place(t: Array) -> Array:
            # z > 0: logistic up to the singularity, or exponential where there is none.
            right = np.where(largest > 0, end / (1.0 + np.exp(-t)), np.exp(t))
            return np.where(upper, -1.0 / (1.0 + np.exp(t)), right)

        low = np.where(upper, -36.0, -300.0)
        high = np.where(upper | (largest <= 0), 300.0, 36.0)
        for _ in range(26):
            middle = 0.5 * (low + high)
            beyond = self.slope(place(middle)) > 0
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return place(0.5 * (low + high))


@dataclass(frozen=True, eq=False)
class ProfileValue:
    """``log delta`` at a point of the profile, ``(pairs,)``, with its slope.

    Attributes:
        log_delta: Natural logarithm of delta; ``-inf`` where delta is exactly 0.
        slope: Derivative of `log_delta` in epsilon (not positive).
        relative_error: Measured relative error of delta, or of ``1 - delta`` where that was integrated; 1 where
            that number is below exp(-10000) and only its saddle-point height is given.
    """

    log_delta: Array
    slope: Array
    relative_error: Array


def log_profile(form: QuadraticForm, epsilon: Array, *, paths: int) -> ProfileValue:
    """``log delta(epsilon)`` for pairs ``(n,)`` in the direction D against D'.

    Args:
        form: The pairs.
        epsilon: ``(n,)``, at least 0.
        paths: Independent paths released, L.

    Raises:
        NumericalError: A value did not reach a relative accuracy of 1e-9.
    """
    pairs = len(epsilon)
    parts = [
        _chunk(
            form[start : start + _CHUNK],
            epsilon[start : start + _CHUNK],
            paths,
        )
        for start in range(0, pairs, _CHUNK)
    ]
    if not parts:
        return ProfileValue(np.empty(0), np.empty(0), np.empty(0))
    return ProfileValue(
        np.concatenate([part.log_delta for part in parts]),
        np.concatenate([part.slope for part in parts]),
        np.concatenate([part.relative_error for part in parts]),
    )


def _chunk(form: QuadraticForm, epsilon: Array, paths: int) -> ProfileValue:
    bend = ((1.0 + form.curvature) * form.shift) ** 2
    constant = 0.5 * (1.0 + form.curvature) * form.shift**2 - 0.5 * np.log1p(form.curvature)
    linear = paths * constant.sum(axis=1) - epsilon
    # No positive curvature and no free linear term: the ratio has a largest value, and no mass above it.
    free = (form.curvature == 0) & (bend > 0)
    flat = np.where(form.curvature == 0, 1.0, form.curvature)
    top = linear - paths * (0.5 * bend / flat).sum(axis=1)
    nothing = (form.curvature <= 0).all(axis=1) & ~free.any(axis=1) & (top <= 0)

    log_delta = np.full(len(epsilon), -np.inf)
    slope, error = np.zeros(len(epsilon)), np.zeros(len(epsilon))
    live = np.flatnonzero(~nothing)
    if len(live):
        integrand = _Integrand(form.curvature[live], bend[live], linear[live], float(paths))
        log_delta[live], slope[live], error[live] = _integrate(integrand)
    return ProfileValue(log_delta, slope, error)


def _integrate(integrand: _Integrand) -> tuple[Array, Array, Array]:
    pairs = len(integrand.linear)
    everyone = np.zeros(pairs, dtype=bool)
    saddles = np.stack([integrand.saddle(everyone), integrand.saddle(~everyone)])
    heights = np.stack(
        [
            integrand.log(saddles[0][:, None].astype(complex), everyone)[:, 0].real,
            integrand.log(saddles[1][:, None].astype(complex), ~everyone)[:, 0].real,
        ]
    )
    upper = heights[1] < heights[0]
    saddle = np.where(upper, saddles[1], saddles[0])
    height = np.where(upper, heights[1], heights[0])
    reach = 1.0 / np.sqrt(integrand.curvature_at(saddle))

    log_value = np.full(pairs, np.nan)  # log of delta, or of 1 - delta in the upper strip
    moment, error = np.full(pairs, np.nan), np.full(pairs, np.inf)
    vanishing = height < _VANISHING
    log_value[vanishing], moment[vanishing], error[vanishing] = height[vanishing], saddle[vanishing], 1.0
    todo = np.flatnonzero(~vanishing)
    for bend, step in _LEVELS:
        if not len(todo):
            break
        part = _Integrand(integrand.curvature[todo], integrand.bend[todo], integrand.linear[todo], integrand.paths)
        value, first, halving = _best_branch(part, saddle[todo], reach[todo], height[todo], upper[todo], bend, step)
        agreement = np.abs(value - log_value[todo])
        settled = (halving < _HALVING_TOLERANCE) | (agreement < _AGREEMENT_TOLERANCE)
        log_value[todo], moment[todo] = value, first
        error[todo] = np.where(settled, np.minimum(halving**2, agreement.clip(0)), np.inf)
        error[todo] = np.where(np.isnan(error[todo]), halving**2, error[todo])
        todo = todo[~settled]
    if len(todo):
        raise NumericalError(
            f"the privacy profile of {len(todo)} pair(s) did not converge; the first has curvatures "
            f"{integrand.curvature[todo[0]].tolist()}, offsets {integrand.bend[todo[0]].tolist()} and linear "
            f"term {integrand.linear[todo[0]]:.6g}: please report these numbers"
        )
    complement = np.exp(np.minimum(log_value, 0.0))
    with np.errstate(divide="ignore"):
        log_delta = np.where(upper, np.log1p(-complement), np.minimum(log_value, 0.0))
        slope = np.where(upper, moment * complement / np.maximum(-np.expm1(log_value), 1e-300), -moment)
    return log_delta, slope, error


def _best_branch(
    integrand: _Integrand,
    saddle: Array,
    reach: Array,
    height: Array,
    upper: NDArray[np.bool_],
    bend: float,
    step: float,
) -> tuple[Array, Array, Array]:
    """Log integral, mean of z and halving error on the better of the branches bent right, left and not at all."""
    best = np.full(len(saddle), np.inf)
    log_value, moment = np.full(len(saddle), np.nan), np.full(len(saddle), np.nan)
    nodes = np.arange(0.0, _LAST_NODE + step / 2, step)
    weights = np.full(len(nodes), step / np.pi)
    weights[0] /= 2
    for angle in (bend, -bend, 0.0):
        todo = np.flatnonzero(best > _HALVING_TOLERANCE)
        if not len(todo):
            break
        part = _Integrand(integrand.curvature[todo], integrand.bend[todo], integrand.linear[todo], integrand.paths)
        arm = 1j * np.sinh(nodes) * np.cos(angle) + (np.cosh(nodes) - 1.0) * np.sin(angle)
        turn = np.cosh(nodes) * np.cos(angle) - 1j * np.sinh(nodes) * np.sin(angle)
        z = saddle[todo, None] + reach[todo, None] * arm
        # Far out on the wrong branch the integrand overflows; such a branch is never the best one.
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.exp(part.log(z, upper[todo]) - height[todo, None]) * (reach[todo, None] * turn)
            size = np.abs(values)
            size = np.where(np.isnan(size), np.inf, size)
            # Past the first negligible node the branch may be continued as one likes (the integrand is
            # analytic there and dies out on some continuation), so a later rise is not part of the integral.
            past = np.logical_or.accumulate(size < _NEGLIGIBLE * np.maximum.accumulate(size, axis=1), axis=1)
            values = np.where(past, 0.0, values)
            integral = values.real @ weights
            halved = 2.0 * (values[:, ::2].real @ weights[::2])
            first = (values * z).real @ weights
            halving = np.abs(integral - halved) / integral
        halving = np.where(np.isfinite(halving) & (integral > 0), halving, np.inf)
        better = halving < best[todo]
        where = todo[better]
        best[where] = halving[better]
        log_value[where] = height[where] + np.log(integral[better])
        moment[where] = first[better] / integral[better]
    return log_value, moment, best
