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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .errors import NumericalError
from .pair import QuadraticForm

# (bend in radians, step): a smaller bend follows integrands with two widely separated scales, and needs a
# smaller step for the same convergence, exp(-2 pi bend / step).
_LEVELS = tuple((np.pi / 8 / 2**level, 0.1 / 2**level) for level in range(5))
# Of parts of a branch, in units where it grows like exp(node); the integrand falls at least like z^-3. Most integrands
# are negligible beyond the first; the next nodes are for those that are not.
_ENDS = (6.0, 8.0, 20.0)
_HALVING_TOLERANCE = 1e-6  # every other node; the full rule is then right to about its square
_AGREEMENT_TOLERANCE = 1e-9  # between two levels, in log delta, where halving does not converge as fast
_NEGLIGIBLE = 1e-18
_VANISHING = -1e4  # in log delta; beneath it rounding of the exponent drowns the digits and nothing needs them
_LARGE = -0.3  # saddle-point log delta, but for a factor of sqrt(2 pi), from which 1 - delta may be the better one
_BISECTIONS, _NEWTON_STEPS = 10, 2  # from 600 in t to 0.3, and on to 1e-3
_CHUNK = 512


@dataclass(frozen=True, eq=False)
class _Integrand:
    """``exp(linear z) prod_j (1 - k_j z)^(-L/2) exp(L b_j z^2 / 2 (1 - k_j z)) / (+-z (z + 1))``.

    ``k`` and ``b`` are of shape ``(2, pairs)``.
    """

    curvature: Array
    bend: Array
    linear: Array
    paths: float

    def __getitem__(self, index: Any) -> "_Integrand":
        """The integrands of some of the pairs."""
        return _Integrand(self.curvature[:, index], self.bend[:, index], self.linear[index], self.paths)

    def over(self, height: Array, z: NDArray[np.complex128], upper: NDArray[np.bool_]) -> NDArray[np.complex128]:
        """The integrand over ``exp(height)``; `z` ``(pairs, nodes)``; `upper` pairs use the strip left of 0."""
        value = z * self.linear[:, None]
        value -= height[:, None]
        real, imaginary = value.real, value.imag
        half_square = (0.5 * self.paths) * z * z
        for k, b in zip(self.curvature[:, :, None], self.bend[:, :, None], strict=True):
            reach = 1.0 - k * z
            value += b * half_square / reach
            # The logarithm in real numbers: numpy's of complex ones takes ten times as long.
            real -= (0.25 * self.paths) * np.log(np.square(reach.real) + np.square(reach.imag))
            imaginary -= (0.5 * self.paths) * np.arctan2(reach.imag, reach.real)
        np.exp(value, out=value)
        value /= z * np.where(upper, -1.0, 1.0)[:, None]
        value /= 1.0 + z
        return np.asarray(value)

    def height(self, z: Array) -> Array:
        """Log of the integrand on the real axis, ``(pairs,)``."""
        value = z * self.linear - np.log(np.abs(z)) - np.log1p(z)
        for k, b in zip(self.curvature, self.bend, strict=True):
            reach = 1.0 - k * z
            value += self.paths * (0.5 * b * z * z / reach - 0.5 * np.log(reach))
        return np.asarray(value)

    def slope(self, z: Array) -> Array:
        """First derivative of that log; increasing in z."""
        value = self.linear - 1.0 / z - 1.0 / (1.0 + z)
        for k, b in zip(self.curvature, self.bend, strict=True):
            reach = 1.0 - k * z
            value += (0.5 * self.paths) * (k + b * z * (1.0 + reach) / reach) / reach
        return np.asarray(value)

    def curvature_at(self, z: Array) -> Array:
        """Second derivative of that log; positive."""
        value = 1.0 / z**2 + 1.0 / (1.0 + z) ** 2
        for k, b in zip(self.curvature, self.bend, strict=True):
            reach = 1.0 - k * z
            value += self.paths * (0.5 * (k / reach) ** 2 + b / reach**3)
        return np.asarray(value)

    def right(self) -> Array:
        """The minimum of the integrand in ``(0, 1 / max k)``: logistic in t, or exponential where there is no end."""
        largest = self.curvature.max(axis=0)
        bounded = largest > 0
        inverse = np.maximum(largest, 0.0)
        end = np.divide(1.0, largest, out=np.ones_like(largest), where=bounded)

        def place(t: Array) -> tuple[Array, Array]:
            growth = np.exp(t)
            z = np.where(bounded, end / (1.0 + 1.0 / growth), growth)
            return z, z * (1.0 - z * inverse)

        return self._saddle(place, -300.0, np.where(bounded, 36.0, 300.0))

    def left(self) -> Array:
        """The minimum of the integrand in ``(-1, 0)``."""

        def place(t: Array) -> tuple[Array, Array]:
            z = -1.0 / (1.0 + np.exp(t))
            return z, -z * (1.0 + z)

        return self._saddle(place, -36.0, np.full_like(self.linear, 300.0))

    def _saddle(self, place: Callable[[Array], tuple[Array, Array]], low: float, high: Array) -> Array:
        """Where the slope is 0, to about 1e-3 in t; the integral does not depend on where the branch crosses.

        Args:
            place: z and its derivative at t.
            low: Least t.
            high: Largest t of each pair.
        """
        below, above = np.full_like(high, low), high
        for _ in range(_BISECTIONS):
            middle = 0.5 * (below + above)
            beyond = self.slope(place(middle)[0]) > 0
            below, above = np.where(beyond, below, middle), np.where(beyond, middle, above)
        t = 0.5 * (below + above)
        for _ in range(_NEWTON_STEPS):
            z, growth = place(t)
            t = np.clip(t - self.slope(z) / np.maximum(self.curvature_at(z) * growth, 1e-300), below, above)
        return place(t)[0]


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
    cuts = [slice(start, start + _CHUNK) for start in range(0, len(epsilon), _CHUNK)]
    parts = [_chunk(form[cut], epsilon[cut], paths) for cut in cuts]
    if not parts:
        return ProfileValue(np.empty(0), np.empty(0), np.empty(0))
    return ProfileValue(
        np.concatenate([part.log_delta for part in parts]),
        np.concatenate([part.slope for part in parts]),
        np.concatenate([part.relative_error for part in parts]),
    )


