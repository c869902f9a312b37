"""All figures of a record, in the order of the report."""

from typing import Any

from .figures import Drawing
from .growth import epsilon_growth_drawing, success_growth_drawing
from .ladder import attacked_drawing, ladder_drawing
from .rates import roc_drawing, trade_off_drawing
from .spread import evidence_drawing, histogram_drawing


def all_drawings(record: dict[str, Any]) -> dict[str, Drawing]:
    """By name; those for which the record, or a redacted one, holds nothing are left out."""
    found = [
        ladder_drawing(record),
        attacked_drawing(record) if record["attacks"] else None,
        roc_drawing(record),
        histogram_drawing(record),
        epsilon_growth_drawing(record),
        success_growth_drawing(record),
        trade_off_drawing(record),
        evidence_drawing(record),
    ]
    return {drawing.name: drawing for drawing in found if drawing is not None}
