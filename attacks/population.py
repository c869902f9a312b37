"""The population adversary: knows the target and the population, trains shadows (THEORY section 8)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import Array, Dataset, InputError, Mechanism, Moments
from .engine import Engine, chunks_of
from .mixture import mixture_log_ratio
from .populations import Population
from .scores import Scores
from .shadows import (
    Study,
    draw_pairs,
    plan_study,
    posterior_moments,
    release_values,
    seconds_a_pair,
    stack_moments,
    without_target,
)

_SHADOW, _TRIAL = 2, 3  # first key of a seed, as in audit/run.py
_SECONDS_A_DENSITY = 1.2e-8  # of one shadow at one value


@dataclass(frozen=True, eq=False)
class PopulationScores:
    """Scores against one target, and how many shadows (a hypothesis) they rest on."""

    scores: Scores
    shadows: int


@dataclass(frozen=True, eq=False)
class PopulationAttack:
    """The optimal mixture over shadows, trained; made by `train_population`.

    Attributes:
        study: What every trial needs.
        shadows: Shadow pairs that were trained.
        laws: Law of the released value under each shadow that does not contain the target, one entry a target:
            ``(2, S_t)``.
    """

    study: Study
    shadows: int
    laws: tuple[Moments, ...]

    def attempt(self, trials: range, *, engine: Engine, finished: Callable[[], None]) -> list[PopulationScores]:
        """Attack every target; fewer trials are left for one that some cores contain.

        Trials are releases from fresh cores, never from the shadows; they are drawn through the mechanism.

        Args:
            trials: Numbers of the trials under each hypothesis: those of another range are other releases.
            engine: Where the work is done.
            finished: Called after each chunk.

        Raises:
            InputError: A target is left with fewer than two trials.
        """
        chunks = trial_chunks(self.study.mechanism, len(self.laws), shadows=self.shadows, trials=trials)
        parts = engine.map(trial_chunk, self, chunks, finished)
        scores = np.concatenate([part[0] for part in parts], axis=1)
        valid = np.concatenate([part[1] for part in parts])
        _check_counts(valid, self.study.rows, "trial")
        return [
            PopulationScores(Scores(*scores[:, valid[:, t], t]), law.mean.shape[1]) for t, law in enumerate(self.laws)
        ]


def train_population(
    mechanism: Mechanism,
    population: Population,
    targets: Dataset,
    *,
    rows: NDArray[np.intp] | None,
    shadows: int,
    seed: int,
    engine: Engine,
    finished: Callable[[], None],
) -> PopulationAttack:
    """Train shadows for every target.

    Args:
        mechanism: What is audited.
        population: Where the unknown records come from.
        targets: The attacked records.
        rows: Rows of the targets in the pool when they may be drawn; their shadows and trials are then left out.
        shadows: Shadow pairs to train.
        seed: Root of all seeds.
        engine: Where the work is done.
        finished: Called after each chunk.

    Raises:
        InputError: A target is left with fewer than two shadows.
    """
    study = plan_study(mechanism, population, targets, rows=rows, seed=seed)
    trained = engine.map(shadow_chunk, study, shadow_chunks(mechanism, len(targets), shadows=shadows), finished)
    law = stack_moments((part[0] for part in trained), join=np.concatenate)
    usable = np.concatenate([part[1] for part in trained])
    _check_counts(usable, rows, "shadow")
    laws = tuple(Moments(law.mean[:, usable[:, t], t], law.variance[:, usable[:, t], t]) for t in range(len(targets)))
    return PopulationAttack(study, shadows, laws)


def shadow_chunks(mechanism: Mechanism, targets: int, *, shadows: int) -> list[range]:
    """Chunks of shadows."""
    return chunks_of(shadows, seconds_each=seconds_a_pair(mechanism, targets))


def trial_chunks(mechanism: Mechanism, targets: int, *, shadows: int, trials: range) -> list[range]:
    """Chunks of trials."""
    score = 4.0 * targets * shadows * _SECONDS_A_DENSITY
    chunks = chunks_of(len(trials), seconds_each=seconds_a_pair(mechanism, targets) + score)
    return [trials[chunk.start : chunk.stop] for chunk in chunks]


def population_seconds(mechanism: Mechanism, targets: int, *, shadows: int, trials: int) -> float:
    """Rough seconds of one processor for the whole attack."""
    score = 4.0 * targets * shadows * _SECONDS_A_DENSITY
    return (shadows + trials) * seconds_a_pair(mechanism, targets) + trials * score


def shadow_chunk(study: Study, chunk: range) -> tuple[Moments, NDArray[np.bool_]]:
    """Law of the released value under shadows `chunk`, ``(2, B, T)``, and which do not contain a target, ``(B, T)``."""
    draw, _ = draw_pairs(study, _SHADOW, chunk)
    return study.mechanism.value_law(posterior_moments(study, draw)), without_target(study, draw)


def trial_chunk(trained: PopulationAttack, chunk: range) -> tuple[Array, NDArray[np.bool_]]:
    """Scores of trials `chunk`, ``(2, B, T)``: in, then out; and which do not contain a target, ``(B, T)``."""
    study, paths = trained.study, trained.study.mechanism.release.paths
    draw, rngs = draw_pairs(study, _TRIAL, chunk)
    values = release_values(study, draw, rngs)
    centre = values.mean(axis=-1)
    squares = np.square(values - centre[..., None]).sum(axis=-1)
    scores = np.empty(centre.shape)
    for t, law in enumerate(trained.laws):
        for side in (0, 1):
            scores[side, :, t] = mixture_log_ratio(law, centre[side, :, t], squares[side, :, t], paths=paths)
    return scores, without_target(study, draw)


def _check_counts(usable: NDArray[np.bool_], rows: NDArray[np.intp] | None, what: str) -> None:
    counts = usable.sum(axis=0)
    worst = int(counts.argmin())
    if counts[worst] < 2:
        record = worst if rows is None else int(rows[worst])
        raise InputError(
            f"record {record} is left with {int(counts[worst])} of {len(usable)} {what}(s) that do not contain it; "
            f"at least 2 are needed: raise {'audit.shadows' if what == 'shadow' else 'audit.trials, or audit.batch'}"
        )
