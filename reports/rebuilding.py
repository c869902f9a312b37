"""The command ``gpleak report``: the reports again, from what an audit wrote."""

from pathlib import Path
from typing import Annotated

import typer

from ..mechanisms import InputError
from .application import Figures, Public, app, make_folder
from .files import report_files, write_files
from .record import load_record


@app.command()
def report(
    record: Annotated[Path, typer.Argument(help="The audit.json of an audit, of this or an older gpleak.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder for what is written; that of the record.")] = None,
    public: Public = False,
    figures: Figures = False,
) -> None:
    """Make report.html again from audit.json, without the data. Nothing is computed or attacked."""
    loaded = load_record(record)
    try:
        files = report_files(loaded, public=public, figures=figures)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InputError(
            f"{record}: is not the whole record of an audit ({type(error).__name__}: {error}): give the audit.json "
            "that gpleak audit wrote"
        ) from error
    folder = record.parent if out is None else out
    make_folder(folder)
    write_files(files, folder)
    print(folder / "report.html")
