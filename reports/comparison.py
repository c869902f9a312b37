"""What changed from one audit to another, and whether anything got worse.

Two audits are comparable when delta, the neighbouring relation and the data are the same. Then these are worse now:

- the verdict: VIOLATED, or INCONCLUSIVE where the claim had withstood an audit that could have refuted it;
- an epsilon that is known without sampling (worst record, worst pair, certificate) that rose by more than a tolerance;
- an attack that shows more than was exact then, or whose AUC rose by more than chance: five standard errors of both,
  each at most ``sqrt(auc (1 - auc) / trials)`` (van Dantzig 1951), which chance exceeds once in 3 million attacks.

What is exact of a record is so for the drawn replacements: where others were drawn (another seed, another number of
them), a rise of it, or of an attack that uses them, is no ground. A rise of what an attack shows is none by itself: it
changes with the seed by more than the tolerance.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..audit import Verdict
from ..audit.sweep import differences, value_text
from ..mechanisms import InputError
from .figures import record_name
from .html import number

_ERRORS = 5.0  # standard errors that an AUC must rise by
_ROUNDING = 1e-6
_RANK = {Verdict.NOT_REFUTED: 0, Verdict.INCONCLUSIVE: 1, Verdict.VIOLATED: 2}
_WITHOUT_SAMPLING = ("worst record, exact", "worst pair found", "certified")

_REDRAWN = "other replacements were drawn: a rise of an exact epsilon, or of a core attack, alone is no ground"

_Change = tuple[float | None, float | None]


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
    """

    adversary: str
    record: int | None
    auc: tuple[float, float]
    tpr: _Change
    shown: tuple[float, float]
    exact: _Change
    error: float

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.adversary} attack on {record_name(self.record)}"


@dataclass(frozen=True)
class Comparison:
    """What changed.

    Attributes:
        obstacles: Why the audits are not comparable, a phrase each; empty when they are.
        worse: What got worse, a phrase each.
        verdict: Then and now.
        epsilons: Then and now, by name; None where it was not computed.
        fidelity: p-values then and now.
        attacks: Those in both audits.
        only_then: Names of attacks that are no longer made.
        only_now: Names of new ones.
        changed: Parameters that differ, a phrase each.
        notes: What could not be set against each other.
    """

    obstacles: tuple[str, ...]
    worse: tuple[str, ...]
    verdict: tuple[str, str]
    epsilons: Mapping[str, _Change]
    fidelity: _Change
    attacks: tuple[AttackChange, ...]
    only_then: tuple[str, ...]
    only_now: tuple[str, ...]
    changed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def status(self) -> int:
        """The exit status: 1 when something got worse, else 3 when the audits are not comparable, else 0."""
        return 1 if self.worse else 3 if self.obstacles else 0


def compare_records(then: Mapping[str, Any], now: Mapping[str, Any], *, tolerance: float = 0.01) -> Comparison:
    """Set the record of an audit beside that of an earlier one, both as `load_record` returns them.

    Args:
        then: The earlier.
        now: The later.
        tolerance: Share by which an epsilon that is known without sampling may rise: searches agree to about 0.005.

    Raises:
        InputError: The tolerance is negative or NaN.
        ValueError, KeyError, TypeError: Not the record of an audit; or a number in it is NaN, which would compare
            as no worse.
    """
    if not 0.0 <= tolerance < math.inf:
        raise InputError(f"the tolerance must be 0 or a positive number, got {tolerance:g}")
    for record in (then, now):
        _refuse_nan(record)
    verdict = (Verdict(then["verdict"]), Verdict(now["verdict"]))
    earlier, later = _epsilons(then), _epsilons(now)
    epsilons = {name: (earlier[name], later[name]) for name in earlier}
    attacks, only_then, only_now = _attacks(then, now)
    other_question, redrawn = _other_question(then, now), _other_replacements(then, now)
    lost = [name for name in _WITHOUT_SAMPLING if epsilons[name][0] is not None and epsilons[name][1] is None]
    worse = [f"the verdict is {verdict[1]} and was {verdict[0]}"] if _RANK[verdict[1]] > _RANK[verdict[0]] else []
    if not other_question:
        worse += _risen(epsilons, attacks, tolerance, redrawn=redrawn)
    changed = differences(settings_of(then), settings_of(now))
    p_values = (_p_value(then), _p_value(now))
    return Comparison(
        (*other_question, *(f"{name}: no longer computed" for name in lost)),
        tuple(worse),
        (str(verdict[0]), str(verdict[1])),
        epsilons,
        p_values,
        attacks,
        only_then,
        only_now,
        tuple(changed),
        (_REDRAWN,) if redrawn else (),
    )


