"""Pictures of rates: the attacks' success, and the best trade-off that any attack could have."""

from typing import Any

import numpy as np

from ..audit.gdp import trade_off
from ..mechanisms import Array
from .figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PINK,
    RED,
    SKY,
    WIDTH,
    Drawing,
    canvas,
    legend_above,
    record_name,
    table,
)

_COLOURS = (BLUE, PINK, SKY, INK)
_STYLES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def most_hits(epsilon: float, delta: float, fpr: Array) -> Array:
    """Largest true-positive rate that ``(epsilon, delta)`` allows at false-positive rates, both directions."""
    growth = np.exp(min(epsilon, 700.0))
    allowed = np.minimum(growth * fpr + delta, 1.0 - (1.0 - fpr - delta) / growth)
    return np.asarray(np.clip(allowed, fpr, 1.0))


def curves_shown(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Attacks with a curve, the most exposed record of each adversary, at most four."""
    first: dict[str, dict[str, Any]] = {}
    for attack in record["attacks"]:
        if attack["curve"] is not None:
            first.setdefault(attack["adversary"], attack)
    return list(first.values())[: len(_COLOURS)]


def roc_drawing(record: dict[str, Any]) -> Drawing | None:
    """Attacks on log-log axes, where small false-positive rates can be seen, and what the certificate allows."""
    shown, rows = curves_shown(record), []
    if not shown:
        return None
    floor = min(1.0 / attack["curve"]["nonmembers"] for attack in shown)
    x = np.geomspace(floor, 1.0, 200)
    with canvas(4.6) as (figure, axes):
        _allowed(axes, x, record)
        axes.plot(x, x, ":", color=GREY, label="guessing")
        best = None if record["outlook"] is None else record["outlook"]["record"]
        if best is not None:
            hits = 1.0 - np.array(best["fnr"])
            axes.plot(best["fpr"], hits, "-.", color=ORANGE, label=f"best attack on record {best['record']}, exact")
            rows += [
                ("best attack, exact", a, b, None, None, None, None) for a, b in zip(best["fpr"], hits, strict=True)
            ]
        for attack, colour, style in zip(shown, _COLOURS, _STYLES, strict=False):
            curve = attack["curve"]
            fpr = np.array(curve["false_positives"]) / curve["nonmembers"]
            tpr = np.array(curve["true_positives"]) / curve["members"]
            name = f"{attack['adversary']}, {record_name(attack['record'])}"
            axes.step(
                np.maximum(fpr, floor / 9),
                np.maximum(tpr, floor / 9),
                where="post",
                color=colour,
                linestyle=style,
                label=name,
            )
            low, high = _band(curve, x)
            axes.fill_between(x, np.maximum(low, floor / 9), high, color=colour, alpha=0.18, linewidth=0)
            bands = (curve["fpr_low"], curve["fpr_high"], curve["tpr_low"], curve["tpr_high"])
            rows += [(name, *values) for values in zip(fpr, tpr, *bands, strict=True)]
        axes.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1.15))
        axes.set_xlabel("false alarms (false-positive rate)")
        axes.set_ylabel("hits (true-positive rate)")
        legend_above(figure, columns=1)
    columns = ("curve", "fpr", "tpr", "fpr_low", "fpr_high", "tpr_low", "tpr_high")
    numbers = table({name: [row[at] for row in rows] for at, name in enumerate(columns)})
    return Drawing("roc", figure, numbers, "Hits of each attack against its false alarms, on logarithmic axes")


def _band(curve: dict[str, Any], at: Array) -> tuple[Array, Array]:
    """Both limits of a curve at false-positive rates: steps through the corners of every vertex's rectangle."""
    edges = {name: np.array(curve[name]) for name in ("fpr_low", "fpr_high", "tpr_low", "tpr_high")}
    sure = np.searchsorted(edges["fpr_high"], at, side="right") - 1
    low = np.where(sure >= 0, edges["tpr_low"][np.maximum(sure, 0)], 0.0)
    possible = np.searchsorted(edges["fpr_low"], at, side="left")
    high = edges["tpr_high"][np.minimum(possible, len(edges["tpr_high"]) - 1)]
    return low, high


def _allowed(axes: Any, x: Array, record: dict[str, Any], *, missed: bool = False) -> None:
    """Shade what the certificate allows, and draw what the claim does."""
    delta = record["certificate"]["delta"]
    for epsilon, colour, label in (
        (record["certificate"]["epsilon"], GREEN, "certified to stay in here"),
        (record["claimed_epsilon"], RED, "claimed to stay in here"),
    ):
        if not np.isfinite(epsilon):
            continue
        hits = most_hits(epsilon, delta, x)
        if colour == GREEN:
            low, high = (1.0 - hits, 1.0 - x) if missed else (x, hits)
            axes.fill_between(x, low, high, color=GREEN, alpha=0.13, linewidth=0, label=label)
        edge = 1.0 - hits if missed else hits
        axes.plot(
            x,
            edge,
            color=colour,
            linewidth=1,
            linestyle="--" if colour == RED else "-",
            label=label if colour == RED else None,
        )


def trade_off_drawing(record: dict[str, Any]) -> Drawing:
    """Misses against false alarms of the best possible attacks; linear axes, as the curve is usually drawn."""
    x, rows = np.linspace(0.0, 1.0, 201), []
    outlook, delta = record["outlook"] or {}, record["certificate"]["delta"]
    certified = record["certificate"]["epsilon"]
    with canvas(4.6, WIDTH) as (figure, axes):
        _allowed(axes, x, record, missed=True)
        if np.isfinite(certified):
            rows += [("certified", a, b) for a, b in zip(x, 1.0 - most_hits(certified, delta, x), strict=True)]
        axes.plot(x, 1.0 - x, ":", color=GREY, label="guessing")
        for key, colour, style in (("worst_pair", INK, (0, (6, 1.5))), ("record", ORANGE, "-.")):
            pair = outlook.get(key)
            if pair is None:
                continue
            name = "worst pair found" if key == "worst_pair" else f"record {pair['record']}"
            fpr, fnr = [0.0, *pair["fpr"], 1.0], [1.0, *pair["fnr"], 0.0]
            axes.plot(fpr, fnr, linestyle=style, color=colour, label=f"best attack on {name}")
            rows += [(name, a, b) for a, b in zip(fpr, fnr, strict=True)]
        pair = outlook.get("record") or outlook.get("worst_pair")
        if pair is not None and np.isfinite(mu := pair["gaussian"]["mu"]):
            gaussian = np.array([1.0, *(trade_off(mu, float(at)) for at in x[1:-1]), 0.0])
            axes.plot(x, gaussian, color=BLUE, linestyle=(0, (1, 1.2)), linewidth=2, label=f"Gaussian, mu = {mu:.3g}")
            rows += [(f"Gaussian, mu = {mu:.6g}", a, b) for a, b in zip(x, gaussian, strict=True)]
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xlabel("false alarms (false-positive rate)")
        axes.set_ylabel("misses (false-negative rate)")
        legend_above(figure)
    numbers = table({name: [row[at] for row in rows] for at, name in enumerate(("curve", "fpr", "fnr"))})
    return Drawing("trade-off", figure, numbers, "Misses against false alarms of the best possible attacks")
