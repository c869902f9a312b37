"""The whole flow of an audit, on one page."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from ..attacks import (
    Engine,
    attack_core,
    attack_population,
    core_chunks,
    core_seconds,
    open_engine,
    population_chunks,
    population_seconds,
)
from ..mechanisms import OWN, Dataset, Mechanism, NumericalError
from .accountant import Certificate, certify
from .build import Subject
from .config import AuditPlan, ComputeConfig
from .exposure import Exposure, draw_replacements, exposure
from .judge import judge
from .result import AuditResult
from .targets import choose_population, choose_targets
from .verdict import Evidence, exceeds, rule

# First key of every seed: what the draws are for. 0: the replacements. 1: releases of the core attack, then row and
# hypothesis (attacks/core.py). 2 and 3: shadows and trials of the population attack, then their index
# (attacks/population.py).
_REPLACEMENTS = 0


class Progress(Protocol):
    """Told how much of all work is done."""

    def __call__(self, done: int, total: int) -> None:
        """`done` of `total` chunks are finished."""
        ...


def run_audit(
    subject: Subject,
    plan: AuditPlan,
    *,
    compute: ComputeConfig | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit a mechanism on private data: certificate, exact exposure, attacks, verdict.

    The same subject and plan give the same result, timings apart, wherever it is computed: BLAS runs on one thread.

    Raises:
        InputError: The data break a premise of the release, or a target is not a record.
        NumericalError: A computation did not reach its promised accuracy, or the result contradicts the
            theory it rests on; no verdict is given then.
    """
    with threadpool_limits(1):
        return _run(subject, plan, compute, progress)


def _run(subject: Subject, plan: AuditPlan, compute: ComputeConfig | None, progress: Progress | None) -> AuditResult:
    data, mechanism = subject.data, subject.mechanism
    release, clock = mechanism.release, dict[str, float]()

    with _timed(clock, "certificate"):
        certificate = certify(mechanism, subject.regime, plan.delta)
    claimed = certificate.epsilon if plan.claimed_epsilon is None else plan.claimed_epsilon

    seed = np.random.SeedSequence(plan.seed, spawn_key=(_REPLACEMENTS,))
    replacements = draw_replacements(release.domain, release.response_bound, plan.replacements, seed)
    exposed, targets, jitter = None, [], 0.0
    if data is not None:
        subject.regime.check(release, data)
        with _timed(clock, "exposure"):
            laws = mechanism.leave_one_out(data, replacements)
            exposed = exposure(laws, plan.delta, paths=release.paths)
            jitter = laws.jitter
        _check_certificate(mechanism, exposed, certificate)
        targets = choose_targets(plan, exposed)

    count = max(len(targets), 1)  # the stress test has one target and no records
    with _timed(clock, "attacks"), _engine(subject, plan, count, compute, progress) as (engine, finished):
        attacks = []
        share = plan.significance / (len(plan.adversaries) * count)
        if "core" in plan.adversaries and data is not None and exposed is not None:
            against = Dataset(
                replacements.covariates[exposed.replacement[targets]],
                replacements.responses[exposed.replacement[targets]],
            )
            cores = attack_core(
                mechanism, data, targets, against, trials=plan.trials, seed=plan.seed, engine=engine, finished=finished
            )
            for row, found in zip(targets, cores, strict=True):
                exact = float(exposed.epsilon[row])
                attacks.append(judge("core", row, found.scores, plan, share, exact=exact))
                jitter = max(jitter, found.jitter)
        if "population" in plan.adversaries:
            population, records, rows = choose_population(subject, targets)
            shadowed = attack_population(
                mechanism,
                population,
                records,
                rows=rows,
                shadows=plan.shadows,
                trials=plan.trials,
                seed=plan.seed,
                engine=engine,
                finished=finished,
            )
            named: list[int | None] = [*targets] or [None]
            for record, attack in zip(named, shadowed, strict=True):
                attacks.append(judge("population", record, attack.scores, plan, share, shadows=attack.shadows))

    worst = None if exposed is None else int(exposed.epsilon.argmax())
    evidence = [Evidence(a.adversary, a.record, a.epsilon_lower, a.largest_provable_epsilon) for a in attacks]
    ruling = rule(
        claimed,
        certified=certificate.epsilon,
        worst_exact=None if exposed is None else float(exposed.epsilon.max()),
        worst_record=worst,
        evidence=evidence,
    )
    return AuditResult(
        verdict=ruling.verdict,
        reason=ruling.reason,
        mechanism=mechanism,
        regime=subject.regime.name,
        assumptions=subject.regime.assumptions,
        certificate=certificate,
        claimed_epsilon=claimed,
        exposure=exposed,
        replacements=replacements,
        population=population.name if "population" in plan.adversaries else None,
        attacks=tuple(attacks),
        delta=plan.delta,
        significance=plan.significance,
        seed=plan.seed,
        jitter=jitter,
        sha256=subject.sha256,
        clipped=subject.clipped,
        timings=clock,
        engine=(engine.name, engine.workers),
    )


@contextmanager
def _engine(
    subject: Subject, plan: AuditPlan, targets: int, compute: ComputeConfig | None, progress: Progress | None
) -> Iterator[tuple[Engine, Callable[[], None]]]:
    """The engine that the work is worth, and what to call when one of all chunks is finished."""
    seconds, total = 0.0, 0
    mechanism, trials, shadows = subject.mechanism, plan.trials, plan.shadows
    if "core" in plan.adversaries and subject.data is not None:
        seconds += core_seconds(mechanism, targets, trials=trials)
        total += len(core_chunks(mechanism, targets, trials=trials))
    if "population" in plan.adversaries:
        seconds += population_seconds(mechanism, targets, shadows=shadows, trials=trials)
        total += sum(map(len, population_chunks(mechanism, targets, shadows=shadows, trials=trials)))
    done = 0

    def finished() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total)

    if progress:
        progress(0, total)
    with open_engine((compute or ComputeConfig()).ray_workers, seconds=seconds) as engine:
        yield engine, finished


def _check_certificate(mechanism: Mechanism, exposed: Exposure, certificate: Certificate) -> None:
    """For our own mechanisms a record above the certificate means a defect here: fail closed."""
    worst = float(exposed.epsilon.max())
    if type(mechanism) in OWN and exceeds(worst, certificate.epsilon):
        raise NumericalError(
            f"the exact epsilon of a record, {worst:.6g}, exceeds the certified epsilon {certificate.epsilon:.6g}: "
            "gpleak has a defect; please report this configuration"
        )


@contextmanager
def _timed(clock: dict[str, float], step: str, now: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    start = now()
    yield
    clock[step] = now() - start
