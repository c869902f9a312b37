"""How likely an attack is to refute a claim, from the exact trade-off curve of the attacked pair.

The held-out trials choose a threshold with some luck: their choice is simulated on a grid of thresholds (counts only,
so the cost does not depend on the number of trials). For each threshold so chosen the probability that the others
refute is exact: a sum over the false alarms, for each of which enough true alarms refute.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ..mechanisms import Array, InputError, PairLaw, trade_off_at
from .binomial import proportion_upper
from .bounds import Split
from .bounds.thresholds import most_promising

_GRID = 161
_CHOICES = 100  # simulated
_BEYOND = 1e-10  # of the probability of a count
_MOST_TRIALS = 10**12
_MOST_SUMMED = 400  # counts of false alarms; more are summed in groups
_SPLIT = Split()


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of the optimal test of one pair at a falling grid of thresholds, ``(k,)`` each."""

    tpr: Array
    fpr: Array


def optimal_rates(law: PairLaw, *, reach: float, paths: int) -> Rates:
    """The trade-off curve at thresholds within `reach` of 0."""
    curve = trade_off_at(law, np.linspace(reach, -reach, _GRID), paths=paths)
    return Rates(np.maximum.accumulate(1.0 - curve.fnr), np.maximum.accumulate(curve.fpr))


def refuting_power(
    rates: Rates, claimed: float, *, trials: int, delta: float, significance: float, split: Split = _SPLIT
) -> float:
    """Probability that the Clopper-Pearson bound from `trials` a side exceeds `claimed`; about 2 % of noise."""
    return _power(rates, _choices(rates, trials, delta, significance, split), claimed, delta, significance)


@dataclass(frozen=True, eq=False)
class _Choices:
    """Thresholds that held-out trials chose, how often, and how many trials are left to evaluate them."""

    at: NDArray[np.intp]
    often: NDArray[np.intp]
    evaluated: int


def _choices(rates: Rates, trials: int, delta: float, significance: float, split: Split) -> _Choices:
    chosen, evaluated = split.sizes(trials)
    rng = np.random.default_rng(0)  # the same luck for every number of trials and every claim
    true, false = (_counts(rate, chosen, rng) for rate in (rates.tpr, rates.fpr))
    picked = most_promising(
        true, false, members=chosen, nonmembers=chosen, evaluated=evaluated, delta=delta, tail=significance / 2
    )
    return _Choices(*np.unique(picked, return_counts=True), evaluated)


def _power(rates: Rates, choices: _Choices, claimed: float, delta: float, significance: float) -> float:
    power = [
        _power_at(float(rates.tpr[i]), float(rates.fpr[i]), claimed, choices.evaluated, delta, significance / 2)
        for i in choices.at
    ]
    return float(np.average(power, weights=choices.often))


def _counts(rate: Array, trials: int, rng: np.random.Generator) -> Array:
    """How many of `trials` scores are above each threshold, ``(choices, k)``."""
    cells = np.diff(rate, prepend=0.0, append=1.0).clip(min=0.0)
    return np.asarray(np.cumsum(rng.multinomial(trials, cells / cells.sum(), size=_CHOICES), axis=1)[:, :-1], float)


def _power_at(tpr: float, fpr: float, claimed: float, evaluated: int, delta: float, tail: float) -> float:
    low, high = binom.ppf(_BEYOND, evaluated, fpr), binom.isf(_BEYOND, evaluated, fpr)
    alarms = np.unique(np.linspace(max(low, 0.0), high, min(int(high - max(low, 0.0)) + 1, _MOST_SUMMED)).round())
    weight = np.diff(binom.cdf(alarms, evaluated, fpr), prepend=0.0)  # of the last of each group: errs on the low side
    fpr_high = proportion_upper(alarms, evaluated, tail)
    odds = float(np.exp(min(claimed, 700.0)))
    # What the lower limit of the true-positive rate must exceed, in either direction.
    need = np.minimum(odds * fpr_high + delta, 1.0 - (1.0 - fpr_high - delta) / odds)
    # The limit exceeds it when so many hits have a probability below the tail there.
    enough = np.where(need < 1.0, binom.isf(tail, evaluated, np.clip(need, 0.0, 1.0)) + 1.0, np.inf)
    return min(float(weight @ binom.sf(enough - 1.0, evaluated, tpr)), 1.0)


def trials_to_refute(
    rates: Rates, claimed: float, *, power: float, delta: float, significance: float, split: Split = _SPLIT
) -> int | None:
    """Fewest trials a side, to a per cent, with which a claim is refuted with probability `power`; None: too many.

    Raises:
        InputError: The power is no probability.
    """
    if not 0.0 < power < 1.0:
        raise InputError(f"power must be in (0, 1), got {power!r}")

    def enough(trials: int) -> bool:
        found = refuting_power(rates, claimed, trials=trials, delta=delta, significance=significance, split=split)
        return found >= power

    high = 16
    while not enough(high):
        high *= 4
        if high > _MOST_TRIALS:
            return None
    low = high // 4
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def detectable_factor(
    rates: Rates,
    exact: float,
    *,
    trials: int,
    power: float,
    delta: float,
    significance: float,
    split: Split = _SPLIT,
) -> float | None:
    """Smallest factor by which a claim below `exact` may be too small and still be refuted; None: no claim is."""

    choices = _choices(rates, trials, delta, significance, split)

    def refuted(claimed: float) -> bool:
        return _power(rates, choices, claimed, delta, significance) >= power

    if not refuted(0.0):
        return None
    low, high = 0.0, exact
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return exact / low if low > 0 else None
