"""What is studied by shadows: a mechanism, a population, the targets, and where the adversary looks."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import Array, Blocks, Dataset, InputError, Mechanism
from .populations import Pool, Population

STACKED = 64  # cores of at most this size are solved many at once
_LARGEST_POOL_MATRIX = 2000  # rows; its kernel matrix is computed once and takes 32 MB


@dataclass(frozen=True, eq=False)
class Study:
    """What every shadow and every trial needs; made by `plan_study`.

    Attributes:
        mechanism: What is audited; its law is what the adversary believes, its draws are what is attacked.
        population: Where cores come from.
        targets: The T attacked records.
        points: Where the adversary looks, ``(p, d)``: one point a target, or all that are released.
        at: Which of the points is each target's own or the nearest to it, ``(T,)``.
        whole: Whether every target is looked at through all points; else each through its own alone.
        rows: Row of each target in the pool, ``(T,)``, to leave out shadows that contain it; None where it cannot be.
        seed: Root of all seeds.
        pool: Kernel blocks of the whole pool, if it is small enough.
    """

    mechanism: Mechanism
    population: Population
    targets: Dataset
    points: Array
    at: NDArray[np.intp]
    whole: bool
    rows: NDArray[np.intp] | None
    seed: int
    pool: Blocks | None

    @cached_property
    def seen(self) -> Array:
        """The point of each target, ``(T, d)``."""
        return self.points[self.at]

    @cached_property
    def at_home(self) -> bool:
        """Whether every target is looked at where it lies."""
        return np.array_equal(self.seen, self.targets.covariates)


def plan_study(
    mechanism: Mechanism,
    population: Population,
    targets: Dataset,
    *,
    rows: NDArray[np.intp] | None,
    seed: int,
    whole: bool = False,
) -> Study:
    """Put a study together; see `Study` for the arguments.

    Raises:
        InputError: Whole paths are to be looked at, but the mechanism releases no listed points.
    """
    points = mechanism.release.points
    if points is None:
        if whole:
            raise InputError("an attack on whole paths needs release.points: list the points, or give a grid's shape")
        seen, at = targets.covariates, np.arange(len(targets))
    else:
        distance = np.linalg.norm(targets.covariates[:, None] - points[None], axis=-1)
        at = distance.argmin(axis=1)
        seen = points
    study = Study(mechanism, population, targets, seen, at, whole, rows, seed, None)
    return Study(mechanism, population, targets, seen, at, whole, rows, seed, _pool_blocks(study))


def _pool_blocks(study: Study) -> Blocks | None:
    """Kernel blocks of all rows of the pool, without noise; None where they are not worth it."""
    stated, population = study.mechanism.release, study.population
    if not isinstance(population, Pool) or len(population.data) > _LARGEST_POOL_MATRIX or stated.records <= STACKED:
        return None
    covariates, kernel, none = population.data.covariates, stated.kernel, np.empty(0)
    to_targets = kernel(covariates, study.targets.covariates)
    to_seen = to_targets if study.at_home else kernel(covariates, study.seen)
    return Blocks(kernel(covariates, covariates), population.data.responses, to_targets, none, to_seen, none, none)