def _chunk(form: QuadraticForm, epsilon: Array, paths: int) -> ProfileValue:
    curvature, shift = np.ascontiguousarray(form.curvature.T), np.ascontiguousarray(form.shift.T)
    bend = ((1.0 + curvature) * shift) ** 2
    constant = 0.5 * (1.0 + curvature) * shift**2 - 0.5 * np.log1p(curvature)
    linear = paths * (constant[0] + constant[1]) - epsilon
    # No positive curvature and no free linear term: the ratio has a largest value, and no mass above it.
    free = (curvature == 0) & (bend > 0)
    flat = np.where(curvature == 0, 1.0, curvature)
    top = linear - paths * (0.5 * bend / flat).sum(axis=0)
    nothing = (curvature <= 0).all(axis=0) & ~free.any(axis=0) & (top <= 0)

    log_delta = np.full(len(epsilon), -np.inf)
    slope, error = np.zeros(len(epsilon)), np.zeros(len(epsilon))
    live = np.flatnonzero(~nothing)
    if len(live):
        integrand = _Integrand(curvature[:, live], bend[:, live], linear[live], float(paths))
        log_delta[live], slope[live], error[live] = _integrate(integrand)
    return ProfileValue(log_delta, slope, error)


def _integrate(integrand: _Integrand) -> tuple[Array, Array, Array]:
    pairs = len(integrand.linear)
    saddle = integrand.right()
    height, reach = integrand.height(saddle), 1.0 / np.sqrt(integrand.curvature_at(saddle))
    # The saddle-point value of delta; where it is small the left strip, of 1 - delta, is the worse one.
    large = np.flatnonzero(height + np.log(reach) > _LARGE)
    upper = np.zeros(pairs, dtype=bool)
    if len(large):
        part = integrand[large]
        left = part.left()
        lower = part.height(left) < height[large]
        where = large[lower]
        upper[where] = True
        saddle[where], height[where] = left[lower], part.height(left)[lower]
        reach[where] = 1.0 / np.sqrt(part.curvature_at(left)[lower])

    log_value = np.full(pairs, np.nan)  # log of delta, or of 1 - delta in the upper strip
    moment, error = np.full(pairs, np.nan), np.full(pairs, np.inf)
    vanishing = height < _VANISHING
    log_value[vanishing], moment[vanishing], error[vanishing] = height[vanishing], saddle[vanishing], 1.0
    todo = np.flatnonzero(~vanishing)
    for bend, step in _LEVELS:
        if not len(todo):
            break
        value, first, halving = _best_branch(
            integrand[todo], saddle[todo], reach[todo], height[todo], upper[todo], bend, step
        )
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
    for angle in (bend, -bend, 0.0):
        todo = np.flatnonzero(best > _HALVING_TOLERANCE)
        if not len(todo):
            break
        # Far out on the wrong branch the integrand overflows; such a branch is never the best one.
        with np.errstate(over="ignore", invalid="ignore"):
            integral, halved, first = _sums(
                integrand[todo], saddle[todo], reach[todo], height[todo], upper[todo], angle, step
            )
            halving = np.abs(integral - halved) / integral
        halving = np.where(np.isfinite(halving) & (integral > 0), halving, np.inf)
        better = halving < best[todo]
        where = todo[better]
        best[where] = halving[better]
        log_value[where] = height[where] + np.log(integral[better])
        moment[where] = first[better] / integral[better]
    return log_value, moment, best


