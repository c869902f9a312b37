"""Where the records lie, coloured by what is betrayed of each: the one figure with private values in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..mechanisms import Array
from .figures import INK, RED, Drawing, canvas, table

_NAMED = 5  # most exposed records, named by number
_DOTS = 2000  # more of them are drawn as one picture


def map_drawing(record: dict[str, Any], covariates: Array, columns: Sequence[str]) -> Drawing:
    """The first two covariates of every record; with a single one, its epsilon against it.

    Args:
        record: Of the audit, with the exact epsilon of every record.
        covariates: ``(n, d)``, private.
        columns: Their names.
    """
    epsilon = np.array([one["epsilon_exact"] for one in record["records"]])
    order = np.argsort(epsilon, kind="stable")  # the most exposed are drawn last, on top
    top = order[::-1][:_NAMED]
    numbers: dict[str, list[float]] = {"record": list(range(len(epsilon)))}
    numbers |= {name: covariates[:, index].tolist() for index, name in enumerate(columns[:2])}
    numbers |= {"epsilon_exact": epsilon.tolist()}
    with canvas(4.4 if len(columns) > 1 else 3.6) as (figure, axes):
        if len(columns) > 1:
            x, y = covariates[:, 0], covariates[:, 1]
            drawn = axes.scatter(
                x[order],
                y[order],
                c=epsilon[order],
                cmap="cividis_r",
                s=14,
                linewidths=0,
                rasterized=len(epsilon) > _DOTS,
            )
            figure.colorbar(drawn, ax=axes, label="exact epsilon", shrink=0.85)
            axes.set_ylabel(columns[1])
        else:
            x, y = covariates[:, 0], epsilon
            axes.plot(x, y, "o", color=INK, markersize=3)
            axes.set_ylabel("exact epsilon")
        axes.plot(x[top], y[top], "o", mfc="none", mec=RED, markersize=9, mew=1.3)
        for row in top:
            axes.annotate(str(row), (x[row], y[row]), (6, 4), textcoords="offset points", color=RED, fontsize=9)
        axes.set_xlabel(columns[0])
    return Drawing("private-map", figure, table(numbers), f"Places of {len(epsilon)} records and their exact epsilon")
