"""What an audit writes, from Python: ``audit.json`` for machines and reports for people, as ``gpleak audit`` does."""

import os
from pathlib import Path
from typing import Any

from ..audit import AuditResult
from .application import make_folder
from .files import report_files, write_files
from .record import as_record, write_record


def write_report(
    result: AuditResult, folder: str | os.PathLike[str], *, public: bool = False, figures: bool = False
) -> dict[str, Any]:
    """Write ``audit.json`` and ``report.html`` into a folder; all is made before anything is written.

    The files are readable by their owner only and hold no private record: rows are named by number.

    Args:
        result: What `run_audit` returned.
        folder: Made if it is not there.
        public: Whether to write ``report-public.html`` too, for everyone.
        figures: Whether to write every figure too, as PNG and its numbers as CSV.

    Returns:
        The record that is in ``audit.json``, as plain values; `load_record` reads it back.

    Raises:
        InputError: The folder cannot be made, or a file not be written.
    """
    out = Path(folder)
    make_folder(out, option="")
    record = as_record(result)
    files = report_files(record, public=public, figures=figures)
    write_record(record, out / "audit.json")
    write_files(files, out)
    return record
