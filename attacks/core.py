"""The core adversary: knows every other record and asks which of two records completes the dataset."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..mechanisms import Array, Contrast, Dataset, Mechanism
from .engine import Engine, chunks_of
from .scores import Scores

_VALUES_AT_ONCE = 1 << 22  # 32 MiB of released values
_RELEASE = 1  # first key of a seed, as in audit/run.py; then the attacked row and the hypothesis


@dataclass(frozen=True, eq=False)
class CoreScores:
    """Scores against one record, and the largest jitter a sampler needed."""

    scores: Scores
    jitter: float


@dataclass(frozen=True, eq=False)
class _Task:
    mechanism: Mechanism
    data: Dataset
    rows: tuple[int, ...]
    replacements: Dataset
    trials: int
    seed: int


def attack_core(
    mechanism: Mechanism,
    data: Dataset,
    rows: Sequence[int],
    replacements: Dataset,
    *,
    trials: int,
    seed: int,
    engine: Engine,
    finished: Callable[[], None],
) -> list[CoreScores]:
    """Attack records against their replacements with the Neyman-Pearson optimal score (THEORY section 6).

    Releases are drawn through ``mechanism.sampler``, never from the law behind the score: if the
    implementation is not the stated mechanism, the scores show it.

    Args:
        mechanism: What is audited.
        data: The private dataset D.
        rows: 0-based rows of the attacked records.
        replacements: For each of them, the record that takes its place in D'.
        trials: Independent releases simulated under each of D and D'.
        seed: Root of all seeds; those of a row depend on the row only, not on who else is attacked.
        engine: Where the work is done.
        finished: Called after each chunk.
    """
    task = _Task(mechanism, data, tuple(rows), replacements, trials, seed)
    parts = engine.map(_core_chunk, task, core_chunks(mechanism, len(rows), trials=trials), finished)
    return [result for part in parts for result in part]


def core_chunks(mechanism: Mechanism, targets: int, *, trials: int) -> list[range]:
    """Chunks of targets."""
    return chunks_of(targets, seconds_each=core_seconds(mechanism, 1, trials=trials))


def core_seconds(mechanism: Mechanism, targets: int, *, trials: int) -> float:
    """Rough seconds of one processor for the whole attack; decides chunks and engine, never a result."""
    release = mechanism.release
    points = len(release.points) if release.points is not None else 2
    points = points if release.prior_noise == 0 else max(points, release.records + 1)
    values = 2.0 * trials * release.paths * points
    return targets * (0.005 + 4e-11 * release.records**3 + values * (1e-8 + 6e-11 * points))


def _core_chunk(task: _Task, chunk: range) -> list[CoreScores]:
    results = []
    for target in chunk:
        row, replacement = task.rows[target], task.replacements.record(target)
        contrast = task.mechanism.contrast(task.data, row, replacement)
        sides, jitters = [], [contrast.law.jitter]
        for side, data in enumerate((task.data, contrast.neighbour)):
            seed = np.random.SeedSequence(task.seed, spawn_key=(_RELEASE, row, side))
            scores, jitter = _simulate(task.mechanism, data, contrast, task.trials, seed)
            sides.append(scores)
            jitters.append(jitter)
        results.append(CoreScores(Scores(*sides), max(jitters)))
    return results


def _simulate(
    mechanism: Mechanism, data: Dataset, contrast: Contrast, trials: int, seed: np.random.SeedSequence
) -> tuple[Array, float]:
    """Scores of `trials` releases of `data`; over the paths of one release the log ratio adds up."""
    sampler = mechanism.sampler(data, contrast.points)
    rng, paths = np.random.default_rng(seed), mechanism.release.paths
    at_once = max(1, _VALUES_AT_ONCE // (paths * len(contrast.weights)))
    scores = []
    for start in range(0, trials, at_once):
        released = sampler.draw(min(at_once, trials - start), paths=paths, rng=rng)
        statistics = released @ contrast.weights - contrast.centre
        ratio = contrast.law.log_likelihood_ratio(statistics[..., 0], statistics[..., 1])
        scores.append(ratio.sum(axis=1))
    return np.concatenate(scores), sampler.jitter
