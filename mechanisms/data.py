"""Datasets, single records and the public box they live in."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, frozen_array
from .errors import InputError


@dataclass(frozen=True, eq=False)
class Record:
    """One row: covariates ``(d,)`` and a response."""

    covariates: Array
    response: float

    def __init__(self, covariates: ArrayLike, response: float) -> None:
        object.__setattr__(self, "covariates", frozen_array(covariates, ndim=1, name="covariates"))
        object.__setattr__(self, "response", float(frozen_array([response], ndim=1, name="response")[0]))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Private records: covariates ``(n, d)`` and responses ``(n,)``, copied and read-only.

    Rows count, not locations: two rows at one place are two records. A dataset may be empty (the core
    of a single record is).

    Raises:
        InputError: The arrays disagree in length or hold something that is not a finite number.
    """

    covariates: Array
    responses: Array

    def __init__(self, covariates: ArrayLike, responses: ArrayLike) -> None:
        covariates = frozen_array(covariates, ndim=2, name="covariates")
        responses = frozen_array(responses, ndim=1, name="responses")
        if len(covariates) != len(responses):
            raise InputError(
                f"covariates have {len(covariates)} rows but there are {len(responses)} responses: "
                "give one response a row"
            )
        if covariates.shape[1] == 0:
            raise InputError("covariates have no columns: give at least one")
        object.__setattr__(self, "covariates", covariates)
        object.__setattr__(self, "responses", responses)

    def __len__(self) -> int:
        return len(self.responses)

    @property
    def dimension(self) -> int:
        """Number of covariates, d."""
        return int(self.covariates.shape[1])

    def record(self, row: int) -> Record:
        """The record in 0-based `row`."""
        return Record(self.covariates[row], float(self.responses[row]))

    def without(self, row: int) -> Self:
        """The core: every record but the one in 0-based `row`."""
        return type(self)(np.delete(self.covariates, row, axis=0), np.delete(self.responses, row))

    def replaced(self, row: int, record: Record) -> Self:
        """The neighbouring dataset: `record` in the place of 0-based `row`."""
        covariates, responses = self.covariates.copy(), self.responses.copy()
        covariates[row], responses[row] = record.covariates, record.response
        return type(self)(covariates, responses)


@dataclass(frozen=True, eq=False)
class Domain:
    """Public box of admissible covariates, ``(d, 2)``: lower and upper end of each.

    Raises:
        InputError: A side is reversed or not finite.
    """

    sides: Array

    def __init__(self, sides: ArrayLike) -> None:
        box = frozen_array(sides, ndim=2, name="domain")
        if box.shape[0] == 0 or box.shape[1] != 2:
            raise InputError(f"domain must be a list of [low, high] pairs, got shape {box.shape}")
        if np.any(box[:, 0] > box[:, 1]):
            row = int(np.argmax(box[:, 0] > box[:, 1]))
            raise InputError(f"domain side {row} is {box[row].tolist()}: the first number must not be larger")
        if np.abs(box).max() > 1e150:
            raise InputError(f"domain reaches {np.abs(box).max():g}: at most 1e+150 in either direction")
        object.__setattr__(self, "sides", box)

    @property
    def dimension(self) -> int:
        """Number of covariates, d."""
        return int(self.sides.shape[0])

    @property
    def diameter(self) -> float:
        """Length of the box's diagonal, in units of the covariates."""
        return float(np.linalg.norm(self.sides[:, 1] - self.sides[:, 0]))

    def contains(self, covariates: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which rows of ``(n, d)`` lie in the box, edges included: ``(n,)`` of bool."""
        inside = (covariates >= self.sides[:, 0]) & (covariates <= self.sides[:, 1])
        return np.asarray(inside.all(axis=1))

    def grid(self, shape: tuple[int, ...]) -> Array:
        """Regular grid over the box, edges included: ``(prod(shape), d)``, last covariate fastest."""
        axes = [np.linspace(low, high, count) for (low, high), count in zip(self.sides, shape, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dimension)
