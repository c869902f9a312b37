"""Exact privacy of a dataset pair: delta at an epsilon, epsilon at a delta. No sampling anywhere.

Any pair gives a lower bound on the mechanism's epsilon with no sampling error; the supremum over pairs is the
mechanism's epsilon (THEORY section 6).
"""

import numpy as np

from .arrays import Array
from .contour import log_profile
from .errors import InputError, NumericalError
from .pair import PairLaw, QuadraticForm, quadratic_form

_ROOT_TOLERANCE = 1e-11
_MOST_STEPS = 60
_ORDERS, _STRIDE = 72, 8  # intervals between the orders of a Chernoff bound; how many are skipped at first
_HIGHEST = 14.0  # the logistic, or exponential, end of these orders


def check_delta(delta: float) -> None:
    """Raise `InputError` unless `delta` is a probability strictly between 0 and 1."""
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must be in (0, 1), got {delta!r}; it is a probability, not 1/delta")


def check_paths(paths: int) -> None:
    """Raise `InputError` unless `paths` is a whole number of at least 1."""
    if paths < 1 or int(paths) != paths:
        raise InputError(f"paths must be a whole number, at least 1, got {paths!r}")


def pair_delta(law: PairLaw, epsilon: float, *, paths: int = 1) -> Array:
    """``delta(epsilon) = E_D[(1 - exp(epsilon - LLR))_+]`` of pairs, in the direction D against D'.

    Args:
        law: Pairs of any shape.
        epsilon: At least 0.
        paths: Independent paths released, L.

    Returns:
        Array of the shape of the pairs, relative accuracy 1e-9.
    """
    if not epsilon >= 0:
        raise InputError(f"epsilon must be at least 0, got {epsilon!r}")
    check_paths(paths)
    form = quadratic_form(law)
    values = log_profile(form, np.full(len(form.curvature), float(epsilon)), paths=paths)
    return np.asarray(np.exp(values.log_delta).reshape(law.shape))


def pair_epsilon(law: PairLaw, delta: float, *, paths: int = 1) -> Array:
    """Smallest epsilon at which pairs have ``delta(epsilon) <= delta``, in the direction D against D'."""
    check_delta(delta)
    check_paths(paths)
    return np.asarray(solve_epsilon(quadratic_form(law), delta, paths=paths).reshape(law.shape))


def exact_epsilon(law: PairLaw, delta: float, *, paths: int = 1) -> Array:
    """Exact epsilon of pairs: the larger of the two directions. Shape of the pairs."""
    forward = pair_epsilon(law, delta, paths=paths)
    backward = pair_epsilon(law.swapped(), delta, paths=paths)
    return np.asarray(np.maximum(forward, backward))


def chernoff_epsilon(form: QuadraticForm, delta: float, *, paths: int) -> Array:
    """An upper bound on the epsilon of pairs ``(n,)`` from the pair's own Renyi curve.

    ``delta(eps) <= E[exp(a LLR)] exp(-a eps) a^a / (1 + a)^(1 + a)`` for every ``a > 0``; the best of a fixed
    grid is returned, so this is valid but not the tightest. The bound is a convex function of a over a, so it has a
    single valley: every eighth order, then both neighbours of the best at half the distance, find its floor.
    """
    curvature, shift = np.ascontiguousarray(form.curvature.T), np.ascontiguousarray(form.shift.T)
    bend = 0.5 * ((1.0 + curvature) * shift) ** 2
    constant = (0.5 * (1.0 + curvature) * shift**2 - 0.5 * np.log1p(curvature)).sum(axis=0)
    largest = curvature.max(axis=0)
    bounded = largest > 0
    end = np.divide(1.0, largest, out=np.ones_like(largest), where=bounded)
    lowest = -_HIGHEST - np.where(bounded, np.log(end), 0.0)  # a from 1e-6 up, wherever the interval ends

    def bound(order: Array) -> Array:
        growth = np.exp(lowest + (order / _ORDERS) * (_HIGHEST - lowest))
        a = np.where(bounded, end / (1.0 + 1.0 / growth), growth)
        reach = 1.0 - curvature * a
        log_moment = a * constant + (bend * a * a / reach).sum(axis=0) - 0.5 * np.log(reach[0] * reach[1])
        entropy = a * np.log(a) - (1.0 + a) * np.log1p(a)
        return np.asarray((paths * log_moment + entropy - np.log(delta)) / a)

    best, at = np.full(len(largest), np.inf), np.zeros(len(largest))
    steps = [np.full(len(largest), order) for order in range(0, _ORDERS + 1, _STRIDE)]
    for order in steps:
        value = bound(order)
        better = value < best
        best, at = np.where(better, value, best), np.where(better, order, at)
    distance = _STRIDE // 2
    while distance:
        middle = at
        for order in (middle - distance, middle + distance):
            order = order.clip(0, _ORDERS)
            value = bound(order)
            better = value < best
            best, at = np.where(better, value, best), np.where(better, order, at)
        distance //= 2
    return np.asarray(np.maximum(best, 0.0))


def solve_epsilon(form: QuadraticForm, delta: float, *, paths: int) -> Array:
    """Epsilon of pairs ``(n,)`` at `delta`, 0 where ``delta(0)`` is already below it.

    Newton's method on ``log delta``, from the Chernoff bound, guarded by a bracket: in epsilon the profile is
    log-concave for a shift and log-convex for a pair of variances, so that steps may come from either side.

    Raises:
        NumericalError: The root was not found to a relative accuracy of 1e-11.
    """
    target = np.log(delta)
    epsilon = chernoff_epsilon(form, delta, paths=paths)
    identical = ((form.curvature == 0) & (form.shift == 0)).all(axis=1)
    epsilon[identical] = 0.0
    low, high = np.zeros_like(epsilon), epsilon.copy()
    todo = np.flatnonzero(epsilon > 0)
    for _ in range(_MOST_STEPS):
        if not len(todo):
            return epsilon
        here = epsilon[todo]
        value = log_profile(form[todo], here, paths=paths)
        above = value.log_delta > target
        low[todo] = np.where(above, np.maximum(low[todo], here), low[todo])
        high[todo] = np.where(above, high[todo], np.minimum(high[todo], here))
        with np.errstate(divide="ignore", invalid="ignore"):
            step = here - (value.log_delta - target) / value.slope
        outside = ~((step >= low[todo]) & (step <= high[todo]))
        # At the lower edge the question is only whether delta(0) is below the target already.
        step = np.where(outside & ~(step <= 0), 0.5 * (low[todo] + high[todo]), np.maximum(step, low[todo]))
        done = np.abs(step - here) <= _ROOT_TOLERANCE * (1.0 + here)
        done |= (here == 0.0) & ~above
        epsilon[todo] = np.where((here == 0.0) & ~above, 0.0, step)
        todo = todo[~done]
    raise NumericalError(
        f"epsilon of {len(todo)} pair(s) at delta {delta} did not converge between {low[todo[0]]:.6g} and "
        f"{high[todo[0]]:.6g}: please report this pair"
    )
