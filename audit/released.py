"""What was released, from a file: points and path values, strictly read (docs/released_files.md is the schema)."""

import hashlib
import io
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..mechanisms import Array, InputError, frozen_array, shortened
from .ingest import Format, numbers, plain, read_cells, read_file
from .resolution import resolution_of

_PATH = "path"  # beginning of the names of columns that hold a path
_ARRAYS = ("points", "paths")
_UNNAMED = "write the names of the columns in its first line, which a released file must have"


@dataclass(frozen=True, eq=False)
class Released:
    """Paths that were released.

    Attributes:
        points: Where, ``(t, d)``.
        paths: L paths, ``(L, t)``.
        resolution: Step to which values are rounded, the largest where steps differ; 0 where none is visible.
        sha256: Of the file's bytes; None when they did not come from a file.

    Raises:
        InputError: The arrays do not fit each other, are empty or hold something that is not a finite number.
    """

    points: Array
    paths: Array
    resolution: float = 0.0
    sha256: str | None = None

    def __post_init__(self) -> None:
        points = frozen_array(self.points, ndim=2, name="released points")
        paths = frozen_array(self.paths, ndim=2, name="released paths")
        if not points.size or not paths.size or paths.shape[1] != len(points):
            raise InputError(
                f"released points have shape {points.shape} and paths {paths.shape}: give (t, d) and (L, t), not empty"
            )
        if not 0.0 <= self.resolution < np.inf:
            raise InputError(f"the resolution must be 0 or a positive number, got {self.resolution!r}")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "paths", paths)


def read_released(path: Path, covariates: list[str], file_format: Format, *, key: str = "release.released") -> Released:
    """Read released paths from a CSV, npz or Parquet file, told apart by the end of its name.

    Args:
        path: The file.
        covariates: Names of the columns that hold the points, in the order of the data's covariates.
        file_format: How a CSV file is written. Its first line must name the columns, whatever the data's does.
        key: The configuration's name for the file.

    Raises:
        InputError: The file does not keep to the schema; lines and columns are named, values never shown.
    """
    raw, kind = read_file(path, key=key), path.suffix.lower()
    sha256 = hashlib.sha256(raw).hexdigest()
    if kind == ".npz":
        points, paths = _from_npz(path, raw, len(covariates))
        resolution = resolution_of(paths)
    elif kind in (".parquet", ".pq"):
        points, paths = _from_parquet(path, raw, covariates, key)
        resolution = resolution_of(paths)
    elif kind in (".csv", ".tsv", ".txt"):
        points, paths, resolution = _from_csv(path, raw, covariates, replace(file_format, header=True))
    else:
        raise InputError(f"{key} = {path.name!r}: must be a .csv, .npz or .parquet file")
    return Released(points.astype(np.float64), paths.astype(np.float64), resolution, sha256)


def _from_csv(path: Path, raw: bytes, covariates: list[str], file_format: Format) -> tuple[Array, Array, float]:
    cells = read_cells(path, covariates, file_format, raw=raw, unnamed=_UNNAMED)
    names = _path_columns(path, list(cells.frame.columns), covariates)
    if not len(cells.frame):
        raise InputError(f"{path}: has no points: give a line a point")
    # A repeated name would give a frame where a column is expected; `read_cells` has checked the covariates.
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: names column {twice!r} twice: rename one")
    points, paths = (
        np.column_stack([numbers(path, cells.frame[name], cells.lines, file_format) for name in columns])
        for columns in (covariates, names)
    )
    written = np.stack([plain(cells.frame[name], file_format).to_numpy(dtype=object) for name in names], axis=1)
    return points, paths.T, resolution_of(paths, written.reshape(-1))


def _from_npz(path: Path, raw: bytes, dimension: int) -> tuple[Array, Array]:
    try:
        # A file of another kind, such as a pickle or a single array, is refused and not run.
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile):
        raise InputError(
            f"{path}: is not an npz archive of plain arrays: write it with numpy.savez(file, points=..., paths=...)"
        ) from None
    for name in _ARRAYS:
        if name not in found:
            raise InputError(f"{path}: has no array {name!r}: give 'points' (t, d) and 'paths' (L, t)")
    extra = next((name for name in found if name not in _ARRAYS), None)
    if extra is not None:
        raise InputError(f"{path}: has an array {extra!r} that is neither 'points' nor 'paths': leave it out")
    points, paths = found["points"], found["paths"]
    if points.ndim == 1 and dimension == 1:
        points = points[:, None]
    if paths.ndim == 1:
        paths = paths[None]
    if points.ndim != 2 or paths.ndim != 2 or points.shape[1] != dimension or paths.shape[1] != len(points):
        raise InputError(
            f"{path}: points have shape {points.shape} and paths {paths.shape}: give (t, {dimension}) and (L, t) for "
            f"t points in {dimension} covariate(s) and L paths"
        )
    if not paths.size:
        raise InputError(f"{path}: holds no value: give at least one point and one path")
    for name, array in (("points", points), ("paths", paths)):
        _checked(path, f"array {name!r}", array)
    return points, paths


def _from_parquet(path: Path, raw: bytes, covariates: list[str], key: str) -> tuple[Array, Array]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{key} is a Parquet file, which needs pyarrow: pip install 'gpleak[parquet]'") from None
    try:
        table = parquet.read_table(io.BytesIO(raw))
    except (pyarrow.ArrowException, OSError, ValueError):
        raise InputError(f"{path}: is not a Parquet file: check {key}") from None
    names = [str(name) for name in table.column_names]
    missing = next((name for name in covariates if name not in names), None)
    if missing is not None:
        raise InputError(f"{path}: has no column {missing!r} among its {len(names)}: correct the name")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: names column {twice!r} twice: rename one")
    wanted = _path_columns(path, names, covariates)
    if not table.num_rows:
        raise InputError(f"{path}: has no points: give a row a point")
    columns = {}
    for name in (*covariates, *wanted):
        column = table.column(name)
        if column.null_count:
            raise InputError(f"{path}, column {name!r}: {column.null_count} value(s) are missing: fill them")
        columns[name] = _checked(path, f"column {name!r}", np.asarray(pd.Series(column.to_numpy())))
    points, paths = (np.stack([columns[name] for name in group]) for group in (covariates, wanted))
    return points.T, paths


def _path_columns(path: Path, names: list[str], covariates: list[str]) -> list[str]:
    """Columns that hold a path, in the order of the file; every other one must be a covariate."""
    others = [name for name in names if name not in covariates]
    odd = next((name for name in others if not name.startswith(_PATH)), None)
    if odd is not None:
        # The first line of a file without header may hold values: they are not shown.
        shown = f"a column {odd!r}" if odd.isidentifier() else "a column"
        raise InputError(
            f"{path}: has {shown} that is neither a covariate nor a path: leave it out, or begin its name with 'path'"
        )
    if not others:
        raise InputError(f"{path}: has no column whose name begins with 'path': give one a released path")
    return others


def _checked(path: Path, what: str, array: Any) -> Any:
    """The array, which must hold finite numbers."""
    if array.dtype.kind not in "iuf":
        raise InputError(f"{path}, {what}: holds {array.dtype}, not numbers: store it as float64")
    odd = np.argwhere(~np.isfinite(array))
    if len(odd):
        rows = shortened(sorted({int(place[0]) for place in odd}))
        raise InputError(f"{path}, {what}: is NaN or infinite in row {rows} (0-based): the release is broken there")
    return array
