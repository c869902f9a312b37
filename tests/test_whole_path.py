"""Whole released paths: trees trained on shadows, cross-fitted."""

import functools
import math
import pickle
import re
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from gpleak.attacks.attack import Attack, Releases, Shadows
from gpleak.attacks.whole_path import WholePath
from gpleak.mechanisms import InputError, Moments, Record

ATTACK = WholePath()
POINTS, TARGET = np.array([0.3, 0.4, 0.5, 0.6, 0.7]), 2
RIDGE, SCALE = 0.1, 0.5  # five points take the optimal attack from AUC 0.928 to 0.950 here (THEORY section 8)
SIGMAS = 5.0  # two-sided 5.7e-7


@dataclass(frozen=True)
class Sample:
    """Releases of the stress test, and the laws that they were drawn from."""

    paths: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray


def kernel(a, b):
    return np.exp(-np.abs(a[..., :, None] - b[..., None, :]))


def jump(rng, count, *, member, paths=1, points=POINTS):
    """`count` releases of the stress test by its definition: kernel exp(-|x - x'|), n = 10, a jump at 1/2."""
    x = 0.5 * rng.random((count, 10)) + np.repeat([0.0, 0.5], 5)
    if member:
        x[:, 9] = 0.5
    y = np.broadcast_to(np.repeat([-1.0, 1.0], 5), x.shape)
    cross = kernel(points, x)
    columns = np.concatenate([np.swapaxes(cross, 1, 2), y[..., None]], axis=-1)
    solved = np.linalg.solve(kernel(x, x) + RIDGE**2 * np.eye(10), columns)
    mean = (cross @ solved[..., -1:])[..., 0]
    covariance = SCALE**2 * (kernel(points, points) - cross @ solved[..., :-1])
    noise = rng.standard_normal((count, paths, len(points)))
    return Sample(mean[:, None] + noise @ np.swapaxes(np.linalg.cholesky(covariance), 1, 2), mean, covariance)


def shadows_of(paths):
    """Paths ``(2, S, L, p)`` as an attack is given them."""
    law = Moments(np.zeros(paths.shape[:2]), np.ones(paths.shape[:2]))
    return Shadows(target=Record([0.5], 1.0), law=law, releases=Releases(paths, TARGET))


def fitted(member, nonmember):
    """The attack trained on paths."""
    return ATTACK.fit(*(ATTACK.features(Releases(paths, TARGET)) for paths in (member, nonmember)))


def scored(fit, paths):
    return fit.score(ATTACK.features(Releases(paths, TARGET)))


def area(member, nonmember):
    return roc_auc_score(np.repeat([1, 0], [len(member), len(nonmember)]), np.concatenate([member, nonmember]))


def area_error(m, n):
    """Standard error of the AUC where both sides have one law."""
    return math.sqrt((m + n + 1) / (12 * m * n))


def stated_area(fit):
    return float(re.search(r"AUC of shadows left out of training: ([\d.]+)", " ".join(fit.notes)).group(1))


@functools.cache
def shadows():
    rng = np.random.default_rng(20)
    return tuple(jump(rng, 2000, member=member) for member in (True, False))


@functools.cache
def trials():
    rng = np.random.default_rng(21)
    return tuple(jump(rng, 4000, member=member).paths for member in (True, False))


@functools.cache
def trained():
    return fitted(*(side.paths for side in shadows()))


# Strength


def optimal_for_the_value(paths):
    """Log ratio of the average densities of the one value at the target over all shadows (THEORY section 8)."""
    sides = []
    for side in shadows():
        mean, variance = side.mean[:, TARGET], side.covariance[:, TARGET, TARGET]
        exponents = -0.5 * np.square(paths[:, 0, TARGET, None] - mean) / variance - 0.5 * np.log(variance)
        sides.append(logsumexp(exponents, axis=1))
    return sides[0] - sides[1]


def test_it_beats_the_best_attack_on_the_value_at_the_target():
    """The gain in AUC is 0.0225 on average of 24 seeds and spreads by 0.0016; 0.01 is below by 7 of that (1e-12).

    THEORY section 8 has 0.928 for the value and 0.950 for the path; the value's AUC is 0.925 here, and spreads by
    0.0036: 0.90 is below by 6 of that (1e-9).
    """
    path, value = (
        area(*(score(side) for side in trials()))
        for score in (functools.partial(scored, trained()), optimal_for_the_value)
    )
    assert path > value + 0.01
    assert value > 0.90


