"""The figures: attacks above, bounds on epsilon below, one colour a curve; they say what is a bound and what is not."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from gpleak.mechanisms import Array
from gpleak.reports.figures import BLUE, GREEN, GREY, INK, ORANGE, RED, STYLE

from .stress import DELTA, RATES
from .tables import CENTRED, Plan

_COLOURS, _MARKERS = (BLUE, ORANGE, GREEN, RED), "os^D"
_NORMAL = 1.96  # standard errors of a 95 % interval
_TEST = "n = 10 records, exponential kernel of length scale 1 on [0, 1], |y| at most 1"
_HOW = (
    "Attack: the optimal mixture over shadow datasets, scored on releases of other datasets; it knows the target and "
    "the population, not the other records.\nBounds hold for every dataset, record and attack. Sharper: a numerical "
    "supremum (structured); for the centred release its dominating pair. Where it allows more\nthan the panel shows, "
    "nothing is marked. The lower edge of a band is the exact epsilon of the worst pair found: no certificate can be "
    "below."
)
_LARGE_SCALE = "\nAlone at the right: the centred release, the limit of large scale."
_EXACT = (
    "\nAlone at the right: mean and variance at the target released exactly, attacked by boosted trees trained on "
    "shadow datasets (an estimate from below);\nno finite certificate exists there. The more paths, the more shadows a "
    "mixture needs: at 100 paths and ridge 0.1 it is still below its best."
)
_ALLOWED = "most that the sharper certificate allows (bound)"
_BUDGET = (
    "Every point is certified: so many paths stay within the budget, for every dataset and every attack, also when "
    "they are released in turn. By the Renyi\ntheorem; for the centred release by its dominating pair. 0: one path is "
    "too many. Linear from 0 to 1, logarithmic above."
)


@dataclass(frozen=True, eq=False)
class _Curve:
    """One colour of a figure.

    Attributes:
        label: Its name.
        colour: Its colour.
        marker: Its marker, so that colour is not all that tells curves apart.
        rows: Its part of the table, in the order of `x`.
        x: Name of the column along the axis.
        end: Where a limit is drawn, at infinite `x`.
    """

    label: str
    colour: str
    marker: str
    rows: pd.DataFrame
    x: str
    end: float

    def places(self, rows: pd.DataFrame) -> Array:
        """Places of some of its rows along the axis."""
        return rows[self.x].replace(math.inf, self.end).to_numpy(dtype=float)

    def parts(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows at finite places, which a line joins, and the limit."""
        finite = np.isfinite(rows[self.x])
        return rows[finite], rows[~finite]


def draw_ridge(table: pd.DataFrame, plan: Plan) -> Figure:
    """Against the ridge, a curve for each scale and one for the centred release."""
    curves = []
    for scale, (colour, marker) in zip((*plan.scales, CENTRED), _styles(len(plan.scales)), strict=True):
        label = "centred release (limit of large scale)" if scale == CENTRED else f"scale {scale:g}"
        curves.append(_Curve(label, colour, marker, table[table.scale == scale], "ridge", math.nan))
    figure = _four(curves, f"Against the ridge, one path; {_TEST}", _HOW)
    for axes in figure.axes:
        _axis(axes, "ridge r (noise over kernel standard deviation)", plan.ridges)
    return figure


def draw_scale(table: pd.DataFrame, plan: Plan) -> Figure:
    """Against the scale, a curve for each ridge; the centred release at the end."""
    end = 2.5 * max(plan.fine_scales)
    curves = [
        _Curve(f"ridge {ridge:g}", colour, marker, table[table.ridge == ridge], "scale", end)
        for ridge, (colour, marker) in zip(plan.few_ridges, _styles(len(plan.few_ridges)), strict=False)
    ]
    figure = _four(curves, f"Against the scale, one path; {_TEST}", _HOW + _LARGE_SCALE)
    for axes in figure.axes:
        _axis(axes, "scale sigma (units of the response)", _decades(plan.fine_scales), ("centred", end))
    return figure


