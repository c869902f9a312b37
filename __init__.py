"""gpleak: how much a released Gaussian-process posterior sample betrays about one training record.

The public names are loaded when they are first used (PEP 562): importing ``gpleak`` itself imports
nothing, so that tools which walk a checkout never import the package twice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .audit import AuditConfig, AuditPlan, AuditResult, Subject, Verdict, build_subject, load_config, run_audit
    from .mechanisms import (
        Bounded,
        Centred,
        Dataset,
        Domain,
        ExactPosterior,
        Exponential1D,
        InputError,
        Noised,
        Release,
        exponential,
        matern32,
        matern52,
        rbf,
    )

__version__ = "0.1.0"

_HOME = {
    "mechanisms": (
        "Bounded Centred Dataset Domain ExactPosterior Exponential1D InputError Noised Release "
        "exponential matern32 matern52 rbf"
    ),
    "audit": "AuditConfig AuditPlan AuditResult Subject Verdict build_subject load_config run_audit",
}
_FOLDER_OF = {name: folder for folder, names in _HOME.items() for name in names.split()}

__all__ = [  # noqa: RUF022 - grouped by folder
    "Bounded",
    "Centred",
    "Dataset",
    "Domain",
    "ExactPosterior",
    "Exponential1D",
    "InputError",
    "Noised",
    "Release",
    "exponential",
    "matern32",
    "matern52",
    "rbf",
    "AuditConfig",
    "AuditPlan",
    "AuditResult",
    "Subject",
    "Verdict",
    "build_subject",
    "load_config",
    "run_audit",
]


def __getattr__(name: str) -> Any:
    if name not in _FOLDER_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FOLDER_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
