"""The command line. Exit status: 0 not refuted, 1 violated, 2 bad input or failed run, 3 inconclusive and --strict."""

import logging
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from ..audit import AuditResult, Verdict, build_subject, load_config, run_audit
from ..mechanisms import InputError, NumericalError
from ..mechanisms.foreign import BlackBox
from . import commands, comparing, rebuilding, starting  # noqa: F401 - registers them
from .application import AllowCode, ConfigPath, Figures, Interrupt, Overrides, Public, app, make_folder
from .console import PlainConsole, forget_reader, print_summary, progress_bar, unread
from .files import report_files, write_files
from .html import render_locations
from .map import map_drawing
from .record import as_record, strict_json, write_record

_INTERRUPTED = 130


@app.command()
def audit(
    config: ConfigPath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for what is written, gpleak-out by default. One that is named keeps chunks."
        ),
    ] = None,
    overrides: Overrides = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 when the audit is inconclusive.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over in the folder of an interrupted audit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as strict JSON and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no warnings.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say what is done.")] = False,
    public: Public = False,
    figures: Figures = False,
    locations: Annotated[
        bool, typer.Option("--include-locations", help="Write report-private.html, a map of the private records.")
    ] = False,
    allow_code: AllowCode = False,
) -> None:
    """Attack a release and set what is found beside what is certified and claimed.

    With --out, finished chunks are kept: the same command goes on where it was interrupted.
    """
    if fresh and out is None:
        raise InputError("--fresh needs the folder to start over in: add --out DIR")
    if quiet and verbose:
        raise InputError("--quiet and --verbose contradict each other: give one of them")
    logging.getLogger("gpleak").setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
    loaded = load_config(config, overrides)
    subject = build_subject(loaded, allow_code=allow_code)
    if locations and (subject.data is None or isinstance(subject.mechanism, BlackBox)):
        raise InputError(
            "--include-locations needs records with exact epsilons: without data, or of a black box, leave it out"
        )
    keep = None if out is None else out / "chunks"
    out = out or Path("gpleak-out")
    Interrupt.kept, Interrupt.fresh = keep is not None, fresh
    make_folder(out)
    with progress_bar(Console(stderr=True, quiet=quiet)) as progress:

        def tell(done: int, total: int, workers: int) -> None:
            if Interrupt.seen:
                raise KeyboardInterrupt
            progress(done, total, workers)

        result = run_audit(subject, loaded.audit, compute=loaded.compute, progress=tell, keep=keep, fresh=fresh)
    record = as_record(result, command=command_text(config, overrides, allow_code=allow_code))
    maps = []
    if locations and subject.data is not None and loaded.data is not None:
        maps = [map_drawing(record, subject.data.covariates, loaded.data.covariates)]
    # Before anything is written: all files or none.
    files = report_files(record, public=public, figures=figures, more=maps)
    if maps and loaded.data is not None:
        files["report-private.html"] = render_locations(record, maps[0], loaded.data.covariates)
    write_record(record, out / "audit.json")
    write_files(files, out)
    for name in {"report-public.html", "report-private.html"} - set(files):
        (out / name).unlink(missing_ok=True)  # of an earlier audit: beside this one it would mislead
    if as_json:
        print(strict_json(record), end="")
    else:
        _print_result(result, out / "report.html")
    raise typer.Exit({Verdict.VIOLATED: 1, Verdict.INCONCLUSIVE: 3 if strict else 0}.get(result.verdict, 0))


app.registered_commands.insert(0, app.registered_commands.pop())  # in the help the main one comes first


def command_text(config: Path, overrides: Sequence[str] | None, *, allow_code: bool) -> str:
    """What finds the same numbers again: where the work is done and where results are written changes none of them."""
    changes = [part for change in overrides or [] if not change.startswith("compute.") for part in ("--set", change)]
    return shlex.join(["gpleak", "audit", str(config), *changes, *(["--allow-code"] if allow_code else [])])


def _print_result(result: AuditResult, report: Path) -> None:
    """The summary."""
    console = PlainConsole(highlight=False, soft_wrap=True)
    with unread():
        print_summary(result, console)
        console.print(Text(f"report: {report}", style="dim"))


def main() -> None:
    """Run the command; a failure is one line on stderr and exit status 2, Ctrl-C one line and 130."""
    signal.signal(signal.SIGINT, Interrupt.handle)
    logging.basicConfig(format="gpleak: %(message)s")
    try:
        with np.errstate(all="ignore"):  # what matters is checked; a warning would quote our sources
            status = app(standalone_mode=False) or 0
        if status == _INTERRUPTED:  # typer has turned Ctrl-C into a status
            raise KeyboardInterrupt
        sys.exit(status)
    except KeyboardInterrupt:
        _interrupted()
    except (InputError, NumericalError) as error:
        _fail(f"{error}{_place(error)}")
    except BrokenPipeError:  # whoever read the output of a command has seen enough
        forget_reader()
        sys.exit(0)
    except MemoryError:
        _fail("out of memory: use fewer points, replacements or paths")
    except Exception as error:
        # What the command line's parser raises; typer may bring its own copy of click, whose classes are others.
        if type(error).__name__ == "Abort":
            _interrupted()
        if (usage := getattr(error, "format_message", None)) is not None:
            _fail(f"{usage()} (see gpleak --help)")
        if os.environ.get("GPLEAK_DEBUG"):
            raise
        # The text of a foreign exception may quote private values: only its kind is shown.
        _fail(f"failed with an unexpected {type(error).__name__}{_place(error)}: set GPLEAK_DEBUG=1 to see where")


def _place(error: Exception) -> str:
    """Where in the work it happened: the innermost place first."""
    notes = getattr(error, "__notes__", [])
    return f" ({', '.join(notes)})" if notes else ""


def _interrupted() -> NoReturn:
    going_on = f"the same command {'without --fresh ' if Interrupt.fresh else ''}goes on where it was"
    left = going_on if Interrupt.kept else "nothing was written"
    print(f"gpleak: interrupted: {left}", file=sys.stderr)
    sys.exit(_INTERRUPTED)


def _fail(message: str) -> NoReturn:
    print(f"gpleak: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
