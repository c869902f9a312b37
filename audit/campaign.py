"""All attacks of an audit side by side: who attacks whom, and their scores for any range of trials."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..attacks import (
    Attack,
    CoreAttack,
    Engine,
    Keeping,
    Population,
    PopulationAttack,
    Scores,
    Store,
    core_chunks,
    core_seconds,
    count_shadow_chunks,
    open_engine,
    population_seconds,
    train_population,
    trial_chunks,
)
from ..mechanisms import Dataset, Mechanism
from .config import AuditPlan, ComputeConfig


@dataclass(frozen=True, eq=False)
class Attempt:
    """What one attack scored in a range of trials.

    Attributes:
        adversary: "core", or the name of an attack by someone who knows the population.
        record: 0-based row; None for the target of the stress test.
        scores: One a simulated release.
        exact: Exact epsilon of the attacked pair; None for an adversary who attacks no single pair, or without a law.
        shadows: Shadow datasets a hypothesis; None for an adversary who trains none.
        kept: Bytes kept of the shadows.
        notes: What the attack says about itself.
        jitter: Largest variance that a sampler had to add.
    """

    adversary: str
    record: int | None
    scores: Scores
    exact: float | None = None
    shadows: int | None = None
    kept: int | None = None
    notes: tuple[str, ...] = ()
    jitter: float = 0.0


@dataclass(frozen=True, eq=False)
class PopulationAim:
    """Who attacks whom, knowing what of the population; see `choose_population`."""

    attacks: tuple[Attack, ...]
    population: Population
    records: Dataset
    rows: NDArray[np.intp] | None
    names: tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class Campaign:
    """What is to be done; nothing has been drawn yet.

    Attributes:
        mechanism: What is audited.
        plan: Shadows, seed and trials.
        core: The core adversary's attack; None without one.
        exact: Exact epsilon of each pair that it attacks; None where no law is stated.
        population: Whom the population adversary attacks; None without one.
    """

    mechanism: Mechanism
    plan: AuditPlan
    core: CoreAttack | None
    exact: tuple[float | None, ...]
    population: PopulationAim | None

    @property
    def aims(self) -> list[tuple[str, int | None]]:
        """Adversary and record of each attack, in the order of the scores."""
        aims: list[tuple[str, int | None]] = [("core", row) for row in (self.core.rows if self.core else ())]
        if self.population is not None:
            names = self.population.names
            aims += [(attack.name, name) for attack in self.population.attacks for name in names]
        return aims


@dataclass(frozen=True, eq=False)
class Running:
    """A campaign with its engine and, where there are shadows, with them trained; made by `running`."""

    campaign: Campaign
    engine: Engine
    finished: Callable[[], None]
    trained: PopulationAttack | None

    def attempt(self, trials: range) -> list[Attempt]:
        """Scores of every attack for trials of these numbers, in the order of `Campaign.aims`."""
        found: list[Attempt] = []
        core, aim = self.campaign.core, self.campaign.population
        if core is not None:
            scored = core.attempt(trials, engine=self.engine, finished=self.finished)
            for target, exact, scores in zip(core.rows, self.campaign.exact, scored, strict=True):
                found.append(Attempt("core", target, scores.scores, exact=exact, jitter=scores.jitter))
        if self.trained is not None and aim is not None:
            attempts = self.trained.attempt(trials, engine=self.engine, finished=self.finished)
            for attack, row in zip(aim.attacks, attempts, strict=True):
                for name, one in zip(aim.names, row, strict=True):
                    attempt = Attempt(
                        attack.name, name, one.scores, shadows=one.shadows, kept=one.kept, notes=one.notes
                    )
                    found.append(attempt)
        return found


@contextmanager
def running(
    campaign: Campaign,
    looks: Sequence[range],
    compute: ComputeConfig,
    progress: Callable[[int, int, int], None] | None,
    store: Store | None,
) -> Iterator[Running]:
    """A campaign on the engine that the work is worth.

    `progress` is told after each chunk of all; finished chunks are kept in the `store`, if there is one.
    """
    mechanism, plan = campaign.mechanism, campaign.plan
    seconds, total = 0.0, 0
    if campaign.core is not None:
        targets = len(campaign.core.rows)
        seconds += core_seconds(mechanism, targets, trials=plan.trials)
        total += sum(len(core_chunks(mechanism, campaign.core.rows, trials=look)) for look in looks)
    if (aim := campaign.population) is not None:
        attacks, targets = aim.attacks, len(aim.names)
        seconds += population_seconds(mechanism, attacks, targets, shadows=plan.shadows, trials=plan.trials)
        total += count_shadow_chunks(mechanism, attacks, targets, shadows=plan.shadows)
        total += sum(
            len(trial_chunks(mechanism, attacks, targets, shadows=plan.shadows, trials=look)) for look in looks
        )
    with open_engine(compute.ray_workers, seconds=seconds, address=compute.address) as opened:
        engine = opened if store is None else Keeping(opened, store)
        done = 0

        def finished() -> None:
            nonlocal done
            done += 1
            if progress:
                progress(done, total, engine.workers)

        if progress:
            progress(0, total, engine.workers)
        trained = None
        if aim is not None:
            trained = train_population(
                mechanism,
                aim.population,
                aim.records,
                attacks=aim.attacks,
                names=aim.names,
                rows=aim.rows,
                shadows=plan.shadows,
                seed=plan.seed,
                engine=engine,
                finished=finished,
            )
        yield Running(campaign, engine, finished, trained)
