"""Draws: exact law, reproducibility, prefix property. One conformance suite for every mechanism."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chi2
from support import mechanisms, random_data, release

from gpleak.mechanisms import Dataset, ExactPosterior, Mechanism, Predictive, Sampler, condition

NAMES = ["posterior", "noised", "centred", "predictive"]
FALSE_FAILURE = 1e-6


def subject(index, **changes):
    data = random_data(np.random.default_rng(10), 15, 1)
    points = np.array([[0.1], [0.5], [0.55], [1.4]])
    every = [*mechanisms(15, **changes), Predictive(release(15, points=points, **changes))]
    return every[index], data, points


def stated_law(mechanism, data, points):
    """Mean and covariance of a path from the definition (THEORY section 2), by solves with the full matrix."""
    stated = mechanism.release
    k = stated.kernel
    inner = np.linalg.inv(k(data.covariates, data.covariates) + stated.ridge**2 * np.eye(len(data)))
    reach = k(points, data.covariates)
    covariance = k(points, points) - reach @ inner @ reach.T
    if mechanism.name == "centred":
        return np.zeros(len(points)), covariance
    noise = stated.prior_noise**2 * k(points, points)
    if mechanism.name == "predictive":
        noise = (stated.ridge * stated.scale) ** 2 * np.eye(len(points))
    return reach @ inner @ data.responses, stated.scale**2 * covariance + noise


def law_p_value(paths, mean, covariance):
    """Smallest p-value over exact chi-square tests of means, variances and all pairwise covariances.

    Under the null the whitened vectors are standard normal, so ``sum (z_i +- z_j)^2 / 2`` is chi-square: every
    test is exact. Paths of one release are whitened side by side, so their independence is tested too.
    """
    releases, count, size = paths.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), (paths - mean).reshape(-1, size).T).T
    white = white.reshape(releases, count * size)
    dims = count * size
    values = [chi2.sf(releases * np.sum(white.mean(axis=0) ** 2), dims)]
    for i in range(dims):
        for j in range(i):
            for sign in (1.0, -1.0):
                total = np.sum((white[:, i] + sign * white[:, j]) ** 2) / 2
                values += [2 * min(chi2.cdf(total, releases), chi2.sf(total, releases))]
    return min(values) * len(values)  # Bonferroni


@pytest.mark.parametrize("index", [0, 1, 2, 3], ids=NAMES)
def test_draws_follow_the_stated_law(index):
    """False-failure rate 1e-6 (Bonferroni over exact tests)."""
    mechanism, data, points = subject(index)
    paths = mechanism.sampler(data, points).draw(20_000, paths=2, rng=np.random.default_rng(11))
    assert law_p_value(paths, *stated_law(mechanism, data, points)) > FALSE_FAILURE


@pytest.mark.parametrize("index", [0, 1, 2, 3], ids=NAMES)
@pytest.mark.parametrize("fault", ["scale 5 % too large", "mean 0.1 sd off", "same noise in both paths"])
def test_the_law_test_has_power(index, fault):
    """Positive control. A 5 % scale error moves each sum of squares by 10 sd, the mean by 14, the last by 100."""
    mechanism, data, points = subject(index)
    mean, covariance = stated_law(mechanism, data, points)
    paths = mechanism.sampler(data, points).draw(20_000, paths=2, rng=np.random.default_rng(11))
    if fault.startswith("scale"):
        paths = mean + 1.05 * (paths - mean)
    elif fault.startswith("mean"):
        paths = paths + 0.1 * np.sqrt(np.diag(covariance))
    else:
        paths = paths[:, [0, 0]]
    assert law_p_value(paths, mean, covariance) < FALSE_FAILURE


@pytest.mark.parametrize("index", [0, 1, 2, 3], ids=NAMES)
def test_conformance(index):
    """What every mechanism promises."""
    mechanism, data, points = subject(index)
    sampler = mechanism.sampler(data, points)
    assert isinstance(mechanism, Mechanism)
    assert isinstance(sampler, Sampler)
    assert mechanism.name == NAMES[index]
    assert sampler.jitter == 0.0

    def draw(seed, releases=4):
        return mechanism.sampler(data, points).draw(releases, paths=3, rng=np.random.default_rng(seed))

    whole = draw(1)
    assert whole.shape == (4, 3, 4)
    assert np.array_equal(whole, draw(1))  # reproducible
    assert np.allclose(whole[:2], draw(1, releases=2), rtol=1e-12, atol=1e-12)  # prefix
    rng = np.random.default_rng(1)
    parts = [sampler.draw(1, paths=3, rng=rng) for _ in range(4)]
    assert np.allclose(np.concatenate(parts), whole, rtol=1e-12, atol=1e-12)
    assert not np.any(whole == draw(2))  # two seeds differ
    assert len(np.unique(whole[:, :, 0])) == 12  # no release or path repeats another


def test_repeated_points_are_copied_without_jitter():
    mechanism, data, points = subject(0)
    sampler = mechanism.sampler(data, np.concatenate([points, points[:2]]))
    paths = sampler.draw(5, paths=1, rng=np.random.default_rng(3))
    assert sampler.jitter == 0.0
    assert np.array_equal(paths[..., 4:], paths[..., :2])


def test_points_far_outside_the_data_follow_the_prior():
    mechanism, data, _ = subject(0)
    sampler = mechanism.sampler(data, np.array([[1e6]]))
    assert sampler.mean == pytest.approx(0.0, abs=1e-300)
    assert float(sampler.factor.lower[0, 0]) == pytest.approx(mechanism.release.scale)


def test_coordinates_in_the_millions_change_nothing():
    """A shift of all coordinates leaves a stationary posterior as it is."""
    data = random_data(np.random.default_rng(4), 20, 2)
    moved = Dataset(data.covariates + 5e6, data.responses)
    at = np.array([[0.3, 0.4]])
    kernel = release(20).kernel
    near = condition(data, kernel=kernel, ridge=0.5)
    far = condition(moved, kernel=kernel, ridge=0.5)
    assert far.mean(at + 5e6) == pytest.approx(near.mean(at), rel=1e-7)


def test_scale_multiplies_the_spread_only():
    data, points = random_data(np.random.default_rng(10), 15, 1), np.array([[0.2], [0.8]])
    one = ExactPosterior(release(15, scale=1.0))
    three = dataclasses.replace(one, release=release(15, scale=3.0))
    first, second = one.sampler(data, points), three.sampler(data, points)
    assert second.mean == pytest.approx(first.mean)
    assert second.factor.lower == pytest.approx(3.0 * first.factor.lower)


def test_every_mechanism_of_the_configuration_has_a_suite():
    """The conformance tests above and those of tests/test_transcripts.py cover every name; a new one must join."""
    from gpleak.audit.build import MECHANISMS

    assert set(MECHANISMS) == {*NAMES, "thompson", "gaussian"}
