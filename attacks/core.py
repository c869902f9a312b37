"""The core adversary: knows every other record and asks which of two records completes the dataset."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ..mechanisms import Array, Contrast, Dataset, Mechanism, Sampler
from .engine import Engine, chunks_of
from .scores import Scores

_VALUES_AT_ONCE = 1 << 22  # 32 MiB of released values
_RELEASE = 1  # first key of a seed, as in audit/run.py; then the attacked row, the hypothesis and the block
_BLOCK = 1000  # trials of one seed


@dataclass(frozen=True, eq=False)
class CoreAttack:
    """Attacks on records against their replacements with the Neyman-Pearson optimal score (THEORY section 6).

    Releases are drawn through ``mechanism.sampler``, never from the law behind the score: if the
    implementation is not the stated mechanism, the scores show it.

    Attributes:
        mechanism: What is audited.
        data: The private dataset D.
        rows: 0-based rows of the attacked records.
        replacements: For each of them, the record that takes its place in D'.
        seed: Root of all seeds; those of a trial depend on row, hypothesis and number of the trial only.
    """

    mechanism: Mechanism
    data: Dataset
    rows: tuple[int, ...]
    replacements: Dataset
    seed: int

    def attempt(self, trials: range, *, engine: Engine, finished: Callable[[], None]) -> "list[CoreScores]":
        """Scores of independent releases, ``trials`` under each of D and D', for every attacked record.

        Args:
            trials: Numbers of the trials: those of another range are other releases.
            engine: Where the work is done.
            finished: Called after each chunk.
        """
        units = _units(self, trials)
        chunks = core_chunks(self.mechanism, len(self.rows), trials=trials)
        parts = engine.map(_core_chunk, (self, units), chunks, finished)
        found = [block for part in parts for block in part]
        each = len(units) // len(self.rows)
        return [_joined(found[start : start + each]) for start in range(0, len(found), each)]


@dataclass(frozen=True, eq=False)
class CoreScores:
    """Scores against one record, and the largest jitter a sampler needed."""

    scores: Scores
    jitter: float


def core_chunks(mechanism: Mechanism, targets: int, *, trials: range) -> list[range]:
    """Chunks of blocks of trials, target by target; what a target needs once is shared within a chunk."""
    blocks = len(_blocks(trials))
    once, each = _once(mechanism), _per_trial(mechanism) * len(trials) / blocks
    at_least = min(blocks, math.ceil(once / each))  # blocks that are worth what a target needs once
    return chunks_of(targets * blocks, seconds_each=once / at_least + each, at_least=at_least)


def core_seconds(mechanism: Mechanism, targets: int, *, trials: int) -> float:
    """Rough seconds of one processor for the whole attack; decides chunks and engine, never a result."""
    return targets * (_once(mechanism) + trials * _per_trial(mechanism))


def _once(mechanism: Mechanism) -> float:
    return 0.005 + 4e-11 * mechanism.release.records**3


def _per_trial(mechanism: Mechanism) -> float:
    release = mechanism.release
    points = len(release.points) if release.points is not None else 2
    points = points if release.prior_noise == 0 else max(points, release.records + 1)
    return 2.0 * release.paths * points * (1e-8 + 6e-11 * points)


def _blocks(trials: range) -> list[range]:
    """The parts of a range of trials that share a seed."""
    first, last = trials.start // _BLOCK, (trials.stop - 1) // _BLOCK
    return [
        range(max(trials.start, block * _BLOCK), min(trials.stop, (block + 1) * _BLOCK))
        for block in range(first, last + 1)
    ]


def _units(attack: CoreAttack, trials: range) -> list[tuple[int, range]]:
    return [(target, block) for target in range(len(attack.rows)) for block in _blocks(trials)]


def _core_chunk(task: tuple[CoreAttack, list[tuple[int, range]]], chunk: range) -> list[CoreScores]:
    attack, units = task
    results = []
    for target, group in groupby((units[index] for index in chunk), key=lambda unit: unit[0]):
        row, replacement = attack.rows[target], attack.replacements.record(target)
        contrast = attack.mechanism.contrast(attack.data, row, replacement)
        samplers = [attack.mechanism.sampler(data, contrast.points) for data in (attack.data, contrast.neighbour)]
        jitter = max(contrast.law.jitter, *(sampler.jitter for sampler in samplers))
        for _, block in group:
            sides = []
            for side, sampler in enumerate(samplers):
                key = (_RELEASE, row, side, block.start // _BLOCK)
                rng = np.random.default_rng(np.random.SeedSequence(attack.seed, spawn_key=key))
                sides.append(_simulate(sampler, attack.mechanism.release.paths, contrast, block, rng))
            results.append(CoreScores(Scores(*sides), jitter))
    return results


def _simulate(sampler: Sampler, paths: int, contrast: Contrast, block: range, rng: np.random.Generator) -> Array:
    """Scores of releases `block` of one dataset; over the paths of one release the log ratio adds up."""
    at_once = max(1, _VALUES_AT_ONCE // (paths * len(contrast.weights)))
    scores, skipped = [], block.start % _BLOCK
    for start in range(0, skipped + len(block), at_once):
        released = sampler.draw(min(at_once, skipped + len(block) - start), paths=paths, rng=rng)
        statistics = released @ contrast.weights - contrast.centre
        ratio = contrast.law.log_likelihood_ratio(statistics[..., 0], statistics[..., 1])
        scores.append(ratio.sum(axis=1))
    return np.concatenate(scores)[skipped:]


def _joined(parts: list[CoreScores]) -> CoreScores:
    return CoreScores(Scores.joined([part.scores for part in parts]), max(part.jitter for part in parts))
