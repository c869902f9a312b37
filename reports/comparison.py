"""What changed from one audit to another, and whether anything got worse.

Two audits are comparable when delta, the neighbouring relation and the data are the same, and what was computed, tested
and attacked then still is. Then these are worse now:

- a claim that was raised;
- an epsilon that is known without sampling (worst record, worst pair, certificate) that rose by more than a tolerance;
- an attack that shows more than was exact then, or that is better by more than chance: its AUC rose by five standard
  errors of both, each at most ``sqrt(auc (1 - auc) / trials)`` (van Dantzig 1951), which chance exceeds once in 3
  million attacks, or its true-positive rate at some false-positive rate by more than exact limits allow, which chance
  does once in 2.5 million (`attack_changes.risen_rates`).

And these are, whatever the data and the question were:

- the verdict: VIOLATED, or INCONCLUSIVE where the claim had withstood an audit that could have refuted it;
- a fidelity test that is failed and was passed, unless the code is a black box, of which no law is stated;
- an attack that shows more than what is exact in the same audit, which an audit of the stated mechanism does by chance
  with its significance at most.

What is exact of a record is so for the drawn replacements: where others were drawn (another seed, another number of
them), a rise of it, or of an attack that uses them, is no ground. A rise of what an attack shows is none by itself: it
changes with the seed by more than the tolerance. That other shadows make an adversary better is not told from a rise.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..audit import Verdict
from ..audit.sweep import differences, value_text
from ..mechanisms import InputError
from .attack_changes import ROUNDING, AttackChange, Change, impossible, lost_adversaries, paired, stronger
from .html import number

_RANK = {Verdict.NOT_REFUTED: 0, Verdict.INCONCLUSIVE: 1, Verdict.VIOLATED: 2}
_WITHOUT_SAMPLING = ("worst record, exact", "worst pair found", "certified")

_REDRAWN = "other replacements were drawn: a rise of an exact epsilon, or of a core attack, alone is no ground"
_UNKNOWN_DATA = "whether the data are the same cannot be told: no SHA-256 of them was recorded"
_UNTESTED = "the fidelity test is failed now and was not made then"


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
        notes: What could not be set against each other, or cannot be told.
    """

    obstacles: tuple[str, ...]
    worse: tuple[str, ...]
    verdict: tuple[str, str]
    epsilons: Mapping[str, Change]
    fidelity: Change
    attacks: tuple[AttackChange, ...]
    only_then: tuple[str, ...]
    only_now: tuple[str, ...]
    changed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def conclusion(self) -> str:
        """What the status says, with everything that it does not cover."""
        if self.worse:
            return "something got worse"
        if self.obstacles:
            return "nothing can be said about what got worse"
        among = " among what both have" if self.only_then else ""
        return f"nothing got worse{among}{', if the data are the same' if _UNKNOWN_DATA in self.notes else ''}"

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
    attacks, only_then, only_now = paired(then, now)
    other_question, redrawn = _other_question(then, now), _other_replacements(then, now)
    worse = [f"the verdict is {verdict[1]} and was {verdict[0]}"] if _RANK[verdict[1]] > _RANK[verdict[0]] else []
    fidelity = (_fidelity(then), _fidelity(now))
    if fidelity == (True, False):
        worse.append(f"fidelity: passed then, failed now with p-value {number(_p_value(now))}")
    if not other_question:
        worse += _risen(epsilons, tolerance, redrawn=redrawn) + stronger(attacks, tolerance, redrawn=redrawn)
    worse += impossible(then, now, tolerance)
    notes = {_UNKNOWN_DATA: _unknown_data(then, now), _UNTESTED: fidelity == (None, False), _REDRAWN: redrawn}
    changed = differences(settings_of(then), settings_of(now))
    p_values = (_p_value(then), _p_value(now))
    return Comparison(
        (*other_question, *_lost(then, now, epsilons)),
        tuple(worse),
        (str(verdict[0]), str(verdict[1])),
        epsilons,
        p_values,
        attacks,
        only_then,
        only_now,
        tuple(changed),
        tuple(note for note, holds in notes.items() if holds),
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


def _fidelity(record: Mapping[str, Any]) -> bool | None:
    """Whether the releases are those of the stated law; None where that was not tested or no law is stated."""
    implementation = record["implementation"]
    if record["fidelity"] is None or (implementation is not None and implementation["stated"] is None):
        return None
    return bool(record["fidelity"]["passed"])


def _lost(then: Mapping[str, Any], now: Mapping[str, Any], epsilons: Mapping[str, Change]) -> list[str]:
    """What was computed, tested or attacked then and is no longer, a phrase each."""
    lost = [name for name in _WITHOUT_SAMPLING if epsilons[name][0] is not None and epsilons[name][1] is None]
    found = [f"{name}: no longer computed" for name in lost]
    if then["fidelity"] is not None and now["fidelity"] is None:
        found.append("fidelity test: no longer made")
    return found + [f"{name} attacks: no longer made" for name in lost_adversaries(then, now)]


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


def _unknown_data(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether there are data in both audits whose hash neither knows: they came from memory."""
    return all(record["data"] is not None and record["data"].get("sha256") is None for record in (then, now))


def _other_replacements(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether other public records take the places of the private ones, for no reason that lies in the release."""
    counts = [record.get("replacements") for record in (then, now)]  # older records do not say how many
    return bool(then["seed"] != now["seed"] or (None not in counts and counts[0] != counts[1]))


def _risen(epsilons: Mapping[str, Change], tolerance: float, *, redrawn: bool) -> list[str]:
    found = []
    for name in ("claimed", *_WITHOUT_SAMPLING):
        old, new = epsilons[name]
        if old is None or new is None or (redrawn and name == "worst record, exact"):
            continue
        if new > (old if name == "claimed" else old * (1.0 + tolerance) + ROUNDING):
            found.append(f"{name}: {number(old)} then, {number(new)} now")
    return found


def comparison_record(found: Comparison) -> dict[str, Any]:
    """A comparison as plain values; pairs are then and now."""
    return {
        "status": found.status,
        "comparable": not found.obstacles,
        "conclusion": found.conclusion,
        **asdict(found),
    }
