"""Membership inference from whole released paths: a classifier trained on shadows scores what a density cannot."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from ..mechanisms import Array, InputError
from .attack import FeatureAttack, Fitted, Releases, Sees, rounding_variance

_FOLDS = 5
_LEAST = 2 * _FOLDS  # shadows a side, two in every fold


@dataclass(frozen=True)
class WholePath(FeatureAttack):
    """An attacker who sees the paths at all p released points, not at the target's own alone (THEORY section 8).

    A path is a mixture of normals over the shadow datasets, in means and in covariances; a density fitted in p
    dimensions needs shadows that grow fast with p, and so does the average over shadows of the exact densities.
    Boosted trees on a few statistics need fewer: with 10,000 shadows a side and p = 5 they come within 0.005 in AUC
    of that average over 32,000 shadows, on the published stress test.

    The score is cross-fitted: each of 5 classifiers is trained on four fifths of the shadows. A trial was in no fold;
    its score is the mean of the 5 log odds. The AUC in the notes is of the shadows under the classifier that has not
    seen them: a diagnostic, not a bound. Below 1/2 it says that there was nothing to learn; the score is never turned
    around.

    The configuration was fixed once, on the stress test, and nothing is tuned to data. Trees need tens of shadows a
    leaf: with fewer than about 30 a side all scores are equal, and the attack finds nothing.

    Attributes:
        name: In the configuration and the report.
        sees: Paths at all released points.
    """

    name: str = "path"
    sees: Sees = "path"

    def features(self, releases: Releases) -> Array:
        """Statistics of the L paths: ``(..., 2p - 1)`` for L = 1 and ``(..., 3p - 1)`` otherwise.

        They are the mean path, its steps from each point to the next listed, and for L > 1 the log of the paths'
        variance at each point. The steps add no information, but a tree splits on one number at a time and neighbours
        are close to equal. Of the sample covariance only the diagonal is kept: variances of the steps did not help.
        Where the L values are equal up to rounding, their variance is the square of the rounding.
        """
        paths = releases.paths
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by whoever uses it
            centre = paths.mean(axis=-2)
            parts = [centre, np.diff(centre, axis=-1)]
            if paths.shape[-2] > 1:
                parts.append(np.log(np.maximum(paths.var(axis=-2), rounding_variance(centre))))
        return np.concatenate(parts, axis=-1)

    def fit(self, member: Array, nonmember: Array) -> Fitted:
        """See `FeatureAttack`."""
        if min(len(member), len(nonmember)) < _LEAST:
            raise InputError(
                f"{self.name}: {len(member)} shadow(s) with the record and {len(nonmember)} without: "
                f"at least {_LEAST} each are needed: raise audit.shadows"
            )
        features = np.concatenate([member, nonmember])
        inside = np.repeat([True, False], [len(member), len(nonmember)])
        unseen, classifiers = np.empty(len(features)), []
        with _one_thread():
            for train, test in _folds(inside):
                classifier = _classifier().fit(features[train], inside[train])
                unseen[test] = classifier.decision_function(features[test])
                classifiers.append(classifier)
        area = float(roc_auc_score(inside, unseen))
        return _Average(self.name, tuple(classifiers), area)


@dataclass(frozen=True, eq=False)
class _Average:
    """Mean log odds of the classifiers of all folds."""

    name: str
    classifiers: tuple[Pipeline, ...]
    area: float

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Scorer`."""
        return (f"boosted trees, {_FOLDS}-fold cross-fitted", f"AUC of shadows left out of training: {self.area:.3f}")

    def score(self, features: Array) -> Array:
        """See `Fitted`."""
        with _one_thread():
            log_odds = [classifier.decision_function(features) for classifier in self.classifiers]
        return np.asarray(np.mean(log_odds, axis=0))


def _one_thread() -> threadpool_limits:
    """The trees' OpenMP threads wait by spinning: on busy cores two took 100 times as long as one."""
    return threadpool_limits(limits=1, user_api="openmp")


def _folds(inside: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to train on and rows left out; both sides are spread evenly over the folds."""
    yield from StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(inside, inside)


def _classifier() -> Pipeline:
    """Small trees, added until a held-out tenth of the rows no longer gains."""
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=300,
        max_leaf_nodes=8,
        min_samples_leaf=20,
        early_stopping=True,
        validation_fraction=0.1,
        n_iter_no_change=10,
        random_state=0,
    )
    return make_pipeline(StandardScaler(), trees)
