"""Where the records lie, coloured by what is betrayed of each: the one figure with private values in it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..mechanisms import Array
from .figures import INK, RED, Drawing, canvas, table

_NAMED = 5  # most exposed records, named by number
_DOTS = 2000  # more of them are drawn as one picture
_OURS = ("record", "epsilon_exact")  # headings of private-map.csv beside the covariates


def map_drawing(record: dict[str, Any], covariates: Array, columns: Sequence[str]) -> Drawing:
    """The first two covariates of every record; with a single one, its epsilon against it.

    Args:
        record: Of the audit, with the exact epsilon of every record.
        covariates: ``(n, d)``, private.
        columns: Their names, of any characters: they are shown as `visible` makes them and never read as formulas.
    """
    names = [visible(name) for name in columns[:2]]
    epsilon = np.array([one["epsilon_exact"] for one in record["records"]])
    order = np.argsort(epsilon, kind="stable")  # the most exposed are drawn last, on top
    top = order[::-1][:_NAMED]
    numbers: dict[str, list[float]] = {_OURS[0]: list(range(len(epsilon)))}
    numbers |= {heading: covariates[:, index].tolist() for index, heading in enumerate(_headings(names))}
    numbers |= {_OURS[1]: epsilon.tolist()}
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
            axes.set_ylabel(names[1], parse_math=False)
        else:
            x, y = covariates[:, 0], epsilon
            axes.plot(x, y, "o", color=INK, markersize=3)
            axes.set_ylabel("exact epsilon")
        axes.plot(x[top], y[top], "o", mfc="none", mec=RED, markersize=9, mew=1.3)
        for row in top:
            axes.annotate(str(row), (x[row], y[row]), (6, 4), textcoords="offset points", color=RED, fontsize=9)
        axes.set_xlabel(names[0], parse_math=False)
    return Drawing("private-map", figure, table(numbers), f"Places of {len(epsilon)} records and their exact epsilon")


def visible(name: str) -> str:
    """A name with its control and formatting characters spelled out: some would reorder the text around them."""
    return "".join(c if c.isprintable() else f"[U+{ord(c):04X}]" for c in name)


def _headings(names: Sequence[str]) -> Iterable[str]:
    """The names, those that would stand for another column of the file with a prefix."""
    found: list[str] = []
    for name in names:
        heading = name
        while heading in _OURS or heading in found or (heading != name and heading in names):
            heading = f"covariate_{heading}"
        found.append(heading)
    return found
