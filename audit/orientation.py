"""Which way the scores of an attack without a stated law are read, learnt from trials that count for nothing else."""

from dataclasses import replace

from ..attacks import Scores
from .campaign import Attempt
from .roc import auc, roc

_NOTE = "the first trials showed that releases score lower with the record: scores were read upside down"


def has_no_law(attempt: Attempt) -> bool:
    """Whether the score is the log-likelihood ratio of a law that is only assumed, so that it may point either way."""
    return attempt.adversary == "core" and attempt.exact is None


def orientation(attempt: Attempt, count: int) -> float:
    """1 or -1, from the first `count` trials of each side: those that choose the threshold, or the first bets.

    Nothing else is decided by these trials, so the bound from the others holds whatever comes out.
    """
    first = Scores(attempt.scores.member[:count], attempt.scores.nonmember[:count])
    return -1.0 if has_no_law(attempt) and auc(roc(first)) < 0.5 else 1.0


def oriented(attempt: Attempt, sign: float) -> Attempt:
    """The attempt with its scores read that way; it says so where they were turned."""
    if sign > 0:
        return attempt
    scores = Scores(-attempt.scores.member, -attempt.scores.nonmember)
    return replace(attempt, scores=scores, notes=(*attempt.notes, _NOTE))
