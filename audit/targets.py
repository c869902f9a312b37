"""Whom to attack, and what the population adversary knows about the others."""

import numpy as np

from ..attacks import Attack, Jump, Pool
from ..mechanisms import Dataset, InputError
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
