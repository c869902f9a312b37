"""From the scores of one attack to what they show."""

from ..attacks import Scores
from .bounds import Split, clopper_pearson_bound, largest_provable_epsilon
from .config import AuditPlan
from .result import AttackResult
from .roc import auc, roc, tpr_at_fpr

FPR_LEVELS = (0.0, 0.001, 0.01, 0.1)
SPLIT = Split()


def judge(
    adversary: str,
    record: int | None,
    scores: Scores,
    plan: AuditPlan,
    share: float,
    *,
    exact: float | None = None,
    shadows: int | None = None,
) -> AttackResult:
    """ROC, lower bound at this attack's `share` of the significance, and what the design could have shown."""
    bound = clopper_pearson_bound(scores, delta=plan.delta, significance=share, split=SPLIT)
    curve = roc(scores)
    return AttackResult(
        adversary=adversary,
        record=record,
        trials=len(scores.member),
        shadows=shadows,
        curve=curve,
        auc=auc(curve),
        tpr_at_fpr=tuple(tpr_at_fpr(curve, level) for level in FPR_LEVELS),
        epsilon_lower=bound,
        epsilon_exact=exact,
        largest_provable_epsilon=largest_provable_epsilon(
            evaluated=bound.evaluated, delta=plan.delta, significance=share
        ),
    )
