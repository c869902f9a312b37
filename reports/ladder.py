"""The picture of an audit: everything that is known about epsilon on one axis."""

from typing import Any

import numpy as np

from .figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    Drawing,
    canvas,
    epsilon_axis,
    legend_above,
    record_name,
    table,
)
from .sentences import METHODS, all_certificates, best_attack, number

_MARKERS = "v^sDPX"  # of adversaries who train shadows
_MOST_ROWS = 20


def ladder_drawing(record: dict[str, Any]) -> Drawing:
    """What was shown, what is exact, what is certified and what was claimed, from what is sure to what is promised."""
    rows = _rungs(record)
    finite = [value for _, value, *_ in rows if np.isfinite(value)]
    with canvas(0.85 + 0.36 * len(rows)) as (figure, axes):
        epsilon_axis(axes, finite)
        left, right = axes.get_xlim()
        axes.set_xlim(left, right := right * 1.9)  # room for the last number
        known = max((value for kind, value, *_ in rows if kind == "below"), default=0.0)
        certified = min((value for kind, value, *_ in rows if kind == "above"), default=np.inf)
        axes.axvspan(left, known, color=ORANGE, alpha=0.13, linewidth=0)
        if certified > known:
            axes.axvspan(known, min(certified, right), facecolor="none", edgecolor="#cfcfcf", hatch="///", linewidth=0)
        places = range(len(rows) - 1, -1, -1)
        for place, (_, value, _, colour, marker) in zip(places, rows, strict=True):
            if not np.isfinite(value):
                axes.annotate("infinite", (right, place), ha="right", va="center", color=colour, fontsize=9.5)
                continue
            axes.hlines(place, 0, value, color=colour, linewidth=1.6, linestyle="--" if marker == "|" else "-")
            axes.plot([value], [place], marker, color=colour, markersize=12 if marker == "|" else 8, mew=2, zorder=3)
            axes.annotate(
                number(value), (value, place), (8, 0), textcoords="offset points", va="center", fontsize=9.5, zorder=4
            ).set_bbox({"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.8})
        if np.isfinite(record["claimed_epsilon"]):
            axes.axvline(record["claimed_epsilon"], color=RED, linestyle="--", linewidth=1, zorder=0)
        axes.set_yticks(list(places), [name for _, _, name, *_ in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"epsilon at delta = {record['certificate']['delta']:g}")
    numbers = table({"what": [row[2] for row in rows], "epsilon": [row[1] for row in rows]})
    said = "; ".join(f"{row[2]} {number(row[1])}" for row in rows)
    return Drawing("ladder", figure, numbers, f"Epsilon on a logarithmic axis: {said}")


def _rungs(record: dict[str, Any]) -> list[tuple[str, float, str, str, str]]:
    """Side of the truth, value, name, colour and marker."""
    rows: list[tuple[str, float, str, str, str]] = []
    if (best := best_attack(record)) is not None:
        rows.append(("shown", best["epsilon_lower"]["value"], "shown by attack", BLUE, ">"))
    if record["worst_exact"] is not None:
        rows.append(("below", record["worst_exact"]["epsilon"], "worst record, exact", ORANGE, "o"))
    if record["worst_pair"] is not None:
        rows.append(("below", record["worst_pair"]["epsilon"], "worst pair found", INK, "s"))
    for entry in sorted(all_certificates(record), key=lambda one: one["epsilon"]):
        if entry["method"] != "none":
            name = f"certified, {METHODS.get(entry['method'], entry['method'])}"
            rows.append(("above", entry["epsilon"], name, GREEN, "v"))
    rows.append(("claim", record["claimed_epsilon"], "claimed", RED, "|"))
    return rows


def attacked_drawing(record: dict[str, Any]) -> Drawing:
    """Lower bounds and exact values of each attacked record."""
    attacks = record["attacks"]
    names = list(dict.fromkeys(attack["record"] for attack in attacks))[:_MOST_ROWS]
    rows = {name: float(len(names) - 1 - place) for place, name in enumerate(names)}
    shown = [attack for attack in attacks if attack["record"] in rows]
    certified = record["certificate"]["epsilon"]
    with canvas(1.35 + 0.3 * len(names)) as (figure, axes):
        limits = [
            record["claimed_epsilon"],
            certified,
            *([] if (w := record["worst_pair"]) is None else [w["epsilon"]]),
        ]
        values = [attack["epsilon_lower"]["value"] for attack in shown]
        exact_values = [attack["epsilon_exact"] for attack in shown if attack["epsilon_exact"] is not None]
        epsilon_axis(axes, [*limits, *values, *exact_values])
        for place, adversary in enumerate(dict.fromkeys(attack["adversary"] for attack in shown)):
            own = [attack for attack in shown if attack["adversary"] == adversary]
            y = [rows[attack["record"]] for attack in own]
            lower = [attack["epsilon_lower"]["value"] for attack in own]
            core = adversary == "core"
            marker, colour = (">", BLUE) if core else (_MARKERS[place % len(_MARKERS)], GREY)
            axes.plot(lower, y, marker, color=colour, label=f"shown by {adversary} attack", zorder=3)
            exact = [attack["epsilon_exact"] for attack in own]
            if None not in exact:
                axes.hlines(y, lower, exact, color=GREY, linewidth=1.2, zorder=1)
                axes.plot(exact, y, "o", color=ORANGE, label="exact for the pair", zorder=2)
        for value, colour, style, label in (
            (record["claimed_epsilon"], RED, "--", "claimed"),
            (None if record["worst_pair"] is None else record["worst_pair"]["epsilon"], INK, "-.", "worst pair found"),
            (certified, GREEN, "-", "certified"),
        ):
            if value is not None and np.isfinite(value):
                axes.axvline(value, color=colour, linestyle=style, label=label)
        axes.set_yticks(list(rows.values()), [record_name(name) for name in names])
        axes.set_ylim(-0.7, len(names) - 0.3)
        axes.set_xlabel(f"epsilon at delta = {record['certificate']['delta']:g}")
        legend_above(figure)
    numbers = table(
        {
            "record": [attack["record"] for attack in shown],
            "adversary": [attack["adversary"] for attack in shown],
            "epsilon_lower": values,
            "epsilon_exact": [attack["epsilon_exact"] for attack in shown],
        }
    )
    return Drawing("attacked", figure, numbers, f"Lower bounds and exact epsilon of {len(names)} attacked records")