def test_the_variance_of_many_paths_is_used():
    """Of 10 paths; the gain in AUC over 24 seeds is 0.016 and spreads by 0.0026: 0.002 is below by 5 of that (3e-7)."""
    rng = np.random.default_rng(22)
    sides = [jump(rng, count, member=member, paths=10).paths for count in (1000, 2000) for member in (True, False)]
    fit, blind = fitted(*sides[:2]), fitted(*(side.mean(axis=1, keepdims=True) for side in sides[:2]))
    with_variance = area(*(scored(fit, side) for side in sides[2:]))
    without = area(*(scored(blind, side.mean(axis=1, keepdims=True)) for side in sides[2:]))
    assert with_variance > without + 0.002


def test_the_stated_area_is_that_of_trials():
    """Within 5 standard errors of two independent areas, of which the one without signal bounds each."""
    trial_area = area(*(scored(trained(), side) for side in trials()))
    assert abs(stated_area(trained()) - trial_area) < SIGMAS * math.hypot(
        area_error(2000, 2000), area_error(4000, 4000)
    )
    assert trained().notes[0] == "boosted trees, 5-fold cross-fitted"


@pytest.mark.parametrize("paths", [1, 10])
def test_without_signal_there_is_none(paths):
    """False-failure rate 5.7e-7 each: given the trained trees, trials of both sides have one law."""
    rng = np.random.default_rng(23)
    sides = [jump(rng, count, member=False, paths=paths).paths for count in (1000, 1000, 4000, 4000)]
    fit = fitted(*sides[:2])
    assert abs(area(*(scored(fit, side) for side in sides[2:])) - 0.5) < SIGMAS * area_error(4000, 4000)
    assert abs(stated_area(fit) - 0.5) < SIGMAS * area_error(1000, 1000)


def test_the_stated_area_is_of_shadows_that_were_left_out():
    """Pure noise in 80 features is learnt by heart; false-failure rate 5.7e-7 of the stated area.

    The seed is one of those with a stated area below 1/2: the score is not turned around for it.
    """
    member, nonmember = np.random.default_rng(26).normal(size=(2, 200, 80))
    fit = ATTACK.fit(member, nonmember)
    assert area(fit.score(member), fit.score(nonmember)) > 0.9
    assert 0.5 - SIGMAS * area_error(200, 200) < stated_area(fit) < 0.5


def test_swapped_sides_turn_the_ranking_around_and_nothing_turns_it_back():
    """The sides also change which rows are left out, so the ranks agree only nearly.

    Their correlation over 24 seeds is -0.9955 and spreads by 0.0015.
    """
    swapped = fitted(*(side.paths for side in reversed(shadows())))
    pooled = np.concatenate(trials())
    assert spearmanr(scored(swapped, pooled), scored(trained(), pooled)).statistic < -0.97
    assert area(*(scored(swapped, side) for side in trials())) < 0.1
    assert stated_area(swapped) > 0.9  # of the sides as they were named


# Statistics


def test_statistics_are_the_mean_path_its_steps_and_log_variances():
    paths = np.random.default_rng(0).normal(size=(2, 7, 4, 3))
    mean = paths.mean(axis=2)
    steps = np.stack([mean[..., 1] - mean[..., 0], mean[..., 2] - mean[..., 1]], axis=-1)
    many = ATTACK.features(Releases(paths, 0))
    np.testing.assert_allclose(many, np.concatenate([mean, steps, np.log(paths.var(axis=2))], axis=-1), rtol=1e-14)
    assert ATTACK.features(Releases(paths[:, :, :1], 0)).shape == (2, 7, 5)
    np.testing.assert_array_equal(ATTACK.features(Releases(paths[:, :, :1, :1], 0)), paths[:, :, 0, :1])


