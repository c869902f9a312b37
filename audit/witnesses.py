"""Two neighbouring datasets, and whether releases of both are those of the stated mechanism."""

from dataclasses import dataclass

import numpy as np

from ..attacks import Jump
from ..mechanisms import Array, Dataset, InputError
from .build import Subject
from .config import AuditPlan
from .exposure import Exposure
from .fidelity import Fidelity, fidelity, fidelity_points

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


def sampler_fidelity(
    subject: Subject,
    plan: AuditPlan,
    targets: list[int],
    replacements: Dataset,
    exposed: Exposure | None,
    *,
    significance: float,
) -> Fidelity:
    """Hold releases of the data and of a neighbour against the stated law."""
    witnesses = choose_witnesses(subject, targets, replacements, exposed, seed=plan.seed)
    points = fidelity_points(subject.mechanism, witnesses.datasets[0], witnesses.rows, witnesses.ends, seed=plan.seed)
    return fidelity(
        subject.mechanism,
        witnesses.datasets,
        points,
        paths=plan.fidelity,
        significance=significance,
        seed=plan.seed,
    )
