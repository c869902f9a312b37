"""What figures need, as plain values: curves thinned to what can be seen, and the outlook."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from ..audit import Roc
from ..audit.binomial import proportion_lower, proportion_upper
from ..audit.outlook import SUCCESS_FPR, Outlook, PairOutlook
from ..mechanisms import Array

_LEVEL = 0.95
_MOST = 130  # vertices of a curve
_DIGITS = 5  # of a band, rounded outwards


def curve_record(curve: Roc) -> dict[str, Any]:
    """The vertices of a curve that can be told apart on a logarithmic or a linear axis, with their bands.

    The bands are exact binomial intervals of both rates of each vertex by itself; they describe and decide nothing.
    """
    keep = _seen(curve)
    false, true = curve.false_positives[keep], curve.true_positives[keep]
    tail = (1.0 - _LEVEL) / 2.0
    bands = {
        "fpr_low": _outwards(proportion_lower(false, curve.nonmembers, tail), -1),
        "fpr_high": _outwards(proportion_upper(false, curve.nonmembers, tail), 1),
        "tpr_low": _outwards(proportion_lower(true, curve.members, tail), -1),
        "tpr_high": _outwards(proportion_upper(true, curve.members, tail), 1),
    }
    return {
        "nonmembers": curve.nonmembers,
        "members": curve.members,
        "false_positives": false.astype(int).tolist(),
        "true_positives": true.astype(int).tolist(),
        "level": _LEVEL,
        **bands,
    }


def _seen(curve: Roc) -> Array:
    """Indices of vertices: for each rate of a grid the last one that is not beyond it."""
    wanted = np.concatenate([[0.0], np.geomspace(1.0 / curve.nonmembers, 1.0, _MOST - 30), np.linspace(0.0, 1.0, 31)])
    found = np.searchsorted(curve.fpr, wanted * (1.0 + 1e-12), side="right") - 1
    return np.unique(found)


def _outwards(values: Array, side: int) -> list[float]:
    return [_rounded(float(value), side) for value in values]


def _rounded(value: float, side: int) -> float:
    if value == 0.0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    moved = math.ceil(value / step) if side > 0 else math.floor(value / step)
    return float(np.clip(float(f"{moved * step:.{_DIGITS}g}"), 0.0, 1.0))


def outlook_record(outlook: Outlook, worst: int | None) -> dict[str, Any]:
    """As plain values; `worst` is the row of the worst record."""
    return {
        "paths": list(outlook.paths),
        "success_fpr": SUCCESS_FPR,
        "certified": None if outlook.certified is None else list(outlook.certified),
        "record": None if outlook.record is None else {"record": worst, **_pair(outlook.record)},
        "worst_pair": None if outlook.worst_pair is None else _pair(outlook.worst_pair),
        "refutable": None if outlook.refutable is None else asdict(outlook.refutable),
    }


def _pair(pair: PairOutlook) -> dict[str, Any]:
    return {
        "epsilon": list(pair.epsilon),
        "success": list(pair.success),
        "gaussian": {"mu": pair.gaussian.mu, "regret": pair.gaussian.regret},
        "fpr": pair.fpr.tolist(),
        "fnr": pair.fnr.tolist(),
    }
