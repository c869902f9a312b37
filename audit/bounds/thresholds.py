"""How the threshold of an attack is fixed without looking at the trials that are evaluated at it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...attacks import Scores
from ...mechanisms import Array, InputError
from ..binomial import proportion_lower, proportion_upper
from ..roc import Roc, roc

_CAUTION = 0.1  # tail of the limits by which a threshold is chosen; best or level from 1,000 to 1,000,000 trials


@dataclass(frozen=True)
class Tally:
    """Counts at one threshold that was fixed on other data, and the significance that it may spend.

    Attributes:
        threshold: A release is called a member when its score is at least this.
        true: Members called members.
        members: All of them.
        false: Nonmembers called members.
        nonmembers: All of them.
        significance: This threshold's share.
    """

    threshold: float
    true: int
    members: int
    false: int
    nonmembers: int
    significance: float


class Threshold(Protocol):
    """A rule that turns scores into counts at thresholds fixed on other data."""

    @property
    def name(self) -> str:
        """Name in a bound's method."""
        ...

    def tallies(self, scores: Scores, *, delta: float, significance: float) -> list[Tally]:
        """Counts at each threshold, which share the significance."""
        ...

    def evaluated(self, trials: int) -> int:
        """How many of `trials` a side are evaluated."""
        ...

    def share(self, significance: float) -> float:
        """What each threshold may spend."""
        ...


@dataclass(frozen=True)
class Explicit:
    """A threshold fixed before any score was seen: all trials are evaluated."""

    threshold: float
    name: str = "explicit"

    def __post_init__(self) -> None:
        if np.isnan(self.threshold):
            raise InputError("the threshold must be a number, got nan")

    def tallies(self, scores: Scores, *, delta: float, significance: float) -> list[Tally]:  # noqa: ARG002 - fixed
        """One."""
        return [_count(scores, self.threshold, significance)]

    def evaluated(self, trials: int) -> int:
        """All."""
        return trials

    def share(self, significance: float) -> float:
        """All."""
        return significance


@dataclass(frozen=True)
class Bonferroni:
    """A grid of thresholds declared before any score was seen; every one is paid for, used or not."""

    thresholds: tuple[float, ...]
    name: str = "bonferroni"

    def __post_init__(self) -> None:
        if not self.thresholds:
            raise InputError("a Bonferroni grid must hold at least one threshold, got none")
        if np.isnan(self.thresholds).any():
            raise InputError("the thresholds of a Bonferroni grid must be numbers, got nan")

    def tallies(self, scores: Scores, *, delta: float, significance: float) -> list[Tally]:  # noqa: ARG002 - fixed
        """One a threshold."""
        return [_count(scores, threshold, self.share(significance)) for threshold in self.thresholds]

    def evaluated(self, trials: int) -> int:
        """All."""
        return trials

    def share(self, significance: float) -> float:
        """An even part."""
        return significance / len(self.thresholds)


@dataclass(frozen=True)
class Split:
    """Choose the threshold on the first `fraction` of the trials, evaluate it on the others.

    Less than a third is enough to find a good threshold; the rest decides how small a rate can be shown.
    """

    fraction: float = 0.3
    name: str = "split"

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

    def tallies(self, scores: Scores, *, delta: float, significance: float) -> list[Tally]:
        """One, on the trials that did not choose it."""
        chosen, evaluated = self.sizes(min(len(scores.member), len(scores.nonmember)))
        first = Scores(scores.member[:chosen], scores.nonmember[:chosen])
        threshold = _best_threshold(roc(first), evaluated, delta, significance / 2)
        return [_count(Scores(scores.member[chosen:], scores.nonmember[chosen:]), threshold, significance)]

    def evaluated(self, trials: int) -> int:
        """Those that do not choose."""
        return self.sizes(trials)[1]

    def share(self, significance: float) -> float:
        """All: the chosen threshold is evaluated once."""
        return significance


def _count(scores: Scores, threshold: float, significance: float) -> Tally:
    member, nonmember = scores.member, scores.nonmember
    return Tally(
        threshold,
        int((member >= threshold).sum()),
        len(member),
        int((nonmember >= threshold).sum()),
        len(nonmember),
        significance,
    )


def _best_threshold(curve: Roc, evaluated: int, delta: float, tail: float) -> float:
    """Threshold of the most promising vertex; between two scores it is put half way."""
    vertices = spread_vertices(curve)
    true, false = curve.true_positives[vertices], curve.false_positives[vertices]
    best = most_promising(
        true, false, members=curve.members, nonmembers=curve.nonmembers, evaluated=evaluated, delta=delta, tail=tail
    )
    return halfway(curve, int(vertices[best]))


def most_promising(
    true: Array, false: Array, *, members: int, nonmembers: int, evaluated: int, delta: float, tail: float
) -> NDArray[np.intp]:
    """Index, along the last axis, of the threshold that would prove most if rates turned out a little worse than seen.

    Rates are taken at their 10 % limits, not as counted: over many thresholds the luckiest count wins, and far out,
    where a handful of scores decide, the luck does not repeat.
    """
    tpr = proportion_lower(true, members, _CAUTION)
    fpr = proportion_upper(false, nonmembers, _CAUTION)
    tpr_low = proportion_lower(tpr * evaluated, evaluated, tail)
    fpr_high = proportion_upper(fpr * evaluated, evaluated, tail)
    return np.asarray(np.argmax(np.maximum(*epsilon_from_rates(tpr_low, fpr_high, delta)), axis=-1))


def halfway(curve: Roc, vertex: int) -> float:
    """A threshold with the counts of a vertex, half way to the next score below it."""
    upper = curve.threshold[vertex]
    if vertex + 1 == len(curve.threshold) or np.isinf(upper):
        return float(upper)
    middle = 0.5 * upper + 0.5 * curve.threshold[vertex + 1]
    return float(middle if middle > curve.threshold[vertex + 1] else upper)  # neighbours may have nothing between them


def spread_vertices(curve: Roc) -> Array:
    """Indices of up to some hundreds of vertices, dense where few or nearly all scores are above."""
    return np.unique(np.concatenate([_spread(curve.false_positives), _spread(curve.true_positives)]))


def _spread(counts: Array) -> Array:
    total = int(counts[-1])
    low = np.unique(np.geomspace(1, max(total, 1), 200).round())
    wanted = np.concatenate([[0.0], low, total - low])
    return np.asarray(np.searchsorted(counts, wanted, side="left").clip(0, len(counts) - 1))


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