def _sums(
    integrand: _Integrand,
    saddle: Array,
    reach: Array,
    height: Array,
    upper: NDArray[np.bool_],
    angle: float,
    step: float,
) -> Array:
    """The integral on one branch over ``exp(height)``, the same by every other node, and that of z; ``(3, pairs)``.

    Past the first negligible node the branch may be continued as one likes (the integrand is analytic there and dies
    out on some continuation), so a later rise is not part of the integral, and the nodes beyond are not looked at.
    """
    nodes = np.arange(0.0, _ENDS[-1] + step / 2, step)
    weights = np.full((2, len(nodes)), step / np.pi)
    weights[:, 0] /= 2
    weights[1] *= np.where(np.arange(len(nodes)) % 2 == 0, 2.0, 0.0)
    arm = 1j * np.sinh(nodes) * np.cos(angle) + (np.cosh(nodes) - 1.0) * np.sin(angle)
    turn = np.cosh(nodes) * np.cos(angle) - 1j * np.sinh(nodes) * np.sin(angle)
    sums = np.zeros((3, len(saddle)))
    peak = np.zeros((len(saddle), 1))
    todo = np.arange(len(saddle))
    cuts = [0, *(round(end / step) for end in _ENDS[:-1]), len(nodes)]
    for part in map(slice, cuts[:-1], cuts[1:]):
        z = saddle[todo, None] + reach[todo, None] * arm[part]
        values = integrand[todo].over(height[todo], z, upper[todo])
        values *= reach[todo, None] * turn[part]
        size = np.abs(values)
        size[np.isnan(size)] = np.inf
        highest = np.maximum(np.maximum.accumulate(size, axis=1), peak[todo])
        past = np.logical_or.accumulate(size < _NEGLIGIBLE * highest, axis=1)
        values[past] = 0.0
        sums[:2, todo] += weights[:, part] @ values.real.T
        sums[2, todo] += (values * z).real @ weights[0, part]
        peak[todo] = highest[:, -1:]
        todo = todo[~past[:, -1]]
        if not len(todo):
            break
    return sums
