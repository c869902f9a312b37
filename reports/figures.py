"""The figures of a report, as SVG text with no outside reference. Same input, same bytes."""

import io
import logging
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ..audit import AttackResult, AuditResult
from ..audit.membership import MembershipEvidence
from ..mechanisms import Array

# Okabe and Ito's colours, told apart by all common kinds of colour vision.
INK, BLUE, ORANGE, GREEN, RED, GREY = "#1a1a1a", "#0072b2", "#e69f00", "#009e73", "#d55e00", "#8c8c8c"
_LINES = (BLUE, ORANGE, GREEN, RED, "#cc79a7", "#56b4e9")
# A font list cached by another installation makes matplotlib complain on stderr, where a failure's one line belongs; it
# falls back to its own DejaVu Sans, which is what the figures use.
logging.getLogger("matplotlib.font_manager").setLevel(logging.CRITICAL)

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "gpleak",
    "svg.fonttype": "path",
}

_MARKERS = "v^sDPX"  # of adversaries who train shadows


def sandwich_figure(result: AuditResult) -> str:
    """Lower bounds, exact values, claim and certificate of each attacked record on one epsilon axis."""
    names = list(dict.fromkeys(attack.record for attack in result.attacks))[:20]
    rows = {name: float(len(names) - 1 - place) for place, name in enumerate(names)}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.2, 1.5 + 0.34 * len(names)), layout="constrained")
        axes = figure.subplots()
        adversaries = dict.fromkeys(attack.adversary for attack in result.attacks)
        for place, adversary in enumerate(adversaries):
            marker = ">" if adversary == "core" else _MARKERS[place % len(_MARKERS)]
            shown = [a for a in result.attacks if a.adversary == adversary and a.record in rows]
            if not shown:
                continue
            y = [rows[attack.record] for attack in shown]
            lower = [attack.epsilon_lower.value for attack in shown]
            colour = BLUE if adversary == "core" else GREY
            axes.plot(lower, y, marker, color=colour, label=f"shown by {adversary} attack (lower bound)", zorder=3)
            exact = [attack.epsilon_exact for attack in shown if attack.epsilon_exact is not None]
            if len(exact) == len(shown):
                axes.hlines(y, lower, exact, color=GREY, linewidth=1.2, zorder=1)
                axes.plot(exact, y, "o", color=ORANGE, label="exact for the pair", zorder=2)
        axes.axvline(result.claimed_epsilon, color=RED, linestyle="--", label="claimed")
        if result.worst_pair is not None:
            axes.axvline(result.worst_pair.epsilon, color=INK, linestyle="-.", label="worst pair found")
        if np.isfinite(result.certificate.epsilon):
            axes.axvline(result.certificate.epsilon, color=GREEN, label="certified (upper bound)")
        axes.set_yticks(list(rows.values()), [record_name(name) for name in names])
        axes.set_ylim(-0.7, len(names) - 0.3)
        axes.set_xscale("symlog", linthresh=0.1, linscale=0.4)
        axes.set_xlim(left=-0.01)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel(f"epsilon at delta = {result.delta:g}  (linear below 0.1, logarithmic above)")
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9)
        return _svg(figure)


def record_name(record: int | None) -> str:
    """How an attacked record is called."""
    return "the target" if record is None else f"record {record}"


def roc_figure(attacks: Sequence[AttackResult]) -> str:
    """Every attack's ROC on log-log axes, where small false-positive rates can be seen."""
    # The most exposed record of each adversary first: side by side they are what the figure is for.
    first = {attack.adversary: attack for attack in reversed(attacks)}
    shown = list(dict.fromkeys([*reversed(first.values()), *attacks]))[: len(_LINES)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 4.4), layout="constrained")
        axes = figure.subplots()
        floor = min(1.0 / attack.curve.nonmembers for attack in shown)
        line = np.geomspace(floor, 1.0, 50)
        axes.plot(line, line, ":", color=GREY, label="guessing")
        for attack, colour in zip(shown, _LINES, strict=False):
            x, y = _thinned(attack.curve.fpr, attack.curve.tpr, floor)
            axes.step(x, y, where="post", color=colour, label=f"{attack.adversary}, {record_name(attack.record)}")
        axes.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1.1))
        axes.set_xlabel("false-positive rate")
        axes.set_ylabel("true-positive rate")
        axes.legend(frameon=False, fontsize=9)
        return _svg(figure)


def exposure_figure(epsilon: Array, claimed: float) -> str:
    """Histogram of the exact epsilon of every record."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 4.4), layout="constrained")
        axes = figure.subplots()
        # Records that are all alike differ by rounding only: give them a bar of visible width.
        middle, half = (epsilon.max() + epsilon.min()) / 2, (epsilon.max() - epsilon.min()) / 2
        half = max(half, 1e-3 * middle, 1e-6)
        share = np.full(len(epsilon), 1.0 / len(epsilon))
        axes.hist(epsilon, bins=30, range=(middle - half, middle + half), color=BLUE, weights=share)
        # A claim far from every record would squeeze the histogram into a line; the caption names it anyway.
        if epsilon.min() / 1.5 <= claimed <= 1.5 * epsilon.max():
            axes.axvline(claimed, color=RED, linestyle="--", label="claimed")
            axes.legend(frameon=False, fontsize=9)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel("exact epsilon of a record (worst drawn replacement)")
        axes.set_ylabel("share of records")
        return _svg(figure)


def evidence_figure(found: MembershipEvidence) -> str:
    """Evidence of every record in a released file, sorted, over its expected ranges under both hypotheses."""
    order = np.argsort(-found.evidence, kind="stable")
    place = np.arange(1, len(order) + 1)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.2, 3.2), layout="constrained")
        axes = figure.subplots()
        for ranges, colour, hatch, label in (
            (found.in_quantiles[order], BLUE, None, "expected with the record, 5 to 95 %"),
            (found.out_quantiles[order], ORANGE, "////", "expected without it, 5 to 95 %"),
        ):
            # A band of a single record would have no width.
            edges = np.concatenate([[0.5], place, [len(order) + 0.5]])
            low, high = (np.concatenate([side[:1], side, side[-1:]]) for side in (ranges[:, 0], ranges[:, 2]))
            axes.fill_between(
                edges, low, high, step="mid", alpha=0.3, color=colour, linewidth=0, hatch=hatch, label=label
            )
        axes.plot(place, found.evidence[order], ".", color=INK, markersize=4, label="this release")
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        axes.set_xlim(0.5, len(order) + 0.5)
        axes.set_xlabel("records, the strongest evidence first")
        axes.set_ylabel("evidence of membership (nats)")
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9)
        return _svg(figure)


def _thinned(x: Array, y: Array, floor: float, most: int = 600) -> tuple[Array, Array]:
    """A step curve with at most about `most` vertices, even on a logarithmic axis; the rest cannot be seen."""
    if len(x) <= most:
        keep = np.arange(len(x))
    else:
        wanted = np.concatenate([[0.0], np.geomspace(floor, 1.0, most)])
        keep = np.unique(np.searchsorted(x, wanted, side="right") - 1)
    return np.maximum(x[keep], floor / 2), np.maximum(y[keep], floor / 2)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    # Inline SVG needs no XML prologue, and no name of an outside document type.
    return re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
