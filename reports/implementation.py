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
    mechanism = result.mechanism
    if isinstance(mechanism, Deployed):
        return f"releases were drawn by {mechanism.name}, which is stated to be mechanism {mechanism.like.name}"
    if isinstance(mechanism, BlackBox):
        return (
            f"releases were drawn by {mechanism.name}, a black box of which nothing is certified or exact; the "
            f"adversaries took it for mechanism {mechanism.like.name}, which makes no bound wrong if it is something "
            "else"
        )
    return None


def notes_of(result: AuditResult) -> tuple[str, ...]:
    """What an adapter says about the code."""
    mechanism = result.mechanism
    return mechanism.notes if isinstance(mechanism, Deployed | BlackBox) else ()
