"""Trade-off curve of a dataset pair: the smallest false-negative rate at each false-positive rate.

The optimal test thresholds the log-likelihood ratio at t. Both of its rates follow from the exact profile and its
slope: ``delta'(t) = -e^t P_D'(LLR > t)``, hence ``FPR = -e^-t delta'(t)`` and ``TPR = delta(t) + e^t FPR``. Below
``t = 0`` the same of the other direction serves.
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .contour import log_profile
from .errors import InputError
from .pair import PairLaw, QuadraticForm, quadratic_form
from .profile import check_paths

_STEPS = 80


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Rates of the optimal test at thresholds on the log-likelihood ratio.

    Attributes:
        threshold: ``(k,)``.
        fpr: Probability under D' of a ratio above the threshold.
        fnr: Probability under D of a ratio at or below it.
        error: Stated bound on the absolute error of either rate, from the profile's measured accuracy.
    """

    threshold: Array
    fpr: Array
    fnr: Array
    error: Array


def trade_off_at(law: PairLaw, threshold: Array, *, paths: int = 1) -> TradeOff:
    """Rates of one pair's optimal test at thresholds ``(k,)``, for L paths; noised pairs included."""
    check_paths(paths)
    threshold = np.asarray(threshold, dtype=np.float64)
    forward, backward = quadratic_form(law), quadratic_form(law.swapped())
    if len(forward.curvature) != 1:
        raise InputError(f"a trade-off curve is of one pair, got {len(forward.curvature)}")
    above = threshold >= 0
    fpr, fnr, error = (np.empty(len(threshold)) for _ in range(3))
    for form, side, chosen in ((forward, 1.0, above), (backward, -1.0, ~above)):
        at = side * threshold[chosen]
        if not len(at):
            continue
        many = QuadraticForm(np.repeat(form.curvature, len(at), axis=0), np.repeat(form.shift, len(at), axis=0))
        value = log_profile(many, at, paths=paths)
        delta = np.exp(value.log_delta)
        with np.errstate(invalid="ignore"):
            first = np.where(delta > 0, delta * (1.0 - value.slope), 0.0)  # under the side's own dataset
            second = np.where(delta > 0, -np.exp(-at) * delta * value.slope, 0.0)  # under the other
        # Above 0: own = D, TPR = first, FPR = second. Below: own = D', TNR = first, FNR = second.
        fpr[chosen], fnr[chosen] = (second, 1.0 - first) if side > 0 else (1.0 - first, second)
        error[chosen] = 1e-9 * np.maximum(first, second) + 1e-15
    return TradeOff(threshold, fpr.clip(0.0, 1.0), fnr.clip(0.0, 1.0), error)


def smallest_fnr(law: PairLaw, fpr: float, *, paths: int = 1) -> float:
    """Smallest false-negative rate at a false-positive rate, by bisection on the threshold; errs on the low side."""
    if not 0.0 < fpr < 1.0:
        raise InputError(f"fpr must be in (0, 1), got {fpr!r}")
    high = 1.0
    while trade_off_at(law, np.array([high]), paths=paths).fpr[0] > fpr and high < 1e6:
        high *= 2.0
    low = -1.0
    while trade_off_at(law, np.array([low]), paths=paths).fpr[0] < fpr and low > -1e6:
        low *= 2.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if trade_off_at(law, np.array([middle]), paths=paths).fpr[0] > fpr:
            low = middle
        else:
            high = middle
        if high - low < 1e-13 * max(1.0, abs(high)):
            break
    found = trade_off_at(law, np.array([low]), paths=paths)  # the threshold with the larger fpr: the smaller fnr
    return max(float(found.fnr[0] - found.error[0]), 0.0)
