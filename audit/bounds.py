"""Lower confidence bounds on epsilon from the scores of an attack (THEORY section 9)."""

from dataclasses import dataclass

import numpy as np

from ..attacks import Scores
from ..mechanisms import Array, InputError
from .binomial import proportion_lower, proportion_upper
from .roc import Roc, roc

_CAUTION = 0.01  # tail of the limits by which a threshold is chosen; measured best from 20,000 to 1,000,000 trials


@dataclass(frozen=True)
class EpsilonBound:
    """The true epsilon at `delta` is below `value` with probability at most `significance`.

    Attributes:
        value: Lower bound, at least 0; 0 says nothing was shown.
        delta: The delta it is for.
        significance: Probability with which the bound is wrong.
        method: How it was obtained.
        direction: Which inequality gave it: "TPR/FPR", "TNR/FNR", or "none" when the value is 0.
        evaluated: Scores a side it rests on.
    """

    value: float
    delta: float
    significance: float
    method: str
    direction: str
    evaluated: int


@dataclass(frozen=True)
class Split:
    """Choose the threshold on the first `fraction` of the trials, evaluate it on the others.

    Less than a third is enough to find a good threshold; the rest decides how small a rate can be shown.
    """

    fraction: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction < 1.0:
            raise InputError(f"the fraction of a split must be in (0, 1), got {self.fraction!r}")

    def sizes(self, trials: int) -> tuple[int, int]:
        """Trials that choose and trials that are evaluated; at least one each.

        Raises:
            InputError: Fewer than two trials.
        """
        if trials < 2:
            raise InputError(f"trials must be at least 2, got {trials}: one to choose a threshold, one to evaluate it")
        chosen = min(max(1, round(self.fraction * trials)), trials - 1)
        return chosen, trials - chosen


def epsilon_from_rates(tpr_low: Array, fpr_high: Array, delta: float) -> tuple[Array, Array]:
    """Epsilon that two limits prove, in both directions; never negative or NaN.

    ``(eps, delta)``-DP implies ``TPR <= e^eps FPR + delta`` and ``1 - FPR <= e^eps (1 - TPR) + delta``, and the same
    two limits, on TPR from below and on FPR from above, serve both.
    """
    return _log_ratio(tpr_low - delta, fpr_high), _log_ratio(1.0 - fpr_high - delta, 1.0 - tpr_low)


def _log_ratio(numerator: Array, denominator: Array) -> Array:
    ratio = np.zeros(np.broadcast_shapes(np.shape(numerator), np.shape(denominator)))
    np.divide(numerator, denominator, out=ratio, where=(numerator > 0) & (denominator > 0))
    return np.log(np.maximum(ratio, 1.0))


def clopper_pearson_bound(scores: Scores, *, delta: float, significance: float, split: Split) -> EpsilonBound:
    """Lower bound on epsilon with the threshold chosen on held-out trials; wrong with probability <= `significance`.

    The chosen threshold is evaluated once: half of the significance goes to the true-positive rate, half to
    the false-positive rate, and both directions follow from the same two limits, so nothing more is spent.
    """
    if not 0.0 < significance < 1.0:
        raise InputError(f"significance must be in (0, 1), got {significance!r}")
    chosen, evaluated = split.sizes(min(len(scores.member), len(scores.nonmember)))
    tail = significance / 2
    threshold = _best_threshold(roc(Scores(scores.member[:chosen], scores.nonmember[:chosen])), evaluated, delta, tail)
    member, nonmember = scores.member[chosen:], scores.nonmember[chosen:]
    tpr_low = proportion_lower(np.array((member >= threshold).sum()), len(member), tail)
    fpr_high = proportion_upper(np.array((nonmember >= threshold).sum()), len(nonmember), tail)
    forward, backward = epsilon_from_rates(tpr_low, fpr_high, delta)
    value = float(np.maximum(forward, backward))
    direction = "none" if value == 0 else "TPR/FPR" if forward >= backward else "TNR/FNR"
    return EpsilonBound(
        value, delta, significance, "clopper_pearson_split", direction, min(len(member), len(nonmember))
    )


def _best_threshold(curve: Roc, evaluated: int, delta: float, tail: float) -> float:
    """The threshold that would prove most if the evaluated trials had rates a little worse than those seen.

    Rates are taken at their 1 % limits, not as counted: over many thresholds the luckiest count wins, and far out,
    where a handful of scores decide, the luck does not repeat. Between two scores the threshold is put half way.
    """
    vertices = np.unique(np.concatenate([_spread(curve.false_positives), _spread(curve.true_positives)]))
    tpr = proportion_lower(curve.true_positives[vertices], curve.members, _CAUTION)
    fpr = proportion_upper(curve.false_positives[vertices], curve.nonmembers, _CAUTION)
    tpr_low = proportion_lower(tpr * evaluated, evaluated, tail)
    fpr_high = proportion_upper(fpr * evaluated, evaluated, tail)
    best = vertices[int(np.argmax(np.maximum(*epsilon_from_rates(tpr_low, fpr_high, delta))))]
    upper = curve.threshold[best]
    if best + 1 == len(curve.threshold) or np.isinf(upper):
        return float(upper)
    return float(upper + (curve.threshold[best + 1] - upper) / 2)


def _spread(counts: Array) -> Array:
    """Indices of up to some hundreds of vertices, dense where few or nearly all scores are above."""
    total = int(counts[-1])
    low = np.unique(np.geomspace(1, max(total, 1), 200).round())
    wanted = np.concatenate([[0.0], low, total - low])
    return np.asarray(np.searchsorted(counts, wanted, side="left").clip(0, len(counts) - 1))


def largest_provable_epsilon(*, evaluated: int, delta: float, significance: float) -> float:
    """The most that `evaluated` trials a side can prove: all members right and no false alarm.

    ``log((q - delta) / (1 - q))`` with ``q = (significance / 2)^(1 / evaluated)``, floored at 0.
    """
    log_q = np.log(significance / 2) / evaluated
    gain, miss = np.exp(log_q) - delta, -np.expm1(log_q)
    return float(np.log(gain / miss)) if gain > miss else 0.0
