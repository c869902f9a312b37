"""Pictures with one number a record: exact epsilons, and the evidence of a release that was seen."""

from typing import Any

import numpy as np

from .figures import BLUE, GREY, INK, ORANGE, RED, Drawing, canvas, legend_above, table

_BINS = 30


def histogram_drawing(record: dict[str, Any]) -> Drawing | None:
    """Histogram of the exact epsilon of every record; None without records."""
    if not record["records"]:
        return None
    epsilon = np.array([one["epsilon_exact"] for one in record["records"]])
    claimed = record["claimed_epsilon"]
    with canvas(3.4) as (figure, axes):
        # Records that are all alike differ by rounding only: give them a bar of visible width.
        middle, half = (epsilon.max() + epsilon.min()) / 2, (epsilon.max() - epsilon.min()) / 2
        half = max(half, 1e-3 * middle, 1e-6)
        counts, edges = np.histogram(epsilon, bins=_BINS, range=(middle - half, middle + half))
        axes.stairs(counts / len(epsilon), edges, fill=True, color=BLUE)
        # A claim far from every record would squeeze the histogram into a line; the caption names it anyway.
        if epsilon.min() / 1.5 <= claimed <= 1.5 * epsilon.max():
            axes.axvline(claimed, color=RED, linestyle="--", label="claimed")
            axes.legend(frameon=False, fontsize=9)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axes.set_xlabel("exact epsilon of a record (worst drawn replacement)")
        axes.set_ylabel("share of records")
    numbers = table({"from": edges[:-1].tolist(), "to": edges[1:].tolist(), "records": counts.tolist()})
    return Drawing("histogram", figure, numbers, f"Exact epsilon of all {len(epsilon)} records as a histogram")


def evidence_drawing(record: dict[str, Any]) -> Drawing | None:
    """Evidence of every record in a released file, sorted, over its expected ranges; None without a file."""
    if record["released"] is None:
        return None
    rows = sorted(record["released"]["records"], key=lambda one: -one["evidence"])
    place = np.arange(1, len(rows) + 1)
    evidence = np.array([one["evidence"] for one in rows])
    with canvas(3.9) as (figure, axes):
        for name, colour, hatch, label in (
            ("in_quantiles", BLUE, None, "expected with the record, 5 to 95 %"),
            ("out_quantiles", ORANGE, "////", "expected without it, 5 to 95 %"),
        ):
            ranges = np.array([one[name] for one in rows])
            # A band of a single record would have no width.
            edges = np.concatenate([[0.5], place, [len(rows) + 0.5]])
            low, high = (np.concatenate([side[:1], side, side[-1:]]) for side in (ranges[:, 0], ranges[:, 2]))
            axes.fill_between(
                edges, low, high, step="mid", alpha=0.3, color=colour, linewidth=0, hatch=hatch, label=label
            )
        axes.plot(place, evidence, ".", color=INK, markersize=4, label="this release")
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        axes.set_xlim(0.5, len(rows) + 0.5)
        axes.set_xlabel("records, the strongest evidence first")
        axes.set_ylabel("evidence of membership (nats)")
        legend_above(figure, columns=1)
    numbers = table(
        {
            "record": [one["record"] for one in rows],
            "evidence": evidence.tolist(),
            **{
                f"{name}_{percent}": [one[f"{name}_quantiles"][at] for one in rows]
                for name in ("in", "out")
                for at, percent in enumerate((5, 50, 95))
            },
        }
    )
    return Drawing("evidence", figure, numbers, "Evidence of membership of every record in the released file")
