"""The bound that may fail the audit of a black box: exact binomial limits on both rates (THEORY section 9)."""

import numpy as np

from ...attacks import Scores
from ..binomial import proportion_lower, proportion_upper
from .bound import EpsilonBound, Kind, check_design, direction_of
from .thresholds import Split, Threshold, epsilon_from_rates

_SPLIT = Split()


def clopper_pearson_bound(
    scores: Scores, *, delta: float, significance: float, threshold: Threshold = _SPLIT
) -> EpsilonBound:
    """Lower confidence bound on epsilon; wrong with probability at most `significance`.

    Of each threshold's share half goes to the true-positive rate, half to the false-positive rate, and both
    directions follow from the same two limits, so nothing more is spent.
    """
    check_design(delta, significance)
    best, direction, evaluated = 0.0, "none", 0
    for tally in threshold.tallies(scores, delta=delta, significance=significance):
        tail = tally.significance / 2
        tpr_low = proportion_lower(np.array(tally.true), tally.members, tail)
        fpr_high = proportion_upper(np.array(tally.false), tally.nonmembers, tail)
        forward, backward = map(float, epsilon_from_rates(tpr_low, fpr_high, delta))
        evaluated = min(tally.members, tally.nonmembers)
        if max(forward, backward) > best:
            best, direction = max(forward, backward), direction_of(forward, backward)
    return EpsilonBound(
        best, delta, significance, f"clopper_pearson_{threshold.name}", direction, Kind.CONFIDENCE, evaluated
    )


def largest_provable_epsilon(*, evaluated: int, delta: float, significance: float) -> float:
    """The most that `evaluated` trials a side can prove: all members right and no false alarm.

    ``log((q - delta) / (1 - q))`` with ``q = (significance / 2)^(1 / evaluated)``, floored at 0; `significance` is
    the threshold's share.
    """
    log_q = np.log(significance / 2) / evaluated
    gain, miss = np.exp(log_q) - delta, -np.expm1(log_q)
    return float(np.log(gain / miss)) if gain > miss else 0.0
