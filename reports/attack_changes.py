"""The attacks of two audits side by side: which are no longer made, and which show more than they did."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..audit.binomial import proportion_lower, proportion_upper
from .figures import record_name
from .html import number

Change = tuple[float | None, float | None]

_ERRORS = 5.0  # standard errors that an AUC must rise by
_TAIL = 1e-7  # probability with which each of the four limits of a risen rate is wrong
ROUNDING = 1e-6


@dataclass(frozen=True)
class AttackChange:
    """The same attack, by adversary and record, in both audits; each number then and now.

    Attributes:
        adversary: Who attacks.
        record: 0-based row; None for the target of the stress test.
        auc: Area under the curve.
        tpr: True-positive rate at 1 % false positives.
        shown: Lower confidence bound on epsilon.
        exact: Exact epsilon of the attacked pair; None where there is none.
        error: Standard error of the change of the AUC, from above.
        risen_at: False-positive rates at which the true-positive rate rose by more than chance, see `risen_rates`.
    """

    adversary: str
    record: int | None
    auc: tuple[float, float]
    tpr: Change
    shown: tuple[float, float]
    exact: Change
    error: float
    risen_at: tuple[float, ...]

    @property
    def name(self) -> str:
        """For people."""
        return _name(self.adversary, self.record)


def paired(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[tuple[AttackChange, ...], tuple[str, ...], tuple[str, ...]]:
    """The attacks in both records, and the names of those in the earlier only and in the later only."""
    earlier, later = _by_key(then), _by_key(now)
    both = tuple(
        AttackChange(
            adversary,
            record,
            (float(old["auc"]), float(new["auc"])),
            (_tpr(old), _tpr(new)),
            (float(old["epsilon_lower"]["value"]), float(new["epsilon_lower"]["value"])),
            (_exact(old), _exact(new)),
            math.sqrt(sum(attack["auc"] * (1.0 - attack["auc"]) / attack["trials"] for attack in (old, new))),
            risen_rates(old, new),
        )
        for (adversary, record), new in later.items()
        if (old := earlier.get((adversary, record))) is not None
    )
    names = [
        tuple(_name(*key) for key in some if key not in others) for some, others in ((earlier, later), (later, earlier))
    ]
    return both, names[0], names[1]


def lost_adversaries(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Adversaries of the earlier audit who attack nobody in the later one."""
    left = {attack["adversary"] for attack in now["attacks"]}
    return [name for name in dict.fromkeys(attack["adversary"] for attack in then["attacks"]) if name not in left]


def risen_rates(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[float, ...]:
    """False-positive rates at which an attack, as records hold it, finds more members now than it could then.

    The hits now are bounded from below and their false-positive rate from above; the hits then are bounded from above
    at a threshold whose false-positive rate was surely no smaller. Four exact binomial limits (Clopper-Pearson, the
    order statistics for the rates), each wrong with probability 1e-7: a rate is named by chance at most once in 2.5
    million, so that 100 comparisons of 30 attacks at four rates raise a false alarm with probability below 0.005.
    """
    members, nonmembers = _sizes(now)
    false, true = _vertices(then)
    surely = proportion_lower(false, _sizes(then)[1], _TAIL)
    most = proportion_upper(true, _sizes(then)[0], _TAIL)
    found = []
    for point in now["tpr_at_fpr"]:
        alarms, hits = round(point["realised_fpr"] * nonmembers), round(point["tpr"] * members)
        reached = float(proportion_upper(np.array(alarms), nonmembers, _TAIL))
        then_at_most = float(np.min(most, initial=1.0, where=surely >= reached))
        if float(proportion_lower(np.array(hits), members, _TAIL)) > then_at_most:
            found.append(float(point["fpr"]))
    return tuple(found)


def stronger(attacks: tuple[AttackChange, ...], tolerance: float, *, redrawn: bool) -> list[str]:
    """Which attacks show more than was exact then, or are better than then by more than chance; a phrase each."""
    found = []
    for attack in attacks:
        exact = attack.exact[0]
        if redrawn and attack.exact != (None, None):
            continue
        if exact is not None and attack.shown[1] > exact * (1.0 + tolerance) + ROUNDING:
            found.append(f"the {attack.name} shows {number(attack.shown[1])}; {number(exact)} was exact then")
        elif attack.auc[1] - attack.auc[0] > _ERRORS * attack.error:
            found.append(f"AUC of the {attack.name}: {attack.auc[0]:.4f} then, {attack.auc[1]:.4f} now")
        elif attack.risen_at:
            rates = ", ".join(f"{100.0 * rate:g} %" for rate in attack.risen_at)
            found.append(f"TPR of the {attack.name} at FPR {rates}: higher now than chance could make it")
    return found


def impossible(then: Mapping[str, Any], now: Mapping[str, Any], tolerance: float) -> list[str]:
    """Attacks that show more than what is exact in their own audit, and did not in the earlier one; a phrase each.

    By chance, the bounds of a whole audit do so with its significance at most.
    """
    old = {key for key, attack in _by_key(then).items() if _beyond_exact(attack, tolerance)}
    return [
        f"the {_name(*key)} shows {number(float(attack['epsilon_lower']['value']))}, more than the "
        f"{number(_exact(attack))} that is exact: the releases are not those of the stated mechanism"
        for key, attack in _by_key(now).items()
        if key not in old and _beyond_exact(attack, tolerance)
    ]


def _beyond_exact(attack: Mapping[str, Any], tolerance: float) -> bool:
    exact = _exact(attack)
    return exact is not None and float(attack["epsilon_lower"]["value"]) > exact * (1.0 + tolerance) + ROUNDING


def _by_key(record: Mapping[str, Any]) -> dict[tuple[str, int | None], Mapping[str, Any]]:
    return {(str(attack["adversary"]), attack["record"]): attack for attack in record["attacks"]}


def _name(adversary: str, record: int | None) -> str:
    return f"{adversary} attack on {record_name(record)}"


def _exact(attack: Mapping[str, Any]) -> float | None:
    return None if attack["epsilon_exact"] is None else float(attack["epsilon_exact"])


def _tpr(attack: Mapping[str, Any]) -> float | None:
    return next((float(point["tpr"]) for point in attack["tpr_at_fpr"] if point["fpr"] == 0.01), None)


def _sizes(attack: Mapping[str, Any]) -> tuple[int, int]:
    """Numbers of member and nonmember scores; older records hold no curve: as many as trials."""
    curve = attack["curve"]
    return (attack["trials"], attack["trials"]) if curve is None else (curve["members"], curve["nonmembers"])


def _vertices(attack: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """False and true positives, as counts, wherever a record holds them."""
    curve, (members, nonmembers) = attack["curve"], _sizes(attack)
    if curve is not None:
        return np.array(curve["false_positives"], dtype=float), np.array(curve["true_positives"], dtype=float)
    points = attack["tpr_at_fpr"]
    return (
        np.array([round(point["realised_fpr"] * nonmembers) for point in points], dtype=float),
        np.array([round(point["tpr"] * members) for point in points], dtype=float),
    )
