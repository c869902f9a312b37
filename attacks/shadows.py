"""Shadow pairs: cores from a population with the target (in) or one more population record (out).

Everything random about pair i comes from a seed spawned from its purpose and its index: whole blocks of pairs are drawn
from one generator, whichever of them are wanted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import (
    OWN,
    Array,
    Centred,
    Dataset,
    ExactPosterior,
    InputError,
    Mechanism,
    Moments,
    Noised,
    Record,
    filtered,
)
from .attack import Releases, Shadows
from .engine import noted
from .pair_moments import is_markov, posterior_moments
from .populations import Draw, Jump, Pool
from .study import Study

BLOCK = 64  # pairs of one seed
_MOST_NORMALS = 1 << 18  # drawn at once for a block
_MARKOV_PATHS = (ExactPosterior, Noised, Centred)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Shadow pairs, or pairs of trials.

    Attributes:
        law: Normal law of one released value at each target, ``(2, B, T)``; NaN where a core contains the target.
        usable: Where it does not, ``(B, T)``: with it twice, or in the out world, the law is another.
        paths: One release of each, ``(2, B, T, L, p)``; None if none was asked for.
    """

    law: Moments
    usable: NDArray[np.bool_]
    paths: Array | None

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Pairs of several chunks side by side."""
        paths = [part.paths for part in parts if part.paths is not None]
        usable = np.concatenate([part.usable for part in parts])
        return cls(
            Moments.joined([part.law for part in parts]), usable, np.concatenate(paths, axis=1) if paths else None
        )

    def of(self, target: int, study: Study) -> Shadows:
        """The usable ones of one target."""
        usable = self.usable[:, target]
        law = Moments(self.law.mean[:, usable, target], self.law.variance[:, usable, target])
        releases = None if self.paths is None else self._releases(target, study)
        return Shadows(study.targets.record(target), law, releases)

    def trials(self, target: int, study: Study) -> Releases:
        """Releases of the usable ones."""
        if self.paths is None:
            raise InputError("trials without releases")
        return self._releases(target, study)

    def _releases(self, target: int, study: Study) -> Releases:
        assert self.paths is not None  # both callers checked
        paths = self.paths[:, self.usable[:, target], target]
        return Releases(paths, int(study.at[target]) if study.whole else 0)


def simulate(study: Study, purpose: int, chunk: range, *, released: bool) -> Pairs:
    """Pairs of these numbers.

    Args:
        study: What is studied.
        purpose: First key of their seeds, as in audit/run.py.
        chunk: Numbers of the pairs.
        released: Whether releases are drawn, too.
    """
    rngs, cuts = _blocks(study, purpose, chunk)
    draw = Draw.joined([_drawn(study, rng)[cut] for rng, cut in zip(rngs, cuts, strict=True)])
    usable = without_target(study, draw)
    law = study.mechanism.value_law(posterior_moments(study, draw, usable))
    if not released:
        return Pairs(law, usable, None)
    if study.whole and type(study.mechanism) in _MARKOV_PATHS and is_markov(study.mechanism):
        return Pairs(law, usable, _markov_paths(study, purpose, chunk, draw))
    if study.whole or type(study.mechanism) not in OWN:
        return Pairs(law, usable, _sampled(study, purpose, chunk, draw, usable))
    # The value's own law is what our samplers draw from; any other is asked for samples.
    shape = (2, len(study.targets), study.mechanism.release.paths)
    if np.prod(shape) * BLOCK <= _MOST_NORMALS:
        whole = (rng.standard_normal((BLOCK, *shape)) for rng in rngs)
        normal = np.concatenate([block[cut] for block, cut in zip(whole, cuts, strict=True)])
    else:  # of many targets or paths a chunk may be less than a block
        normal = np.stack([rng.standard_normal(shape) for rng in _own_rngs(study, purpose, chunk)])
    values = law.mean[..., None] + np.sqrt(law.variance)[..., None] * normal.swapaxes(0, 1)
    return Pairs(law, usable, values[..., None])


def _drawn(study: Study, rng: np.random.Generator) -> Draw:
    """A block of pairs; what an outsider's population draws must keep to the premises, or no bound means anything."""
    release, population = study.mechanism.release, study.population
    draw = population.draw(rng, BLOCK, core=release.records - 1)
    if type(population) not in (Pool, Jump):  # the rows of a pool were checked when they were read
        draw.check(release, count=BLOCK, name=population.name)
    return draw


