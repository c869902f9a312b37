"""ROC as an exact step function: ties, order, scale, coarse samples."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gpleak.attacks import Scores
from gpleak.audit import auc, roc, tpr_at_fpr


def scores_of(values, member):
    values, member = np.asarray(values, dtype=float), np.asarray(member, dtype=bool)
    return Scores(values[member], values[~member])


def test_case_05_ties_make_one_vertex():
    """CASES 05a, b, in every order of the rows."""
    for order in itertools.permutations(range(4)):
        curve = roc(scores_of(np.array([9, 9, 5, 5])[list(order)], np.array([1, 0, 1, 0])[list(order)]))
        assert curve.fpr.tolist() == [0.0, 0.5, 1.0]
        assert curve.tpr.tolist() == [0.0, 0.5, 1.0]
        assert auc(curve) == 0.5
        assert tpr_at_fpr(curve, 0.0).tpr == 0.0
    for order in itertools.permutations(range(6)):
        curve = roc(scores_of(np.array([3, 3, 3, 2, 2, 1])[list(order)], np.array([1, 1, 0, 1, 0, 0])[list(order)]))
        assert curve.fpr.tolist() == [0.0, 1 / 3, 2 / 3, 1.0]
        assert curve.tpr.tolist() == [0.0, 2 / 3, 1.0, 1.0]
        assert auc(curve) == 13 / 18
        assert tpr_at_fpr(curve, 0.0).tpr == 0.0


@pytest.mark.parametrize("scale", [1.0, 1e-7, 1e-12, 1e-300])
def test_case_05_scale_does_not_matter(scale):
    assert auc(roc(scores_of(np.array([0.1, 0.4, 0.35, 0.8]) * scale, [0, 0, 1, 1]))) == 0.75


def test_case_21_members_are_the_positive_class():
    """CASES 21: AUC .2, TPR at FPR 0 .2; nothing is flipped."""
    curve = roc(Scores(np.array([10.0, 9] + [1] * 8), np.array([8.0, 7, 6, 5, 4, 3, 2, 2, 2, 2])))
    assert auc(curve) == pytest.approx(0.2)
    assert tpr_at_fpr(curve, 0.0).tpr == 0.2


def test_area_agrees_with_scikit_learn():
    rng = np.random.default_rng(1)
    member, nonmember = rng.normal(0.5, 1, 300).round(1), rng.normal(0, 1, 200).round(1)
    expected = roc_auc_score(np.r_[np.ones(300), np.zeros(200)], np.r_[member, nonmember])
    assert auc(roc(Scores(member, nonmember))) == pytest.approx(expected, rel=1e-12)


def test_a_rate_finer_than_the_sample_says_what_was_realised():
    curve = roc(Scores(np.arange(10.0) + 0.5, np.arange(10.0)))
    point = tpr_at_fpr(curve, 0.05)
    assert (point.fpr, point.realised_fpr, point.tpr) == (0.05, 0.0, 0.1)
    assert tpr_at_fpr(curve, 0.1).realised_fpr == 0.1
    assert tpr_at_fpr(curve, 1.0).tpr == 1.0


def test_interval_is_clopper_pearson():
    """20 of 20 at 95 %: lower limit 0.025^(1/20)."""
    point = tpr_at_fpr(roc(Scores(np.ones(20), np.zeros(20))), 0.0)
    assert point.tpr == 1.0
    assert point.tpr_low == pytest.approx(0.025 ** (1 / 20))
    assert point.tpr_high == 1.0
