"""Wrappers of foreign models: what is deployed elsewhere, read and drawn from by its own code."""

from . import function, gpytorch, gstools, scikit_learn
from .deployed import BlackBox, Deployed, Model, Reading, Reported, Statement, TellsMoments, stated_by
from .moment_check import check_moments

__all__ = [
    "BlackBox",
    "Deployed",
    "Model",
    "Reading",
    "Reported",
    "Statement",
    "TellsMoments",
    "check_moments",
    "function",
    "gpytorch",
    "gstools",
    "scikit_learn",
    "stated_by",
]
