"""Which files a record becomes: reports and figures, all made before the first is written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .application import make_folder
from .drawings import all_drawings
from .figures import Drawing
from .html import render_public, render_record
from .public import redacted
from .record import write_private


def report_files(
    record: dict[str, Any], *, public: bool, figures: bool, more: Sequence[Drawing] = ()
) -> dict[str, str | bytes]:
    """Names and contents; figures as PNG with their numbers as CSV.

    Args:
        record: As `as_record` or `load_record` gives it.
        public: Whether to make the report for everyone too.
        figures: Whether to make figures too.
        more: Further figures than those of the record.
    """
    files: dict[str, str | bytes] = {"report.html": render_record(record)}
    if public:
        files["report-public.html"] = render_public(redacted(record))
    if figures:
        for drawing in [*all_drawings(record).values(), *more]:
            files[f"figures/{drawing.name}.png"] = drawing.png
            files[f"figures/{drawing.name}.csv"] = drawing.csv
    return files


def write_files(files: dict[str, str | bytes], out: Path) -> None:
    """Write them into a folder, each whole and readable by its owner only."""
    for name, content in files.items():
        path = out / name
        if path.parent != out:
            make_folder(path.parent)
        write_private(content, path)
