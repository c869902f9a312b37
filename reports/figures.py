"""What all figures of a report share: a look, a picture with its numbers, SVG and PNG. Same input, same bytes."""

import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by all common kinds of colour vision; every line has a style or marker besides.
INK, BLUE, ORANGE, GREEN, RED, GREY = "#1a1a1a", "#0072b2", "#e69f00", "#009e73", "#d55e00", "#8c8c8c"
PINK, SKY = "#cc79a7", "#56b4e9"
# A font list cached by another installation makes matplotlib complain on stderr, where a failure's one line belongs; it
# falls back to its own DejaVu Sans, which is what the figures use.
logging.getLogger("matplotlib.font_manager").setLevel(logging.CRITICAL)

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "gpleak",
    "svg.fonttype": "path",
    "text.parse_math": False,  # names come from outside
}

# In inches of 96 CSS pixels: narrow, so that the text is hardly smaller on a phone than here.
WIDTH = 4.5
_LEGEND = {"frameon": False, "fontsize": 9, "handlelength": 1.9, "borderaxespad": 0.2}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure and the numbers in it.

    Attributes:
        name: Of its files, without an ending.
        figure: The picture.
        numbers: What it shows, one row a point.
        alt: What it shows, in words.
    """

    name: str
    figure: Figure
    numbers: pd.DataFrame
    alt: str

    @property
    def svg(self) -> str:
        """As text with no outside reference, whose names are its own."""
        buffer = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with mpl.rc_context(STYLE):
            self.figure.savefig(buffer, format="svg", metadata=nothing)
        text = buffer.getvalue()
        # Inline SVG needs no XML prologue, and no name of an outside document type.
        text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = re.sub(r'\bid="', f'id="{self.name}-', text)
        text = re.sub(r'(href="#|url\(#)', rf"\g<1>{self.name}-", text)
        return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(self.alt)}" ', 1)

    @property
    def png(self) -> bytes:
        """At 150 dots per inch."""
        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
        return buffer.getvalue()

    @property
    def csv(self) -> str:
        """The numbers with a line of headings."""
        return str(self.numbers.to_csv(index=False, lineterminator="\n"))


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


@contextmanager
def canvas(height: float, width: float = WIDTH) -> Iterator[tuple[Figure, Axes]]:
    """A figure with one pair of axes, in the common look."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def legend_above(figure: Figure, columns: int = 2) -> None:
    """A legend over the axes, where it covers nothing."""
    figure.legend(loc="outside upper left", ncols=columns, columnspacing=1.4, **_LEGEND)


def epsilon_axis(axes: Axes, values: Sequence[float], *, along: str = "x") -> None:
    """A logarithmic axis for epsilons, linear below the smallest decade of interest, so that 0 has a place."""
    positive = [value for value in values if np.isfinite(value) and value > 0]
    start = float(np.clip(10.0 ** np.floor(np.log10(min(positive, default=0.1))), 1e-3, 0.1))
    scale = {"linthresh": start, "linscale": 0.4}
    if along == "x":
        axes.set_xscale("symlog", **scale)
        axes.set_xlim(-0.1 * start, 1.6 * max(positive, default=1.0))
    else:
        axes.set_yscale("symlog", **scale)
        axes.set_ylim(-0.1 * start, 1.6 * max(positive, default=1.0))
    (axes.xaxis if along == "x" else axes.yaxis).set_major_formatter(lambda value, _: f"{value:g}")


def table(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Numbers of a figure, in the order of the columns."""
    return pd.DataFrame(dict(columns))


def record_name(record: int | None) -> str:
    """How an attacked record is called."""
    return "the target" if record is None else f"record {record}"
