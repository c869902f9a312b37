"""Pictures of what more paths would cost: epsilon, and the success of the best attack."""

from typing import Any

import numpy as np

from .figures import GREEN, GREY, INK, ORANGE, RED, Drawing, canvas, epsilon_axis, legend_above, table
from .rates import most_hits

_LINES = (("record", ORANGE, "-.o"), ("worst_pair", INK, "--s"))


def epsilon_growth_drawing(record: dict[str, Any]) -> Drawing | None:
    """Epsilon against the number of paths; None where nothing is known of it."""
    found = record["outlook"]
    if not _known(found):
        return None
    paths, own = found["paths"], record["release"]["paths"]
    columns: dict[str, list[float | None]] = {"paths": paths}
    with canvas(3.9) as (figure, axes):
        if found["certified"] is not None:
            columns["certified"] = found["certified"]
            axes.plot(paths, _gaps(found["certified"]), "-v", color=GREEN, label="certified, without a search")
        best = record["certificate"]["epsilon"]
        if np.isfinite(best) and record["certificate"]["method"] == "structured":
            axes.plot([own], [best], "*", color=GREEN, markersize=13, label="certified, best")
        for key, colour, style in reversed(_LINES):
            if found[key] is not None:
                columns[f"{key}_exact"] = found[key]["epsilon"]
                axes.plot(paths, _gaps(found[key]["epsilon"]), style, color=colour, label=_name(found, key))
        if np.isfinite(record["claimed_epsilon"]):
            axes.axhline(record["claimed_epsilon"], color=RED, linestyle="--", label="claimed")
        _released(axes, own)
        values = [value for name, column in columns.items() if name != "paths" for value in column if value is not None]
        epsilon_axis(axes, [*values, record["claimed_epsilon"]], along="y")
        _path_axis(axes, paths, own)
        axes.set_ylabel(f"epsilon at delta = {record['certificate']['delta']:g}")
        legend_above(figure)
    return Drawing("epsilon-by-paths", figure, table(columns), "Epsilon against the number of released paths")


def success_growth_drawing(record: dict[str, Any]) -> Drawing | None:
    """Success of the best attack against the number of paths; None where nothing is known of it."""
    found = record["outlook"]
    if not _known(found):
        return None
    paths, own, fpr = found["paths"], record["release"]["paths"], found["success_fpr"]
    columns: dict[str, list[float | None]] = {"paths": paths}
    with canvas(3.9) as (figure, axes):
        if found["certified"] is not None:
            delta = record["certificate"]["delta"]
            columns["certified"] = [float(most_hits(one, delta, np.array(fpr))) for one in found["certified"]]
            axes.plot(paths, _gaps(columns["certified"]), "-v", color=GREEN, label="certified, at most")
            if record["certificate"]["method"] == "structured":
                best = float(most_hits(record["certificate"]["epsilon"], delta, np.array(fpr)))
                axes.plot([own], [best], "*", color=GREEN, markersize=13, label="certified, best")
        for key, colour, style in reversed(_LINES):
            if found[key] is not None:
                columns[key] = found[key]["success"]
                axes.plot(paths, _gaps(found[key]["success"]), style, color=colour, label=_name(found, key))
        axes.axhline(fpr, color=GREY, linestyle=(0, (1, 2)), label="guessing")
        _released(axes, own)
        axes.set(yscale="log", ylim=(0.8 * fpr, 1.25))
        ticks = [at for at in (fpr, 3 * fpr, 0.1, 0.3, 1.0) if at >= fpr]
        axes.set_yticks(ticks, [f"{100 * at:g} %" for at in ticks])
        axes.minorticks_off()
        _path_axis(axes, paths, own)
        axes.set_ylabel(f"hits at {100 * fpr:g} % false alarms")
        legend_above(figure)
    return Drawing("success-by-paths", figure, table(columns), "Hits of the best attack against the number of paths")


def _released(axes: Any, own: int) -> None:
    axes.axvline(own, color="#d9d9d9", linewidth=5, zorder=0, label="released")


def _known(found: dict[str, Any] | None) -> bool:
    return found is not None and any(found[key] is not None for key in ("certified", "record", "worst_pair"))


def _name(found: dict[str, Any], key: str) -> str:
    return f"record {found[key]['record']}, exact" if key == "record" else "worst pair found, exact"


def _gaps(values: list[float | None]) -> list[float]:
    return [np.nan if value is None or np.isinf(value) else value for value in values]


def _path_axis(axes: Any, paths: list[int], own: int) -> None:
    axes.set_xscale("log")
    ticks = [count for count in paths if str(count).rstrip("0") in ("1", "2", "5") or count == own]
    axes.set_xticks(ticks, [f"{count:,}" for count in ticks])
    axes.minorticks_off()
    axes.tick_params(axis="x", labelsize=9)
    axes.set_xlabel("paths released from one dataset")