def settings_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says about how the audit was made, by dotted key. Not where: that changes no result."""
    data, ledger, attacks = record["data"] or {}, record["ledger"] or {}, record["attacks"]
    parts: dict[str, Any] = {
        "release": record["release"],
        "data": {key: data.get(key) for key in ("records", "sha256", "clipped")},
        "audit": {
            "claimed_epsilon": record["claimed_epsilon"],
            "delta": record["certificate"]["delta"],
            "significance": ledger.get("significance"),
            "adversaries": list(dict.fromkeys(attack["adversary"] for attack in attacks)),
            "replacements": record.get("replacements"),
            "trials": sorted({attack["trials"] for attack in attacks}),
            "shadows": sorted({attack["shadows"] for attack in attacks if attack["shadows"]}) or None,
            "fidelity": {key: (record["fidelity"] or {}).get(key) for key in ("source", "paths", "points")},
            "seed": record["seed"],
        },
        "certificate": {"method": record["certificate"]["method"]},
        "population": record["population"],
        "implementation": record["implementation"],
        "released.sha256": (record["released"] or {}).get("sha256"),
        "neighbouring": record["neighbouring"],
        "versions": record.get("versions") or {"gpleak": record["gpleak_version"]},
    }
    found = {key: _plain(value) for key, value in _flat(parts, "")}
    return {key: value for key, value in found.items() if value is not None}


def _flat(value: Any, name: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return [(name, value)]
    return [pair for key, item in value.items() for pair in _flat(item, f"{name}.{key}" if name else key)]


def _plain(value: Any) -> Any:
    """Numbers as a person writes them; a list of one is that one."""
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], list | dict):
        value = value[0]
    return value_text(value) if isinstance(value, float) else value


def _refuse_nan(value: Any) -> None:
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("a number is NaN")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_nan(item)


def _epsilons(record: Mapping[str, Any]) -> dict[str, float | None]:
    return {
        "shown by attack": max((float(attack["epsilon_lower"]["value"]) for attack in record["attacks"]), default=None),
        "worst record, exact": _number((record["worst_exact"] or {}).get("epsilon")),
        "worst pair found": _number((record["worst_pair"] or {}).get("epsilon")),
        "certified": float(record["certificate"]["epsilon"]),
        "claimed": float(record["claimed_epsilon"]),
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _p_value(record: Mapping[str, Any]) -> float | None:
    return _number((record["fidelity"] or {}).get("p_value"))


def _attacks(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[tuple[AttackChange, ...], tuple[str, ...], tuple[str, ...]]:
    earlier, later = (
        {(str(attack["adversary"]), attack["record"]): attack for attack in record["attacks"]} for record in (then, now)
    )
    both = tuple(
        AttackChange(
            adversary,
            record,
            (float(old["auc"]), float(new["auc"])),
            (_tpr(old), _tpr(new)),
            (float(old["epsilon_lower"]["value"]), float(new["epsilon_lower"]["value"])),
            (_number(old["epsilon_exact"]), _number(new["epsilon_exact"])),
            math.sqrt(sum(attack["auc"] * (1.0 - attack["auc"]) / attack["trials"] for attack in (old, new))),
        )
        for (adversary, record), new in later.items()
        if (old := earlier.get((adversary, record))) is not None
    )
    names = [
        tuple(f"{adversary} attack on {record_name(row)}" for adversary, row in some if (adversary, row) not in others)
        for some, others in ((earlier, later), (later, earlier))
    ]
    return both, names[0], names[1]


def _tpr(attack: Mapping[str, Any]) -> float | None:
    return next((float(point["tpr"]) for point in attack["tpr_at_fpr"] if point["fpr"] == 0.01), None)


def _other_question(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes every number of one audit mean something else than that of the other."""
    found = []
    for name, values in {
        "delta": [record["certificate"]["delta"] for record in (then, now)],
        "neighbouring relation": [record["neighbouring"] for record in (then, now)],
    }.items():
        if values[0] != values[1]:
            found.append(f"another {name}: {value_text(values[0])} then, {value_text(values[1])} now")
    data = [record["data"] or {} for record in (then, now)]
    if any(data[0].get(key) != data[1].get(key) for key in ("records", "sha256")):
        found.append("other data: their number or their SHA-256 is another")
    return found


def _other_replacements(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether other public records take the places of the private ones, for no reason that lies in the release."""
    counts = [record.get("replacements") for record in (then, now)]  # older records do not say how many
    return bool(then["seed"] != now["seed"] or (None not in counts and counts[0] != counts[1]))


def _risen(
    epsilons: Mapping[str, _Change], attacks: tuple[AttackChange, ...], tolerance: float, *, redrawn: bool
) -> list[str]:
    found = []
    for name in _WITHOUT_SAMPLING:
        old, new = epsilons[name]
        if redrawn and name == "worst record, exact":
            continue
        if old is not None and new is not None and new > old * (1.0 + tolerance) + _ROUNDING:
            found.append(f"{name}: {number(old)} then, {number(new)} now")
    for attack in attacks:
        exact = attack.exact[0]
        if redrawn and attack.exact != (None, None):
            continue
        if exact is not None and attack.shown[1] > exact * (1.0 + tolerance) + _ROUNDING:
            found.append(f"the {attack.name} shows {number(attack.shown[1])}; {number(exact)} was exact then")
        elif attack.auc[1] - attack.auc[0] > _ERRORS * attack.error:
            found.append(f"AUC of the {attack.name}: {attack.auc[0]:.4f} then, {attack.auc[1]:.4f} now")
    return found


def comparison_record(found: Comparison) -> dict[str, Any]:
    """A comparison as plain values; pairs are then and now."""
    return {"status": found.status, "comparable": not found.obstacles, **asdict(found)}
