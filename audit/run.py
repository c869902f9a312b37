"""The whole flow of an audit, on one page."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from ..attacks import Scores, attack_core
from ..mechanisms import InputError, NumericalError
from .accountant import Certificate, certify
from .bounds import Split, clopper_pearson_bound, largest_provable_epsilon
from .build import Subject
from .config import AuditPlan
from .exposure import Exposure, draw_replacements, exposure
from .result import AttackResult, AuditResult
from .roc import auc, roc, tpr_at_fpr
from .verdict import Evidence, rule

FPR_LEVELS = (0.0, 0.001, 0.01, 0.1)
SPLIT = Split()

# First key of every seed: what the draws are for. The second is the attacked row, the third the hypothesis.
_REPLACEMENTS, _RELEASES = 0, 1


class Progress(Protocol):
    """Told how many of all attacks are done."""

    def __call__(self, done: int, total: int) -> None:
        """`done` of `total` attacks are finished."""
        ...


def run_audit(subject: Subject, plan: AuditPlan, *, progress: Progress | None = None) -> AuditResult:
    """Audit a mechanism on private data: certificate, exact exposure, attacks, verdict.

    The same subject and plan give the same result, timings apart.

    Raises:
        InputError: The data break a premise of the release, or a target is not a record.
        NumericalError: A computation did not reach its promised accuracy, or the result contradicts the
            theory it rests on; no verdict is given then.
    """
    data, mechanism = subject.data, subject.mechanism
    release = mechanism.release
    release.check(data)
    clock: dict[str, float] = {}

    with _timed(clock, "certificate"):
        certificate = certify(mechanism, subject.regime, plan.delta)
    claimed = certificate.epsilon if plan.claimed_epsilon is None else plan.claimed_epsilon

    with _timed(clock, "exposure"):
        seed = _seed(plan, _REPLACEMENTS)
        replacements = draw_replacements(release.domain, release.response_bound, plan.replacements, seed)
        exposed = exposure(mechanism.leave_one_out(data, replacements), plan.delta, paths=release.paths)
    _check_certificate(exposed, certificate)

    with _timed(clock, "attacks"):
        targets = choose_targets(plan, exposed)
        attacks, jitter = [], 0.0
        for done, row in enumerate(targets):
            if progress:
                progress(done, len(targets))
            seeds = (_seed(plan, _RELEASES, row, 0), _seed(plan, _RELEASES, row, 1))
            replacement = replacements.record(int(exposed.replacement[row]))
            scores, added = attack_core(mechanism, data, row, replacement, trials=plan.trials, seeds=seeds)
            exact = float(exposed.epsilon[row])
            attacks.append(_judge("core", row, scores, plan, plan.significance / len(targets), exact))
            jitter = max(jitter, added)
        if progress:
            progress(len(targets), len(targets))

    worst = int(exposed.epsilon.argmax())
    evidence = [Evidence(a.adversary, a.record, a.epsilon_lower, a.largest_provable_epsilon) for a in attacks]
    ruling = rule(claimed, worst_exact=float(exposed.epsilon[worst]), worst_record=worst, evidence=evidence)
    return AuditResult(
        verdict=ruling.verdict,
        reason=ruling.reason,
        mechanism=mechanism,
        regime=subject.regime.name,
        certificate=certificate,
        claimed_epsilon=claimed,
        exposure=exposed,
        replacements=replacements,
        attacks=tuple(attacks),
        delta=plan.delta,
        significance=plan.significance,
        seed=plan.seed,
        jitter=jitter,
        sha256=subject.sha256,
        clipped=subject.clipped,
        timings=clock,
    )


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


def _judge(
    adversary: str, row: int, scores: Scores, plan: AuditPlan, share: float, exact: float | None
) -> AttackResult:
    bound = clopper_pearson_bound(scores, delta=plan.delta, significance=share, split=SPLIT)
    curve = roc(scores)
    return AttackResult(
        adversary=adversary,
        record=row,
        trials=plan.trials,
        curve=curve,
        auc=auc(curve),
        tpr_at_fpr=tuple(tpr_at_fpr(curve, level) for level in FPR_LEVELS),
        epsilon_lower=bound,
        epsilon_exact=exact,
        largest_provable_epsilon=largest_provable_epsilon(
            evaluated=bound.evaluated, delta=plan.delta, significance=share
        ),
    )


def _check_certificate(exposed: Exposure, certificate: Certificate) -> None:
    """A record above the certificate means that one of the two is wrong: fail closed."""
    worst = float(exposed.epsilon.max())
    if worst > certificate.epsilon * (1.0 + 1e-9) + 1e-9:
        raise NumericalError(
            f"the exact epsilon of a record, {worst:.6g}, exceeds the certified epsilon {certificate.epsilon:.6g}: "
            f"a premise of regime {certificate.regime} does not hold for this mechanism, or gpleak has a defect"
        )


def _seed(plan: AuditPlan, *key: int) -> np.random.SeedSequence:
    """Seeds depend on what they are for, never on the order or number of draws before them."""
    return np.random.SeedSequence(plan.seed, spawn_key=key)


@contextmanager
def _timed(clock: dict[str, float], step: str, now: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    start = now()
    yield
    clock[step] = now() - start
