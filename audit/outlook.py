"""Around an audit: what more paths would cost, the whole trade-off of its worst pairs, what its trials could refute.

Nothing here decides anything. A part that float64 cannot say, or that would take long, is None.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.special import ndtri

from ..mechanisms import (
    OWN,
    Array,
    InputError,
    Mechanism,
    NumericalError,
    PairLaw,
    PerRowNoise,
    QuadraticForm,
    Regime,
    log_profile,
    trade_off_at,
)
from ..mechanisms.foreign import BlackBox, stated_by
from ..mechanisms.pair import quadratic_form
from .accountant import certify_closed
from .build import Subject
from .config import AuditPlan
from .exposure import Exposure, exposure
from .gdp import GdpReport, gdp_report
from .ledger import Ledger
from .power import Rates, refuting_power
from .worst import WorstPair

_T = TypeVar("_T")

SUCCESS_FPR = 0.01  # false alarms of the attack whose success is told
POWER = 0.9

_PATHS = (1, 2, 5, 10, 20, 50, 100)
_FURTHER = (1, 2, 5, 10)  # times the paths that are released
_CURVE = 121  # thresholds of a trade-off curve
_RAREST = 1e-7  # rates beyond it are not drawn
_NARROWING, _ROUNDS = 33, 4
_PROFILED = 400  # epsilons of a profile, the grid of `gdp_report`
_POWERS, _CLOSE = 5, 0.05  # evaluations, each some hundredths of a second; how close to the largest claim is enough
_STRIDE = 3  # of the curve's thresholds, a third may be chosen
_FARTHEST = 8.0  # normal quantile of a power
_MOST = 1500  # records and points of a worst pair that is written out


@dataclass(frozen=True, eq=False, kw_only=True)
class PairOutlook:
    """One pair of datasets, exact.

    Attributes:
        fpr: False-positive rates of the best attack, ``(k,)``, falling.
        fnr: Its smallest false-negative rates there.
        gaussian: The Gaussian mechanism that it resembles, and by how much its delta is above that one's at worst.
        epsilon: Of each number of paths; None where float64 cannot say it.
        success: True-positive rate of the best attack at a false-positive rate of `SUCCESS_FPR`, likewise.
    """

    fpr: Array
    fnr: Array
    gaussian: GdpReport
    epsilon: tuple[float | None, ...]
    success: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Refutable:
    """What the trials of the attack on the most exposed target could refute, computed before any trial.

    Attributes:
        record: 0-based row.
        claim: Claims of at most this would have been refuted with probability `power`.
        power: That probability.
        trials: Releases simulated under each hypothesis.
        significance: This attack's share.
    """

    record: int
    claim: float
    power: float
    trials: int
    significance: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Outlook:
    """Around an audit.

    Attributes:
        paths: Numbers of paths.
        certified: Epsilon of each, by certificates that need no search; None where there is none for our mechanisms.
        record: The worst record against its worst drawn replacement, both for the audited number of paths; None where
            nothing is exact.
        worst_pair: The worst pair found with the audited number of paths; None where none was searched for.
        refutable: None where the core adversary did not attack once and for all.
    """

    paths: tuple[int, ...]
    certified: tuple[float, ...] | None
    record: PairOutlook | None
    worst_pair: PairOutlook | None
    refutable: Refutable | None


def look_around(
    subject: Subject,
    plan: AuditPlan,
    *,
    laws: PairLaw | None,
    exposed: Exposure | None,
    worst: WorstPair | None,
    targets: Sequence[int],
    ledger: Ledger,
) -> Outlook:
    """Compute the surroundings; no `NumericalError` of theirs ends the audit.

    Args:
        subject: What was audited.
        plan: Of the audit.
        laws: Of every pair (record, replacement), ``(n, J)``; None without records.
        exposed: Exact epsilon of every record; None where nothing is exact.
        worst: The worst pair found.
        targets: Rows that were attacked.
        ledger: Who may spend what.
    """
    mechanism = subject.mechanism
    own = mechanism.release.paths
    paths = tuple(sorted({*_PATHS, *(own * times for times in _FURTHER)}))
    record, refutable = None, None
    if laws is not None and exposed is not None and not isinstance(mechanism, BlackBox):
        row = int(exposed.epsilon.argmax())
        law = laws[[row], [int(exposed.replacement[row])]]
        record = _or_none(lambda: _pair(law, plan.delta, paths=paths, own=own))
        refutable = _or_none(lambda: _refutable(laws, exposed, plan, own, targets, ledger))
    return Outlook(
        paths=paths,
        certified=_or_none(lambda: _certified(mechanism, subject.regime, plan.delta, paths)),
        record=record,
        worst_pair=None if worst is None else _or_none(lambda: _worst(mechanism, worst, paths)),
        refutable=refutable,
    )


def _or_none(compute: Callable[[], _T]) -> _T | None:
    try:
        return compute()
    except (NumericalError, InputError):  # the latter: a premise that holds for the audit fails with other parameters
        return None


def _certified(mechanism: Mechanism, regime: Regime, delta: float, paths: tuple[int, ...]) -> tuple[float, ...] | None:
    stated = stated_by(mechanism)
    if stated is None or type(stated) not in OWN or type(stated) is PerRowNoise:
        return None

    def certified(count: int) -> float:
        changed: Mechanism = replace(stated, release=replace(stated.release, paths=count))  # type: ignore[type-var]
        return certify_closed(changed, regime, delta).epsilon

    return tuple(certified(count) for count in paths)


def _worst(mechanism: Mechanism, worst: WorstPair, paths: tuple[int, ...]) -> PairOutlook | None:
    stated = stated_by(mechanism)
    if stated is None:
        return None
    release = stated.release
    if release.records + (0 if release.points is None else len(release.points)) > _MOST:
        return None
    law = stated.contrast(worst.datasets[0], worst.row, worst.replacement).law.flat()
    found = _pair(law, worst.delta, paths=paths, own=release.paths)
    same = found.epsilon[paths.index(release.paths)]
    # Written out, hundreds of identical records may need a jitter that their cluster did not.
    return found if same is not None and abs(same - worst.epsilon) <= 1e-6 * (1.0 + worst.epsilon) else None


def _pair(law: PairLaw, delta: float, *, paths: tuple[int, ...], own: int) -> PairOutlook:
    """Of one pair, ``(1,)``."""
    curve = _curve(law, own)
    return PairOutlook(
        fpr=curve.fpr,
        fnr=1.0 - curve.tpr,
        gaussian=_gaussian(law, _epsilon(law, delta, own), delta, own),
        epsilon=tuple(_or_none(partial(_epsilon, law, delta, count)) for count in paths),
        success=tuple(_or_none(partial(_success, law, count)) for count in paths),
    )


def _epsilon(law: PairLaw, delta: float, paths: int) -> float:
    return float(exposure(law[None], delta, paths=paths).epsilon[0])


def _curve(law: PairLaw, paths: int) -> Rates:
    """The trade-off curve where its rates are not extreme, at falling thresholds."""
    far = 1.0
    while True:
        ends = trade_off_at(law, np.array([-far, far]), paths=paths)
        if (ends.fnr[0] < _RAREST and ends.fpr[1] < _RAREST) or far > 1e5:
            break
        far *= 2.0
    steps = np.geomspace(1e-7 * far, far, 64)
    coarse = np.concatenate([-steps[::-1], steps])
    look = trade_off_at(law, coarse, paths=paths)
    inside = np.flatnonzero((look.fpr > _RAREST) & (look.fnr > _RAREST))
    if len(inside):
        low, high = coarse[max(inside[0] - 1, 0)], coarse[min(inside[-1] + 1, len(coarse) - 1)]
    else:
        low, high = -far, far
    curve = trade_off_at(law, np.linspace(high, low, _CURVE), paths=paths)
    return Rates(np.maximum.accumulate(1.0 - curve.fnr), np.maximum.accumulate(curve.fpr))


def _success(law: PairLaw, paths: int) -> float:
    """True-positive rate at the smallest threshold found with at most `SUCCESS_FPR` false alarms."""
    high = float(-np.log(SUCCESS_FPR)) + 1e-6  # by Markov's inequality no more false alarms are above
    low = -1.0
    while trade_off_at(law, np.array([low]), paths=paths).fpr[0] <= SUCCESS_FPR:
        low *= 4.0
        if low < -1e7:
            return 1.0
    for _ in range(_ROUNDS):
        at = np.linspace(low, high, _NARROWING)
        first = int(np.argmax(trade_off_at(law, at, paths=paths).fpr <= SUCCESS_FPR))
        low, high = at[max(first - 1, 0)], at[first]
    return float(1.0 - trade_off_at(law, np.array([high]), paths=paths).fnr[0])


def _gaussian(law: PairLaw, epsilon: float, delta: float, paths: int) -> GdpReport:
    """mu with its regret. A profile is convex, so that interpolation between its values errs on the high side."""
    grid = np.linspace(0.0, max(3.0 * epsilon, 3.0), _PROFILED)
    profile = np.zeros(len(grid))
    for side in (law, law.swapped()):
        form = quadratic_form(side)
        many = QuadraticForm(np.repeat(form.curvature, len(grid), axis=0), np.repeat(form.shift, len(grid), axis=0))
        profile = np.maximum(profile, np.exp(log_profile(many, grid, paths=paths).log_delta))
    return gdp_report(epsilon, delta, lambda at: float(np.interp(at, grid, profile)))


def _refutable(
    laws: PairLaw,
    exposed: Exposure,
    plan: AuditPlan,
    paths: int,
    targets: Sequence[int],
    ledger: Ledger,
) -> Refutable | None:
    """The largest claim looked at that the trials refute with probability `POWER`; None where they refute none."""
    if plan.batch is not None or "core" not in plan.adversaries:
        return None
    row = max(targets, key=lambda target: exposed.epsilon[target])
    share, exact = ledger.share("core"), float(exposed.epsilon[row])
    if exact == 0.0:
        return None
    whole = _curve(laws[[row], [int(exposed.replacement[row])]], paths)
    rates = Rates(whole.tpr[::_STRIDE], whole.fpr[::_STRIDE])

    def power(claim: float) -> float:
        return refuting_power(rates, claim, trials=plan.trials, delta=plan.delta, significance=share)

    claim = _largest(power, exact)
    if claim is None:
        return None
    return Refutable(record=row, claim=claim, power=POWER, trials=plan.trials, significance=share)


def _largest(power: Callable[[float], float], high: float) -> float | None:
    """A claim whose power was computed and is at least `POWER`, and hardly below the largest such.

    The power falls with the claim, and the normal quantile of it is nearly straight.
    """
    low, z_low, z_high = 0.0, float(ndtri(power(0.0))), -_FARTHEST
    wanted = float(ndtri(POWER))
    if z_low < wanted:
        return None
    for _ in range(_POWERS):
        z_low = min(z_low, _FARTHEST)
        share = (z_low - wanted) / (z_low - z_high)
        claim = low + (high - low) * float(np.clip(0.98 * share, 0.05, 0.95))
        z = float(ndtri(power(claim)))
        if z >= wanted:
            low, z_low = claim, z
        else:
            high, z_high = claim, max(z, -_FARTHEST)
        if high - low <= _CLOSE * high:
            break
    return low or None
