"""What bounds every attack from above, what no certificate can go below, and how many paths a budget allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from gpleak.audit import certificates, certify_closed, closed_certificates, most_paths, worst_pair

from .stress import DELTA, REGIME, Setting


@dataclass(frozen=True)
class Certified:
    """Upper bounds on epsilon.

    Attributes:
        renyi: By the Renyi theorem.
        sharper: By the dominating pair of the centred release or the structured supremum; None where not computed.
        method: Which of them; empty where not computed.
    """

    renyi: float
    sharper: float | None
    method: str

    @property
    def best(self) -> float:
        """The smallest that was computed."""
        return self.renyi if self.sharper is None else min(self.renyi, self.sharper)


def certified(setting: Setting) -> Certified:
    """Certificates that need no search."""
    renyi, *sharper = closed_certificates(setting.mechanism, REGIME, DELTA)
    return Certified(renyi.epsilon, *((sharper[0].epsilon, sharper[0].method) if sharper else (None, "")))


def certified_by_search(setting: Setting) -> Certified:
    """All certificates; the structured supremum takes seconds."""
    renyi, sharper = certificates(setting.mechanism, REGIME, DELTA)
    return Certified(renyi.epsilon, sharper.epsilon, sharper.method)


def worst_epsilon(setting: Setting) -> float:
    """Exact epsilon of the worst pair that a search of seconds finds: a lower bound on the mechanism's."""
    found = worst_pair(setting.mechanism, REGIME, DELTA)
    if found is None:
        raise RuntimeError(f"no worst pair was found at {setting}")
    return found.epsilon


def allowed_excess(epsilon: float, fpr: float) -> float:
    """The largest TPR - FPR that ``(epsilon, delta)``-differential privacy leaves at a false-positive rate.

    ``TPR <= e^eps FPR + delta`` and ``1 - FPR <= e^eps (1 - TPR) + delta`` (THEORY section 9).
    """
    by_members = math.exp(min(epsilon, 700.0)) * fpr + DELTA
    by_nonmembers = 1.0 - (1.0 - fpr - DELTA) * math.exp(-epsilon)
    return min(by_members, by_nonmembers) - fpr


def paths_within(setting: Setting, budgets: Sequence[float]) -> tuple[int, ...]:
    """L_max: the most paths, released at once or in turn, that a certificate without a search allows at each budget."""

    @cache
    def epsilon(paths: int) -> float:
        return certify_closed(replace(setting, paths=paths).mechanism, REGIME, DELTA).epsilon

    return tuple(most_paths(epsilon, budget) for budget in budgets)
