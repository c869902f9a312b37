"""What can be concluded: configuration, certificate, lower bounds, ROC, verdict, and the flow of an audit."""

from .accountant import (
    Certificate,
    certificates,
    certified_delta,
    certify,
    certify_closed,
    closed_certificates,
    covariance_lower_bound,
    epsilon_grid,
    most_paths,
    renyi_delta,
    renyi_epsilon,
    smallest,
    smallest_value,
)
from .bounds import EpsilonBound, Kind, Split, clopper_pearson_bound, largest_provable_epsilon
from .build import Subject, build_stated, build_subject
from .certifying import Certification, Solved, certification, curves, solve, solve_closed
from .config import AuditConfig, AuditPlan, ComputeConfig, LiraConfig
from .exposure import Exposure, draw_replacements, exposure
from .fidelity import Check, Fidelity, fidelity, fidelity_points
from .gdp import GdpReport, gdp_report
from .judge import SPLIT
from .keeping import release_record
from .ledger import Expense, Ledger, open_ledger
from .loading import load_config
from .planning import PowerPlan, plan_power
from .power import Rates, detectable_factor, optimal_rates, refuting_power, trials_to_refute
from .result import AttackResult, AuditResult
from .roc import Roc, TprAtFpr, auc, roc, tpr_at_fpr
from .run import run_audit
from .structured import Supremum, structured_supremum
from .verdict import Verdict
from .worst import WorstPair, worst_pair

__all__ = [
    "SPLIT",
    "AttackResult",
    "AuditConfig",
    "AuditPlan",
    "AuditResult",
    "Certificate",
    "Certification",
    "Check",
    "ComputeConfig",
    "EpsilonBound",
    "Expense",
    "Exposure",
    "Fidelity",
    "GdpReport",
    "Kind",
    "Ledger",
    "LiraConfig",
    "PowerPlan",
    "Rates",
    "Roc",
    "Solved",
    "Split",
    "Subject",
    "Supremum",
    "TprAtFpr",
    "Verdict",
    "WorstPair",
    "auc",
    "build_stated",
    "build_subject",
    "certificates",
    "certification",
    "certified_delta",
    "certify",
    "certify_closed",
    "clopper_pearson_bound",
    "closed_certificates",
    "covariance_lower_bound",
    "curves",
    "detectable_factor",
    "draw_replacements",
    "epsilon_grid",
    "exposure",
    "fidelity",
    "fidelity_points",
    "gdp_report",
    "largest_provable_epsilon",
    "load_config",
    "most_paths",
    "open_ledger",
    "optimal_rates",
    "plan_power",
    "refuting_power",
    "release_record",
    "renyi_delta",
    "renyi_epsilon",
    "roc",
    "run_audit",
    "smallest",
    "smallest_value",
    "solve",
    "solve_closed",
    "structured_supremum",
    "tpr_at_fpr",
    "trials_to_refute",
    "worst_pair",
]
