"""Posterior moments of shadow pairs at the targets. Both hypotheses and all targets share one factor of the core."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import (
    Array,
    Blocks,
    Dataset,
    InputError,
    Mechanism,
    Moments,
    extended_moments,
    filtered,
    stacked_blocks,
)
from .populations import Draw, Pool
from .study import STACKED, Study

_VALUES_AT_ONCE = 1 << 19  # numbers in an array over a stack of cores


def posterior_moments(study: Study, draw: Draw, usable: NDArray[np.bool_]) -> Moments:
    """Posterior moments where the adversary looks, ``(2, B, T)``; NaN where not usable."""
    shape = (2, *usable.shape)
    moments = Moments(np.full(shape, np.nan), np.full(shape, np.nan))
    for part, which, found in _solved(study, draw, usable):
        moments.mean[:, part, which], moments.variance[:, part, which] = found.mean, found.variance
    if not usable.all():
        moments.mean[:, ~usable] = moments.variance[:, ~usable] = np.nan
    return moments


def _solved(
    study: Study, draw: Draw, usable: NDArray[np.bool_]
) -> Iterator[tuple[slice | int, slice | NDArray[np.intp], Moments]]:
    """Moments of some pairs for some targets, by whichever way is shortest."""
    size, everyone = draw.responses.shape[1], slice(None)
    at_once = max(1, _VALUES_AT_ONCE // max(size, 1))
    if is_markov(study.mechanism) and study.at_home:
        for start in range(0, len(draw), at_once):
            part = slice(start, start + at_once)
            yield part, everyone, _markov(study, draw[part])
    elif draw.rows is None or size <= STACKED:
        at_once = max(1, at_once // max(size, len(study.targets)))
        for start in range(0, len(draw), at_once):
            part = slice(start, start + at_once)
            yield part, everyone, _stacked(study, draw[part])
    else:
        for b, rows in enumerate(draw.rows):
            which = np.flatnonzero(usable[b])
            yield b, which, _collapsed(study, rows, which)


def is_markov(mechanism: Mechanism) -> bool:
    """Whether the prior is a Markov process on the line, for which everything is linear in n."""
    kernel = mechanism.release.kernel
    return kernel.name == "exponential" and mechanism.release.domain.dimension == 1


def _markov(study: Study, draw: Draw) -> Moments:
    """The exponential kernel on the line, in ``O(n + T)``: with the other record, and with the target in its place."""
    release, targets = study.mechanism.release, study.targets
    precision = 1.0 / release.ridge**2
    places = np.concatenate([draw.covariates[..., 0], draw.other], axis=1)
    responses = np.concatenate([draw.responses, draw.other_response[:, None]], axis=1)
    # The core alone is the same records with no weight on the other one.
    weights = np.full((2, 1, places.shape[1]), precision)
    weights[0, :, -1] = 0.0
    both = filtered(places, responses, weights, length_scale=release.kernel.length_scale)
    moments = both.moments(targets.covariates[:, 0])
    (core, without), (variance, variance_without) = moments.mean, moments.variance
    spread = variance + release.ridge**2
    added = core + (targets.responses - core) * variance / spread
    return Moments(np.stack([added, without]), np.stack([variance * release.ridge**2 / spread, variance_without]))


def _stacked(study: Study, draw: Draw) -> Moments:
    """Small cores, many at once."""
    release = study.mechanism.release
    blocks = stacked_blocks(
        release.kernel,
        draw.covariates,
        draw.responses,
        draw.other,
        draw.other_response,
        targets=study.targets,
        seen=study.targets.covariates if study.at_home else study.seen,
        ridge=release.ridge,
    )
    return extended_moments(blocks, study.targets, _target_seen(study, study.targets, study.seen), ridge=release.ridge)


def _target_seen(study: Study, targets: Dataset, seen: Array) -> Array:
    if study.at_home:
        return np.ones(len(targets))
    return study.mechanism.release.kernel.of_distance(np.linalg.norm(targets.covariates - seen, axis=1))


def _collapsed(study: Study, rows: NDArray[np.intp], which: NDArray[np.intp]) -> Moments:
    """One core drawn with replacement: c copies of a row are one row with noise ``r^2 / c``, exactly."""
    other, ridge = rows[-1], study.mechanism.release.ridge
    unique, copies = np.unique(rows[:-1], return_counts=True)
    noise = ridge**2 / copies
    targets = Dataset(study.targets.covariates[which], study.targets.responses[which])
    seen = study.seen[which]
    if study.pool is not None:
        pool, responses = study.pool, study.pool.responses
        # Rows first, then columns: three times as fast as both at once.
        rows_of = pool.gram[unique]
        gram, to_other = rows_of[:, unique], rows_of[:, other]
        if study.rows is not None and study.at_home:  # the targets are rows of the pool
            to_targets = to_seen = rows_of[:, study.rows[which]]
        else:
            to_targets = pool.to_targets[unique][:, which]
            to_seen = to_targets if pool.to_seen is pool.to_targets else pool.to_seen[unique][:, which]
        other_seen = pool.to_seen[other, which]
    else:
        data, kernel = _pool(study).data, study.mechanism.release.kernel
        core, single, responses = data.covariates[unique], data.covariates[other : other + 1], data.responses
        gram, to_other, to_targets = kernel(core, core), kernel(core, single)[:, 0], kernel(core, targets.covariates)
        to_seen = to_targets if study.at_home else kernel(core, seen)
        other_seen = kernel(single, seen)[0]
    gram[np.diag_indices_from(gram)] += noise
    blocks = Blocks(gram, responses[unique], to_targets, to_other, to_seen, other_seen, np.asarray(responses[other]))
    return extended_moments(blocks, targets, _target_seen(study, targets, seen), ridge=ridge)


def _pool(study: Study) -> Pool:
    if not isinstance(study.population, Pool):
        raise InputError("rows were drawn from a population that is not a table")
    return study.population
