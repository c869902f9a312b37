"""Where the records that an adversary does not know come from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import Array, Dataset, InputError, Release


@dataclass(frozen=True, eq=False)
class Draw:
    """Cores of m records and one other record each, for B shadow pairs.

    Attributes:
        covariates: Of the cores, ``(B, m, d)``.
        responses: ``(B, m)``.
        other: Covariates of the other records, ``(B, d)``.
        other_response: ``(B,)``.
        rows: Rows of the pool that were drawn, ``(B, m + 1)``, the other record last; None without a pool.
    """

    covariates: Array
    responses: Array
    other: Array
    other_response: Array
    rows: NDArray[np.intp] | None

    def __len__(self) -> int:
        return len(self.other)

    def __getitem__(self, pairs: slice) -> Self:
        rows = None if self.rows is None else self.rows[pairs]
        return type(self)(
            self.covariates[pairs], self.responses[pairs], self.other[pairs], self.other_response[pairs], rows
        )

    def check(self, release: Release, *, count: int, name: str) -> None:
        """Raise `InputError` unless these are `count` pairs that the release's premises allow; no value is shown."""
        core, dimension = release.records - 1, release.domain.dimension
        wanted = {
            "covariates": (count, core, dimension),
            "responses": (count, core),
            "other": (count, dimension),
            "other_response": (count,),
        }
        for part, shape in wanted.items():
            array = np.asarray(getattr(self, part))
            if array.shape != shape:
                raise InputError(f"population {name} draws {part} of shape {array.shape}: it must be {shape}")
            if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
                raise InputError(f"population {name} draws {part} that are not all finite numbers")
        places = np.concatenate([self.covariates, self.other[:, None]], axis=1).reshape(-1, dimension)
        if not release.domain.contains(places).all():
            raise InputError(f"population {name} draws records outside the domain, where no certificate holds")
        largest = max(float(np.abs(self.other_response).max()), float(np.abs(self.responses).max(initial=0.0)))
        if largest > release.response_bound:
            raise InputError(f"population {name} draws responses above response_bound = {release.response_bound:g}")

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Pairs of several draws side by side."""
        rows = [part.rows for part in parts if part.rows is not None]
        return cls(
            np.concatenate([part.covariates for part in parts]),
            np.concatenate([part.responses for part in parts]),
            np.concatenate([part.other for part in parts]),
            np.concatenate([part.other_response for part in parts]),
            np.concatenate(rows) if rows else None,
        )


class Population(Protocol):
    """Draws cores and the record that stands where the target does not."""

    @property
    def name(self) -> str:
        """Name in the configuration and the report."""
        ...

    def draw(self, rng: np.random.Generator, count: int, *, core: int) -> Draw:
        """`count` cores of `core` records each, and one other record for each."""
        ...


@dataclass(frozen=True, eq=False)
class Pool:
    """Records drawn with replacement from a table.

    Attributes:
        data: All rows.
        rows: Rows that may be drawn; a target that must not be in the pool is not among them.
        name: "data" for the private records themselves, "file" for a public table.

    Raises:
        InputError: No row may be drawn.
    """

    data: Dataset
    rows: NDArray[np.intp]
    name: str

    def __post_init__(self) -> None:
        if len(self.rows) == 0:
            raise InputError('the population is empty: every record is a target; use targets = "all" or a file')

    def draw(self, rng: np.random.Generator, count: int, *, core: int) -> Draw:
        """Rows drawn with replacement."""
        rows = self.rows[rng.integers(len(self.rows), size=(count, core + 1))]
        covariates, responses = self.data.covariates[rows], self.data.responses[rows]
        return Draw(covariates[:, :-1], responses[:, :-1], covariates[:, -1], responses[:, -1], rows)


@dataclass(frozen=True)
class Jump:
    """The published stress test: a noiseless jump at 1/2 on [0, 1] (THEORY section 8).

    The dataset without the target has ``floor(n/2)`` covariates uniform on the left half and the rest on the right;
    with it, the target at 1/2 takes the place of one on the right. ``y = sign(x - 1/2)``.

    Attributes:
        label_noise: m; responses become ``y (1 - m) + U[-m, m]``.

    Raises:
        InputError: The label noise is not in [0, 1].
    """

    label_noise: float = 0.0
    name: str = "jump"

    def __post_init__(self) -> None:
        if not 0.0 <= self.label_noise <= 1.0:
            raise InputError(f"label_noise must be in [0, 1], got {self.label_noise!r}")

    def check(self, release: Release) -> None:
        """Raise `InputError` unless the records of the test fit the release's premises."""
        sides = release.domain.sides
        if sides.shape != (1, 2) or sides[0, 0] > 0.0 or sides[0, 1] < 1.0:
            raise InputError(f"the jump population needs a domain that holds [0, 1], got {sides.tolist()}")
        if release.response_bound < 1.0:
            raise InputError(f"the jump population has responses +-1, above response_bound {release.response_bound:g}")
        if release.records < 2:
            raise InputError(f"the jump population needs at least 2 records, got {release.records}")

    @property
    def target(self) -> Dataset:
        """The attacked record: on the jump, with response +1."""
        return Dataset([[0.5]], [1.0])

    def draw(self, rng: np.random.Generator, count: int, *, core: int) -> Draw:
        """Stratified covariates; the other record is on the right."""
        left = math.floor((core + 1) / 2)
        side = np.where(np.arange(core + 1) < left, 0.0, 0.5)
        sign = np.where(side > 0, 1.0, -1.0)
        covariates = (side + 0.5 * rng.random((count, core + 1)))[..., None]
        noise = 2.0 * rng.random((count, core + 1)) - 1.0
        responses = sign * (1.0 - self.label_noise) + self.label_noise * noise
        return Draw(covariates[:, :-1], responses[:, :-1], covariates[:, -1], responses[:, -1], None)
