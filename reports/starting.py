"""``gpleak init``: write a first configuration for a file of records, and ask for what must not come from them."""

import csv
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..audit.columns import Columns, find_columns
from ..audit.initial import OPEN, Publics, configuration, meaning, quoted, taken_from_data
from ..mechanisms import InputError
from .application import app
from .record import write_private

_T = TypeVar("_T")
_WHY = """These are public premises of every certificate. Taken from private records they would give away the most
extreme ones, so none is taken from yours: state what you could have said before you had them. Enter leaves one open."""


@app.command()
def init(
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="CSV file of the private records.")],
    out: Annotated[Path, typer.Option("--out", help="The configuration to write.")] = Path("audit.toml"),
    covariates: Annotated[str | None, typer.Option(metavar="A,B", help="Columns: where, or when.")] = None,
    response: Annotated[str | None, typer.Option(metavar="Y", help="Column: what was measured.")] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="[[LOW,HIGH],...]", help="Public box of the covariates.")
    ] = None,
    bound: Annotated[float | None, typer.Option(help="Public bound on the size of responses.")] = None,
    mechanism: Annotated[str, typer.Option(help="What is released.")] = Publics.mechanism,
    kernel: Annotated[str, typer.Option(help="Of the release.")] = Publics.kernel,
    length_scale: Annotated[float | None, typer.Option(help="In units of the covariates.")] = None,
    ridge: Annotated[float | None, typer.Option(help="Standard deviation of noise over function.")] = None,
    scale: Annotated[float | None, typer.Option(help="Standard deviation of the function.")] = None,
    prior_noise: Annotated[float | None, typer.Option(help="For mechanism noised.")] = None,
    separator: Annotated[str | None, typer.Option(help="Between columns, if it cannot be told.")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark, if it cannot be told.")] = None,
    thousands: Annotated[str | None, typer.Option(help="Thousands separator.")] = None,
    header: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Names of all columns; the first line is a record.")
    ] = None,
    not_private: Annotated[
        bool, typer.Option("--not-private", help="These data are public: take domain and bound from them.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the configuration.")] = False,
) -> None:
    """Write a commented configuration for DATA.csv, and ask for what must not be read off private records.

    Without a terminal, what is not stated is left open as TODO: gpleak audit refuses it. Exit status 0: it was written.
    """
    _check_out(out, force=force)
    stated = Publics(
        mechanism=mechanism,
        kernel=kernel,
        domain=None if domain is None else _box(domain),
        response_bound=bound,
        length_scale=length_scale,
        ridge=ridge,
        scale=scale,
        prior_noise=prior_noise,
    )
    found = find_columns(
        data,
        covariates=_names(covariates, "--covariates"),
        response=response,
        decimal=decimal,
        thousands=thousands,
        separator="\t" if separator == "\\t" else separator,
        header=_names(header, "--header"),
    )
    file = _seen_from(out, data)
    configuration(found, stated, file=file)  # before anything is asked
    for line in _columns_text(found):
        typer.echo(line)
    if not_private:
        stated = taken_from_data(stated, found)
    if stated.open and on_terminal():
        stated = _asked(stated, found.covariates)
    write_private(configuration(found, stated, file=file), out)
    for line in _closing(stated, out):
        typer.echo(line)


def on_terminal() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _check_out(out: Path, *, force: bool) -> None:
    """The suffix keeps `--force` from ever overwriting data."""
    if out.suffix != ".toml":
        raise InputError(f"--out {out}: a configuration's name must end in .toml")
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"--out {out}: must be a file in a folder that exists")
    if out.exists() and not force:
        raise InputError(f"{out}: is there already: choose another --out, or overwrite it with --force")


def _seen_from(out: Path, data: Path) -> str:
    """The data's path relative to the configuration; absolute if it was given so."""
    if data.is_absolute():
        return data.as_posix()
    return Path(os.path.relpath(data.parent.resolve() / data.name, out.parent.resolve())).as_posix()


