"""What can be concluded: configuration, certificate, lower bounds, ROC, verdict, and the flow of an audit."""

from .accountant import Certificate, certify, renyi_epsilon
from .bounds import EpsilonBound, Split, clopper_pearson_bound, largest_provable_epsilon
from .build import Subject, build_subject
from .config import AuditConfig, AuditPlan, ComputeConfig, load_config
from .exposure import Exposure, draw_replacements, exposure
from .judge import SPLIT
from .result import AttackResult, AuditResult
from .roc import Roc, TprAtFpr, auc, roc, tpr_at_fpr
from .run import run_audit
from .verdict import Verdict

__all__ = [
    "SPLIT",
    "AttackResult",
    "AuditConfig",
    "AuditPlan",
    "AuditResult",
    "Certificate",
    "ComputeConfig",
    "EpsilonBound",
    "Exposure",
    "Roc",
    "Split",
    "Subject",
    "TprAtFpr",
    "Verdict",
    "auc",
    "build_subject",
    "certify",
    "clopper_pearson_bound",
    "draw_replacements",
    "exposure",
    "largest_provable_epsilon",
    "load_config",
    "renyi_epsilon",
    "roc",
    "run_audit",
    "tpr_at_fpr",
]
