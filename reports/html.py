"""The report as one HTML file: no script, no network, figures inline."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from .. import __version__
from ..audit import SPLIT, AttackResult, AuditResult, EpsilonBound, Expense, Supremum
from ..mechanisms.foreign import BlackBox
from .figures import evidence_figure, exposure_figure, record_name, roc_figure, sandwich_figure
from .implementation import implementation_text, notes_of
from .released import nats, others_text, suspicions

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
_STRONGEST = 10  # records in the table of a released file


def render_report(result: AuditResult) -> str:
    """The whole report as HTML text."""
    environment = Environment(
        loader=PackageLoader("gpleak.reports", "templates"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["nats"] = nats
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment.get_template("report.html").render(
        result=result,
        attacks=side_by_side(result.attacks),
        release=result.mechanism.release,
        sandwich=sandwich_figure(result),
        roc=roc_figure(result.attacks),
        histogram=None if result.exposure is None else exposure_figure(result.epsilon_exact, result.claimed_epsilon),
        name=record_name,
        search=[search_text(found.search) for found in result.certificates if found.search is not None],
        fidelity=fidelity_text(result),
        implementation=implementation_text(result),
        notes=notes_of(result),
        sequential=any(expense.looks is None for expense in result.ledger.expenses),
        ledger=_ledger_lines(result),
        beside=_beside(result),
        compared=compare(result.attacks),
        suspicions=[] if result.released is None else suspicions(result.released)[:_STRONGEST],
        others=None if result.released is None else others_text(result.released),
        evidence=None if result.released is None else evidence_figure(result.released.membership),
        knowledge=_KNOWLEDGE.get(result.population or "", result.population),
        split=SPLIT.fraction,
        versions={
            "gpleak": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
    )


@dataclass(frozen=True)
class LedgerLine:
    """Tests of one kind, which all may spend alike."""

    test: str
    count: int
    expense: Expense


def _ledger_lines(result: AuditResult) -> list[LedgerLine]:
    kinds: dict[str, list[Expense]] = {}
    for expense in result.ledger.expenses:
        kinds.setdefault(expense.test, []).append(expense)
    return [
        LedgerLine(f"{test} test" if test == "fidelity" else f"{test} attack", len(alike), alike[0])
        for test, alike in kinds.items()
    ]


_KNOWLEDGE = {"data": "the private data without the target", "file": "a public file", "jump": "the jump stress test"}


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


def compare(attacks: Sequence[AttackResult]) -> list[Compared]:
    """Adversaries beside each other: those who train shadows all had the same ones, and the same trials."""
    found = []
    for adversary in dict.fromkeys(attack.adversary for attack in attacks):
        own = [attack for attack in attacks if attack.adversary == adversary]
        kept = [a.kept / a.shadows for a in own if a.kept is not None and a.shadows]
        rates = np.array([[point.tpr for point in attack.tpr_at_fpr] for attack in own])
        found.append(
            Compared(
                adversary,
                float(np.mean([attack.auc for attack in own])),
                tuple(rates.mean(axis=0).tolist()),
                max(attack.epsilon_lower.value for attack in own),
                min((attack.shadows for attack in own if attack.shadows is not None), default=None),
                float(np.mean(kept)) if kept else None,
                tuple(dict.fromkeys(note for attack in own for note in attack.notes)),
            )
        )
    return found


def _beside(result: AuditResult) -> list[tuple[AttackResult, EpsilonBound]]:
    """What is no ground of a verdict, for the most revealing attack of each adversary."""
    best = {attack.adversary: attack for attack in sorted(result.attacks, key=lambda a: a.epsilon_lower.value)}
    return [
        (attack, bound)
        for attack in best.values()
        for bound in (*([attack.model_based] if attack.model_based else []), *attack.estimates)
    ]


def search_text(search: Supremum) -> str:
    """How a numerical supremum was found, in a sentence."""
    if search.pairs == 0:
        return "The structured certificate could not be computed in float64: it is not used."
    agreed = f"which agree to {number(100 * search.agreement)} %"
    if np.isinf(search.epsilon):
        agreed = f"which differ by {number(100 * search.agreement)} %: it is not used"
    return (
        f"The structured certificate is a numerical supremum over all that datasets can show: two independent searches "
        f"at two resolutions, the finer {search.resolution} points and {search.pairs} profiles in all, {agreed}."
    )


def fidelity_text(result: AuditResult) -> str:
    """Whether releases are those of the stated mechanism, in a sentence without its full stop."""
    found = result.fidelity
    if found is None:
        return "not tested"
    p_value = number(found.p_value) if found.p_value > 0 else "below 1e-300"
    said = "are compatible with" if found.passed else "are not those of"
    whose = (
        "mechanism that the adversaries take them for" if isinstance(result.mechanism, BlackBox) else "stated mechanism"
    )
    if found.source == "file":
        is_it = "is" if found.passed else "is not"
        return (
            f"the file, {found.paths} path(s) at {found.points} points, {is_it} compatible with a release of the "
            f"stated mechanism for these data (p-value {p_value}, at significance {number(found.significance)})"
        )
    return (
        f"{found.paths} released paths of the data and as many of a neighbour, looked at in {found.points} places, "
        f"{said} the {whose} (p-value {p_value}, at significance {number(found.significance)})"
    )


def side_by_side(attacks: Sequence[AttackResult]) -> list[AttackResult]:
    """Attacks on one record next to each other, records in their order of exposure."""
    place = {record: index for index, record in enumerate(dict.fromkeys(attack.record for attack in attacks))}
    return sorted(attacks, key=lambda attack: (place[attack.record], attack.adversary))


def number(value: float | None) -> str:
    """Four significant digits; a dash for what does not exist."""
    if value is None:
        return "–"
    return "infinite" if value == float("inf") else f"{value:.4g}"
