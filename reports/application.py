"""What the commands share: the application, its options, Ctrl-C."""

from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..mechanisms import InputError

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
Public = Annotated[
    bool, typer.Option("--public", help="Write report-public.html too, without what was measured on the data.")
]
Figures = Annotated[
    bool, typer.Option("--figures", help="Write the folder figures too: each as PNG, its numbers as CSV.")
]


def make_folder(out: Path, *, option: str = "--out ") -> None:
    """Make the folder for what is written; `InputError`, which names the option, when that is not possible."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option}{out}: cannot be made ({error.strerror}): choose another folder") from None


class Interrupt:
    """Remembers Ctrl-C: the exception is lost where it is raised inside a library's callback from C."""

    seen = False
    kept = False  # whether finished chunks are kept,
    fresh = False  # and whether the same command would remove them

    @classmethod
    def handle(cls, *_: object) -> None:
        """What SIGINT calls."""
        cls.seen = True
        raise KeyboardInterrupt
