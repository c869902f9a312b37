"""gpleak: how much a released Gaussian-process posterior sample betrays about one training record.

In short: private records are a `Dataset`, what is published about them a `Release`; a mechanism made of it
(`ExactPosterior`, `Noised`, `Predictive`, `Centred`, `Thompson`) and a regime (`Bounded`, `Exponential1D`, `Rkhs`,
`Separated`) make a `Subject`. `deployed_subject` makes one of a model, `build_subject` one of a configuration file.
`run_audit` audits it as an `AuditPlan` says and returns an `AuditResult`; `write_report` writes what a person and a
machine read, and `load_record` reads the latter back.

The names in ``__all__`` are public and keep their meaning; everything else may change. They are loaded when they are
first used (PEP 562): importing ``gpleak`` itself imports nothing, so that tools which walk a checkout never import the
package twice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .audit.build import Subject, build_subject
    from .audit.config import AuditConfig, AuditPlan
    from .audit.deploying import deployed_subject
    from .audit.loading import load_config
    from .audit.released import Released
    from .audit.result import AuditResult
    from .audit.run import run_audit
    from .audit.verdict import Verdict
    from .mechanisms import (
        Bounded,
        Centred,
        Dataset,
        Domain,
        ExactPosterior,
        Exponential1D,
        InputError,
        Noised,
        NumericalError,
        Predictive,
        Release,
        Rkhs,
        Separated,
        Thompson,
        exponential,
        matern32,
        matern52,
        rbf,
    )
    from .reports import load_record
    from .reports.writing import write_report

__version__ = "0.1.0"

_HOME = {
    "mechanisms": (
        "Bounded Centred Dataset Domain ExactPosterior Exponential1D InputError Noised NumericalError Predictive "
        "Release Rkhs Separated Thompson exponential matern32 matern52 rbf"
    ),
    "audit.build": "Subject build_subject",
    "audit.config": "AuditConfig AuditPlan",
    "audit.deploying": "deployed_subject",
    "audit.loading": "load_config",
    "audit.released": "Released",
    "audit.result": "AuditResult",
    "audit.run": "run_audit",
    "audit.verdict": "Verdict",
    "reports": "load_record",
    "reports.writing": "write_report",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [  # noqa: RUF022 - in the order in which they are needed
    "Dataset",
    "Domain",
    "Release",
    "exponential",
    "matern32",
    "matern52",
    "rbf",
    "ExactPosterior",
    "Noised",
    "Predictive",
    "Centred",
    "Thompson",
    "Bounded",
    "Exponential1D",
    "Rkhs",
    "Separated",
    "Released",
    "Subject",
    "deployed_subject",
    "AuditConfig",
    "load_config",
    "build_subject",
    "AuditPlan",
    "run_audit",
    "AuditResult",
    "Verdict",
    "write_report",
    "load_record",
    "InputError",
    "NumericalError",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
