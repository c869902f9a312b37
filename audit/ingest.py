"""Read a table of records from a CSV file, strictly: nothing is dropped, guessed or coerced in silence."""

import csv
import difflib
import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..mechanisms import Array, InputError, shortened

_SEPARATORS = (",", ";", "\t", "|")
_NAMES_ELSEWHERE = "set data.header to the list of column names"


@dataclass(frozen=True)
class Format:
    """How numbers and columns are written in a file.

    Attributes:
        decimal: Decimal mark.
        thousands: Thousands separator, or None when there is none.
        header: True: the first row names the columns. False: it is a record, and columns are called "0", "1", ...
            A list: the first row is a record, and these are the names.
        separator: Between columns; None finds the one that fits.
    """

    decimal: str = "."
    thousands: str | None = None
    header: bool | tuple[str, ...] = True
    separator: str | None = None

    def __post_init__(self) -> None:
        if len(self.decimal) != 1 or self.decimal.isalnum():
            raise InputError(f"decimal must be one mark such as '.' or ',', got {self.decimal!r}")
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands.isalnum()):
            raise InputError(f"thousands must be one mark such as ',' or '.', got {self.thousands!r}")
        if self.thousands == self.decimal:
            raise InputError(f"decimal and thousands are both {self.decimal!r}: they must differ")

    @property
    def number(self) -> re.Pattern[str]:
        """What a number looks like. A thousands mark must stand before each group of three, or nowhere."""
        whole = r"[0-9]+"
        if self.thousands is not None:
            whole = rf"(?:[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|[0-9]+)"
        mark = re.escape(self.decimal)
        return re.compile(rf"[+-]?(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, eq=False)
class Table:
    """The wanted columns of a file as numbers.

    Attributes:
        values: ``(rows, columns)``, in the order asked for.
        lines: Line of the file, 1-based, that each row ends on.
        sha256: Of the file's bytes.
    """

    values: Array
    lines: tuple[int, ...]
    sha256: str


def read_table(path: Path, columns: list[str], file_format: Format, *, key: str = "data.file") -> Table:
    """Read `columns` of a CSV file as numbers; `key` is the configuration's name for the file.

    Raises:
        InputError: No such file, not text, a missing column, a row of another length, a cell that is not a
            number in the stated format (lines are named), or no rows.
    """
    cells = read_cells(path, columns, file_format, raw=read_file(path, key=key))
    if not len(cells.frame):
        raise InputError(f"{path}: has no records: give at least 2")
    values = np.column_stack([numbers(path, cells.frame[name], cells.lines, file_format) for name in columns])
    return Table(values, cells.lines, cells.sha256)


@dataclass(frozen=True, eq=False)
class Cells:
    """A CSV file as text.

    Attributes:
        frame: All its columns, by name; every cell is text.
        lines: Line of the file, 1-based, that each row ends on.
        sha256: Of the file's bytes.
    """

    frame: pd.DataFrame
    lines: tuple[int, ...]
    sha256: str


def read_file(path: Path, *, key: str) -> bytes:
    """The bytes of a file; `key` is the configuration's name for it.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no such path"
        raise InputError(f"{path}: cannot be read ({reason}): check {key}") from None


def read_cells(
    path: Path, columns: list[str], file_format: Format, *, raw: bytes, unnamed: str = _NAMES_ELSEWHERE
) -> Cells:
    """All cells of a CSV file that has these `columns`, and maybe others.

    Args:
        path: For messages.
        columns: Names of the columns that it must have.
        file_format: How it is written.
        raw: The file.
        unnamed: What to do if the first line does not name the columns; for messages.

    Raises:
        InputError: Not text, a missing column or a row of another length.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 at byte {error.start}: save it as CSV UTF-8") from None
    frame, lines = _frame(path, text, columns, file_format, unnamed)
    return Cells(frame, lines, hashlib.sha256(raw).hexdigest())


def _frame(
    path: Path, text: str, columns: list[str], file_format: Format, unnamed: str
) -> tuple[pd.DataFrame, tuple[int, ...]]:
    """The file as text cells, under the separator that gives every wanted column."""
    candidates = [file_format.separator] if file_format.separator else [s for s in _SEPARATORS if s in text]
    # A mark inside the numbers cannot be taken for granted as a separator, but quoting may make it one.
    readings = [_rows(path, text, separator) for separator in candidates or [","]]
    named = [_named(rows, file_format.header) for rows in readings]
    fitting = [
        (names, rows)
        for names, rows in named
        if names is not None and all(name in names for name in columns) and all(len(c) == len(names) for _, c in rows)
    ]
    if len(fitting) > 1:
        raise InputError(f"{path}: can be read with more than one separator: set data.separator")
    if not fitting:
        widest = max(named, key=lambda item: len(item[0] or ()))
        raise InputError(_why_not(path, columns, file_format, widest, unnamed))
    names, rows = fitting[0]
    twice = [name for name in columns if names.count(name) > 1]
    if twice:
        raise InputError(f"{path}: names column {twice[0]!r} twice: rename one")
    frame = pd.DataFrame([cells for _, cells in rows], columns=names, dtype=str)
    return frame, tuple(line for line, _ in rows)


_Rows = list[tuple[int, list[str]]]


def _rows(path: Path, text: str, separator: str) -> _Rows:
    """(line, cells) of every line that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True)
    try:
        return [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if cells]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: is not valid CSV ({error})") from None


def _named(rows: _Rows, header: bool | tuple[str, ...]) -> tuple[list[str] | None, _Rows]:
    if not rows:
        return None, rows
    if header is True:
        return rows[0][1], rows[1:]
    if header is False:
        return [str(number) for number in range(len(rows[0][1]))], rows
    return list(header), rows


def _why_not(
    path: Path, columns: list[str], file_format: Format, reading: tuple[list[str] | None, _Rows], unnamed: str
) -> str:
    names, rows = reading
    if names is None:
        return f"{path}: is empty: give a header and at least 2 records"
    missing = [name for name in columns if name not in names]
    # The first line may be a private record: it is never shown, except a name that nearly is the one asked for.
    if missing and file_format.header is True and any(re.search("[0-9]", name) for name in names):
        return (
            f"{path}: has no column {missing[0]!r}, and there are numbers in its first line: if it has no header, "
            f"{unnamed}; else correct the name"
        )
    if missing:
        near = difflib.get_close_matches(missing[0], names, n=1, cutoff=0.75)
        hint = f"did you mean {near[0]!r}?" if near else f"correct the name, or, if there is no header, {unnamed}"
        return f"{path}: has no column {missing[0]!r} among its {len(names)}: {hint}"
    line, cells = next((line, cells) for line, cells in rows if len(cells) != len(names))
    return f"{path}, line {line}: has {len(cells)} cells where {len(names)} columns are named: repair the line"


def numbers(path: Path, cells: "pd.Series[str]", lines: tuple[int, ...], file_format: Format) -> Array:
    """The cells of one column as numbers.

    Raises:
        InputError: One is not; its line is named, and what it says is not shown.
    """
    wrong = np.flatnonzero(~cells.str.fullmatch(file_format.number.pattern).to_numpy(dtype=bool))
    if len(wrong):
        first = cells.iloc[wrong[0]]
        where = f"{path}, line {shortened([lines[row] for row in wrong])}, column {cells.name!r}"
        # The cell itself is private: say what is wrong with it, not what it says.
        problem = "is empty" if not first else "is not a number"
        advice = "fill it or remove the record"
        if first and {",", "."} & set(first):
            advice = "if it is a decimal comma or has thousands separators, set data.decimal and data.thousands"
        raise InputError(f"{where}: {problem}: {advice}")
    values = plain(cells, file_format).astype(np.float64).to_numpy()
    if not np.isfinite(values).all():
        bad = [lines[row] for row in np.flatnonzero(~np.isfinite(values))]
        raise InputError(f"{path}, line {shortened(bad)}, column {cells.name!r}: is too large for a number")
    return np.asarray(values)


def plain(cells: "pd.Series[str]", file_format: Format) -> "pd.Series[str]":
    """Numbers as text that `float` reads."""
    whole = cells.str.replace(file_format.thousands, "", regex=False) if file_format.thousands else cells
    return whole.str.replace(file_format.decimal, ".", regex=False)
