"""How an audit reaches a person: the JSON record, figures, the HTML report and the command line."""

from .html import render_report
from .record import as_record, load_record, write_record

__all__ = ["as_record", "load_record", "render_report", "write_record"]
