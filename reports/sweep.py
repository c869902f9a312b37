"""What `gpleak sweep` writes: a record a point, ``sweep.json``, ``sweep.csv`` and figures; and how it goes on later."""

import hashlib
import io
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import __version__
from ..audit.run import Progress
from ..audit.sweep import Point, Sweep, differences, run_point, value_text
from ..mechanisms import InputError, NumericalError
from .console import PlainConsole, progress_bar, unread
from .figures import BLUE, GREEN, GREY, INK, ORANGE, RED, STYLE
from .html import number
from .record import as_record, load_record, strict_json, write_private, write_record

_TABLE_ROWS, _PANELS, _TICKS = 40, 6, 8  # at most
_METHODS = ("renyi", "structured", "dominating_pair")
_EPSILONS = {  # lines of the epsilon figure: column, label, format
    "epsilon_lower": ("shown by attack", {"color": BLUE, "marker": ">"}),
    "worst_exact": ("worst record, exact", {"color": ORANGE, "marker": "o"}),
    "worst_pair": ("worst pair found", {"color": INK, "marker": "s"}),
    "certified": ("certified", {"color": GREEN, "marker": "v"}),
    "claimed": ("claimed", {"color": RED, "linestyle": "--"}),
}
_ADVERSARIES = list(zip((BLUE, ORANGE, GREEN, RED, "#cc79a7", INK), "osD^vP", strict=True))


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    point: Annotated[int, Field(ge=1)]
    record: Annotated[str, Field(pattern=r"^point-[0-9]{4,}\.json$")]
    identity: str
    values: dict[str, Any]


