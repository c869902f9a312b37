"""The report as one HTML file: no script, no network, figures inline. It is made from a record and nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup, escape

from ..audit import SPLIT, AuditResult
from .advice import headline, is_untested, manager_sentence, next_steps, public_tiles, tiles
from .drawings import all_drawings
from .figures import Drawing, record_name
from .implementation import implementation_sentence
from .map import visible
from .record import as_record
from .released import nats, others_text
from .sentences import (
    KNOWLEDGE,
    METHODS_IN_FULL,
    all_certificates,
    best_attack,
    capitalised,
    fidelity_sentence,
    fidelity_text,
    is_black_box,
    number,
    percent,
    search_sentence,
    search_text,
)

__all__ = ["compare", "fidelity_text", "number", "render_public", "render_record", "render_report", "search_text"]

_STRONGEST = 10  # records in the table of a released file
_MOST_ATTACKS = 60  # in the table of attacks


def render_report(result: AuditResult) -> str:
    """The report of an audit, for internal use."""
    return render_record(as_record(result))


def render_record(record: dict[str, Any]) -> str:
    """The report for internal use from what `as_record` or `load_record` gives: the same bytes from either."""
    attacks = side_by_side(record["attacks"])
    released = record["released"]
    return template("report.html").render(
        record=record,
        headline=headline(record),
        sentence=manager_sentence(record),
        untested=is_untested(record),
        tiles=tiles(record),
        steps=next_steps(record),
        figures={name: drawing.svg for name, drawing in all_drawings(record).items()},
        best=best_attack(record),
        certificates=sorted(all_certificates(record), key=lambda one: one["epsilon"]),
        everywhere=max((one["epsilon_exact"] for one in record["epsilon_everywhere"] or []), default=None),
        search=_searches(record),
        attacks=attacks[:_MOST_ATTACKS],
        left_out=max(len(attacks) - _MOST_ATTACKS, 0),
        compared=compare(attacks),
        knowledge=KNOWLEDGE.get(record["population"] or "", record["population"]),
        split=SPLIT.fraction,
        sequential=any(entry["looks"] is None for entry in _entries(record)),
        ledger=ledger_lines(record),
        beside=_beside(record),
        provable=max((attack["largest_provable_epsilon"] for attack in attacks), default=None),
        fidelity=fidelity_sentence(record),
        black_box=is_black_box(record),
        implementation=implementation_sentence(record["release"]["mechanism"], record["implementation"]),
        suspicions=[] if released is None else strongest(released),
        others=None if released is None else others_text(released),
    )


def render_public(record: dict[str, Any]) -> str:
    """The report without anything that was measured on private data, from what `redacted` gives."""
    return template("public.html").render(
        record=record,
        tiles=public_tiles(record),
        figures={name: drawing.svg for name, drawing in all_drawings(record).items()},
        certificates=sorted(all_certificates(record), key=lambda one: one["epsilon"]),
        search=_searches(record),
        ledger=ledger_lines(record),
        implementation=implementation_sentence(record["release"]["mechanism"], record["implementation"]),
        untested=is_untested(record),
    )


def render_locations(record: dict[str, Any], drawing: Drawing, columns: Sequence[str]) -> str:
    """The private report: where the records lie and how much is betrayed of each."""
    return template("private.html").render(
        record=record, figure=drawing.svg, columns=[visible(name) for name in columns]
    )


def template(name: str) -> Template:
    """A template with the filters that all of them use."""
    environment = Environment(
        loader=PackageLoader("gpleak.reports", "templates"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(coded=_coded, number=number, nats=nats, capitalize_first=capitalised, percent=percent)
    environment.globals.update(name=record_name, methods=METHODS_IN_FULL)
    return environment.get_template(name)


def _coded(text: str) -> Markup:
    """Text with what stands between backticks as code."""
    return Markup(re.sub(r"`(.+?)`", r"<code>\1</code>", str(escape(text))))


def _searches(record: dict[str, Any]) -> list[str]:
    """How numerical suprema were found; those that lost against another certificate say so."""
    found = []
    for certificate in all_certificates(record):
        if (text := search_sentence(certificate)) is not None:
            used = certificate["method"] == record["certificate"].get("method")
            found.append(text if used else f"{text} Another certificate is smaller and is used in its place.")
    return found


@dataclass(frozen=True)
class LedgerLine:
    """Tests of one kind, which all may spend alike: name, how many, and one entry of the ledger."""

    test: str
    count: int
    entry: dict[str, Any]


def ledger_lines(record: dict[str, Any]) -> list[LedgerLine]:
    """The ledger by kind of test; records before schema version 4 have none."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for entry in _entries(record):
        kinds.setdefault(entry["test"], []).append(entry)
    return [
        LedgerLine(f"{test} test" if test == "fidelity" else f"{test} attack", len(alike), alike[0])
        for test, alike in kinds.items()
    ]


def _entries(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if record["ledger"] is None else list(record["ledger"]["entries"])


@dataclass(frozen=True)
class Compared:
    """One adversary over all its targets.

    Attributes:
        adversary: Its name.
        auc: Mean over the targets.
        tpr_at_fpr: Means of the rates, as in the results.
        epsilon_lower: The largest that it showed.
        shadows: Fewest a hypothesis; None for an adversary who trains none.
        bytes_a_shadow: Kept of a shadow pair for one target; None likewise.
        notes: What it says about itself, each once.
    """

    adversary: str
    auc: float
    tpr_at_fpr: tuple[float, ...]
    epsilon_lower: float
    shadows: int | None
    bytes_a_shadow: float | None
    notes: tuple[str, ...]


def compare(attacks: Sequence[dict[str, Any]]) -> list[Compared]:
    """Adversaries beside each other: those who train shadows all had the same ones, and the same trials."""
    found = []
    for adversary in dict.fromkeys(attack["adversary"] for attack in attacks):
        own = [attack for attack in attacks if attack["adversary"] == adversary]
        kept = [one["kept_bytes"] / one["shadows"] for one in own if one["kept_bytes"] is not None and one["shadows"]]
        rates = np.array([[point["tpr"] for point in attack["tpr_at_fpr"]] for attack in own])
        found.append(
            Compared(
                adversary,
                float(np.mean([attack["auc"] for attack in own])),
                tuple(rates.mean(axis=0).tolist()),
                max(attack["epsilon_lower"]["value"] for attack in own),
                min((attack["shadows"] for attack in own if attack["shadows"] is not None), default=None),
                float(np.mean(kept)) if kept else None,
                tuple(dict.fromkeys(note for attack in own for note in attack["notes"])),
            )
        )
    return found


def _beside(record: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What is no ground of a verdict, for the most revealing attack of each adversary."""
    ranked = sorted(record["attacks"], key=lambda attack: attack["epsilon_lower"]["value"])
    best = {attack["adversary"]: attack for attack in ranked}
    return [
        (attack, bound)
        for attack in best.values()
        for bound in (*([attack["model_based"]] if attack["model_based"] else []), *attack["estimates"])
    ]


def strongest(released: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of which a released file says most, ties by row."""
    return sorted(released["records"], key=lambda one: -one["evidence"])[:_STRONGEST]


def side_by_side(attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Attacks on one record next to each other, records in their order of exposure."""
    place = {record: index for index, record in enumerate(dict.fromkeys(attack["record"] for attack in attacks))}
    return sorted(attacks, key=lambda attack: (place[attack["record"]], attack["adversary"]))
