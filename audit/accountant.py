"""From Renyi differential privacy to (epsilon, delta) (THEORY section 4)."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ..mechanisms import Array, Mechanism, NumericalError, Regime, RenyiCurve, check_delta

# Any order gives a valid bound, so the search only has to be good, not safe. The grid is on the logit of the
# order within its admissible interval, or on its logarithm where the interval has no end. It stops 1e-13 short of
# the end, so that a curve's own rounding does not carry it across.
_GRID = np.linspace(-20.0, 30.0, 501)
_ROUND_UP = 1e-12  # relative; covers the rounding of the formulas


@dataclass(frozen=True)
class Certificate:
    """The mechanism is ``(epsilon, delta)``-differentially private under replace-one.

    Attributes:
        epsilon: Upper bound, rounded up; infinite where no order gives a finite one.
        delta: Probability in (0, 1).
        order: The Renyi order alpha that gave it; None where no order did.
        regime: Name of the premises about the data.
        method: How it was derived.
    """

    epsilon: float
    delta: float
    order: float | None
    regime: str
    method: str


def renyi_epsilon(curve: RenyiCurve, delta: float, *, paths: int = 1) -> tuple[float, float | None]:
    """Smallest epsilon that a Renyi curve gives at `delta`, and its order.

    ``eps = L R(alpha) + log((alpha-1)/alpha) - (log delta + log alpha)/(alpha-1)``, floored at 0, minimised over
    the open interval of admissible orders.

    Raises:
        NumericalError: The curve is NaN or negative somewhere: a broken curve proves nothing.
    """
    check_delta(delta)

    def epsilon_at(t: Array) -> Array:
        grow = np.exp(t)
        excess = grow if np.isinf(curve.excess_limit) else curve.excess_limit * grow / (1.0 + grow)
        divergence = curve.divergence(excess)
        # Rounding may leave a zero divergence a hair below 0; anything more is a broken curve.
        if not np.all(divergence >= -1e-9):
            raise NumericalError("a Renyi divergence is negative or NaN: the curve is broken and proves nothing")
        alpha = 1.0 + excess
        conversion = np.log(excess / alpha) - (np.log(delta) + np.log(alpha)) / excess
        return np.asarray(paths * np.maximum(divergence, 0.0) + conversion)

    with np.errstate(over="ignore", divide="ignore"):
        values = epsilon_at(_GRID)
        best = int(np.argmin(values))
        if not np.isfinite(values[best]):
            return float("inf"), None
        low, high = _GRID[max(best - 1, 0)], _GRID[min(best + 1, len(_GRID) - 1)]
        found = minimize_scalar(
            lambda t: float(epsilon_at(np.array([t]))[0]),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-9},
        )
    t = float(found.x) if found.fun < values[best] else float(_GRID[best])
    epsilon = min(float(found.fun), float(values[best]))
    grow = float(np.exp(t))
    excess = grow if np.isinf(curve.excess_limit) else curve.excess_limit * grow / (1.0 + grow)
    return max(epsilon, 0.0) * (1.0 + _ROUND_UP), 1.0 + excess


def certify(mechanism: Mechanism, regime: Regime, delta: float) -> Certificate:
    """The Renyi certificate of a mechanism under a regime's premises."""
    curve = mechanism.renyi(regime.sensitivity(mechanism.release))
    epsilon, order = renyi_epsilon(curve, delta, paths=mechanism.release.paths)
    return Certificate(epsilon, delta, order, regime.name, "renyi")
