"""What `gpleak certify` and `gpleak curve` show."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from ..audit import Certification, Solved, release_record
from ..mechanisms import Array, Release
from .figures import BLUE, GREY, STYLE
from .html import number, search_text
from .record import certificate_record


def certification_record(found: Certification, solved: Solved | None) -> dict[str, Any]:
    """The JSON of `gpleak certify --json`."""
    entries = [certificate_record(certificate) for certificate in found.certificates]
    record: dict[str, Any] = {
        "release": {
            "mechanism": found.mechanism.name,
            **release_record(found.mechanism.release),
            "regime": found.regime.name,
        },
        "assumptions": list(found.regime.assumptions),
        "delta": found.delta,
        "certificates": entries,
        "best": entries[found.certificates.index(found.best)],
        "covariance_lower_bound": found.covariance_lower_bound,
        "gdp": {"mu": found.gdp.mu, "regret": found.gdp.regret},
        "l_max": {"epsilon": found.budget, "paths": found.most_paths},
    }
    if solved is not None:
        record["solved"] = {
            "parameter": solved.parameter,
            "value": "infeasible" if solved.value is None else solved.value,
            "epsilon": solved.epsilon,
            "method": solved.method,
        }
    return record


def print_certification(found: Certification, solved: Solved | None, console: Console) -> None:
    """The same for a person."""
    table = Table(box=box.SIMPLE, title=f"certified epsilon at delta = {found.delta:g}", title_justify="left")
    for heading in ("method", "epsilon", "order"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for certificate in found.certificates:
        best = "  (best)" if certificate is found.best and len(found.certificates) > 1 else ""
        method = certificate.method.replace("_", " ")
        table.add_row(f"{method}, {certificate.regime}{best}", number(certificate.epsilon), number(certificate.order))
    console.print(table)
    for certificate in found.certificates:
        if certificate.search is not None:
            console.print(search_text(certificate.search))
            if certificate is not found.best and np.isfinite(certificate.epsilon):
                console.print("It is not smaller than another certificate, which is used in its place.")
    release = found.mechanism.release
    console.print(f"for {release.records} records, {release.paths} path(s), whatever the data, under these premises:")
    for premise in found.regime.assumptions:
        console.print(f"  - {premise}")
    if found.covariance_lower_bound > 0:
        console.print(f"no tuning of the mean gets below epsilon {number(found.covariance_lower_bound)}")
    console.print(f"mu = {number(found.gdp.mu)} with regret {number(found.gdp.regret)} (Gaussian differential privacy)")
    console.print(f"within epsilon {number(found.budget)}: at most {found.most_paths} path(s)")
    if solved is not None and solved.value is None:
        console.print(f"no {solved.parameter} meets epsilon {solved.budget:g}: infeasible")
    elif solved is not None:
        by = f"{number(solved.epsilon)}, {solved.method}"
        console.print(f"smallest {solved.parameter} for epsilon {solved.budget:g}: {solved.value:.10g} ({by})")


def write_curves(curves: dict[str, tuple[Array, Array]], release: Release, delta: float, out: Path) -> None:
    """``curve.png`` and ``curve.csv`` (columns: parameter, value, epsilon)."""
    tidy = [pd.DataFrame({"parameter": name, "value": x, "epsilon": y}) for name, (x, y) in curves.items()]
    pd.concat(tidy).to_csv(out / "curve.csv", index=False)
    here = {"ridge": release.ridge, "scale": release.scale, "paths": float(release.paths)}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        for axes, (name, (x, y)) in zip(figure.subplots(1, 3, sharey=True), curves.items(), strict=True):
            axes.plot(x, y, color=BLUE)
            axes.axvline(here[name], color=GREY, linestyle=":", label="as configured")
            axes.set(xscale="log", yscale="log", xlabel=name)
        figure.axes[0].set_ylabel(f"certified epsilon at delta = {delta:g}")
        figure.axes[0].legend(frameon=False)
        figure.savefig(out / "curve.png", dpi=150)
