"""Receiver operating characteristic as the exact step function of the scores."""

from dataclasses import dataclass

import numpy as np

from ..attacks import Scores
from ..mechanisms import Array
from .binomial import proportion_lower, proportion_upper


@dataclass(frozen=True, eq=False)
class Roc:
    """Vertices of the curve, from (0, 0) to (1, 1); tied scores share one vertex.

    Attributes:
        threshold: A release is called a member when its score is at least this; the first is infinite.
        false_positives: Number of nonmember scores at or above the threshold.
        true_positives: Number of member scores at or above the threshold.
        nonmembers: Number of nonmember scores.
        members: Number of member scores.
    """

    threshold: Array
    false_positives: Array
    true_positives: Array
    nonmembers: int
    members: int

    @property
    def fpr(self) -> Array:
        """False-positive rate at each vertex."""
        return self.false_positives / self.nonmembers

    @property
    def tpr(self) -> Array:
        """True-positive rate at each vertex."""
        return self.true_positives / self.members


def roc(scores: Scores) -> Roc:
    """The curve of `scores`; it depends on their order only, not on their scale or on the order of rows."""
    values = np.unique(np.concatenate([scores.member, scores.nonmember]))[::-1]
    member, nonmember = np.sort(scores.member), np.sort(scores.nonmember)
    true = len(member) - np.searchsorted(member, values, side="left")
    false = len(nonmember) - np.searchsorted(nonmember, values, side="left")
    return Roc(
        np.concatenate([[np.inf], values]),
        np.concatenate([[0.0], false]),
        np.concatenate([[0.0], true]),
        len(nonmember),
        len(member),
    )


def auc(curve: Roc) -> float:
    """Area under the curve: P(member > nonmember) + P(tie) / 2, from whole counts."""
    steps = np.diff(curve.false_positives) * (curve.true_positives[1:] + curve.true_positives[:-1])
    return float(steps.sum() / (2.0 * curve.members * curve.nonmembers))


@dataclass(frozen=True)
class TprAtFpr:
    """True-positive rate at the vertex with the largest false-positive rate not above `fpr`.

    Attributes:
        fpr: What was asked for.
        realised_fpr: What the scores allow; below `fpr` when the sample is too coarse or scores tie.
        tpr: True-positive rate there.
        tpr_low: Exact binomial 95 % interval of `tpr`, lower end (descriptive: not part of the audit's budget).
        tpr_high: Its upper end.
        coarse: The rate asked for is positive but finer than one nonmember score: the sample cannot resolve it.
    """

    fpr: float
    realised_fpr: float
    tpr: float
    tpr_low: float
    tpr_high: float
    coarse: bool


def tpr_at_fpr(curve: Roc, fpr: float) -> TprAtFpr:
    """Read the curve at a false-positive rate; no interpolation between vertices."""
    vertex = int(np.searchsorted(curve.false_positives, fpr * curve.nonmembers, side="right")) - 1
    hits = int(curve.true_positives[vertex])
    return TprAtFpr(
        fpr,
        float(curve.fpr[vertex]),
        float(curve.tpr[vertex]),
        float(proportion_lower(np.array(hits), curve.members, 0.025)),
        float(proportion_upper(np.array(hits), curve.members, 0.025)),
        0.0 < fpr < 1.0 / curve.nonmembers,
    )