def draw_paths(table: pd.DataFrame, plan: Plan) -> Figure:
    """Against the number of paths, a curve for each ridge and scale; exact mean and variance at the end."""
    end = 3.5 * max(plan.paths)
    curves = []
    for (ridge, scale), (colour, marker) in zip(plan.pairs, _styles(len(plan.pairs)), strict=False):
        rows = table[(table.ridge == ridge) & (table.scale == scale)]
        curves.append(_Curve(f"ridge {ridge:g}, scale {scale:g}", colour, marker, rows, "paths", end))
    figure = _four(curves, f"Against the number of paths; {_TEST}", _HOW + _EXACT)
    for axes in figure.axes:
        _axis(axes, "paths L released from one dataset", plan.paths, ("infinite", end))
    return figure


def draw_most_paths(table: pd.DataFrame, plan: Plan) -> Figure:
    """Most paths within a budget: against the ridge above, against the scale below, one column a budget."""
    ends = {"ridge": math.nan, "scale": 2.5 * max(plan.budget_scales)}
    by_scale = [
        ("centred release" if scale == CENTRED else f"scale {scale:g}", table.scale == scale)
        for scale in (*plan.scales, CENTRED)
    ]
    by_scale = [(label, which & table.ridge.isin(plan.budget_ridges)) for label, which in by_scale]
    at = table.scale.isin((*plan.budget_scales, CENTRED))
    by_ridge = [(f"ridge {ridge:g}", at & (table.ridge == ridge)) for ridge in plan.budget_few_ridges]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 7.8), layout="constrained")
        grid = figure.subplots(2, len(plan.budgets), sharey=True, squeeze=False)
        for row, x, groups in zip(grid, ("ridge", "scale"), (by_scale, by_ridge), strict=True):
            for axes, budget in zip(row, plan.budgets, strict=True):
                for (label, which), (colour, marker) in zip(groups, _styles(len(groups)), strict=False):
                    rows = table[which & (table.budget == budget)].sort_values(x)
                    _joined(axes, _Curve(label, colour, marker, rows, x, ends[x]), rows, "most_paths")
                axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
                axes.yaxis.set_minor_locator(NullLocator())
                axes.set_title(f"budget epsilon = {budget:g}")
                if x == "ridge":
                    _axis(axes, "ridge r", (0.5, 1, 2, 5, 10, 20))
                else:
                    _axis(axes, "scale sigma", _decades(plan.budget_scales), ("centred", ends[x]))
            row[0].set_ylabel("most paths L_max")
            row[0].legend(frameon=False, fontsize=9)
        grid[0, 0].set_ylim(bottom=-0.1)
        figure.suptitle(f"Most paths within a budget at delta = {DELTA:g}; {_TEST}", fontsize=11, fontweight="bold")
        figure.supxlabel(_BUDGET, fontsize=8.5, x=0.01, ha="left", color=INK)
        return figure


def _styles(count: int) -> Iterator[tuple[str, str]]:
    yield from zip(_COLOURS[:count], _MARKERS[:count], strict=True)
    yield INK, "s"


def _decades(values: Sequence[float]) -> list[float]:
    """Round numbers within the range of `values`."""
    rounds = [digit * 10.0**power for power in range(-3, 4) for digit in (1, 2, 5)]
    return [value for value in rounds if min(values) <= value <= max(values)]


