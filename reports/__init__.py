"""How an audit reaches a person: the JSON record, figures, the HTML report, the command line and the pytest plugin.

The public names are loaded when they are first used (PEP 562): the pytest plugin lives here, and a test run that does
not use it must not pay for figures and templates.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .html import render_report
    from .record import as_record, load_record, write_record

_HOME = {"as_record": "record", "load_record": "record", "render_report": "html", "write_record": "record"}

__all__ = ["as_record", "load_record", "render_report", "write_record"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
