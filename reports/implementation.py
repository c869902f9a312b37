"""Whose code drew the releases, and what it is stated, or taken, to be."""

from typing import Any

from ..audit import AuditResult
from ..mechanisms.foreign import BlackBox, Deployed


def implementation_record(result: AuditResult) -> dict[str, Any] | None:
    """As plain values; None when gpleak's own mechanism, or an outsider's own class, drew them."""
    mechanism = result.mechanism
    if not isinstance(mechanism, Deployed | BlackBox):
        return None
    name, stated = mechanism.like.name, isinstance(mechanism, Deployed)
    return {
        "stated": name if stated else None,
        "taken_for": None if stated else name,
        "notes": list(mechanism.notes),
    }


def implementation_text(result: AuditResult) -> str | None:
    """The same in a sentence without its full stop."""
    return implementation_sentence(result.mechanism.name, implementation_record(result))


def implementation_sentence(name: str, implementation: dict[str, Any] | None) -> str | None:
    """The same of a record: who drew the releases, and `implementation_record`."""
    if implementation is None:
        return None
    if implementation["stated"] is not None:
        return f"releases were drawn by {name}, which is stated to be mechanism {implementation['stated']}"
    return (
        f"releases were drawn by {name}, a black box of which nothing is certified or exact; the adversaries took it "
        f"for mechanism {implementation['taken_for']}, which makes no bound wrong if it is something else"
    )


def notes_of(result: AuditResult) -> tuple[str, ...]:
    """What an adapter says about the code."""
    mechanism = result.mechanism
    return mechanism.notes if isinstance(mechanism, Deployed | BlackBox) else ()
