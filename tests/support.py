"""Small builders shared by the tests."""

import json
import math
from pathlib import Path

import numpy as np

from gpleak.audit import AuditPlan
from gpleak.mechanisms import (
    Centred,
    Dataset,
    Domain,
    ExactPosterior,
    Noised,
    PairLaw,
    Release,
    exponential,
)

REFERENCE = Path(__file__).parent / "reference"


def reference(name):
    """Rows of a table of oracle values; each file states its source."""
    return json.loads((REFERENCE / f"{name}.json").read_text())["rows"]


def pair(m, m_prime, v, v_prime, rho, ridge, scale):
    """A pair given by the five numbers of THEORY section 6, everywhere released without prior noise."""
    numbers = (
        m / (v + ridge**2),
        m_prime / (v_prime + ridge**2),
        scale**2 / (v + ridge**2),
        scale**2 / (v_prime + ridge**2),
        v / scale**2,
        v_prime / scale**2,
        rho / scale**2,
        ridge**2 / (v + ridge**2),
        ridge**2 / (v_prime + ridge**2),
    )
    return PairLaw(*(np.asarray(number, dtype=float) for number in numbers))


def random_data(rng, n, d):
    return Dataset(rng.random((n, d)), rng.uniform(-1.0, 1.0, n))


def release(n, d=1, **changes):
    values = {
        "kernel": exponential(0.4),
        "ridge": 0.6,
        "scale": 0.8,
        "domain": Domain([[0.0, 1.0]] * d),
        "response_bound": 1.0,
        "records": n,
    }
    return Release(**{**values, **changes})


def mechanisms(n, d=1, **changes):
    """One of each mechanism with the same public parameters."""
    return [
        ExactPosterior(release(n, d, **changes)),
        Noised(release(n, d, prior_noise=0.7, **changes)),
        Centred(release(n, d, **changes)),
    ]


def audit_plan(**changes):
    """A plan without the numerical searches, which take seconds and have tests of their own."""
    return AuditPlan(**{"search": False, **changes})


def hanley_mcneil(area, count):
    """Standard error of an AUC from `count` scores a side (Hanley and McNeil 1982)."""
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    return math.sqrt((area * (1 - area) + (count - 1) * (first + second - 2 * area**2)) / count**2)
