"""From the scores of one attack to what they show."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..attacks import Scores
from ..mechanisms import DeclaresGaussianDP, Mechanism
from .bounds import (
    EpsilonBound,
    Sequential,
    Split,
    clopper_pearson_bound,
    gaussian_dp_estimate,
    jeffreys_estimate,
    joint_beta_estimate,
    largest_provable_epsilon,
    model_based_bound,
    sequential_provable,
)
from .campaign import Attempt
from .config import AuditPlan
from .result import AttackResult
from .roc import auc, roc, tpr_at_fpr

FPR_LEVELS = (0.0, 0.001, 0.01, 0.1)
SPLIT = Split()


@dataclass(frozen=True, eq=False)
class Judged:
    """A bound, and the most that the design could have shown."""

    bound: EpsilonBound
    provable: float


def judge_once(attempt: Attempt, plan: AuditPlan, share: float) -> Judged:
    """One look at all trials: Clopper-Pearson with the threshold chosen on held-out trials."""
    bound = clopper_pearson_bound(attempt.scores, delta=plan.delta, significance=share, threshold=SPLIT)
    evaluated = bound.evaluated
    return Judged(bound, largest_provable_epsilon(evaluated=evaluated, delta=plan.delta, significance=share))


def judge_sequence(state: Sequential, batches: Sequence[Attempt], plan: AuditPlan, share: float) -> Judged:
    """Any number of looks: what the betting sequence showed so far, and what all planned trials could have shown.

    Trials whose core contains the target are left out: only the share that was kept so far counts.
    """
    pairs = [min(len(batch.scores.member), len(batch.scores.nonmember)) for batch in batches]
    drawn = sum(map(len, plan.looks[: len(batches)]))
    kept = int(plan.trials * sum(pairs) / drawn)
    return Judged(state.bound, sequential_provable(trials=kept, batch=pairs[0], delta=plan.delta, significance=share))


def summarise(
    attempts: Sequence[Attempt], judged: Judged, mechanism: Mechanism, plan: AuditPlan, share: float
) -> AttackResult:
    """Everything about one attack: its ROC, the bound, and what is shown beside it and refutes nothing.

    Args:
        attempts: The batches of this attack, in order.
        judged: The bound, from all of them.
        mechanism: What was attacked.
        plan: Of the audit.
        share: Significance of this attack.
    """
    last, scores = attempts[-1], Scores.joined([attempt.scores for attempt in attempts])
    curve, level = roc(scores), {"delta": plan.delta, "significance": share}
    estimates = [
        jeffreys_estimate(scores, **level, threshold=SPLIT),
        joint_beta_estimate(scores, **level, threshold=SPLIT),
    ]
    if isinstance(mechanism, DeclaresGaussianDP):
        estimates.append(gaussian_dp_estimate(scores, **level, declared=mechanism, threshold=SPLIT))
    return AttackResult(
        adversary=last.adversary,
        record=last.record,
        trials=len(scores.member),
        shadows=last.shadows,
        kept=last.kept,
        notes=last.notes,
        curve=curve,
        auc=auc(curve),
        tpr_at_fpr=tuple(tpr_at_fpr(curve, fpr) for fpr in FPR_LEVELS),
        epsilon_lower=judged.bound,
        epsilon_exact=last.exact,
        largest_provable_epsilon=judged.provable,
        # The core adversary's score is the exact log-likelihood ratio of the stated pair; no other's is.
        model_based=model_based_bound(scores, **level) if last.exact is not None else None,
        estimates=tuple(estimates),
    )