class _State(BaseModel):
    """``sweep.json``. `earlier` are points of a grid that was asked for before and is no part of the present one."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_version: Literal[1] = 1
    gpleak_version: str
    identity: str
    vary: dict[str, list[Any]]
    settings: dict[str, Any]
    points: list[_Entry]
    earlier: list[_Entry]
    figures: list[Annotated[str, Field(pattern=r"^sweep-[a-z0-9_.]+-[a-z]+\.png$")]]


@dataclass(frozen=True, eq=False)
class Finished:
    """A sweep that came to its end: the table of ``sweep.csv``, and how many points could not be audited."""

    rows: pd.DataFrame
    failed: int

    @property
    def status(self) -> int:
        """The exit status: 2 when a point failed, 1 when one is VIOLATED, else 0."""
        violated = len(self.rows) > 0 and bool((self.rows["verdict"] == "VIOLATED").any())
        return 2 if self.failed else int(violated)


def run_sweep(sweep: Sweep, out: Path, *, fresh: bool, allow_code: bool, progress: Progress) -> Finished:
    """Audit the points that `out` does not hold yet, then write the table and the figures of all.

    A point that fails is reported on stderr and the others go on. An interruption loses the point that runs. `fresh`
    first deletes what an earlier sweep wrote into the folder, and nothing else.

    Raises:
        InputError: The folder holds another sweep, or cannot be written.
    """
    state = _open(sweep, out, fresh=fresh)
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    rows: list[dict[str, Any]] = []
    failed = 0
    for place, (point, entry) in enumerate(zip(sweep.points, state.points, strict=True), start=1):
        found = _finished(point, out / entry.record)
        if isinstance(found, str):
            if found:
                console.print(f"{out / entry.record}: {found}: audited again")
            console.print(f"point {place} of {len(sweep.points)}: {point.name}")
            try:
                found = _audit(point, console, allow_code=allow_code, progress=progress)
            except (InputError, NumericalError) as error:
                failed += 1
                console.print(f"gpleak: error: {point.name}: {' '.join(str(error).split())}")
                continue
            write_record(found, out / entry.record)
        rows += _rows(point, entry, found)
    table = pd.DataFrame(rows)
    if rows:
        numbers = ["epsilon_exact", "worst_exact", "worst_pair", *(f"certified_{method}" for method in _METHODS)]
        table = table.astype({"record": "Int64", "shadows": "Int64", **dict.fromkeys(numbers, "float64")})
        write_private(table.to_csv(index=False, lineterminator="\n"), out / "sweep.csv")
        for name in state.figures:
            _, key, kind = name.removesuffix(".png").split("-")
            figure, picture = sweep_figure(table, key, sweep, kind), io.BytesIO()
            figure.savefig(picture, format="png", dpi=150, metadata={"Software": None})
            write_private(picture.getvalue(), out / name)
    return Finished(table, failed)


def print_sweep(finished: Finished, sweep: Sweep, out: Path) -> None:
    """A line a point and where the table is."""
    console = PlainConsole(highlight=False, soft_wrap=True, width=1000)  # numbers are wrapped rather than shortened
    title = "epsilon, the largest of a point's attacks and records"
    table = Table(box=box.SIMPLE, title=title, title_justify="left", collapse_padding=True)
    short = (key.rpartition(".")[2] for key in sweep.keys)
    for heading in ("point", *short, "shown", "exact", "pair", "certified", "claimed", "verdict"):
        table.add_column(heading, justify="left" if heading == "verdict" else "right", no_wrap=True)
    points = [part for _, part in finished.rows.groupby("point", sort=False)] if len(finished.rows) else []
    for part in points[:_TABLE_ROWS]:
        best = part[list(_EPSILONS)].max()
        epsilons = [number(None if pd.isna(best[name]) else float(best[name])) for name in _EPSILONS]
        varied = (Text(_text(part[key].iloc[0])) for key in sweep.keys)
        table.add_row(str(part["point"].iloc[0]), *varied, *epsilons, str(part["verdict"].iloc[0]))
    if not points:
        return
    more = f"and {len(points) - _TABLE_ROWS:,} more points; " if len(points) > _TABLE_ROWS else ""
    with unread():
        console.print(table)
        console.print(Text(f"{more}table: {out / 'sweep.csv'}"))


def sweep_figure(rows: pd.DataFrame, key: str, sweep: Sweep, kind: str) -> Figure:
    """Epsilons, or what each adversary reaches on its best record, against a key; `kind` is "epsilon" or "attacks".

    There is a panel for each value of the first other key, at most six; further keys keep their first value.
    """
    others = [name for name, values in sweep.values.items() if name != key and len(values) > 1]
    held = {name: rows[name].iloc[0] for name in others[1:]}
    for name, value in held.items():
        rows = rows[rows[name] == value]
    parts = {"": rows}
    if others:
        values = rows[others[0]].drop_duplicates().tolist()
        places = np.unique(np.linspace(0, len(values) - 1, _PANELS).round().astype(int))  # the ends and some between
        parts = {f"{others[0]} = {_text(values[at])}": rows[rows[others[0]] == values[at]] for at in places}
    styles: dict[str, Any] = dict(_EPSILONS.values())
    if kind == "epsilon":
        lines = {
            at: part.groupby(key)[list(_EPSILONS)].max().set_axis(list(styles), axis=1) for at, part in parts.items()
        }
    else:
        looks = zip(dict.fromkeys(rows["adversary"]), _ADVERSARIES, strict=False)
        styles = {name: {"color": colour, "marker": marker} for name, (colour, marker) in looks}
        lines = {at: part.groupby([key, "adversary"])["tpr_at_0.01"].max().unstack() for at, part in parts.items()}
    columns = 2 if len(lines) == 4 else min(3, len(lines))
    height = -(-len(lines) // columns)
    with mpl.rc_context({**STYLE, "lines.markersize": 4}):
        figure = Figure(figsize=(max(5.6, 3.4 * columns), 1.3 + 2.8 * height), layout="constrained")
        panels = figure.subplots(height, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, (title, table) in zip(panels, lines.items(), strict=False):
            for name, style in styles.items():
                if name in table and np.isfinite(table[name]).any():  # infinite ones are left out
                    axes.plot(table[name].replace(np.inf, np.nan), label=name, clip_on=False, **style)
            if kind == "attacks":
                axes.axhline(0.01, color=GREY, linestyle=":", label="guessing")
            axes.set_title(title, fontsize=10)
            axes.xaxis.set_tick_params(labelbottom=True)
        for axes in panels[len(lines) :]:
            axes.set_visible(False)
        y = np.concatenate([table.to_numpy(dtype=np.float64).ravel() for table in lines.values()])
        _scale(panels[0], sorted(set(rows[key])), y[np.isfinite(y)])
        legend = {name: line for axes in panels for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(legend.values(), legend.keys(), loc="outside upper left", ncols=3, frameon=False, fontsize=9)
        figure.supxlabel(", ".join([key, *(f"{name} = {_text(value)}" for name, value in held.items())]), fontsize=10)
        delta = f" at delta = {rows['delta'].iloc[0]:g}" if rows["delta"].nunique() == 1 else ""
        figure.supylabel(f"epsilon{delta}" if kind == "epsilon" else "TPR at 1 % FPR, best record", fontsize=10)
    return figure


def _scale(axes: Any, ticks: list[float], y: Any) -> None:
    """Logarithmic where all is positive, linear near 0 where something is 0; few values of the key are ticks."""
    if ticks[0] > 0:
        axes.set_xscale("log")
    if len(ticks) <= _TICKS:
        axes.set_xticks(ticks, [_text(tick) for tick in ticks])
        axes.minorticks_off()
    if (y > 0).all():
        axes.set_yscale("log")
    elif (y > 0).any():
        axes.set_yscale("symlog", linthresh=max(10.0 ** np.floor(np.log10(y[y > 0].min())), 1e-3), linscale=0.4)
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _text(value: Any) -> str:
    return value_text(value.item() if isinstance(value, np.generic) else value)


def _figure_names(sweep: Sweep) -> list[str]:
    """Two for each key with several values, all of them numbers."""
    drawn = [key for key, values in sweep.values.items() if len(values) > 1 and {*map(type, values)} <= {int, float}]
    return [f"sweep-{key}-{kind}.png" for key in drawn for kind in ("epsilon", "attacks")]


def _open(sweep: Sweep, out: Path, *, fresh: bool) -> _State:
    """Number the points, those of an earlier run as before, and write the list."""
    path, figures = out / "sweep.json", _figure_names(sweep)
    entries: list[_Entry] = []
    if known := _read_state(path):
        entries, stale = [*known.points, *known.earlier], set(known.figures) - set(figures)
        if fresh:
            entries, stale = [], {*(entry.record for entry in entries), *known.figures, "sweep.csv"}
        elif found := differences(
            {"varied": sorted(known.vary), **known.settings}, {"varied": sorted(sweep.keys), **sweep.settings}
        ):
            more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
            raise InputError(f"{out}: {'; '.join(found[:3])}{more}: use --fresh or another folder")
        for name in stale:
            (out / name).unlink(missing_ok=True)
    numbers = {entry.identity: entry.point for entry in entries}
    free = itertools.count(1 + max(numbers.values(), default=0))
    points = []
    for point in sweep.points:
        place = numbers[point.identity] if point.identity in numbers else next(free)
        name = f"point-{place:04d}.json"
        points.append(_Entry(point=place, record=name, identity=point.identity, values=dict(point.values)))
    present = {entry.identity for entry in points}
    state = _State(
        gpleak_version=__version__,
        identity=sweep.identity,
        vary=sweep.values,
        settings=dict(sweep.settings),
        points=points,
        earlier=[entry for entry in entries if entry.identity not in present],
        figures=figures,
    )
    write_private(strict_json(state.model_dump()), path)
    return state


def _read_state(path: Path) -> _State | None:
    try:
        return _State.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise InputError(f"{path}: is not the list of a sweep: remove it, or use another folder") from None


def _audit(point: Point, console: Console, *, allow_code: bool, progress: Progress) -> dict[str, Any]:
    """The record of a point, sealed with the point's identity and the record's own hash."""
    with progress_bar(console) as bar:

        def tell(done: int, total: int, workers: int) -> None:
            progress(done, total, workers)
            bar(done, total, workers)

        record = as_record(run_point(point, allow_code=allow_code, progress=tell))
    return {**record, "sweep": {"identity": point.identity, "values": dict(point.values), "sha256": _sum(record)}}


def _finished(point: Point, path: Path) -> dict[str, Any] | str:
    """The record of a point, or what is wrong with it; nothing where there is none."""
    if not path.exists():
        return ""
    try:
        record = load_record(path)
        seal = record["sweep"]
        if seal["identity"] != point.identity:
            return "is the record of another point"
        intact = seal["sha256"] == _sum({key: value for key, value in record.items() if key != "sweep"})
        return record if intact else "is not as it was written"
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        return "is not the record of a point"


def _sum(record: dict[str, Any]) -> str:
    return hashlib.sha256(strict_json(record).encode()).hexdigest()


def _rows(point: Point, entry: _Entry, record: dict[str, Any]) -> list[dict[str, Any]]:
    """One row an attack. Rows of the data are named by number."""
    methods = {certificate["method"]: certificate["epsilon"] for certificate in record["certificates"]}
    seconds = sum(value for step, value in record["timings"].items() if step not in ("engine", "workers"))
    varied = {key: v if isinstance(v, str | int | float) else json.dumps(v) for key, v in point.values.items()}
    return [
        {
            **varied,
            "point": entry.point,
            **{name: attack[name] for name in ("adversary", "record", "auc")},
            **{f"tpr_at_{rate['fpr']:g}": rate["tpr"] for rate in attack["tpr_at_fpr"]},
            "epsilon_lower": attack["epsilon_lower"]["value"],
            "epsilon_exact": attack["epsilon_exact"],
            "worst_exact": (record["worst_exact"] or {}).get("epsilon"),
            "worst_pair": (record["worst_pair"] or {}).get("epsilon"),
            "certified": record["certificate"]["epsilon"],
            **{f"certified_{method}": methods.get(method) for method in _METHODS},
            "claimed": record["claimed_epsilon"],
            **{name: record[name] for name in ("verdict", "seed")},
            "delta": record["certificate"]["delta"],
            "paths": record["release"]["paths"],
            **{name: attack[name] for name in ("trials", "shadows")},
            "seconds": seconds,
        }
        for attack in record["attacks"]
    ]
