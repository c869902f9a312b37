"""What a record says, in words: numbers, tests, searches. No judgement of its own; that is `advice.py`."""

import math
from collections.abc import Mapping
from typing import Any

from ..audit import AuditResult, Supremum
from ..mechanisms.foreign import BlackBox

METHODS = {"renyi": "theorem", "structured": "structured", "dominating_pair": "lossless", "none": "nothing"}
METHODS_IN_FULL = {
    "renyi": "Renyi theorem",
    "structured": "structured supremum",
    "dominating_pair": "dominating pair, lossless",
    "none": "nothing is certified of a black box",
}
_PERCENT = "\u00a0%"  # on one line with its number
KNOWLEDGE = {"data": "the private data without the target", "file": "a public file", "jump": "the jump stress test"}


def number(value: float | None) -> str:
    """Four significant digits; a dash for what does not exist."""
    if value is None:
        return "–"
    return "infinite" if value == float("inf") else f"{value:.4g}"


def capitalised(text: str) -> str:
    """With a first capital, the rest as it is."""
    return text[:1].upper() + text[1:]


def all_certificates(record: dict[str, Any]) -> list[dict[str, Any]]:
    """All certificates of a record; before schema version 4 there was one."""
    return record["certificates"] or [record["certificate"]]


def best_attack(record: dict[str, Any]) -> dict[str, Any] | None:
    """The attack with the largest lower bound; None where there is none to tell of."""
    return max(record["attacks"], key=lambda attack: attack["epsilon_lower"]["value"], default=None)


def search_text(search: Supremum) -> str:
    """How a numerical supremum was found, in a sentence."""
    return _search(search.epsilon, search.agreement, search.resolution, search.pairs)


def search_sentence(certificate: Mapping[str, Any]) -> str | None:
    """The same of a certificate in a record; None for one that needs no search."""
    if certificate["resolution"] is None:
        return None
    return _search(
        certificate["epsilon"], certificate["agreement"], certificate["resolution"], certificate.get("pairs")
    )


def _search(epsilon: float, agreement: float, resolution: int, pairs: int | None) -> str:
    if pairs == 0 or resolution == 0:
        return "The structured certificate could not be computed in float64: it is not used."
    agreed = f"which agree to {number(100 * agreement)} %"
    if math.isinf(epsilon):
        agreed = f"which differ by {number(100 * agreement)} %: it is not used"
    profiles = "" if pairs is None else f" and {pairs} profiles in all"
    return (
        f"The structured certificate is a numerical supremum over all that datasets can show: two independent searches "
        f"at two resolutions, the finer {resolution} points{profiles}, {agreed}."
    )


def fidelity_text(result: AuditResult) -> str:
    """Whether releases are those of the stated mechanism, in a sentence without its full stop."""
    found = result.fidelity
    names = ("p_value", "passed", "source", "paths", "points", "significance")
    values = None if found is None else {name: getattr(found, name) for name in names}
    return _fidelity(values, black_box=isinstance(result.mechanism, BlackBox))


def fidelity_sentence(record: dict[str, Any]) -> str:
    """The same of a record."""
    return _fidelity(record["fidelity"], black_box=is_black_box(record))


def is_black_box(record: dict[str, Any]) -> bool:
    """Whether nothing is stated of the code that drew the releases."""
    return record["implementation"] is not None and record["implementation"]["stated"] is None


def _fidelity(found: Mapping[str, Any] | None, *, black_box: bool) -> str:
    if found is None:
        return "not tested"
    p_value = number(found["p_value"]) if found["p_value"] > 0 else "below 1e-300"
    said = "are compatible with" if found["passed"] else "are not those of"
    whose = "mechanism that the adversaries take them for" if black_box else "stated mechanism"
    sure = f"(p-value {p_value}, at significance {number(found['significance'])})"
    if found["source"] == "file":
        is_it = "is" if found["passed"] else "is not"
        return (
            f"the file, {found['paths']} path(s) at {found['points']} points, {is_it} compatible with a release of the "
            f"stated mechanism for these data {sure}"
        )
    return (
        f"{found['paths']} released paths of the data and as many of a neighbour, looked at in {found['points']} "
        f"places, {said} the {whose} {sure}"
    )


def percent(rate: float) -> str:
    """A rate as a percentage of about two digits, in one piece; nearly certain is not certain."""
    if rate >= 0.9995:
        return f"{'more than 99.9' if rate < 1.0 else '100'}{_PERCENT}"
    return f"{100 * rate:.3g}{_PERCENT}" if rate >= 0.0995 else f"{100 * rate:.2g}{_PERCENT}"