def _blocks(study: Study, purpose: int, chunk: range) -> tuple[list[np.random.Generator], list[slice]]:
    """A generator for each block that the chunk touches, and which pairs of the block are wanted."""
    rngs, cuts = [], []
    for block in range(chunk.start // BLOCK, (chunk.stop - 1) // BLOCK + 1):
        rngs.append(np.random.default_rng(np.random.SeedSequence(study.seed, spawn_key=(purpose, block))))
        first = block * BLOCK
        cuts.append(slice(max(chunk.start - first, 0), min(chunk.stop - first, BLOCK)))
    return rngs, cuts


def _sampled(study: Study, purpose: int, chunk: range, draw: Draw, usable: NDArray[np.bool_]) -> Array:
    """Releases through the mechanism's own sampler, ``(2, B, T, L, p)``; 0 where a core contains the target.

    Without the target the release is the same for all targets that are looked at through all points.
    """
    mechanism, count = study.mechanism, len(study.targets)
    size = len(study.points) if study.whole else 1
    paths = np.zeros((2, len(draw), count, mechanism.release.paths, size))
    for b, rng in enumerate(_own_rngs(study, purpose, chunk)):
        other = Record(draw.other[b], float(draw.other_response[b]))
        out: Array | None = None
        with noted(f"in pair {chunk[b]}"):
            for t in np.flatnonzero(usable[b]):
                points = study.points if study.whole else study.seen[t : t + 1]
                paths[0, b, t] = _release(study, draw, b, study.targets.record(int(t)), points, rng)
                if out is None or not study.whole:
                    out = _release(study, draw, b, other, points, rng)
                paths[1, b, t] = out
    return paths


def _markov_paths(study: Study, purpose: int, chunk: range, draw: Draw) -> Array:
    """Whole paths of our own mechanisms, exponential kernel on the line, in linear time: ``(2, B, T, L, p)``."""
    mechanism, points, paths = study.mechanism, study.points[:, 0], study.mechanism.release.paths
    release, kind = mechanism.release, type(mechanism)
    noise, size = release.prior_noise if kind is Noised else 0.0, (2, len(study.targets), paths, len(points))
    length_scale, rngs = release.kernel.length_scale, _own_rngs(study, purpose, chunk)
    normal = np.stack([rng.standard_normal((*size, 2 if noise else 1)) for rng in rngs], axis=1)
    released = np.empty(normal.shape[:-1])
    for t in range(len(study.targets)):
        target = study.targets.record(t)
        last = np.stack([np.full(len(draw), target.covariates[0]), draw.other[:, 0]])
        response = np.stack([np.full(len(draw), target.response), draw.other_response])
        places = np.concatenate(
            [np.broadcast_to(draw.covariates[..., 0], (2, *draw.responses.shape)), last[..., None]], -1
        )
        responses = np.concatenate([np.broadcast_to(draw.responses, places[..., 1:].shape), response[..., None]], -1)
        state = filtered(
            places,
            0.0 * responses if kind is Centred else responses,
            np.array(1.0 / release.ridge**2),
            length_scale=length_scale,
        )
        scale = 1.0 if kind is Centred else release.scale
        released[:, :, t] = state.sample(points, scale=scale, normals=normal[:, :, t, ..., 0])
    if noise:
        nothing = np.zeros((1, 0))
        prior = filtered(nothing, nothing, nothing, length_scale=length_scale)
        added = normal[..., 1].reshape(1, -1, len(points))
        released += prior.sample(points, scale=noise, normals=added).reshape(released.shape)
    return released


def _own_rngs(study: Study, purpose: int, chunk: range) -> Iterator[np.random.Generator]:
    """A generator for each pair, for what is not drawn in blocks."""
    for index in chunk:
        key = (purpose, index // BLOCK, index)
        yield np.random.default_rng(np.random.SeedSequence(study.seed, spawn_key=key))


def _release(study: Study, draw: Draw, b: int, record: Record, points: Array, rng: np.random.Generator) -> Array:
    """One release of core b with one more record, ``(L, p)``."""
    data = Dataset(np.vstack([draw.covariates[b], record.covariates]), np.append(draw.responses[b], record.response))
    sampler = study.mechanism.sampler(data, points)
    return np.asarray(sampler.draw(1, paths=study.mechanism.release.paths, rng=rng)[0])


def seconds_a_pair(mechanism: Mechanism, targets: int) -> float:
    """Rough seconds of one processor for a pair; decides chunks and engine, never a result."""
    size = mechanism.release.records
    if is_markov(mechanism):
        each = 2e-6 + 2e-7 * size + 2e-7 * targets
    else:
        distinct = min(size, 0.65 * size + 25)  # rows, when drawn with replacement
        each = 4e-6 + 1.1e-11 * distinct**3 + 1.5e-9 * size**2 + 1e-11 * size**2 * targets
    if type(mechanism) not in OWN:
        each += 2 * targets * (1e-3 + 2e-10 * size**3)
    return each


def seconds_a_path(mechanism: Mechanism, targets: int) -> float:
    """Rough seconds for whole paths of a pair, through the sampler."""
    size, points = (
        mechanism.release.records,
        len(mechanism.release.points if mechanism.release.points is not None else ()),
    )
    return (1 + targets) * (1e-3 + 2e-10 * (size**3 + points**3) + 1e-8 * mechanism.release.paths * points)


def without_target(study: Study, draw: Draw) -> NDArray[np.bool_]:
    """Which pairs do not contain a target, ``(B, T)``: with it twice, or in the out world, the law is another."""
    if study.rows is None or draw.rows is None:
        return np.ones((len(draw), len(study.targets)), dtype=bool)
    return np.stack([~np.isin(study.rows, rows) for rows in draw.rows])
