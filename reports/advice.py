"""What an audit means for somebody who has to decide: a headline, one sentence, four numbers, what to do next."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .figures import record_name
from .rates import most_hits
from .sentences import best_attack, is_black_box, number, percent

_FPR = 0.01
_ROUNDING = 1e-9  # a smaller jitter is not worth a word
_HEADLINES = {
    "VIOLATED": "The claim is refuted",
    "NOT_REFUTED": "The claim was not refuted",
    "INCONCLUSIVE": "The audit could not decide",
}


@dataclass(frozen=True)
class Tile:
    """One of the four numbers: its name, the number, what it is."""

    name: str
    value: str
    meaning: str


def headline(record: dict[str, Any]) -> str:
    """The verdict in words."""
    return _HEADLINES[record["verdict"]]


def manager_sentence(record: dict[str, Any]) -> str:
    """The one sentence that somebody who decides needs; it promises nothing that is not certified."""
    claim, certified = record["claimed_epsilon"], record["certificate"]["epsilon"]
    decided = None if record["decided_by"] is None else record["decided_by"]["test"]
    if record["verdict"] == "VIOLATED":
        if decided == "fidelity test":
            return (
                "What was released is not what the stated mechanism releases, so nothing that is proved about the "
                "mechanism protects these records: do not publish before the difference is explained."
            )
        if decided == "worst pair":
            return (
                f"The mechanism does not keep the claimed epsilon of {number(claim)}: two datasets that the statement "
                f"admits are told apart with {number(record['worst_pair']['epsilon'])}, although no record of these "
                "data was found above the claim. Do not publish under this claim."
            )
        return (
            f"Do not publish this: a single record can be told from the release more clearly than the claimed epsilon "
            f"of {number(claim)} allows{_reached(record)}."
        )
    if record["verdict"] == "INCONCLUSIVE":
        if math.isinf(claim):
            return "There is no finite limit to hold the release against, so the audit neither warns nor reassures."
        said = (
            "The attacks had too few trials to reach the claim: that they found nothing against it says nothing. "
            "Repeat the audit with more trials before you rely on it"
        )
        return f"{said}; what supports the claim is the certificate alone." if certified <= claim else f"{said}."
    if certified <= claim and is_untested(record):
        return (
            "Nothing speaks against the claimed limit, and a certificate supports it for the mechanism that this code "
            "is stated to be; whether it is that mechanism was not tested."
        )
    if certified <= claim:
        return (
            f"Nothing speaks against the claimed limit, and a certificate supports it: under the assumptions below, "
            f"an attacker who raises one false alarm in a hundred recognises any one record in at most "
            f"{percent(_allowed(certified, record))} of all cases (guessing: {percent(_FPR)})."
        )
    known = "nothing is certified" if math.isinf(certified) else f"only epsilon {number(certified)} is certified"
    return (
        f"Nothing speaks against the claimed epsilon of {number(claim)}, but {known}: that the claim was not refuted "
        "does not show that it is true."
    )


def is_untested(record: dict[str, Any]) -> bool:
    """Whether somebody else's code is only said to be the mechanism that is certified: nothing held it against it.

    That a test was planned is public; it is told from the ledger.
    """
    implementation, ledger = record["implementation"], record["ledger"]
    deployed = implementation is not None and implementation["stated"] is not None
    tested = ledger is not None and any(entry["test"].startswith("fidelity") for entry in ledger["entries"])
    return deployed and not tested


def _allowed(epsilon: float, record: dict[str, Any]) -> float:
    """Most hits at one false alarm in a hundred, rounded up to the digits that are shown."""
    rate = float(most_hits(epsilon, record["certificate"]["delta"], np.array(_FPR)))
    digits = 3 if rate >= 0.0995 else 2
    step = 10.0 ** (math.floor(math.log10(rate)) - digits + 1)
    return min(math.ceil(rate / step - 1e-9) * step, 1.0)


def _reached(record: dict[str, Any]) -> str:
    """What the best attack on the worst record reaches, where that is known."""
    outlook, worst = record["outlook"], record["worst_exact"]
    if outlook is None or outlook["record"] is None or worst is None:
        return ""
    if worst["epsilon"] <= record["claimed_epsilon"]:  # it was the attack, or a pair of other data, that decided
        return ""
    hits = outlook["record"]["success"][outlook["paths"].index(record["release"]["paths"])]
    if hits is None:
        return ""
    return (
        f"; with one false alarm in a hundred, the best attack recognises record {worst['record']} in {percent(hits)} "
        f"of all cases (guessing: {percent(_FPR)})"
    )


def tiles(record: dict[str, Any]) -> list[Tile]:
    """Shown, exact, certified, claimed."""
    best, worst = best_attack(record), record["worst_exact"]
    shown = Tile("shown by attack", "–", "no attack was made")
    if best is not None:
        sure = f"{best['adversary']} attack on {record_name(best['record'])}, wrong with probability at most "
        shown = Tile(
            "shown by attack",
            number(best["epsilon_lower"]["value"]),
            f"{sure}{number(best['epsilon_lower']['significance'])}",
        )
    exact = Tile("worst record, exact", "–", "nothing is exact here")
    if worst is not None:
        exact = Tile("worst record, exact", number(worst["epsilon"]), f"record {worst['record']}, without sampling")
    return [
        shown,
        exact,
        _certified(record),
        Tile("claimed", number(record["claimed_epsilon"]), "what was put to the test"),
    ]


def public_tiles(record: dict[str, Any]) -> list[Tile]:
    """What can be told without the data."""
    found = [_certified(record), Tile("claimed", number(record["claimed_epsilon"]), "what was put to the test")]
    if record["worst_pair"] is not None:
        worst = Tile(
            "worst pair found",
            number(record["worst_pair"]["epsilon"]),
            "two datasets with other actions: says nothing about a claim on these"
            if record["release"]["mechanism"] == "thompson"
            else "two datasets of the public domain: nothing smaller can be promised",
        )
        found.insert(0, worst)
    return found


def _certified(record: dict[str, Any]) -> Tile:
    epsilon = record["certificate"]["epsilon"]
    if record["certificate"].get("method") == "none":
        return Tile("certified", "nothing", "nothing can be certified of a black box")
    meaning = (
        "holds for every dataset, under the assumptions" if math.isfinite(epsilon) else "no finite limit is proved"
    )
    return Tile("certified", number(epsilon), meaning)


def next_steps(record: dict[str, Any]) -> list[str]:
    """What to do now, most urgent first."""
    steps = _steps(record)
    jitter = record["release"].get("jitter") or 0.0
    if jitter > _ROUNDING:
        steps.append(
            f"A variance of {number(jitter)} had to be added to factorise a covariance: a larger ridge avoids it."
        )
    return steps


def _steps(record: dict[str, Any]) -> list[str]:
    claim, certified = record["claimed_epsilon"], record["certificate"]["epsilon"]
    solving = f"`gpleak certify CONFIG --solve ridge --epsilon {claim:g}`"
    if record["verdict"] == "VIOLATED":
        if record["decided_by"] is not None and record["decided_by"]["test"] == "fidelity test":
            odd = record["fidelity"]["checks"][0]["name"] if record["fidelity"]["checks"] else "law"
            return [
                f"Find out why the {odd} is not as stated: another ridge, scale or jitter, or other data.",
                "Audit again with what is really deployed: the other numbers here hold for the stated mechanism.",
            ]
        steps = ["Keep the release back, or claim a larger epsilon and audit that claim."]
        worst = record["worst_exact"]
        if worst is not None and worst["epsilon"] > certified * (1.0 + 1e-9) + 1e-6:
            steps.append("Do not rely on the certificate: it does not hold for the law that this mechanism states.")
        elif not is_black_box(record):
            steps.append(f"To meet epsilon {number(claim)}, find a ridge that does: {solving}; or solve for the scale.")
        return steps
    if record["verdict"] == "INCONCLUSIVE":
        if math.isinf(claim):
            return ["State a finite claim, audit.claimed_epsilon, and audit again."]
        steps = ["Raise audit.trials and audit again."]
        if record["worst_exact"] is not None:
            steps.append("`gpleak plan CONFIG --detect 2` says beforehand how many trials a refutation takes.")
        return steps
    if certified <= claim and is_untested(record):
        return [
            "Set audit.fidelity and audit again: the certificate is about the stated mechanism, not about this code."
        ]
    if certified <= claim:
        steps = [
            "Check the assumptions below: the certificate is worth as much as they are.",
            "Count every release from these data: further paths add to this one, see the figures on more paths.",
        ]
        if certified < 0.8 * claim:
            steps.append(f"You may claim as little as epsilon {_rounded_up(certified)} for this release.")
        return steps
    if math.isinf(certified):
        return ["Only tests support the claim. State the mechanism where you can: a certificate may follow from that."]
    return [
        f"Claim epsilon {_rounded_up(certified)}, which is certified, or find a ridge that certifies yours: {solving}."
    ]


def _rounded_up(epsilon: float) -> str:
    """Three digits, never below the value."""
    if epsilon == 0.0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step) * step:.3g}"