def _names(text: str | None, option: str) -> list[str] | None:
    """``a,b``; a name with a comma in it goes in double quotes."""
    if text is None:
        return None
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not names or not all(names) or len(set(names)) < len(names):
        raise InputError(f"{option} {text!r}: give names of columns with commas between, each once")
    return names


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.strip("[] ").replace(",", " ").split()]
    except ValueError:
        raise InputError(f"{text!r}: is not made of numbers such as 2.5") from None


def _box(text: str) -> tuple[tuple[float, float], ...]:
    """``[[0,1],[0,1]]``."""
    try:
        return tuple((float(low), float(high)) for low, high in json.loads(text))
    except (ValueError, TypeError):
        raise InputError(f"--domain {text!r}: give one [low, high] pair a covariate, such as [[0,1],[0,1]]") from None


def _side(text: str) -> tuple[float, float]:
    numbers = _numbers(text)
    if len(numbers) != 2:
        raise InputError(f"{text!r}: give two numbers, the lower first, such as 0 95")
    return Publics(domain=((numbers[0], numbers[1]),)).domain[0]  # type: ignore[index]  # checked there


def _positive(key: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        numbers = _numbers(text)
        if len(numbers) != 1:
            raise InputError(f"{text!r}: give one number, such as 2.5")
        value: float = getattr(Publics(mechanism="noised", **{key: numbers[0]}), key)  # type: ignore[arg-type]
        return value

    return read


def _ask(question: str, read: Callable[[str], _T]) -> _T | None:
    while True:
        said = str(typer.prompt(question, default="", show_default=False, err=True)).strip()
        if not said:
            return None
        try:
            return read(said)
        except InputError as error:
            typer.echo(f"  {error}", err=True)


def _asked(stated: Publics, covariates: tuple[str, ...]) -> Publics:
    """The same, with the answers of whoever sits there."""
    questions = [key for key in stated.open if key != "points"]  # where it is released is easier said in the file
    answers: dict[str, Any] = {}
    if questions:
        typer.echo(f"\n{_WHY}\n", err=True)
    for key in questions:
        if key == "domain":
            typer.echo(f"domain: {meaning(key)}", err=True)
            sides: list[tuple[float, float]] = []
            for name in covariates:
                side = _ask(f"  {quoted(name)}, lowest and highest", _side)
                if side is None:
                    break
                sides.append(side)
            answers[key] = tuple(sides) if len(sides) == len(covariates) else None
        else:
            answers[key] = _ask(f"{key}: {meaning(key)}\n ", _positive(key))
    return replace(stated, **answers)


def _columns_text(found: Columns) -> list[str]:
    guessed = {key: " (guessed)" if key in found.guessed else "" for key in ("covariates", "response")}
    lines = [
        f"covariates: {', '.join(map(quoted, found.covariates))}{guessed['covariates']}",
        f"response: {quoted(found.response)}{guessed['response']}",
    ]
    lines += [f"left out: {quoted(name)}, {why}" for name, why in found.left_out]
    if found.guessed:
        lines.append("if a guess is wrong, state --covariates A,B and --response Y, or change the file")
    return lines


def _closing(stated: Publics, out: Path) -> list[str]:
    lines = [f"written: {out}, for {stated.made_up}: is that your release?"]
    if stated.from_data:
        lines.append(
            f"taken from the data: {' and '.join(sorted(stated.from_data))}; what is certified is then a function of "
            "the data, and protects none of these records"
        )
    if stated.open:
        lines.append(
            f"still open: {', '.join(f'release.{key}' for key in stated.open)}; they must not be read off private "
            f"records. Replace each {OPEN} in the file: gpleak audit refuses it until then"
        )
    file = shlex.quote(str(out))
    if "ridge" in stated.open:
        solve = f"gpleak certify {file} --set release.ridge=1 --solve ridge --epsilon 3"
        lines.append(f"the smallest ridge for a budget, once the rest is stated: {solve}")
    lines.append(f"next: gpleak certify {file}; gpleak plan {file} --detect 2; gpleak audit {file}")
    return lines
