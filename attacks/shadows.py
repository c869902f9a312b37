"""Shadow pairs: cores from a population with the target (in) or one more population record (out).

Everything random about pair i comes from a seed spawned from its purpose and its index. Both hypotheses and all
targets share the one factor of the core.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import (
    OWN,
    Array,
    Blocks,
    Dataset,
    InputError,
    Mechanism,
    Moments,
    extended_moments,
    stacked_blocks,
)
from .populations import Draw, Pool, Population

_STACKED = 64  # cores of at most this size are solved many at once
_LARGEST_POOL_MATRIX = 2000  # rows; its kernel matrix is computed once and takes 32 MB


@dataclass(frozen=True, eq=False)
class Study:
    """What every shadow and every trial needs; made by `plan_study`.

    Attributes:
        mechanism: What is audited; its law is what the adversary believes, its draws are what is attacked.
        population: Where cores come from.
        targets: The T attacked records.
        seen: Where the adversary looks for each, ``(T, d)``: at the target, or at the nearest released point.
        rows: Row of each target in the pool, ``(T,)``, to leave out shadows that contain it; None where it cannot be.
        seed: Root of all seeds.
        pool: Kernel blocks of the whole pool, if it is small enough.
    """

    mechanism: Mechanism
    population: Population
    targets: Dataset
    seen: Array
    rows: NDArray[np.intp] | None
    seed: int
    pool: Blocks | None


def plan_study(
    mechanism: Mechanism, population: Population, targets: Dataset, *, rows: NDArray[np.intp] | None, seed: int
) -> Study:
    """Put a study together; see `Study` for the arguments."""
    seen = _seen(mechanism, targets)
    pool = _pool_blocks(mechanism, population, targets, seen)
    return Study(mechanism, population, targets, seen, rows, seed, pool)


def draw_pairs(study: Study, purpose: int, chunk: range) -> tuple[Draw, list[np.random.Generator]]:
    """Cores and other records of pairs `chunk`, and their generators for what else is random about them."""
    rngs = [np.random.default_rng(np.random.SeedSequence(study.seed, spawn_key=(purpose, index))) for index in chunk]
    return study.population.draw(rngs, core=study.mechanism.release.records - 1), rngs


def seconds_a_pair(mechanism: Mechanism, targets: int) -> float:
    """Rough seconds of one processor for a pair; decides chunks and engine, never a result."""
    size = mechanism.release.records
    distinct = min(size, 0.65 * size + 25)  # rows, when drawn with replacement
    each = 6e-5 + 1.1e-11 * distinct**3 + 1.5e-9 * size**2 + 2e-11 * size**2 * targets
    if type(mechanism) not in OWN:
        each += 2 * targets * (1e-3 + 2e-10 * size**3)
    return each


def release_values(study: Study, draw: Draw, rngs: list[np.random.Generator]) -> Array:
    """Released values where the adversary looks, ``(2, B, T, L)``."""
    mechanism, paths, count = study.mechanism, study.mechanism.release.paths, len(study.targets)
    if type(mechanism) in OWN:  # the value's own law is what their sampler draws from; any other is asked for samples
        law = mechanism.value_law(posterior_moments(study, draw))
        normal = np.stack([rng.standard_normal((2, count, paths)) for rng in rngs], axis=1)
        return law.mean[..., None] + np.sqrt(law.variance)[..., None] * normal
    values = np.empty((2, len(rngs), count, paths))
    for b, rng in enumerate(rngs):
        core = Dataset(draw.covariates[b], draw.responses[b])
        for t in range(count):
            target = study.targets.record(t)
            added = [(target.covariates, target.response), (draw.other[b], draw.other_response[b])]
            for side, (covariates, response) in enumerate(added):
                data = Dataset(np.vstack([core.covariates, covariates]), np.append(core.responses, response))
                sampler = mechanism.sampler(data, study.seen[t : t + 1])
                values[side, b, t] = sampler.draw(1, paths=paths, rng=rng)[0, :, 0]
    return values


def posterior_moments(study: Study, draw: Draw) -> Moments:
    """Posterior moments where the adversary looks, ``(2, B, T)``."""
    stated = study.mechanism.release
    kernel, ridge = stated.kernel, stated.ridge
    target_seen = kernel.of_distance(np.linalg.norm(study.targets.covariates - study.seen, axis=1))
    if draw.rows is None or draw.responses.shape[1] <= _STACKED:
        blocks = stacked_blocks(
            kernel,
            draw.covariates,
            draw.responses,
            draw.other,
            draw.other_response,
            targets=study.targets,
            seen=study.seen,
            ridge=ridge,
        )
        return extended_moments(blocks, study.targets, target_seen, ridge=ridge)
    each = [extended_moments(_collapsed(study, rows), study.targets, target_seen, ridge=ridge) for rows in draw.rows]
    return stack_moments(each, join=np.stack)


def stack_moments(parts: Iterable[Moments], *, join: Callable[..., Array]) -> Moments:
    """Moments of several pairs as one, along axis 1, by ``np.stack`` or ``np.concatenate``."""
    parts = list(parts)
    return Moments(join([part.mean for part in parts], axis=1), join([part.variance for part in parts], axis=1))


def _collapsed(study: Study, rows: NDArray[np.intp]) -> Blocks:
    """Blocks of one core drawn with replacement: c copies of a row are one row with noise ``r^2 / c``, exactly."""
    other = rows[-1]
    unique, copies = np.unique(rows[:-1], return_counts=True)
    noise = study.mechanism.release.ridge**2 / copies
    if study.pool is not None:
        pool = study.pool
        gram = pool.gram[np.ix_(unique, unique)]
        gram[np.diag_indices_from(gram)] += noise
        return Blocks(
            gram,
            pool.responses[unique],
            pool.to_targets[unique],
            pool.gram[unique, other],
            pool.to_seen[unique],
            pool.to_seen[other],
            pool.responses[other],
        )
    data, kernel = _pool(study).data, study.mechanism.release.kernel
    core, single = data.covariates[unique], data.covariates[other : other + 1]
    gram = kernel(core, core)
    gram[np.diag_indices_from(gram)] += noise
    return Blocks(
        gram,
        data.responses[unique],
        kernel(core, study.targets.covariates),
        kernel(core, single)[:, 0],
        kernel(core, study.seen),
        kernel(single, study.seen)[0],
        np.asarray(data.responses[other]),
    )


def _pool(study: Study) -> Pool:
    if not isinstance(study.population, Pool):
        raise InputError("rows were drawn from a population that is not a table")
    return study.population


def _pool_blocks(mechanism: Mechanism, population: Population, targets: Dataset, seen: Array) -> Blocks | None:
    """Kernel blocks of all rows of the pool, without noise; None where they are not worth it."""
    stated = mechanism.release
    if not isinstance(population, Pool) or len(population.data) > _LARGEST_POOL_MATRIX or stated.records <= _STACKED:
        return None
    covariates, kernel = population.data.covariates, stated.kernel
    to_seen = kernel(covariates, seen)
    none = np.empty(0)
    gram, to_targets = kernel(covariates, covariates), kernel(covariates, targets.covariates)
    return Blocks(gram, population.data.responses, to_targets, none, to_seen, none, none)


def _seen(mechanism: Mechanism, targets: Dataset) -> Array:
    """The target's own location where the path is released everywhere, else the nearest released point."""
    points = mechanism.release.points
    if points is None:
        return targets.covariates
    distance = np.linalg.norm(targets.covariates[:, None] - points[None], axis=-1)
    return np.asarray(points[distance.argmin(axis=1)])


def without_target(study: Study, draw: Draw) -> NDArray[np.bool_]:
    """Which pairs do not contain a target, ``(B, T)``: with it twice, or in the out world, the law is another."""
    count = len(draw.responses)
    if study.rows is None or draw.rows is None:
        return np.ones((count, len(study.targets)), dtype=bool)
    return np.stack([~np.isin(study.rows, rows) for rows in draw.rows])
