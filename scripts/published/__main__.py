"""Compute the published figures, draw them, and print what they show."""

import argparse
import sys
import time
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from gpleak.attacks import open_engine

from .drawing import draw_most_paths, draw_paths, draw_ridge, draw_scale
from .tables import CENTRED, Plan, Tables, compute

_SECONDS = 1000.0  # of one processor, roughly: decides whether a cluster is worth it, never a result


def write(tables: Tables, plan: Plan, out: Path) -> list[Path]:
    """Write a CSV and a PNG for each figure into a folder that may not exist yet."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = (
        ("by_ridge", tables.by_ridge, draw_ridge),
        ("by_scale", tables.by_scale, draw_scale),
        ("by_paths", tables.by_paths, draw_paths),
        ("most_paths", tables.most_paths, draw_most_paths),
    )
    written = []
    for name, table, draw in drawn:
        table.to_csv(out / f"{name}.csv", index=False)
        draw(table, plan).savefig(out / f"{name}.png", dpi=150)
        written += [out / f"{name}.csv", out / f"{name}.png"]
    return written


def facts(by_ridge: pd.DataFrame) -> list[str]:
    """The two findings that the paper reports, with their numbers."""
    least, most = by_ridge.ridge.min(), by_ridge.ridge.max()
    largest = by_ridge.scale[by_ridge.scale < CENTRED].max()
    lines = [f"1. At ridge {least:g} a signal remains however large the scale: excess TPR"]
    for fpr, rows in by_ridge[by_ridge.ridge == least].groupby("fpr", sort=False):
        at, limit = (rows[rows.scale == scale].iloc[0] for scale in (largest, CENTRED))
        errors = limit.excess_tpr / limit.standard_error
        lines.append(
            f"   at {100 * fpr:g} % FPR {at.excess_tpr:.4f} +- {at.standard_error:.4f} at scale {largest:g}, and "
            f"{limit.excess_tpr:.4f} +- {limit.standard_error:.4f} ({errors:.0f} standard errors from 0) for "
            "the centred release."
        )
    lines.append(f"2. At ridge {most:g} every attack guesses: excess TPR")
    for fpr, rows in by_ridge[by_ridge.ridge == most].groupby("fpr", sort=False):
        top = rows.loc[rows.excess_tpr.idxmax()]
        name = "the centred release" if top.scale == CENTRED else f"scale {top.scale:g}"
        errors = top.excess_tpr / top.standard_error
        lines.append(
            f"   at {100 * fpr:g} % FPR at most {top.excess_tpr:.4f} +- {top.standard_error:.4f} ({errors:.1f} "
            f"standard errors from 0; {name}, the largest of {len(rows)}); certified to be at most "
            f"{rows.allowed_excess_tpr.max():.4f} for any attack."
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/reproduce_figures", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpleak-figures"), help="folder for PNG and CSV files")
    parser.add_argument(
        "--workers", type=int, default=None, help="processes; 0 for this one alone (default: all cores)"
    )
    options = parser.parse_args()
    plan, start = Plan(), time.perf_counter()

    def told(done: int, total: int) -> None:
        if done % 10 == 0 or done == total:
            print(f"{done} of {total} computed, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)

    with threadpool_limits(1), open_engine(options.workers, seconds=_SECONDS) as engine:
        tables = compute(plan, engine, told)
    written = write(tables, plan, options.out)
    print(*facts(tables.by_ridge), *map(str, written), sep="\n")


if __name__ == "__main__":
    main()
