"""Whom to attack, and what the population adversary knows about the others."""

from dataclasses import dataclass

import numpy as np

from ..attacks import Attack, Jump, Pool
from ..mechanisms import Array, Dataset, InputError
from .build import Subject
from .campaign import PopulationAim
from .config import AuditPlan
from .exposure import Exposure


def choose_targets(plan: AuditPlan, exposed: Exposure) -> list[int]:
    """Rows to attack: the most exposed ones (ties by row number), all of them, or those listed."""
    records = len(exposed.epsilon)
    if plan.targets == "all":
        return list(range(records))
    if isinstance(plan.targets, int):
        order = np.argsort(-exposed.epsilon, kind="stable")
        return [int(row) for row in order[: plan.targets]]
    for row in plan.targets:
        if row >= records:
            raise InputError(f"audit.targets names record {row} but the data have records 0 to {records - 1}")
    return list(plan.targets)


def choose_population(subject: Subject, targets: list[int], attacks: tuple[Attack, ...]) -> PopulationAim:
    """What the population adversaries know, whom it attacks, and the targets' rows in the pool if they may be drawn.

    A target is never in the pool, unless every record is a target: then all are, and the shadows and trials that
    contain a target are left out for it, which leaves the right law for the others.
    """
    data, population = subject.data, subject.population
    names: tuple[int | None, ...] = tuple(targets) or (None,)
    if isinstance(population, Jump):
        return PopulationAim(attacks, population, population.target, None, names)
    if data is None:
        raise InputError("the population adversary has nothing to draw from: give data or a population")
    records = Dataset(data.covariates[targets], data.responses[targets])
    if isinstance(population, Pool):
        same = (population.data.covariates[:, None] == records.covariates).all(axis=-1)
        same &= population.data.responses[:, None] == records.responses
        left = np.setdiff1d(population.rows, np.flatnonzero(same.any(axis=1)))
        pool = Pool(population.data, left, population.name)
        return PopulationAim(attacks, pool, records, None, names)
    if population is not None:
        return PopulationAim(attacks, population, records, None, names)
    left = np.setdiff1d(np.arange(len(data)), targets)
    if len(left):
        return PopulationAim(attacks, Pool(data, left, "data"), records, None, names)
    return PopulationAim(attacks, Pool(data, np.arange(len(data)), "data"), records, np.array(targets), names)


_WITNESSES = 5  # first key of a seed, as in audit/run.py


@dataclass(frozen=True, eq=False)
class Witnesses:
    """Two neighbouring datasets whose releases the fidelity test looks at.

    Attributes:
        datasets: One, and its neighbour.
        rows: Rows of it that must be looked at.
        ends: Location of the record that makes the neighbour, ``(1, d)``.
    """

    datasets: tuple[Dataset, Dataset]
    rows: tuple[int, ...]
    ends: Array


def choose_witnesses(
    subject: Subject, targets: list[int], replacements: Dataset, exposed: Exposure | None, *, seed: int
) -> Witnesses:
    """The private data and the neighbour that shows most of the first target, or one draw of a population."""
    data, mechanism, population = subject.data, subject.mechanism, subject.population
    if data is not None and exposed is not None:
        replacement = replacements.record(int(exposed.replacement[targets[0]]))
        neighbour = mechanism.contrast(data, targets[0], replacement).neighbour
        return Witnesses((data, neighbour), tuple(targets), replacement.covariates[None])
    if not isinstance(population, Jump):
        raise InputError("there is no dataset to draw releases from: give data or a population")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_WITNESSES,)))
    draw = population.draw(rng, 1, core=mechanism.release.records - 1)
    target, other = population.target, Dataset(draw.other, draw.other_response)
    both = [
        Dataset(
            np.concatenate([draw.covariates[0], record.covariates]),
            np.concatenate([draw.responses[0], record.responses]),
        )
        for record in (target, other)
    ]
    return Witnesses((both[0], both[1]), (len(both[0]) - 1,), draw.other)
