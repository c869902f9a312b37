"""What `gpleak plan` computes: how many trials a refutation takes, before any release is simulated."""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ..attacks import core_seconds
from ..mechanisms import InputError
from ..mechanisms.foreign import BlackBox
from .bounds import largest_provable_epsilon
from .build import Subject
from .config import AuditPlan
from .exposure import exposure
from .faithful import is_fidelity_tested
from .judge import SPLIT
from .ledger import open_ledger
from .power import detectable_factor, optimal_rates, refuting_power, trials_to_refute
from .run import replacements_of
from .targets import choose_targets


@dataclass(frozen=True)
class PowerPlan:
    """What the core attack on the most exposed target can refute.

    One look at all trials is planned; `audit.batch` looks more often and needs more of them.

    Attributes:
        record: The 0-based row.
        exact: Exact epsilon of its pair.
        delta: Of every epsilon here.
        significance: This attack's share.
        factor: By how much the claim is too small.
        claimed: The claim: exact / factor.
        power: Wanted probability of refuting it.
        trials: Fewest trials a side for that; None when a million million are not enough.
        seconds: Rough time of one processor for all targets; None with `trials`.
        planned_trials: What the configuration asks for.
        planned_power: Probability of refuting the claim with these.
        planned_factor: Smallest factor that these refute with the wanted power; None when they refute no claim.
        planned_provable: The most that these can ever show.
    """

    record: int
    exact: float
    delta: float
    significance: float
    factor: float
    claimed: float
    power: float
    trials: int | None
    seconds: float | None
    planned_trials: int
    planned_power: float
    planned_factor: float | None
    planned_provable: float


def plan_power(subject: Subject, plan: AuditPlan, *, factor: float, power: float = 0.9) -> PowerPlan:
    """Plan the trials that refute a claim which is `factor` times too small, from the exact profile of the worst pair.

    Raises:
        InputError: A factor of at most 1, a power that is no probability, or no core adversary with records to attack.
    """
    if not 1.0 < factor < np.inf:
        raise InputError(f"--detect must be above 1, got {factor:g}: it is how many times the claim is too small")
    if not 0.0 < power < 1.0:
        raise InputError(f"--power must be in (0, 1), got {power:g}")
    if subject.data is None or "core" not in plan.adversaries:
        raise InputError("a plan needs the exact profile of a pair: give data and the adversary 'core'")
    with threadpool_limits(1):
        return _plan(subject, plan, factor, power)


def _plan(subject: Subject, plan: AuditPlan, factor: float, power: float) -> PowerPlan:
    data, mechanism = subject.data, subject.mechanism
    assert data is not None
    if isinstance(mechanism, BlackBox):
        raise InputError(f"nothing is exact of a black box ({mechanism.name}): what an attack can show is not known")
    release = mechanism.release
    subject.regime.check(release, data)
    replacements = replacements_of(release, plan)
    exposed = exposure(mechanism.leave_one_out(data, replacements), plan.delta, paths=release.paths)
    targets = choose_targets(plan, exposed)
    row = max(targets, key=lambda target: exposed.epsilon[target])
    exact = float(exposed.epsilon[row])
    if exact == 0.0:
        raise InputError("no attacked record leaks anything at this delta: no claim can be too small")
    law = mechanism.contrast(data, row, replacements.record(int(exposed.replacement[row]))).law
    rates = optimal_rates(law, reach=2.0 * exact + 2.0, paths=release.paths)
    aims = [(name, target) for name in plan.adversaries for target in targets]
    tested = is_fidelity_tested(subject, plan)
    share = open_ledger(plan.significance, aims, fidelity=tested, looks=1).share("core")
    trials = trials_to_refute(rates, exact / factor, power=power, delta=plan.delta, significance=share)
    return PowerPlan(
        record=row,
        exact=exact,
        delta=plan.delta,
        significance=share,
        factor=factor,
        claimed=exact / factor,
        power=power,
        trials=trials,
        seconds=None if trials is None else core_seconds(mechanism, len(targets), trials=trials),
        planned_trials=plan.trials,
        planned_power=refuting_power(rates, exact / factor, trials=plan.trials, delta=plan.delta, significance=share),
        planned_factor=detectable_factor(
            rates, exact, trials=plan.trials, power=power, delta=plan.delta, significance=share
        ),
        planned_provable=largest_provable_epsilon(
            evaluated=SPLIT.evaluated(plan.trials), delta=plan.delta, significance=share
        ),
    )
