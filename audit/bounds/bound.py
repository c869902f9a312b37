"""What a lower bound on epsilon is, and what may be concluded from it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ...attacks import Scores
from ...mechanisms import InputError


class Kind(StrEnum):
    """What stands behind a value. Only a confidence bound may refute a claim."""

    CONFIDENCE = "confidence"
    """Wrong with probability at most the significance, whatever the mechanism does."""
    MODEL = "confidence given the stated law"
    """Wrong with at most that probability if releases follow the stated law: says nothing about a black box."""
    ESTIMATE = "estimate"
    """No promise at all."""


@dataclass(frozen=True)
class EpsilonBound:
    """The true epsilon at `delta` is below `value` with probability at most `significance`, if `kind` promises that.

    Attributes:
        value: Lower bound, at least 0; 0 says nothing was shown.
        delta: The delta it is for.
        significance: Probability with which the bound is wrong; what a quantile was taken at, for an estimate.
        method: How it was obtained.
        direction: Which inequality gave it: "TPR/FPR", "TNR/FNR", "both" together, or "none" when the value is 0.
        kind: Confidence bound, confidence bound given the stated law, or estimate.
        evaluated: Scores a side it rests on; canaries, for a bound from one run.

    Raises:
        InputError: A value that is NaN or negative: it would compare as "not above the claim".
    """

    value: float
    delta: float
    significance: float
    method: str
    direction: str
    kind: Kind
    evaluated: int

    def __post_init__(self) -> None:
        if not self.value >= 0:
            raise InputError(f"a lower bound on epsilon must be at least 0, got {self.value!r}: nothing was measured")

    @property
    def may_refute(self) -> bool:
        """Whether a claim below `value` is thereby refuted."""
        return self.kind is Kind.CONFIDENCE


class Estimator(Protocol):
    """Every bound and estimate of this folder; options of its own have defaults or are bound beforehand."""

    def __call__(self, scores: Scores, *, delta: float, significance: float) -> EpsilonBound:
        """The bound at `delta` from scores that are HIGHER FOR MEMBERS."""
        ...


def check_design(delta: float, significance: float) -> None:
    """Raise `InputError` unless both are probabilities; delta may be 0."""
    if not 0.0 <= delta < 1.0:
        raise InputError(f"delta must be in [0, 1), got {delta!r}; it is a probability, not 1/delta")
    if not 0.0 < significance < 1.0:
        raise InputError(f"significance must be in (0, 1), got {significance!r}")


def direction_of(forward: float, backward: float) -> str:
    """The inequality that gave the larger of two values."""
    if forward <= 0 and backward <= 0:
        return "none"
    return "TPR/FPR" if forward >= backward else "TNR/FNR"
