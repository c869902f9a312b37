"""What a released file says about the records, for the record, the terminal and the report."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from ..audit import AuditResult
from ..audit.file_audit import ReleasedEvidence
from .figures import record_name

_OTHERS = {
    "file": "rows drawn from the population file",
    "replacements": "public records drawn from the domain, with responses at the ends of their range",
}
_SHOWN_IN_TERMINAL = 5


@dataclass(frozen=True)
class Suspicion:
    """What a released file says about one record, in nats.

    Attributes:
        record: 0-based row.
        evidence: What was seen.
        expected_in: 5, 50 and 95 % quantiles if the record is in.
        expected_out: The same if another is in its place.
        false_alarm: How often a release without the record shows no less.
    """

    record: int
    evidence: float
    expected_in: tuple[float, float, float]
    expected_out: tuple[float, float, float]
    false_alarm: float


def suspicions(released: ReleasedEvidence) -> list[Suspicion]:
    """Every record, the strongest evidence first, ties by row."""
    found = released.membership
    return [
        Suspicion(
            int(row),
            float(found.evidence[row]),
            _three(found.in_quantiles[row]),
            _three(found.out_quantiles[row]),
            float(found.false_alarm[row]),
        )
        for row in np.argsort(-found.evidence, kind="stable")
    ]


def _three(values: Any) -> tuple[float, float, float]:
    low, middle, high = (float(value) for value in values)
    return low, middle, high


def nats(value: float) -> str:
    """Two decimals, and no negative zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def others_text(released: dict[str, Any]) -> str:
    """What the adversary thinks possible in a record's place, of a `released_record`."""
    return f"{released['others']} {_OTHERS[released['population']]}"


def released_record(released: ReleasedEvidence) -> dict[str, Any]:
    """As plain values; records by row."""
    found = released.membership
    return {
        "sha256": released.sha256,
        "paths": released.paths,
        "points": released.points,
        "resolution": released.resolution,
        "directions": found.directions,
        "population": found.population,
        "others": found.others,
        "draws": found.draws,
        "records": [
            {
                "record": one.record,
                "evidence": one.evidence,
                "in_quantiles": list(one.expected_in),
                "out_quantiles": list(one.expected_out),
                "false_alarm": one.false_alarm,
            }
            for one in sorted(suspicions(released), key=lambda one: one.record)
        ],
    }


def print_released(result: AuditResult, console: Console) -> None:
    """The strongest evidence of the released file, and what was to be expected; nothing without a file."""
    if result.released is None:
        return
    for place, one in enumerate(suspicions(result.released)[:_SHOWN_IN_TERMINAL]):
        begin = "this very release: " if place == 0 else ""
        unit = " nats" if place == 0 else ""
        console.print(
            Text(
                f"{begin}{record_name(one.record)} has evidence of {nats(one.evidence)}{unit} (expected "
                f"{nats(one.expected_in[1])} if it is in, {nats(one.expected_out[1])} if not; false alarm "
                f"{one.false_alarm:.2g})"
            )
        )