def _axis(axes: Axes, label: str, ticks: Sequence[float], end: tuple[str, float] | None = None) -> None:
    """A logarithmic axis with plain numbers, and a name for the limit at its end."""
    places, names = [float(tick) for tick in ticks], [f"{tick:g}" for tick in ticks]
    if end is not None:
        names.append(end[0])
        places.append(end[1])
        axes.axvline(math.sqrt(end[1] * max(ticks)), color=GREY, linewidth=0.6, linestyle=(0, (1, 3)))
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.tick_params(labelbottom=True)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.set_xticks(places, names)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _four(curves: list[_Curve], title: str, caption: str) -> Figure:
    """Excess TPR at both rates above; below the sharper bounds with the worst pair, and the Renyi theorem."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 9.2), layout="constrained")
        grid = figure.subplots(2, 2, sharex=True)
        for axes, fpr in zip(grid[0], RATES, strict=True):
            _excess(axes, curves, fpr)
        panels: tuple[tuple[Axes, str, Callable[[Axes, _Curve, pd.DataFrame], None]], ...] = (
            (grid[1, 0], "Sharper certificate and worst pair", _band),
            (grid[1, 1], "Renyi theorem", partial(_joined, column="certified_renyi", linestyle="--")),
        )
        for axes, name, draw in panels:
            for curve in curves:
                draw(axes, curve, curve.rows[curve.rows.fpr == RATES[0]])
            axes.set(yscale="log", title=name, ylabel=f"epsilon at delta = {DELTA:g}")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
        grid[1, 0].sharey(grid[1, 1])
        grid[1, 0].autoscale(axis="y")
        grid[1, 0].set_ylim(top=4.0 * grid[1, 0].get_ylim()[1])  # room for the legend
        grid[1, 0].legend(
            handles=[
                Line2D([], [], color=GREY, label="certified (upper bound)"),
                Line2D([], [], color=GREY, linewidth=0.8, linestyle="-.", label="worst pair found (lower bound)"),
                Patch(facecolor=GREY, alpha=0.3, label="the mechanism's epsilon is in here"),
            ],
            frameon=False,
            fontsize=9,
        )
        grid[1, 1].legend(
            handles=[Line2D([], [], color=GREY, linestyle="--", label="certified (upper bound)")],
            frameon=False,
            fontsize=9,
        )
        handles = [Line2D([], [], color=c.colour, marker=c.marker, markersize=5, label=c.label) for c in curves]
        legend = figure.legend(
            handles=handles, title=title, loc="outside upper center", ncols=len(handles), frameon=False
        )
        legend.get_title().set(fontsize=11, fontweight="bold")
        figure.supxlabel(caption, fontsize=8.5, x=0.01, ha="left", color=INK)
        return figure


def _excess(axes: Axes, curves: list[_Curve], fpr: float) -> None:
    """Attacks with their intervals, and what the smallest certificate allows where it was searched for."""
    for curve in curves:
        rows = curve.rows[curve.rows.fpr == fpr]
        for part in curve.parts(rows):
            axes.errorbar(
                curve.places(part),
                part.excess_tpr,
                _NORMAL * part.standard_error,
                color=curve.colour,
                marker=curve.marker,
                markersize=4,
                capsize=2,
                linewidth=1.5,
            )
    handles = [Line2D([], [], color=GREY, marker="|", markersize=9, label="attack, 95 % interval")]
    top = axes.get_ylim()[1]
    for curve in curves:
        rows = curve.rows[(curve.rows.fpr == fpr) & curve.rows.worst_pair.notna()]
        # What allows nearly everything says nothing.
        rows = rows[rows.allowed_excess_tpr < min(top, 0.95 * (1.0 - fpr))]
        axes.plot(curve.places(rows), rows.allowed_excess_tpr, "_", color=curve.colour, markersize=11, zorder=1)
        if len(rows) and len(handles) == 1:
            handles.append(Line2D([], [], color=GREY, marker="_", markersize=11, linestyle="", label=_ALLOWED))
    top *= 1.25  # room for the legend
    axes.set_ylim(-0.03 * top, top)
    axes.set_yticks([tick for tick in axes.get_yticks() if 0.0 <= tick <= min(1.001, top)])
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.set_title(f"Attack: excess TPR at {100 * fpr:g} % FPR")
    axes.set_ylabel("TPR - FPR (guessing: 0)")
    axes.legend(handles=handles, loc="upper right", frameon=False, fontsize=9)


def _band(axes: Axes, curve: _Curve, rows: pd.DataFrame) -> None:
    """The sharper certificate above, the worst pair below, and what lies between."""
    rows = rows[rows.worst_pair.notna()]
    for part in curve.parts(rows):
        x, low, high = curve.places(part), part.worst_pair, part.certified_sharper.astype(float)
        axes.fill_between(x, low, high, color=curve.colour, alpha=0.3, linewidth=0)
        axes.plot(x, low, "-.", color=curve.colour, linewidth=0.8)
        axes.plot(x, high, color=curve.colour, marker=curve.marker, markersize=4)
        if len(part) == 1:
            axes.vlines(x, low, high, color=curve.colour, alpha=0.3, linewidth=5)


def _joined(axes: Axes, curve: _Curve, rows: pd.DataFrame, column: str, linestyle: str = "-") -> None:
    for part in curve.parts(rows):
        axes.plot(
            curve.places(part),
            part[column].astype(float),
            linestyle,
            color=curve.colour,
            marker=curve.marker,
            markersize=4,
            label=curve.label if np.isfinite(part[curve.x]).any() else None,
        )
