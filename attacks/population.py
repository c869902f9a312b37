"""Adversaries who know the target and the population: all attacks on the same shadows and the same trials."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import Array, Dataset, InputError, Mechanism
from .attack import Attack, Learner, Releases, Scorer
from .engine import Engine, Part, chunks_of, noted
from .populations import Population
from .scores import Scores
from .shadows import BLOCK, Pairs, seconds_a_pair, seconds_a_path, simulate
from .study import Study, plan_study

_SHADOW, _TRIAL = 2, 3  # first key of a seed, as in audit/run.py
_PILOT = 256  # shadows from which scales are chosen
_SECONDS_A_DENSITY = 1.2e-8  # of one shadow at one value
_SECONDS_A_SUM = 1e-6  # of one shadow on the grid, both hypotheses
_SECONDS_A_TARGET = 2e-4  # of one attack on one target in a chunk, however many pairs
_MOST_BYTES = 1 << 26  # of the releases of a chunk

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class PopulationScores:
    """Scores of one attack against one target.

    Attributes:
        scores: One a release.
        shadows: How many (a hypothesis) it was trained on.
        kept: Bytes that it keeps of them.
        notes: What it says about itself.
    """

    scores: Scores
    shadows: int
    kept: int
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PopulationAttack:
    """Attacks trained on shadows; made by `train_population`.

    Attributes:
        study: What every trial needs.
        names: Rows of the targets; None for the target of the stress test.
        attacks: The A attacks.
        shadows: Shadow pairs that were trained.
        usable: How many of them do not contain each target, ``(T,)``.
        scorers: Of each attack, one a target.
        kept: Bytes that each of them keeps of the shadows.
    """

    study: Study
    names: tuple[int | None, ...]
    attacks: tuple[Attack, ...]
    shadows: int
    usable: NDArray[np.intp]
    scorers: tuple[tuple[Scorer, ...], ...]
    kept: tuple[tuple[int, ...], ...]

    def attempt(self, trials: range, *, engine: Engine, finished: Callable[[], None]) -> list[list[PopulationScores]]:
        """Attack every target, ``[attack][target]``; fewer trials are left for one that some cores contain.

        Trials are releases from fresh cores, never from the shadows; they are drawn through the mechanism.

        Args:
            trials: Numbers of the trials under each hypothesis: those of another range are other releases.
            engine: Where the work is done.
            finished: Called after each chunk.

        Raises:
            InputError: A target is left with fewer than two trials, or a score is not a number.
        """
        chunks = trial_chunks(self.study.mechanism, self.attacks, len(self.names), shadows=self.shadows, trials=trials)
        parts = list(engine.map(_trial_chunk, (self.study, self.scorers), chunks, finished))
        scores = np.concatenate([part["scores"] for part in parts], axis=2)
        usable = np.concatenate([part["usable"] for part in parts])
        _check_counts(usable, self.names, "trial")
        found: list[list[PopulationScores]] = []
        for row, kept, own in zip(self.scorers, self.kept, scores, strict=True):
            found.append([])
            for t, name in enumerate(self.names):
                shown = _named(name, partial(Scores, *own[:, usable[:, t], t]))
                found[-1].append(PopulationScores(shown, int(self.usable[t]), kept[t], row[t].notes))
        return found


def train_population(
    mechanism: Mechanism,
    population: Population,
    targets: Dataset,
    *,
    attacks: Sequence[Attack],
    names: Sequence[int | None],
    rows: NDArray[np.intp] | None,
    shadows: int,
    seed: int,
    engine: Engine,
    finished: Callable[[], None],
) -> PopulationAttack:
    """Train attacks on shadows for every target.

    Args:
        mechanism: What is audited.
        population: Where the unknown records come from.
        targets: The attacked records.
        attacks: Who attacks.
        names: Rows of the targets, for messages.
        rows: Rows of the targets in the pool when they may be drawn; their shadows and trials are then left out.
        shadows: Shadow pairs to train.
        seed: Root of all seeds.
        engine: Where the work is done.
        finished: Called after each chunk.

    Raises:
        InputError: A target is left with fewer than two shadows, or an attack cannot be trained.
    """
    study = plan_study(mechanism, population, targets, rows=rows, seed=seed, whole=_whole(attacks))
    released = any(attack.sees != "law" for attack in attacks)
    first, rest = _pilot(shadow_chunks(mechanism, attacks, len(targets), shadows=shadows))
    pilot = Pairs.joined(list(engine.map(_pilot_chunk, (study, released), first, finished)))
    _check_counts(pilot.usable, names, "shadow")
    learners = [[attack.learner(pilot.of(t, study)) for t in range(len(names))] for attack in attacks]
    counts = pilot.usable.sum(axis=0)
    parts = engine.map(_shadow_chunk, (study, released, learners), rest, finished)
    for part in chain([_digests(learners, pilot, study)], parts):
        counts += part.get("usable", 0)
        for a, row in enumerate(learners):
            for t, learner in enumerate(row):
                count = int(part["arrays"][a])
                learner.add(tuple(part[f"{a}.{t}.{index}"] for index in range(count)))
    scorers = tuple(
        tuple(_named(name, learner.scorer) for name, learner in zip(names, row, strict=True)) for row in learners
    )
    kept = tuple(tuple(learner.nbytes for learner in row) for row in learners)
    return PopulationAttack(study, tuple(names), tuple(attacks), shadows, counts, scorers, kept)


def _whole(attacks: Sequence[Attack]) -> bool:
    return any(attack.sees == "path" for attack in attacks)


def _pilot(chunks: list[range]) -> tuple[list[range], list[range]]:
    """Chunks of the first shadows, and of the others."""
    first = [range(chunk.start, min(chunk.stop, _PILOT)) for chunk in chunks if chunk.start < _PILOT]
    return first, [range(max(chunk.start, _PILOT), chunk.stop) for chunk in chunks if chunk.stop > _PILOT]


def shadow_chunks(mechanism: Mechanism, attacks: Sequence[Attack], targets: int, *, shadows: int) -> list[range]:
    """Chunks of shadows."""
    each = _seconds(mechanism, attacks, targets) + _SECONDS_A_SUM * targets * len(attacks)
    return chunks_of(shadows, seconds_each=each, **_sizes(mechanism, attacks, targets, each))


def trial_chunks(
    mechanism: Mechanism, attacks: Sequence[Attack], targets: int, *, shadows: int, trials: range
) -> list[range]:
    """Chunks of trials."""
    each = _seconds(mechanism, attacks, targets) + _score_seconds(mechanism, attacks, targets, shadows)
    chunks = chunks_of(len(trials), seconds_each=each, **_sizes(mechanism, attacks, targets, each))
    return [trials[chunk.start : chunk.stop] for chunk in chunks]


def count_shadow_chunks(mechanism: Mechanism, attacks: Sequence[Attack], targets: int, *, shadows: int) -> int:
    """How many chunks `train_population` will finish."""
    return sum(map(len, _pilot(shadow_chunks(mechanism, attacks, targets, shadows=shadows))))


def population_seconds(
    mechanism: Mechanism, attacks: Sequence[Attack], targets: int, *, shadows: int, trials: int
) -> float:
    """Rough seconds of one processor for all attacks."""
    score = _score_seconds(mechanism, attacks, targets, shadows)
    return (shadows + trials) * _seconds(mechanism, attacks, targets) + trials * score


def _seconds(mechanism: Mechanism, attacks: Sequence[Attack], targets: int) -> float:
    paths = seconds_a_path(mechanism, targets) if _whole(attacks) else 0.0
    return seconds_a_pair(mechanism, targets) + paths


def _score_seconds(mechanism: Mechanism, attacks: Sequence[Attack], targets: int, shadows: int) -> float:
    mixtures = sum(attack.sees == "law" for attack in attacks) if mechanism.release.paths > 1 else 0
    return targets * (4.0 * shadows * _SECONDS_A_DENSITY * mixtures + 2e-5 * (len(attacks) - mixtures))


def _sizes(mechanism: Mechanism, attacks: Sequence[Attack], targets: int, each: float) -> dict[str, int]:
    """Fewest pairs of a chunk that are worth its fixed costs, and most whose releases still fit into memory."""
    points = mechanism.release.points
    size = len(points) if _whole(attacks) and points is not None else 1
    most = max(1, int(_MOST_BYTES / (16.0 * targets * mechanism.release.paths * size)))
    worth = math.ceil(20.0 * _SECONDS_A_TARGET * targets * len(attacks) / each)
    return {"at_least": min(worth, most), "at_most": most, "multiple": BLOCK}


def _pilot_chunk(shared: tuple[Study, bool], chunk: range) -> Pairs:
    study, released = shared
    with noted(_numbers("shadow pairs", chunk)):
        return simulate(study, _SHADOW, chunk, released=released)


def _shadow_chunk(shared: tuple[Study, bool, list[list[Learner]]], chunk: range) -> Part:
    """What every attack keeps of shadows `chunk`, and how many are "usable", ``(T,)``."""
    study, released, learners = shared
    with noted(_numbers("shadow pairs", chunk)):
        pairs = simulate(study, _SHADOW, chunk, released=released)
        return {**_digests(learners, pairs, study), "usable": pairs.usable.sum(axis=0)}


def _numbers(what: str, chunk: range) -> str:
    return f"in {what} {chunk.start} to {chunk.stop - 1}"


def _digests(learners: list[list[Learner]], pairs: Pairs, study: Study) -> Part:
    """Arrays "attack.target.index", and how many there are of each attack, "arrays"."""
    shadows = [pairs.of(t, study) for t in range(len(study.targets))]
    part: Part = {}
    counts = []
    for a, row in enumerate(learners):
        for t, learner in enumerate(row):
            digest = learner.digest(shadows[t])
            part |= {f"{a}.{t}.{index}": np.asarray(array) for index, array in enumerate(digest)}
        counts.append(len(digest))
    return {**part, "arrays": np.array(counts)}


def _trial_chunk(shared: tuple[Study, tuple[tuple[Scorer, ...], ...]], chunk: range) -> Part:
    """Of trials `chunk` the "scores", ``(A, 2, B, T)``: in, then out, NaN where not "usable", ``(B, T)``."""
    study, scorers = shared
    with noted(_numbers("trials", chunk)):
        pairs = simulate(study, _TRIAL, chunk, released=True)
        scores = np.full((len(scorers), 2, *pairs.usable.shape), np.nan)
        for t in range(len(study.targets)):
            releases = pairs.trials(t, study)
            for a, row in enumerate(scorers):
                scores[a][:, pairs.usable[:, t], t] = _blind(row[t], releases, study.seed, chunk)
    return {"scores": scores, "usable": pairs.usable}


def _blind(scorer: Scorer, releases: Releases, seed: int, chunk: range) -> Array:
    """Scores ``(2, B)`` from a scorer that sees members and nonmembers in one heap, in an order that tells nothing.

    Raises:
        InputError: The score of a release depends on which others are scored with it: a bound would not hold.
    """
    paths = releases.paths.reshape(-1, *releases.paths.shape[2:])
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_TRIAL, chunk.start, 0, 0))).permutation(
        len(paths)
    )
    scores = np.empty(len(paths))
    scores[order] = scorer.score(Releases(paths[order], releases.at))
    if chunk.start == 0:
        few = slice(0, 7)
        alone = np.asarray(scorer.score(Releases(paths[few], releases.at)))
        if not np.allclose(alone, scores[few], rtol=1e-6, atol=1e-9, equal_nan=True):
            raise InputError("the score of a release depends on which others are scored with it: score each on its own")
    return scores.reshape(releases.paths.shape[:2])


def _named(name: int | None, work: Callable[[], _T]) -> _T:
    """Do some work for a target; an error names it."""
    try:
        return work()
    except InputError as error:
        raise InputError(f"{'the target' if name is None else f'record {name}'}: {error}") from None


def _check_counts(usable: NDArray[np.bool_], names: Sequence[int | None], what: str) -> None:
    counts = usable.sum(axis=0)
    worst = int(counts.argmin())
    if counts[worst] < 2:
        remedy = "audit.shadows" if what == "shadow" else "audit.trials, or audit.batch"
        raise InputError(
            f"record {names[worst]} is left with {int(counts[worst])} of {len(usable)} {what}(s) that do not contain "
            f"it; at least 2 are needed: raise {remedy}"
        )
