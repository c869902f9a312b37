"""The command line. Exit status: 0 not refuted, 1 violated, 2 bad input or failed run, 3 inconclusive and --strict."""

import logging
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from .. import __version__
from ..audit import (
    AuditResult,
    Verdict,
    build_stated,
    build_subject,
    certification,
    curves,
    load_config,
    plan_power,
    run_audit,
    solve,
    worst_pair,
)
from ..audit.sweep import plan_sweep
from ..mechanisms import InputError, NumericalError
from .certified import certification_record, print_certification, write_curves
from .console import PlainConsole, print_plan, print_summary, print_worst_pair, progress_bar, unread
from .html import render_report
from .record import as_record, strict_json, worst_pair_record, write_private, write_record
from .sweep import print_sweep, run_sweep

_INTERRUPTED = 130

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Measure how much a released Gaussian-process posterior sample betrays about one training record."""


ConfigPath = Annotated[Path, typer.Argument(help="Configuration file (TOML).")]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder for what is written.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key. Repeatable.")
]
AllowCode = Annotated[bool, typer.Option("--allow-code", help="Allow a mechanism module:Class, which runs its code.")]


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
    keep = None if out is None else out / "chunks"
    out = out or Path("gpleak-out")
    _make_folder(out)
    _Interrupt.kept, _Interrupt.fresh = keep is not None, fresh
    with progress_bar(Console(stderr=True, quiet=quiet)) as progress:

        def tell(done: int, total: int, workers: int) -> None:
            if _Interrupt.seen:
                raise KeyboardInterrupt
            progress(done, total, workers)

        result = run_audit(subject, loaded.audit, compute=loaded.compute, progress=tell, keep=keep, fresh=fresh)
    report = render_report(result)  # before anything is written: both files or none
    record = as_record(result)
    write_record(record, out / "audit.json")
    write_private(report, out / "report.html")
    if as_json:
        print(strict_json(record), end="")
    else:
        _print_result(result, out / "report.html")
    raise typer.Exit({Verdict.VIOLATED: 1, Verdict.INCONCLUSIVE: 3 if strict else 0}.get(result.verdict, 0))


@app.command()
def certify(
    config: ConfigPath,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
    parameter: Annotated[
        str | None,
        typer.Option("--solve", metavar="PARAMETER", help="ridge, scale or prior_noise: smallest value for --epsilon."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--epsilon", help="Budget for --solve and for the number of paths.")
    ] = None,
    allow_code: AllowCode = False,
) -> None:
    """Certify a release. No data are needed when release.records is given. Exit status 1: no value is feasible."""
    loaded = load_config(config, overrides)
    if budget is not None and not 0.0 <= budget < np.inf:
        raise InputError(f"--epsilon {budget:g}: a budget must be a number of at least 0")
    mechanism, regime = build_stated(loaded, allow_code=allow_code)
    delta = loaded.audit.delta
    solved = None
    if parameter is not None:
        if parameter not in ("ridge", "scale", "prior_noise"):
            raise InputError(f"--solve {parameter}: must be ridge, scale or prior_noise")
        if budget is None:
            raise InputError("--solve needs a budget: add --epsilon, such as --epsilon 3")
        solved = solve(mechanism, regime, delta, parameter=parameter, budget=budget)  # type: ignore[arg-type]
    claim = budget if budget is not None else loaded.audit.claimed_epsilon
    found = certification(mechanism, regime, delta, budget=claim)
    if as_json:
        print(strict_json(certification_record(found, solved)), end="")
    else:
        print_certification(found, solved, PlainConsole(highlight=False, soft_wrap=True))
    if solved is not None and solved.value is None:
        raise typer.Exit(1)


@app.command()
def curve(
    config: ConfigPath,
    out: OutFolder = Path("gpleak-out"),
    overrides: Overrides = None,
) -> None:
    """Write epsilon against ridge, scale and paths: curve.png and curve.csv."""
    loaded = load_config(config, overrides)
    mechanism, regime = build_stated(loaded)
    found = curves(mechanism, regime, loaded.audit.delta)
    _make_folder(out)
    write_curves(found, mechanism.release, loaded.audit.delta, out)
    print(f"{out / 'curve.png'} and {out / 'curve.csv'}")


@app.command()
def worst(
    config: ConfigPath,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Search for the two neighbouring datasets that leak most. No data are needed when release.records is given."""
    loaded = load_config(config, overrides)
    mechanism, regime = build_stated(loaded, allow_code=allow_code)
    found = worst_pair(mechanism, regime, loaded.audit.delta, seed=loaded.audit.seed)
    if found is None:
        raise InputError(
            f"there is no search for the worst pair of mechanism {mechanism.name} under regime {regime.name}: it knows "
            "gpleak's own mechanisms only, and separated data only where they fit"
        )
    if as_json:
        print(strict_json(worst_pair_record(found)), end="")
    else:
        print_worst_pair(found, PlainConsole(highlight=False, soft_wrap=True))


@app.command()
def plan(
    config: ConfigPath,
    factor: Annotated[float, typer.Option("--detect", help="How many times too small the claim is.")],
    power: Annotated[float, typer.Option("--power", help="Wanted probability of refuting it.")] = 0.9,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Say how many trials an attack needs to refute a claim that is too small. Nothing is simulated or written."""
    loaded = load_config(config, overrides)
    found = plan_power(build_subject(loaded, allow_code=allow_code), loaded.audit, factor=factor, power=power)
    if as_json:
        print(strict_json(asdict(found)), end="")
    else:
        print_plan(found, PlainConsole(highlight=False, soft_wrap=True))


@app.command()
def sweep(
    config: ConfigPath,
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="SECTION.KEY=VALUE,VALUE", help="Values of one key. Repeatable: a grid."),
    ],
    out: OutFolder = Path("gpleak-out/sweep"),
    overrides: Overrides = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what an earlier sweep wrote there first.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Audit every combination of values: sweep.csv, figures, a record each. The same command goes on where it was."""
    planned = plan_sweep(config, vary, overrides, allow_code=allow_code)
    _make_folder(out)
    _Interrupt.kept, _Interrupt.fresh = True, fresh

    def tell(*_: object, **__: object) -> None:
        if _Interrupt.seen:
            raise KeyboardInterrupt

    finished = run_sweep(planned, out, fresh=fresh, allow_code=allow_code, progress=tell)
    print_sweep(finished, planned, out)
    raise typer.Exit(finished.status)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be made ({error.strerror}): choose another folder") from None


def _print_result(result: AuditResult, report: Path) -> None:
    """The summary."""
    console = PlainConsole(highlight=False, soft_wrap=True)
    with unread():
        print_summary(result, console)
        console.print(Text(f"report: {report}", style="dim"))


class _Interrupt:
    """Remembers Ctrl-C: the exception is lost where it is raised inside a library's callback from C."""

    seen = False
    kept = False  # whether finished chunks are kept,
    fresh = False  # and whether the same command would remove them

    @classmethod
    def handle(cls, *_: object) -> None:
        """What SIGINT calls."""
        cls.seen = True
        raise KeyboardInterrupt


def main() -> None:
    """Run the command; a failure is one line on stderr and exit status 2, Ctrl-C one line and 130."""
    signal.signal(signal.SIGINT, _Interrupt.handle)
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
    going_on = f"the same command {'without --fresh ' if _Interrupt.fresh else ''}goes on where it was"
    left = going_on if _Interrupt.kept else "nothing was written"
    print(f"gpleak: interrupted: {left}", file=sys.stderr)
    sys.exit(_INTERRUPTED)


def _fail(message: str) -> NoReturn:
    print(f"gpleak: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
