"""The whole flow of an audit, on one page."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from ..attacks import CoreAttack, Store
from ..mechanisms import OWN, Dataset, Mechanism, Moments, NumericalError, Release, Thompson
from ..mechanisms.foreign import BlackBox, stated_by
from .accountant import Certificate, certificates, closed_certificates, smallest
from .adversaries import population_attacks
from .bounds import Sequential
from .build import Subject
from .campaign import Attempt, Campaign, Running, running
from .config import AuditPlan, ComputeConfig
from .exposure import Exposure, draw_replacements, exposure
from .faithful import faithfulness, is_fidelity_tested
from .file_audit import open_file
from .judge import SPLIT, Judged, judge_once, judge_sequence, summarise
from .keeping import open_store
from .ledger import Ledger, open_ledger
from .orientation import orientation, oriented
from .outlook import look_around
from .result import AuditResult
from .targets import choose_population, choose_targets
from .verdict import Evidence, exceeds, rule
from .whole_function import exposure_everywhere
from .worst import worst_pair

# First key of every seed: what the draws are for. 0: the replacements. 1: releases of the core attack, then row,
# hypothesis and block of trials (attacks/core.py). 2 and 3: shadows and trials of the population attack, then their
# index (attacks/population.py). 4: the fidelity test (audit/fidelity.py). 5: its data where there are none
# (audit/witnesses.py). 6: the search for the worst pair (audit/worst.py). 7: the structured supremum. The root of
# both is always 0: it does not depend on the audit (audit/structured.py). 8: what a release that was seen would have
# shown otherwise (audit/membership.py).
_REPLACEMENTS = 0


class Progress(Protocol):
    """Told how much of all work is done."""

    def __call__(self, done: int, total: int, workers: int) -> None:
        """`done` of `total` chunks are finished, by so many workers."""
        ...


def run_audit(
    subject: Subject,
    plan: AuditPlan,
    *,
    compute: ComputeConfig | None = None,
    progress: Progress | None = None,
    keep: Path | None = None,
    fresh: bool = False,
) -> AuditResult:
    """Audit a mechanism on private data: certificate, exact exposure, attacks, verdict.

    The same subject and plan give the same result, timings apart, wherever it is computed: BLAS runs on one thread.

    Args:
        subject: What is audited.
        plan: How.
        compute: Where; by default in this process, or on local Ray when the work is worth it.
        progress: Told after each chunk of work.
        keep: Folder for finished chunks: the same audit, interrupted, goes on where it was, and one with more trials
            reuses the old ones. None keeps nothing.
        fresh: Remove the chunks that are there.

    Raises:
        InputError: The data break a premise of the release, a target is not a record, or `keep` holds another run.
        NumericalError: A computation did not reach its promised accuracy, or the result contradicts the
            theory it rests on; no verdict is given then.
    """
    with threadpool_limits(1):
        store = None if keep is None else open_store(keep, subject, plan, fresh=fresh)
        return _run(subject, plan, compute or ComputeConfig(), progress, store)


def _run(
    subject: Subject, plan: AuditPlan, compute: ComputeConfig, progress: Progress | None, store: Store | None
) -> AuditResult:
    data, mechanism = subject.data, subject.mechanism
    release, clock = mechanism.release, dict[str, float]()

    with _timed(clock, "certificate"):
        known = (certificates if plan.search else closed_certificates)(mechanism, subject.regime, plan.delta)
        certificate = smallest(known)
    worst = None
    if plan.search:
        with _timed(clock, "worst pair"):
            worst = worst_pair(mechanism, subject.regime, plan.delta)
        _check_certificate(mechanism, 0.0 if worst is None else worst.epsilon, certificate)
    claimed = certificate.epsilon if plan.claimed_epsilon is None else plan.claimed_epsilon

    replacements = replacements_of(release, plan)
    file = open_file(subject)
    laws, exposed, everywhere, targets, jitter = None, None, None, [], 0.0
    if data is not None:
        subject.regime.check(release, data)
        with _timed(clock, "exposure"):
            laws = mechanism.leave_one_out(data, replacements)
            exposed = exposure(laws, plan.delta, paths=release.paths)
            everywhere = exposure_everywhere(mechanism, data, replacements, plan.delta)
            jitter = laws.jitter
        targets = choose_targets(plan, exposed)
    # Of a black box nothing is exact, and no law is claimed: what adversaries take it for only guides them.
    exact = None if isinstance(mechanism, BlackBox) else exposed
    if exact is not None:
        _check_certificate(mechanism, float(exact.epsilon.max()), certificate)

    campaign = _plan(subject, plan, targets, replacements, exposed, exact)
    looks = None if plan.batch else 1
    ledger = open_ledger(plan.significance, campaign.aims, fidelity=is_fidelity_tested(subject, plan), looks=looks)
    with _timed(clock, "fidelity"):
        faithful = faithfulness(
            subject, plan, ledger, file=file, targets=targets, replacements=replacements, exposed=exposed
        )
    seen = None
    if file is not None:
        with _timed(clock, "released file"):
            seen = file.evidence(subject, replacements, seed=plan.seed)

    with (
        _timed(clock, "attacks"),
        running(campaign, plan.looks, compute, progress, store) as attacking,
    ):
        batches, judged = _attack(attacking, plan, ledger, claimed)
    with _timed(clock, "judgement"):
        attacks = [
            summarise(parts, found, mechanism, plan, ledger.share(parts[0].adversary))
            for parts, found in zip(batches, judged, strict=True)
        ]
    jitter = max(jitter, *(part.jitter for parts in batches for part in parts))

    evidence = [Evidence(a.adversary, a.record, a.epsilon_lower, a.largest_provable_epsilon) for a in attacks]
    ruling = rule(
        claimed,
        certified=certificate.epsilon,
        worst_exact=None if exact is None else float(exact.epsilon.max()),
        worst_record=None if exact is None else int(exact.epsilon.argmax()),
        # The actions of a transcript are public: a pair with other actions says nothing about a claim on these.
        worst_pair=None if worst is None or type(stated_by(mechanism)) is Thompson else worst.epsilon,
        evidence=evidence,
        fidelity=None if isinstance(mechanism, BlackBox) else faithful,
    )
    with _timed(clock, "outlook"):
        outlook = look_around(subject, plan, laws=laws, exposed=exact, worst=worst, targets=targets, ledger=ledger)
    return AuditResult(
        verdict=ruling.verdict,
        reason=ruling.reason,
        decided_by=ruling.decided_by,
        decided_at=ruling.significance,
        mechanism=mechanism,
        regime=subject.regime.name,
        assumptions=subject.regime.assumptions,
        certificate=certificate,
        certificates=tuple(known),
        claimed_epsilon=claimed,
        worst_pair=worst,
        records=None if data is None else len(data),
        exposure=exact,
        replacements=replacements,
        population=None if campaign.population is None else campaign.population.population.name,
        attacks=tuple(attacks),
        fidelity=faithful,
        delta=plan.delta,
        ledger=ledger,
        seed=plan.seed,
        jitter=jitter,
        sha256=subject.sha256,
        clipped=subject.clipped,
        timings=clock,
        engine=(attacking.engine.name, attacking.engine.workers),
        exposure_everywhere=everywhere,
        released=seen,
        outlook=outlook,
    )


def replacements_of(release: Release, plan: AuditPlan) -> Dataset:
    """The public records that may take a record's place in this audit."""
    seed = np.random.SeedSequence(plan.seed, spawn_key=(_REPLACEMENTS,))
    return draw_replacements(release.domain, release.response_bound, plan.replacements, seed)


