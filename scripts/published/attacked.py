"""Excess true-positive rate of the best attack of an adversary who knows the population and sees the target's value.

The optimal mixture over shadows (THEORY section 8) for L paths. For infinitely many the adversary sees the posterior's
mean and variance at the target themselves: no mixture has a density there, and a classifier takes its place.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from gpleak.attacks import Jump, OptimalMixture, Scores, Serial, train_population
from gpleak.attacks.shadows import simulate
from gpleak.attacks.study import plan_study
from gpleak.audit import Roc, roc, tpr_at_fpr
from gpleak.mechanisms import Array, Moments

from .stress import RATES, Setting

_SHADOW, _TRIAL = 2, 3  # purposes of seeds, as in attacks/population.py
_AROUND = 1.25  # the slope of a ROC is that of its chord between rates this factor below and above


@dataclass(frozen=True)
class Sizes:
    """How much is simulated, each under both hypotheses.

    Attributes:
        shadows: Datasets on which the attack is trained.
        trials: Releases of other datasets that are attacked.
        seed: Root of all seeds; settings with the same one share covariates and normal numbers.
    """

    shadows: int
    trials: int
    seed: int = 0


@dataclass(frozen=True)
class Success:
    """An attack at one false-positive rate.

    Attributes:
        fpr: The rate asked for.
        tpr: True-positive rate.
        excess: TPR - FPR, the rate asked for, which tied scores may not use up; guessing has 0.
        error: Its standard error, the threshold's own uncertainty included.
    """

    fpr: float
    tpr: float
    excess: float
    error: float


def attacked(setting: Setting, sizes: Sizes) -> tuple[Success, ...]:
    """Success of the optimal mixture at every rate of `RATES`."""
    engine = Serial()
    trained = train_population(
        setting.mechanism,
        Jump(),
        Jump().target,
        attacks=[OptimalMixture(setting.paths)],
        names=[None],
        rows=None,
        shadows=sizes.shadows,
        seed=sizes.seed,
        engine=engine,
        finished=_ignored,
    )
    ((found,),) = trained.attempt(range(sizes.trials), engine=engine, finished=_ignored)
    return successes(found.scores)


def _ignored() -> None:
    """Chunks of one attack are not reported: the attacks are."""


def attacked_without_noise(setting: Setting, sizes: Sizes) -> tuple[Success, ...]:
    """Success where mean and variance at the target are released exactly: the limit of many paths, at any scale.

    Boosted trees on the mean and the logarithm of the variance, trained on shadows and applied to other datasets: an
    estimate from below, for a finer classifier may do better.
    """
    study = plan_study(setting.mechanism, Jump(), Jump().target, rows=None, seed=sizes.seed)
    shadows, trials = (
        simulate(study, purpose, range(count), released=False).of(0, study).law
        for purpose, count in ((_SHADOW, sizes.shadows), (_TRIAL, sizes.trials))
    )
    features = _features(shadows)
    classifier = HistGradientBoostingClassifier(early_stopping=True, random_state=sizes.seed)
    classifier.fit(features.reshape(-1, 2), np.repeat([1, 0], sizes.shadows))
    member, nonmember = (classifier.decision_function(side) for side in _features(trials))
    return successes(Scores(member, nonmember))


def _features(law: Moments) -> Array:
    """Of both hypotheses, ``(2, S, 2)``; the scale is a public number and only shifts the logarithm."""
    return np.stack([law.mean, np.log(law.variance)], axis=-1)


def successes(scores: Scores) -> tuple[Success, ...]:
    """Success at every rate of `RATES`."""
    curve = roc(scores)
    return tuple(_success(curve, fpr) for fpr in RATES)


def _success(curve: Roc, fpr: float) -> Success:
    """The threshold is the nonmembers' own quantile, whose error moves the rate along the curve."""
    at, below, above = (tpr_at_fpr(curve, rate) for rate in (fpr, fpr / _AROUND, fpr * _AROUND))
    width = above.realised_fpr - below.realised_fpr
    slope = (above.tpr - below.tpr) / width if width > 0 else 0.0  # between tied scores no threshold moves
    share = (at.tpr * curve.members + 1.0) / (curve.members + 2.0)  # never a certain 0 or 1
    variance = share * (1.0 - share) / curve.members + slope**2 * fpr * (1.0 - fpr) / curve.nonmembers
    return Success(fpr, at.tpr, at.tpr - fpr, float(np.sqrt(variance)))
