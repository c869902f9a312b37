"""From Renyi differential privacy to (epsilon, delta) and back (THEORY section 4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..mechanisms import (
    Array,
    HasDominatingPair,
    InputError,
    Mechanism,
    Moments,
    NumericalError,
    PostProcessesPaths,
    QuadraticForm,
    Regime,
    RenyiCurve,
    Tuning,
    check_delta,
    covariance_leakage_variances,
    log_profile,
    solve_epsilon,
)
from ..mechanisms.foreign import stated_by
from .structured import Supremum, structured_supremum

# Any order gives a valid bound, so the search only has to be good, not safe. It runs on the logit of the order
# within its admissible interval, or on its logarithm where the interval has no end, and stops 1e-13 short of the end
# so that a curve's own rounding does not carry it across.
_GRID = np.linspace(-20.0, 30.0, 101)
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
_GOLDEN_STEPS = 44  # narrow the grid's step to 1e-9
_ROUND_UP = 1e-12  # relative; covers the rounding of the formulas
_PROFILE_ERROR = 1e-8  # relative, above the accuracy a profile promises; taken off delta before it is inverted
_MOST_PATHS = 10**12


@dataclass(frozen=True)
class Certificate:
    """The mechanism is ``(epsilon, delta)``-differentially private under replace-one.

    Attributes:
        epsilon: Upper bound, rounded up; infinite where no order gives a finite one.
        delta: Probability in (0, 1).
        order: The Renyi order alpha that gave it; None where no order did.
        regime: Name of the premises about the data.
        method: "renyi", "dominating_pair" or "structured"; "none" where nothing is certified.
        search: How the structured supremum was found; None for the others.
    """

    epsilon: float
    delta: float
    order: float | None
    regime: str
    method: str
    search: Supremum | None = None


def renyi_epsilon(curve: RenyiCurve, delta: float, *, paths: Array | int = 1) -> tuple[Array, Array]:
    """Smallest epsilon that a Renyi curve gives at `delta`, and its order; arrays of the curve's grid.

    ``eps = L R(alpha) + log((alpha-1)/alpha) - (log delta + log alpha)/(alpha-1)``, floored at 0, minimised over
    the open interval of admissible orders. The order is NaN where no order gives a finite epsilon.

    Raises:
        NumericalError: The curve is NaN or negative somewhere: a broken curve proves nothing.
    """
    check_delta(delta)

    def epsilon_at(excess: Array, divergence: Array) -> Array:
        alpha = 1.0 + excess
        return np.asarray(paths * divergence + np.log(excess / alpha) - (np.log(delta) + np.log(alpha)) / excess)

    epsilon, excess = _minimise(curve, epsilon_at, np.shape(paths))
    order = np.where(np.isfinite(epsilon), 1.0 + excess, np.nan)
    return np.maximum(epsilon, 0.0) * (1.0 + _ROUND_UP), order


def renyi_delta(curve: RenyiCurve, epsilon: float, *, paths: Array | int = 1) -> Array:
    """Smallest delta that a Renyi curve gives at `epsilon`, at most 1; the inverse of `renyi_epsilon`."""
    if not epsilon >= 0:
        raise InputError(f"epsilon must be at least 0, got {epsilon!r}")

    def log_delta_at(excess: Array, divergence: Array) -> Array:
        alpha = 1.0 + excess
        return np.asarray(excess * (paths * divergence - epsilon + np.log(excess / alpha)) - np.log(alpha))

    log_delta, _ = _minimise(curve, log_delta_at, np.shape(paths))
    return np.minimum(np.exp(np.minimum(log_delta, 0.0)) * (1.0 + _ROUND_UP), 1.0)


def _minimise(
    curve: RenyiCurve, objective: Callable[[Array, Array], Array], shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """Smallest value of an objective of (alpha - 1, R) and where it lies: grid, then golden section, all at once."""
    limit = np.asarray(curve.excess_limit, dtype=np.float64)
    shape = np.broadcast_shapes(shape, limit.shape)

    def excess_of(t: Array) -> Array:
        bounded = np.where(np.isinf(limit), 1.0, limit) / (1.0 + np.exp(-t))
        return np.asarray(np.where(np.isinf(limit), np.exp(t), bounded))

    def value_at(t: Array) -> Array:
        excess = excess_of(t)
        divergence = curve.divergence(excess)
        # Rounding may leave a zero divergence a hair below 0; anything more is a broken curve.
        if not np.all(divergence >= -1e-9):
            raise NumericalError("a Renyi divergence is negative or NaN: the curve is broken and proves nothing")
        return np.broadcast_to(objective(excess, np.maximum(divergence, 0.0)), np.broadcast_shapes(np.shape(t), shape))

    with np.errstate(over="ignore", divide="ignore"):
        best_value, best_t = np.full(shape, np.inf), np.zeros(shape)
        for t in _GRID:
            value = value_at(np.broadcast_to(t, shape))
            best_t = np.where(value < best_value, t, best_t)
            best_value = np.minimum(value, best_value)
        low, high = best_t - (_GRID[1] - _GRID[0]), np.minimum(best_t + (_GRID[1] - _GRID[0]), _GRID[-1])
        inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
        values = [value_at(t) for t in inner]
        for _ in range(_GOLDEN_STEPS):
            left = values[0] <= values[1]
            low, high = np.where(left, low, inner[0]), np.where(left, inner[1], high)
            fresh = np.where(left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
            value = value_at(fresh)
            inner = [np.where(left, fresh, inner[1]), np.where(left, inner[0], fresh)]
            values = [np.where(left, value, values[1]), np.where(left, values[0], value)]
        for t, value in zip(inner, values, strict=True):
            best_t = np.where(value < best_value, t, best_t)
            best_value = np.minimum(value, best_value)
    return best_value, excess_of(best_t)


def closed_certificates(mechanism: Mechanism, regime: Regime, delta: float) -> list[Certificate]:
    """Certificates that need no search: the Renyi theorem, and a lossless one where there is one.

    Of a deployed model they are those of the mechanism that it is stated to be; of a black box there is one, infinite.
    """
    stated = stated_by(mechanism)
    if stated is None:
        return [Certificate(float("inf"), delta, None, regime.name, "none")]
    mechanism = stated
    sensitivity, paths = regime.sensitivity(mechanism.release), mechanism.release.paths
    epsilon, order = renyi_epsilon(mechanism.renyi(sensitivity), delta, paths=paths)
    best_order = float(order) if np.isfinite(order) else None
    found = [Certificate(float(epsilon), delta, best_order, regime.name, "renyi")]
    if isinstance(mechanism, HasDominatingPair):
        form = mechanism.dominating_pair(sensitivity)
        safe = solve_epsilon(form, delta * (1.0 - _PROFILE_ERROR), paths=paths)
        value = float(safe[0]) * (1.0 + _ROUND_UP) + 1e-10
        found.append(Certificate(value, delta, None, regime.name, "dominating_pair"))
    return found


def certificates(mechanism: Mechanism, regime: Regime, delta: float) -> list[Certificate]:
    """Every certificate under a regime's premises, the structured supremum included where there is one.

    Where its searches do not agree the structured one is infinite, and says so.
    """
    found, stated = closed_certificates(mechanism, regime, delta), stated_by(mechanism)
    if stated is not None and isinstance(stated, PostProcessesPaths):
        exact = stated.exact_paths()
        search = structured_supremum(regime.pair_set(exact), delta, paths=exact.paths)
        found.append(Certificate(search.epsilon, delta, None, regime.name, "structured", search))
    return found


def certify(mechanism: Mechanism, regime: Regime, delta: float) -> Certificate:
    """The smallest certificate, which may be a numerical supremum."""
    return smallest(certificates(mechanism, regime, delta))


def certify_closed(mechanism: Mechanism, regime: Regime, delta: float) -> Certificate:
    """The smallest certificate that needs no search."""
    return smallest(closed_certificates(mechanism, regime, delta))


def smallest(found: Sequence[Certificate]) -> Certificate:
    """The certificate with the smallest epsilon; of equal ones the first."""
    return min(found, key=lambda certificate: certificate.epsilon)


def certified_delta(mechanism: Mechanism, regime: Regime, epsilon: float) -> float:
    """Smallest delta that a certificate without a search gives at `epsilon`."""
    sensitivity, paths = regime.sensitivity(mechanism.release), mechanism.release.paths
    delta = float(renyi_delta(mechanism.renyi(sensitivity), epsilon, paths=paths))
    if isinstance(mechanism, HasDominatingPair):
        form = mechanism.dominating_pair(sensitivity)
        log_delta = float(log_profile(form, np.array([epsilon]), paths=paths).log_delta[0])
        delta = min(delta, float(np.exp(log_delta)) * (1.0 + _PROFILE_ERROR))
    return delta


def epsilon_grid(
    mechanism: Mechanism, regime: Regime, delta: float, *, tuning: Tuning, paths: Array | int = 1
) -> tuple[Array, Array]:
    """Renyi certificates of one of our own mechanisms on a grid of parameters, in one call; epsilon and order.

    Args:
        mechanism: ExactPosterior, Noised or Centred; its other parameters hold for the whole grid.
        regime: Premises.
        delta: Probability.
        tuning: Ridges, scales and prior noises that broadcast.
        paths: Numbers of paths, broadcast with them.
    """
    sensitivity = regime.sensitivity(mechanism.release, ridge=tuning.ridge)
    curve = mechanism.renyi(sensitivity, tuning)  # type: ignore[call-arg]
    shape = np.broadcast_shapes(*map(np.shape, (tuning.ridge, tuning.scale, tuning.prior_noise, paths)))
    epsilon, order = renyi_epsilon(curve, delta, paths=np.broadcast_to(paths, shape))
    return epsilon, order


def most_paths(certified: Callable[[int], float], budget: float) -> int:
    """L_max: the most paths whose certified epsilon is within `budget`; 0 when one is too many.

    Args:
        certified: Epsilon of so many paths, which does not decrease.
        budget: Epsilon.
    """
    if not budget >= 0:
        raise InputError(f"the budget must be at least 0, got {budget!r}")
    if certified(1) > budget:
        return 0
    low, high = 1, 2
    while high < _MOST_PATHS and certified(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if certified(middle) <= budget else (low, middle)
    return low


def smallest_value(certified: Callable[[float], float], budget: float, candidates: Array) -> float | None:
    """Smallest parameter whose certified epsilon is within `budget`; None when no candidate's is: infeasible.

    The certificate need not be monotone in the parameter (with prior noise a larger scale can cost more): the first
    feasible candidate is found by looking at all before it, and only the step up to it is bisected. What is returned
    was itself certified.
    """
    if not budget >= 0:
        raise InputError(f"the budget must be at least 0, got {budget!r}")
    below = None
    for candidate in candidates:
        if certified(float(candidate)) <= budget:
            break
        below = float(candidate)
    else:
        return None
    good = float(candidate)
    if below is None:
        return good
    while good - below > 1e-9 * good:
        middle = 0.5 * (below + good)
        if certified(middle) <= budget:
            good = middle
        else:
            below = middle
    return good


def covariance_lower_bound(mechanism: Mechanism, delta: float) -> float:
    """An epsilon that no tuning of the mean avoids: two datasets whose paths differ in variance (THEORY section 7)."""
    variances = covariance_leakage_variances(mechanism.release)
    try:
        law = mechanism.value_law(Moments(np.zeros(2), np.array(variances)))
    except InputError:  # no path is released whose variance could tell
        return 0.0
    ratio = float(law.variance[0] / law.variance[1])
    form = QuadraticForm(np.array([[ratio - 1.0, 0.0], [1.0 / ratio - 1.0, 0.0]]), np.zeros((2, 2)))
    # A lower bound: the profile's error is added to delta, so that epsilon is rounded down.
    target = min(delta * (1.0 + _PROFILE_ERROR), 0.999999)
    return float(solve_epsilon(form, target, paths=mechanism.release.paths).max())