def _plan(
    subject: Subject,
    plan: AuditPlan,
    targets: list[int],
    replacements: Dataset,
    exposed: Exposure | None,
    exact: Exposure | None,
) -> Campaign:
    """Who attacks whom."""
    core: CoreAttack | None = None
    if "core" in plan.adversaries and subject.data is not None and exposed is not None:
        chosen = exposed.replacement[targets]
        against = Dataset(replacements.covariates[chosen], replacements.responses[chosen])
        core = CoreAttack(subject.mechanism, subject.data, tuple(targets), against, plan.seed)
    attacks = population_attacks(subject, plan)
    if attacks:
        subject.mechanism.value_law(Moments(np.zeros(1), np.ones(1)))  # refuses where there is none, before any work
    population = choose_population(subject, targets, attacks) if attacks else None
    epsilons = [] if core is None else [None if exact is None else float(exact.epsilon[row]) for row in targets]
    return Campaign(subject.mechanism, plan, core, tuple(epsilons), population)


def _attack(
    attacking: Running, plan: AuditPlan, ledger: Ledger, claimed: float
) -> tuple[list[list[Attempt]], list[Judged]]:
    """The batches of every attack and what they show: all trials at once, or look by look until the claim falls."""
    shares = [ledger.share(adversary) for adversary, _ in attacking.campaign.aims]
    if plan.batch is None:
        raw = attacking.attempt(range(plan.trials))
        chosen = [SPLIT.sizes(min(len(a.scores.member), len(a.scores.nonmember)))[0] for a in raw]
        attempts = [oriented(a, orientation(a, count)) for a, count in zip(raw, chosen, strict=True)]
        once = [judge_once(attempt, plan, share) for attempt, share in zip(attempts, shares, strict=True)]
        return [[attempt] for attempt in attempts], once
    batches: list[list[Attempt]] = [[] for _ in shares]
    states = [Sequential(claimed, plan.delta, share) for share in shares]
    signs = [1.0 for _ in shares]
    for look in plan.looks:
        for index, raw_attempt in enumerate(attacking.attempt(look)):
            if not batches[index]:  # the first batch only chooses the first bets
                signs[index] = orientation(raw_attempt, len(raw_attempt.scores.member))
            batches[index].append(oriented(raw_attempt, signs[index]))
            states[index] = states[index].look(batches[index][-1].scores)
        if any(state.refuted for state in states):
            break
    judged = [
        judge_sequence(state, parts, plan, share) for state, parts, share in zip(states, batches, shares, strict=True)
    ]
    return batches, judged


def _check_certificate(mechanism: Mechanism, exact: float, certificate: Certificate) -> None:
    """For our own mechanisms, or what is stated to be one, a pair above means a defect here: fail closed."""
    if type(stated_by(mechanism)) in OWN and exceeds(exact, certificate.epsilon):
        raise NumericalError(
            f"the exact epsilon of a pair, {exact:.6g}, exceeds the certified epsilon {certificate.epsilon:.6g}: "
            "gpleak has a defect; please report this configuration"
        )


@contextmanager
def _timed(clock: dict[str, float], step: str, now: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    start = now()
    yield
    clock[step] = now() - start
