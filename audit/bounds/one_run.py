"""One release, many canaries (Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run", 2023)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import betainc, gammaln

from ...attacks import Scores
from ...mechanisms import Array, InputError
from .bound import EpsilonBound, Kind, check_design

_STEPS = 60


@runtime_checkable
class Design(Protocol):
    """How it was decided which of a release's canaries are in it."""

    @property
    def independent(self) -> bool:
        """Whether a fair coin of its own decided each canary."""
        ...


@dataclass(frozen=True)
class IndependentCoins:
    """A fair coin of its own for every canary: it is in (or takes the record's place) or not. The only valid design."""

    independent: bool = True


@dataclass(frozen=True)
class FixedCount:
    """A fixed number of canaries are in, drawn without replacement: knowing some says something about the others."""

    included: int
    independent: bool = False


@dataclass(frozen=True)
class SharedCoins:
    """One coin decides a group of canaries together."""

    group: int
    independent: bool = False


@dataclass(frozen=True)
class Guesses:
    """How many canaries are guessed, fixed before the scores are seen; the attacker abstains on the others.

    Attributes:
        included: As many of the highest scores are guessed "in".
        excluded: As many of the lowest are guessed "out".
    """

    included: int
    excluded: int

    def __post_init__(self) -> None:
        if min(self.included, self.excluded) < 0 or self.included + self.excluded < 1:
            raise InputError(
                f"at least one guess is needed, got {self.included} in and {self.excluded} out: declare how many"
            )


def one_run_bound(
    scores: Scores,
    *,
    delta: float,
    significance: float,
    design: Design,
    guesses: Guesses | None = None,
) -> EpsilonBound:
    """Lower confidence bound on epsilon from the scores of many canaries in a single release.

    Unlike everywhere else, the scores of a side are those of the canaries in it (`member`) and out of it
    (`nonmember`), all from one release. The neighbour relation is that of the coins: one canary in or out, or one
    record or its replacement. Wrong with probability at most `significance` (Theorem 5.2 there).

    Args:
        scores: HIGHER FOR MEMBERS.
        delta: The delta of the bound.
        significance: Probability with which the bound may be wrong.
        design: How the canaries were chosen.
        guesses: How many are guessed; all of them, half "in" and half "out", when left out.

    Raises:
        InputError: The canaries were not chosen by independent coins, or more guesses than canaries.
    """
    check_design(delta, significance)
    if not design.independent:
        raise InputError(
            f"a one-run bound needs an independent fair coin for every canary, got {design!r}: "
            "draw the coins independently and run again"
        )
    canaries = len(scores.member) + len(scores.nonmember)
    guesses = guesses or Guesses((canaries + 1) // 2, canaries // 2)
    made = guesses.included + guesses.excluded
    if made > canaries:
        raise InputError(f"{made} guesses for {canaries} canaries: at most one guess a canary")
    value = _solve(canaries, made, _correct(scores, guesses), delta, significance)
    direction = "both" if value > 0 else "none"
    return EpsilonBound(value, delta, significance, "one_run", direction, Kind.CONFIDENCE, canaries)


def one_run_p_value(*, canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Bound on the probability of so many correct guesses under ``(epsilon, delta)``-DP.

    ``P[W >= v] + 2 m delta max_i P[v > W >= v - i] / i`` with ``W ~ Binomial(r, 1 / (1 + e^-epsilon))``.
    """
    if correct == 0:
        return 1.0
    beta = float(betainc(correct, guesses - correct + 1.0, 1.0 / (1.0 + np.exp(-epsilon))))
    if delta == 0.0:
        return beta
    # Logarithms of P[W = k], with q = e^epsilon / (1 + e^epsilon): k epsilon - r log(1 + e^epsilon) + log C(r, k).
    k = np.arange(correct - 1, -1, -1)
    log_mass = _log_choose(guesses)[k] + k * epsilon - guesses * np.logaddexp(0.0, epsilon)
    below = np.cumsum(np.exp(log_mass))
    alpha = float(np.max(below / np.arange(1, correct + 1)))
    return min(beta + 2.0 * canaries * delta * alpha, 1.0)


@lru_cache(maxsize=8)
def _log_choose(n: int) -> Array:
    k = np.arange(n + 1)
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def one_run_provable(*, canaries: int, delta: float, significance: float, guesses: Guesses | None = None) -> float:
    """The most that a design can prove: every guess right."""
    made = canaries if guesses is None else guesses.included + guesses.excluded
    return _solve(canaries, made, made, delta, significance)


def _correct(scores: Scores, guesses: Guesses) -> int:
    """Right guesses; canaries with tied scores are guessed in an order that counts against the attacker."""
    values = np.concatenate([scores.nonmember, scores.member])
    included = np.arange(len(values)) >= len(scores.nonmember)
    top = np.lexsort((included, -values))[: guesses.included]  # among ties the excluded come first
    rest = np.setdiff1d(np.arange(len(values)), top)
    bottom = rest[np.lexsort((~included[rest], values[rest]))[: guesses.excluded]]
    return int(included[top].sum() + (~included[bottom]).sum())


@lru_cache(maxsize=4096)
def _solve(canaries: int, guesses: int, correct: int, delta: float, significance: float) -> float:
    """Largest epsilon that is refuted, by bisection from below."""

    def refuted(epsilon: float) -> bool:
        found = one_run_p_value(canaries=canaries, guesses=guesses, correct=correct, epsilon=epsilon, delta=delta)
        return found <= significance

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2.0 * high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
