"""What may be concluded from an audit, and never more than that."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ..mechanisms import InputError
from .bounds import EpsilonBound
from .fidelity import Fidelity


class Verdict(StrEnum):
    """The three outcomes. None of them says that a release protects anyone."""

    VIOLATED = "VIOLATED"
    NOT_REFUTED = "NOT_REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Ruling:
    """A verdict, why, and which test decided it.

    Attributes:
        verdict: The outcome.
        reason: One sentence.
        decided_by: The test that refuted the claim; None when none did.
        significance: Its corrected significance; 0 for a proof without sampling, None when nothing was refuted.
    """

    verdict: Verdict
    reason: str
    decided_by: str | None = None
    significance: float | None = None


@dataclass(frozen=True)
class Evidence:
    """What one attack showed and could have shown.

    Raises:
        InputError: The bound is no confidence bound, or what could have been shown is NaN.
    """

    adversary: str
    record: int | None
    bound: EpsilonBound
    largest_provable: float

    def __post_init__(self) -> None:
        if not self.bound.may_refute:
            raise InputError(f"{self.bound.method} is no ground of a verdict: {self.bound.kind}")
        if np.isnan(self.largest_provable):
            raise InputError("the largest provable epsilon is NaN: nothing was measured")


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
    fidelity: Fidelity | None,
    worst_pair: float | None = None,
) -> Ruling:
    """Set the evidence against the claimed epsilon.

    VIOLATED when releases are not those of the stated mechanism, when the exact epsilon of a record's pair or of the
    worst pair found exceeds the claim (or the certificate, which then is no certificate of the stated law: proved
    without sampling), or when a lower confidence bound does (shown at its significance); INCONCLUSIVE when no attack
    could have shown a violation with this design; NOT_REFUTED otherwise.

    Raises:
        InputError: A number is NaN, or there is no evidence at all: a comparison with nothing must not pass.
    """
    _check(claimed, certified, worst_exact, evidence, fidelity)
    found = _refutations(claimed, certified, worst_exact, worst_record, worst_pair, evidence, fidelity)
    if found:
        first = found[0]
        also = [item.reason for item in found[1:] if item.decided_by != first.decided_by]
        return Ruling(Verdict.VIOLATED, "; ".join([first.reason, *also]), first.decided_by, first.significance)
    if np.isinf(claimed):
        why = "certified" if np.isinf(certified) else "claimed"
        return Ruling(
            Verdict.INCONCLUSIVE, f"the {why} epsilon is infinite: there is no certificate to violate, state a claim"
        )
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


def _check(
    claimed: float,
    certified: float,
    worst_exact: float | None,
    evidence: Sequence[Evidence],
    fidelity: Fidelity | None,
) -> None:
    if not claimed >= 0:
        raise InputError(f"the claimed epsilon must be 0 or more, got {claimed!r}: there is nothing to compare with")
    if not certified >= 0:
        raise InputError(f"the certified epsilon must be 0 or more, got {certified!r}: nothing was certified")
    if worst_exact is not None and np.isnan(worst_exact):
        raise InputError("the exact epsilon of the worst record is NaN: nothing was measured")
    if not evidence:
        raise InputError("no attack was made: a claim that nothing was held against has not been tested")
    if fidelity is not None and np.isnan(fidelity.p_value):
        raise InputError("the p-value of the fidelity test is NaN: nothing was measured")


def _refutations(
    claimed: float,
    certified: float,
    worst_exact: float | None,
    worst_record: int | None,
    worst_pair: float | None,
    evidence: Sequence[Evidence],
    fidelity: Fidelity | None,
) -> list[Ruling]:
    """Everything that speaks against the claim, what weighs most first."""
    found = []

    def add(decided_by: str, significance: float, reason: str) -> None:
        found.append(Ruling(Verdict.VIOLATED, reason, decided_by, significance))

    if fidelity is not None and not fidelity.passed:
        odd = fidelity.checks[0]
        p_value = f"{fidelity.p_value:.2g}" if fidelity.p_value > 0 else "below 1e-300"
        where = "the data" if odd.dataset == 0 else "the neighbouring data"
        said = f"not the stated mechanism: the {odd.name} of its releases from {where} is not that of the stated law"
        if fidelity.source == "file":
            said = f"the file is not a release of the stated mechanism for these data: its {odd.name} is odd"
        add(
            "fidelity test",
            fidelity.significance,
            f"{said} (p-value {p_value}, at significance {fidelity.significance:.3g})",
        )
    exact_of = f"exact epsilon of {_named(worst_record)}"
    if worst_exact is not None and exceeds(worst_exact, certified):
        add(
            exact_of,
            0.0,
            f"the exact epsilon of {_named(worst_record)} is {worst_exact:.4g}, above the certified {certified:.4g}: "
            "the certificate does not hold for the law that the mechanism states",
        )
    elif worst_exact is not None and worst_exact > claimed:
        add(
            exact_of,
            0.0,
            f"the exact epsilon of {_named(worst_record)} is {worst_exact:.4g}, above the claimed {claimed:.4g}: "
            "proved from the stated mechanism, without sampling",
        )
    elif worst_pair is not None and worst_pair > claimed:
        add(
            "worst pair",
            0.0,
            f"two neighbouring datasets in the public domain have an exact epsilon of {worst_pair:.4g}, above the "
            f"claimed {claimed:.4g}: the mechanism is not what is claimed of it, whatever these data show; proved "
            "without sampling",
        )
    most = max(evidence, key=lambda item: item.bound.value)
    if most.bound.value > claimed:
        add(
            f"{most.adversary} attack on {_named(most.record)}",
            most.bound.significance,
            f"the {most.adversary} attack on {_named(most.record)} shows epsilon of at least {most.bound.value:.4g} "
            f"by releases, at significance {most.bound.significance:.3g}, above the claimed {claimed:.4g}",
        )
    return found


def _named(record: int | None) -> str:
    return "the target" if record is None else f"record {record}"
