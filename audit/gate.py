"""Whether an audit lets a check pass. What is not a number, or was not measured, never does.

A verdict says what was found; a gate stands in front of a release and asks more: that the audit could have found
something, and that no number in it is missing. Every comparison is written so that NaN fails it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from math import inf, nextafter
from typing import Any

from ..mechanisms.foreign import BlackBox
from .bounds import largest_provable_epsilon
from .judge import SPLIT
from .result import AuditResult
from .verdict import Verdict

_MOST_TRIALS = 10**9  # that are worth recommending
_TINY = nextafter(0.0, 1.0)
_READABLE = 1e-9  # a smaller significance makes a percentage of nothing but nines


class Outcome(StrEnum):
    """What a check came to. Only the first passes, and the third if that was allowed."""

    PASSED = "PASSED"
    VIOLATED = "VIOLATED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOTHING_MEASURED = "NOTHING MEASURED"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one attack showed, as it was given: nothing here is checked before the gate does.

    Attributes:
        adversary: Who attacked.
        record: 0-based row; None for a target that is no record.
        epsilon_lower: Lower confidence bound on epsilon.
        significance: Probability with which the bound is wrong.
        method: How it was obtained.
        provable: The most that this design could have shown.
        trials: Simulated releases under each hypothesis.
        scores: Those of them that the bound rests on.
        shadows: Shadow datasets under each hypothesis; None for an adversary who trains none.
        exact: Exact epsilon of the attacked pair; None where it is not known.
    """

    adversary: str
    record: int | None
    epsilon_lower: float
    significance: float
    method: str
    provable: float
    trials: int
    scores: int
    shadows: int | None = None
    exact: float | None = None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Everything that a gate looks at.

    Attributes:
        claimed: The limit.
        certified: Epsilon of the certificate, infinity where there is none.
        certified_by: Its method.
        delta: Of every epsilon here.
        significance: Probability with which a mechanism that keeps its promises fails.
        attacks: All of them.
        exact: Exact epsilon of the most exposed record, None where nothing is exact, and
        exact_record: its 0-based row.
        verdict: Of the audit; None when the numbers stand alone.
        reason: Of the verdict.
        decided_by: The test that refuted the claim; None when none did.
        fidelity: Whether releases were compatible with the stated law; None where not tested, or none is stated.
    """

    claimed: float
    certified: float
    certified_by: str = "unknown method"
    delta: float
    significance: float
    attacks: tuple[Shown, ...]
    exact: float | None = None
    exact_record: int | None = None
    verdict: Verdict | None = None
    reason: str = ""
    decided_by: str | None = None
    fidelity: bool | None = None


@dataclass(frozen=True)
class Gate:
    """Whether a check passes, and why.

    Attributes:
        passed: Whether it does.
        outcome: What it came to.
        reason: Why, and what helps; empty when it passes without reservation.
        headline: What was held against what, in a line.
        lines: The numbers behind it: limit, bound, record, n, confidence and method, as pairs of a label and a text.
    """

    passed: bool
    outcome: Outcome
    reason: str
    headline: str
    lines: tuple[tuple[str, str], ...]


def checked(result: AuditResult) -> Checked:
    """What a gate looks at, of a whole audit."""
    unstated = isinstance(result.mechanism, BlackBox)
    return Checked(
        claimed=result.claimed_epsilon,
        certified=result.certificate.epsilon,
        certified_by=f"{result.certificate.method}, {result.regime}",
        delta=result.delta,
        significance=result.significance,
        attacks=tuple(
            Shown(
                adversary=attack.adversary,
                record=attack.record,
                epsilon_lower=attack.epsilon_lower.value,
                significance=attack.epsilon_lower.significance,
                method=f"{attack.epsilon_lower.method} ({attack.epsilon_lower.kind})",
                provable=attack.largest_provable_epsilon,
                trials=attack.trials,
                scores=attack.epsilon_lower.evaluated,
                shadows=attack.shadows,
                exact=attack.epsilon_exact,
            )
            for attack in result.attacks
        ),
        exact=result.worst_epsilon,
        exact_record=result.worst_record,
        verdict=result.verdict,
        reason=result.reason,
        decided_by=result.decided_by,
        fidelity=None if result.fidelity is None or unstated else result.fidelity.passed,
    )


def gate(found: Checked, *, inconclusive_ok: bool = False) -> Gate:
    """Let a check pass only if something was measured, nothing was refuted and something could have been.

    Fails, first reason first: a number that is NaN, negative or missing (`NOTHING_MEASURED`); a verdict, an attack or
    an exact epsilon against the claim, or an attack against the certificate (`VIOLATED`); an audit that could not have
    refuted the claim (`INCONCLUSIVE`), however small the exact epsilon is: that is a proof about the stated law, and
    stays the same when the implementation breaks.

    Args:
        found: The numbers.
        inconclusive_ok: Whether an audit that could not have refuted the claim by an attack passes.
    """
    if faults := list(_faults(found)):
        return Gate(False, Outcome.NOTHING_MEASURED, "; ".join(faults), "there is nothing to judge", ())
    most = max(found.attacks, key=lambda shown: shown.epsilon_lower)
    headline = (
        f"{_attack(most)} shows epsilon of at least {most.epsilon_lower:.4g}, the claim is at most {found.claimed:.4g}"
    )
    if found.decided_by is not None and not most.epsilon_lower > found.claimed:
        headline = f"refuted by the {found.decided_by}, the claim is at most {found.claimed:.4g}"
    lines = tuple(_lines(found, most))
    if against := _against(found, most):
        return Gate(False, Outcome.VIOLATED, against, headline, lines)
    if idle := _idle(found):
        return Gate(inconclusive_ok, Outcome.INCONCLUSIVE, idle, headline, lines)
    alone = "there is no certificate to violate, only the claim was tested" if found.certified == inf else ""
    return Gate(True, Outcome.PASSED, alone, headline, lines)


def trials_for(claimed: float, *, delta: float, significance: float) -> int | None:
    """Fewest trials a side with which one look could show more than `claimed`; None: more than are worth trying."""

    def enough(trials: int) -> bool:
        evaluated = SPLIT.sizes(trials)[1]
        return largest_provable_epsilon(evaluated=evaluated, delta=delta, significance=significance) > claimed

    if not enough(_MOST_TRIALS):
        return None
    low, high = 2, _MOST_TRIALS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def _faults(found: Checked) -> Iterator[str]:
    """Everything that makes a comparison mean nothing."""
    if not _is(found.claimed, 0):
        yield f"the claimed epsilon is {found.claimed!r}: it must be 0 or more, state what is claimed"
    if not _is(found.certified, 0):
        yield f"the certified epsilon is {found.certified!r}: nothing was certified, infinity would say so"
    if not _is(found.delta, 0, below=1):
        yield f"delta is {found.delta!r}: it must be a probability"
    if not _is(found.significance, _TINY, below=1):
        yield f"the significance is {found.significance!r}: it must be a probability above 0"
    if found.exact is not None and not _is(found.exact, 0):
        yield f"the exact epsilon of the most exposed record is {found.exact!r}: nothing was computed"
    if not found.attacks:
        yield "no attack was made: a claim that nothing was held against has not been tested"
    for shown in found.attacks:
        yield from (f"{_attack(shown)}: {fault}" for fault in _faults_of(shown))


def _faults_of(shown: Shown) -> Iterator[str]:
    if not _is(shown.epsilon_lower, 0, below=inf):
        yield f"the lower bound on epsilon is {shown.epsilon_lower!r}: it must be a finite number, 0 or more"
    if not _is(shown.provable, 0):
        yield f"the most it could have shown is {shown.provable!r}: the design says nothing"
    if not (_is(shown.scores, 1) and _is(shown.trials, 1)):
        yield f"it has {shown.scores} scores of {shown.trials} trials a side: nothing was measured"
    if shown.shadows is not None and not _is(shown.shadows, 1):
        yield f"{shown.shadows} shadows finished: the adversary learned nothing"
    if not _is(shown.significance, _TINY, below=1):
        yield f"the significance of its bound is {shown.significance!r}: it must be a probability above 0"


def _is(value: Any, least: float, *, below: float | None = None) -> bool:
    """Whether this is a number in that range; None and NaN are in none."""
    return isinstance(value, int | float) and value >= least and (below is None or value < below)


def _against(found: Checked, most: Shown) -> str:
    """Why the check fails; empty when nothing speaks against the claim."""
    if found.verdict is Verdict.VIOLATED:
        return found.reason
    at = f"by releases, at significance {most.significance:.3g}"
    if not most.epsilon_lower <= found.claimed:
        return f"{_attack(most)} shows epsilon of at least {most.epsilon_lower:.4g} {at}"
    if not most.epsilon_lower <= found.certified:
        return (
            f"{_attack(most)} shows epsilon of at least {most.epsilon_lower:.4g} {at}, above the certified "
            f"{found.certified:.4g}: the claim stands, but these are not the releases that the certificate speaks of"
        )
    if found.exact is not None and not found.exact <= found.claimed:
        return f"the exact epsilon of record {found.exact_record} is {found.exact:.4g}, without sampling"
    return ""


def _idle(found: Checked) -> str:
    """Why no attack could have refuted the claim; empty when one could."""
    if found.claimed == inf:
        return "the claim is infinite: there is no certificate to violate; claim a number"
    able = max(found.attacks, key=lambda shown: shown.provable)
    if able.provable > found.claimed:
        return found.reason if found.verdict is Verdict.INCONCLUSIVE else ""
    needed = trials_for(found.claimed, delta=found.delta, significance=able.significance)
    if needed is None:
        remedy = f"no number of trials up to {_MOST_TRIALS:,} could: claim less"
    else:
        remedy = f"raise trials well above {needed:,}, or claim less"
    return (
        f"no attack could have shown more than epsilon {able.provable:.4g} with {able.trials:,} trials, and the claim "
        f"is {found.claimed:.4g}: a check that cannot fail proves nothing; {remedy}"
    )


def _lines(found: Checked, most: Shown) -> Iterator[tuple[str, str]]:
    yield "claim", f"epsilon at most {found.claimed:.4g} at delta {found.delta:g}"
    confidence = f"at {_confidence(most.significance)} confidence"
    yield "shown", f"epsilon of at least {most.epsilon_lower:.4g} by {_attack(most)}, {confidence}"
    shadows = "" if most.shadows is None else f", {most.shadows:,} shadows a side"
    yield (
        "measured",
        f"{most.method}, on {most.scores:,} of {most.trials:,} trials a side{shadows}; the worst of "
        f"{len(found.attacks)} attack(s), which could have shown up to {max(a.provable for a in found.attacks):.4g}",
    )
    if found.exact is None:
        yield "exact", "unknown: nothing is exact of this mechanism"
    else:
        yield "exact", f"epsilon {found.exact:.4g} for record {found.exact_record}, of the stated law, without sampling"
    if found.certified == inf:
        yield "certified", "nothing: there is no certificate to violate"
    else:
        yield "certified", f"epsilon {found.certified:.4g} ({found.certified_by})"
    if most.exact is not None and most.epsilon_lower > most.exact:
        yield (
            "so",
            f"the stated law gives {_attack(most)} {most.exact:.4g} at most: the implementation is not what is stated",
        )
    if found.fidelity is not None:
        yield "fidelity", f"releases are {'compatible with' if found.fidelity else 'not those of'} the stated law"
    yield "sure", f"a mechanism that keeps its promises fails with probability {found.significance:g} at most"


def _confidence(significance: float) -> str:
    """One minus this, rounded down with two digits of what is missing to 1; in per cent where those can be read."""
    missing = Decimal(f"{significance:.12g}")
    if significance < _READABLE:
        return f"1 - {Context(prec=2, rounding=ROUND_CEILING).create_decimal(missing):g}"
    last = Decimal(1).scaleb(min(missing.adjusted() + 1, 0))
    return f"{(100 - 100 * missing).quantize(last, rounding=ROUND_FLOOR)} %"


def _attack(shown: Shown) -> str:
    whom = "the target" if shown.record is None else f"record {shown.record}"
    return f"the {shown.adversary} attack on {whom}"