def test_the_order_of_the_paths_does_not_matter_and_equal_values_are_finite():
    paths = np.random.default_rng(1).normal(size=(5, 4, 3))
    backwards = ATTACK.features(Releases(paths[:, ::-1], 0))
    np.testing.assert_allclose(backwards, ATTACK.features(Releases(paths, 0)), rtol=1e-13)
    for value in (0.0, 0.1, -1e7):
        assert np.isfinite(ATTACK.features(Releases(np.full((2, 7, 3), value), 0))).all()


def test_constant_statistics_change_nothing():
    """Two points at which every release has the same values, and two worlds that are constant throughout."""
    (member, nonmember), pinned = (side.paths[:500] for side in shadows()), np.full((500, 1, 2), 0.3)
    fit = fitted(*(np.concatenate([side, pinned], axis=-1) for side in (member, nonmember)))
    scores = scored(fit, np.concatenate([trials()[0][:500], pinned], axis=-1))
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 1.0
    flat = fitted(np.full((50, 3, 2), 0.3), np.full((50, 3, 2), 0.3))
    assert stated_area(flat) == 0.5
    np.testing.assert_allclose(scored(flat, np.full((4, 3, 2), 0.3)), 0.0, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-7, 1e7])
def test_the_unit_of_the_values_does_not_matter(unit):
    sides = [side.paths[:500] for side in shadows()]
    scores, other = (scored(fitted(*(u * side for side in sides)), u * trials()[0]) for u in (1.0, unit))
    np.testing.assert_allclose(other, scores, rtol=1e-9, atol=1e-9)


# As an attack


def test_it_is_an_attack_trained_chunk_by_chunk():
    assert isinstance(ATTACK, Attack)
    assert (ATTACK.name, ATTACK.sees) == ("path", "path")
    paths = np.stack([side.paths[:300] for side in shadows()])
    learner = ATTACK.learner(shadows_of(paths))
    for part in (slice(0, 100), slice(100, 300)):
        learner.add(learner.digest(shadows_of(paths[:, part])))
    assert learner.nbytes == 2 * 300 * 9 * 8
    scorer, releases = learner.scorer(), Releases(np.stack(trials()), TARGET)
    expected = np.stack([scored(fitted(*paths), side) for side in trials()])
    np.testing.assert_array_equal(scorer.score(releases), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(scorer)).score(releases), expected)


def test_it_is_deterministic_whatever_the_threads():
    """It takes one; without that limit two threads give the same, but for minutes where the cores are busy."""
    sides, scores = [side.paths[:500] for side in shadows()], []
    for threads in (1, 1, 2):
        with threadpool_limits(limits=threads):
            scores.append(scored(fitted(*sides), trials()[0]))
    np.testing.assert_array_equal(scores[1], scores[0])
    np.testing.assert_array_equal(scores[2], scores[0])


@pytest.mark.parametrize(("inside", "outside"), [(4, 10), (10, 9), (0, 0)])
def test_too_few_shadows_are_refused(inside, outside):
    have = f"{inside} shadow(s) with the record and {outside} without"
    remedy = re.escape(f"path: {have}: at least 10 each are needed: raise audit.shadows")
    with pytest.raises(InputError, match=remedy):
        ATTACK.fit(np.zeros((inside, 3)), np.zeros((outside, 3)))


def test_the_fewest_shadows_are_enough():
    member, nonmember = np.random.default_rng(3).normal(size=(2, 10, 3))
    fit = ATTACK.fit(member + 5.0, nonmember)
    assert np.isfinite(fit.score(member)).all()
    assert stated_area(fit) == 0.5  # no leaf may be so small: nothing is found, nothing is made up


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf, 1e200])
def test_what_is_not_finite_is_refused(broken):
    """1e200 has no variance in float64."""
    rng = np.random.default_rng(4)
    paths = rng.normal(size=(2, 20, 3, 5))
    whole, partial = (ATTACK.learner(shadows_of(paths)) for _ in range(2))
    whole.add(whole.digest(shadows_of(paths)))
    scorer = whole.scorer()
    paths[1, 7, 0, 4] = broken
    with pytest.raises(InputError, match="path: 1 of 20 releases have a statistic that is not finite"):
        scorer.score(Releases(paths[1], TARGET))
    partial.add(partial.digest(shadows_of(paths)))
    with pytest.raises(InputError, match="path: 1 of 40 shadow releases"):
        partial.scorer()
