"""Which columns of a CSV file are covariates and which is the response: a guess that says what it is based on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..mechanisms import InputError
from .ingest import Cells, Format, Table, plain, read_cells, read_file, read_table

_SEPARATORS = (",", ";", "\t", "|")
_NOTATIONS = (Format(), Format(","), Format(".", ","), Format(",", "."))
_GROUPED = r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+"  # a number whose commas may be thousands separators


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLACES = _listed(
    "x y z lat latitude lon long lng longitude east easting west north northing south time t depth elevation altitude "
    "height hour day month year date epoch distance position"
)
_RESPONSES = _listed("response target value price outcome measurement observation label")
_IDENTIFIERS = _listed("id ids uid uuid guid key index idx row rowid code zip zipcode postcode ssn phone")
_LARGEST = {"lat": 90.0, "latitude": 90.0, "lon": 360.0, "lng": 360.0, "longitude": 360.0}  # degrees


@dataclass(frozen=True, eq=False)
class Columns:
    """What was found in a file of private records. Names are public, cells are not.

    Attributes:
        covariates: Names, in the order of the file where they were guessed.
        response: Name.
        guessed: Which of "covariates" and "response" nobody stated.
        left_out: Every other column and why it was not taken.
        file_format: How the file is written.
        table: The columns as numbers, covariates first; private.
    """

    covariates: tuple[str, ...]
    response: str
    guessed: frozenset[str]
    left_out: tuple[tuple[str, str], ...]
    file_format: Format
    table: Table

    @property
    def degrees(self) -> bool:
        """Whether a covariate is named like a latitude or longitude."""
        return any(words(name) & set(_LARGEST) for name in self.covariates)


def find_columns(
    path: Path,
    *,
    covariates: Sequence[str] | None = None,
    response: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    separator: str | None = None,
    header: Sequence[str] | None = None,
) -> Columns:
    """Look at a file and choose what was not stated.

    Args:
        path: A CSV file of private records.
        covariates: Names of columns; None to guess: those named like a place or a time, else all left.
        response: The name of a column; None to guess: one with a telling name, else the last that is no place.
        decimal: The decimal mark; None to find it, where only one reading is possible.
        thousands: The thousands separator; None for none.
        separator: Between columns; None to find it.
        header: Names of the columns of a file without a first line of names.

    Raises:
        InputError: The file cannot be read, can be read in two ways, has no names or too few numbers, or a stated
            column is none. No cell is shown.
    """
    raw = read_file(path, key="the path of the data")
    stated = Format(decimal or ".", thousands, True if header is None else tuple(header), separator)
    cells, found_separator = _cells(path, raw, stated)
    frame = cells.frame
    if len(frame) < 2:
        raise InputError(f"{path}: has {len(frame)} record(s) below its header: an audit needs at least 2")
    notation = stated if decimal or thousands else _notation(path, frame)
    file_format = replace(notation, header=stated.header, separator=found_separator)
    names = [str(name) for name in frame.columns]
    once = [name for name in names if names.count(name) == 1]
    numeric = [name for name in once if _matches(frame[name], file_format)]
    if header is None and (covariates is None or response is None):
        _check_header(path, numeric)
    if len(numeric) < 2 and (covariates is None or response is None):
        raise InputError(
            f"{path}: has {len(numeric)} column(s) of numbers only: an audit needs a covariate and a response"
        )
    reasons = {name: _no_measurement(name, frame[name], file_format) for name in numeric}
    possible = [name for name in numeric if not reasons[name]]
    chosen_response = response or _guess_response([name for name in possible if name not in (covariates or ())])
    others = [name for name in possible if name != chosen_response]
    places = [name for name in others if words(name) & _PLACES]
    chosen = tuple(covariates or places or others)
    if not chosen_response or not chosen:
        raise InputError(
            f"{path}: no covariate and response can be told from its names: state them with --covariates and --response"
        )
    table = read_table(path, [*chosen, chosen_response], file_format, key="the path of the data")
    _check_degrees(path, chosen, table)
    left = dict.fromkeys(name for name in names if name not in (*chosen, chosen_response))
    return Columns(
        chosen,
        chosen_response,
        frozenset(key for key, said in (("covariates", covariates), ("response", response)) if not said),
        tuple((name, _why_left(name, names, numeric, reasons)) for name in left),
        file_format,
        table,
    )


def words(name: str) -> set[str]:
    """The words in a column's name: ``eastKm_2`` has east and km; a number at a word's end does not count."""
    parts = re.split(r"[^A-Za-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    return {part.lower().rstrip("0123456789") for part in parts} - {""}


def _cells(path: Path, raw: bytes, stated: Format) -> tuple[Cells, str]:
    """The file as text, under the separator that makes the most columns of numbers."""
    readings: dict[str, Cells] = {}
    for separator in (stated.separator,) if stated.separator else _SEPARATORS:
        try:
            cells = read_cells(path, [], replace(stated, separator=separator), raw=raw)
        except InputError:
            continue
        if cells.frame.shape[1] > 1:
            readings[separator] = cells
    if not readings:
        read_cells(path, [], stated, raw=raw)  # says what is wrong
        raise InputError(f"{path}: has one column: an audit needs a covariate and a response")
    counts = {separator: _numeric_columns(cells.frame) for separator, cells in readings.items()}
    best = [separator for separator, count in counts.items() if count == max(counts.values())]
    if len(best) > 1:
        raise InputError(f"{path}: can be read with more than one separator: state it with --separator")
    return readings[best[0]], best[0]


def _numeric_columns(frame: pd.DataFrame) -> int:
    columns = (frame.iloc[:, place] for place in range(frame.shape[1]))
    return sum(any(_matches(column, notation) for notation in _NOTATIONS) for column in columns)


def _matches(cells: "pd.Series[str]", file_format: Format) -> bool:
    return bool(cells.str.fullmatch(file_format.number.pattern).all())


def _notation(path: Path, frame: pd.DataFrame) -> Format:
    """Decimal points or decimal commas, where the numbers leave no doubt.

    Raises:
        InputError: They can be read in two ways.
    """
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    numeric = [column for column in columns if any(_matches(column, notation) for notation in _NOTATIONS)]
    point, comma = _NOTATIONS[:2]
    if all(_matches(column, point) for column in numeric):
        return point
    with_commas = [column for column in numeric if not _matches(column, point)]
    doubtful = any(column[column.str.contains(",")].str.fullmatch(_GROUPED).all() for column in with_commas)
    if doubtful or not all(_matches(column, comma) for column in numeric):
        raise InputError(
            f"{path}: has numbers with commas that may be decimal marks or thousands separators: state --decimal , or "
            "--decimal . --thousands ,"
        )
    return comma


def _check_header(path: Path, numeric: list[str]) -> None:
    """A first line with numbers above numbers may be a record, and is then not to be shown or lost."""
    if any(re.fullmatch(notation.number, name) for name in numeric for notation in _NOTATIONS):
        raise InputError(
            f"{path}: there are numbers in its first line: if that is a record, name the columns with --header a,b,c; "
            "else rename the columns, or state --covariates and --response"
        )


def _no_measurement(name: str, cells: "pd.Series[str]", file_format: Format) -> str:
    """Why a column of numbers is neither a covariate nor a response, or nothing."""
    if not name:
        return "it has no name"
    if words(name) & _IDENTIFIERS:
        return "its name says that it identifies records"
    values = plain(cells, file_format).astype(np.float64).to_numpy()
    if len(values) > 2 and not words(name) & _PLACES and bool((np.diff(values) == 1).all()):
        return "it counts the records"
    return ""


def _guess_response(names: list[str]) -> str:
    """One named as a response is; else y, unless it stands beside x as a place; else the last that is no place."""
    telling = [name for name in names if words(name) & _RESPONSES]
    if telling:
        return telling[-1]
    lower = [name.lower() for name in names]
    if "y" in lower and ("x" not in lower or len(names) == 2):
        return names[lower.index("y")]
    others = [name for name in names if not words(name) & _PLACES]
    return (others or names or [""])[-1]


def _why_left(name: str, names: list[str], numeric: list[str], reasons: dict[str, str]) -> str:
    if names.count(name) > 1:
        return "it stands there twice"
    if name not in numeric:
        return "not all of its cells are numbers"
    return reasons[name] or "its name is not that of a place or a time"


def _check_degrees(path: Path, covariates: tuple[str, ...], table: Table) -> None:
    for place, name in enumerate(covariates):
        most = min((_LARGEST[word] for word in words(name) & set(_LARGEST)), default=np.inf)
        if (np.abs(table.values[:, place]) > most).any():
            raise InputError(
                f"{path}: column {name!r} has values beyond {most:g} degrees: are latitude and longitude swapped? "
                "correct the names; rename the column if it is neither"
            )
