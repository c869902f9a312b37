"""What may be concluded from an audit, and never more than that."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .bounds import EpsilonBound


class Verdict(StrEnum):
    """The three outcomes. None of them says that a release protects anyone."""

    VIOLATED = "VIOLATED"
    NOT_REFUTED = "NOT_REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Ruling:
    """A verdict with the one sentence that says why."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Evidence:
    """What one attack showed and could have shown."""

    adversary: str
    record: int | None
    bound: EpsilonBound
    largest_provable: float


def exceeds(exact: float, certified: float) -> bool:
    """Whether an exact value lies above a certificate by more than rounding."""
    return exact > certified * (1.0 + 1e-9) + 1e-6


def rule(
    claimed: float,
    *,
    certified: float,
    worst_exact: float | None,
    worst_record: int | None,
    evidence: Sequence[Evidence],
) -> Ruling:
    """Set the evidence against the claimed epsilon.

    VIOLATED when the exact epsilon of a record's pair exceeds the claim (or the certificate, which then is no
    certificate of the stated law: proved without sampling) or a lower
    confidence bound does (shown at its significance); INCONCLUSIVE when no attack could have shown a violation
    with this design; NOT_REFUTED otherwise.
    """
    refuting = max(evidence, key=lambda item: item.bound.value)
    by_attack = (
        f"the {refuting.adversary} attack on {_named(refuting.record)} shows epsilon of at least "
        f"{refuting.bound.value:.4g} by releases, at significance {refuting.bound.significance:.3g}"
    )
    if worst_exact is not None and exceeds(worst_exact, certified):
        return Ruling(
            Verdict.VIOLATED,
            f"the exact epsilon of {_named(worst_record)} is {worst_exact:.4g}, above the certified {certified:.4g}: "
            "the certificate does not hold for the law that the mechanism states",
        )
    if worst_exact is not None and worst_exact > claimed:
        reason = (
            f"the exact epsilon of record {worst_record} is {worst_exact:.4g}, above the claimed {claimed:.4g}: "
            "proved from the stated mechanism, without sampling"
        )
        if refuting.bound.value > claimed:
            reason += f"; {by_attack}"
        return Ruling(Verdict.VIOLATED, reason)
    if refuting.bound.value > claimed:
        return Ruling(Verdict.VIOLATED, f"{by_attack}, above the claimed {claimed:.4g}")
    power = max(item.largest_provable for item in evidence)
    if power <= claimed:
        return Ruling(
            Verdict.INCONCLUSIVE,
            f"no attack could have shown more than epsilon {power:.4g} with this many trials, and the claim is "
            f"{claimed:.4g}: raise audit.trials",
        )
    return Ruling(
        Verdict.NOT_REFUTED,
        f"no {'attack' if worst_exact is None else 'exact epsilon of a record and no attack'} exceeds the claimed "
        f"{claimed:.4g}; the attacks could have shown up to {power:.4g}",
    )


def _named(record: int | None) -> str:
    return "the target" if record is None else f"record {record}"
