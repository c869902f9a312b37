"""Predictive draws and noise by row: laws against dense densities, certificates, attacks, worst pairs."""

from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from support import audit_plan, random_data, release

from gpleak.audit import ComputeConfig, Subject, Verdict, certificates, certify, run_audit, worst_pair
from gpleak.audit.fidelity import fidelity
from gpleak.mechanisms import (
    Bounded,
    Dataset,
    ExactPosterior,
    InputError,
    PairLaw,
    PerRowNoise,
    Predictive,
    Record,
    exact_epsilon,
    matern32,
)

POINTS = np.array([[0.1, 0.2], [0.5, 0.5], [0.9, 0.1], [0.5, 0.5], [0.3, 0.8]])  # one place twice
DATA = random_data(np.random.default_rng(7), 9, 2)
NUMBERS = [field.name for field in fields(PairLaw) if field.name != "jitter"]
RIDGES = np.random.default_rng(8).uniform(0.3, 1.5, 9)
SERIAL = ComputeConfig(workers="serial")


def predictive(n=9, **changes):
    return Predictive(release(n, 2, **{"points": POINTS, **changes}))


def by_row(**changes):
    return PerRowNoise(release(9, 2, **changes), RIDGES)


def dense(mechanism, data, points, ridges):
    """Mean and covariance written out, with an inverse matrix and no shared code."""
    kernel, scale = mechanism.release.kernel, mechanism.release.scale
    inverse = np.linalg.inv(kernel(data.covariates, data.covariates) + np.diag(ridges**2))
    reach = kernel(data.covariates, points)
    covariance = scale**2 * (kernel(points, points) - reach.T @ inverse @ reach)
    return reach.T @ inverse @ data.responses, covariance


def expected(mechanism, data, points):
    if isinstance(mechanism, PerRowNoise):
        return dense(mechanism, data, points, RIDGES)
    mean, covariance = dense(mechanism, data, points, np.full(len(data), mechanism.release.ridge))
    return mean, covariance + (mechanism.release.ridge * mechanism.release.scale) ** 2 * np.eye(len(points))


DISTINCT = POINTS[[0, 1, 2, 4]]
BOTH = [predictive(), by_row(points=DISTINCT)]


@pytest.mark.parametrize("mechanism", BOTH, ids=lambda mechanism: mechanism.name)
def test_the_law_is_the_dense_one(mechanism):
    points = mechanism.release.points
    law = mechanism.path_law(DATA, points)
    mean, covariance = expected(mechanism, DATA, points)
    assert np.allclose(law.mean[0], mean, rtol=0, atol=1e-12)
    assert np.allclose(law.covariance[0], covariance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mechanism", BOTH, ids=lambda mechanism: mechanism.name)
def test_the_score_is_the_log_ratio_of_the_dense_densities(mechanism):
    points, replacement = mechanism.release.points, Record([0.2, 0.7], -0.5)
    for row in range(len(DATA)):
        contrast = mechanism.contrast(DATA, row, replacement)
        paths = mechanism.sampler(DATA, contrast.points).draw(5, paths=1, rng=np.random.default_rng(row))[:, 0]
        statistics = paths @ contrast.weights - contrast.centre
        found = contrast.law.log_likelihood_ratio(statistics[:, 0], statistics[:, 1])
        own, other = (
            multivariate_normal(*expected(mechanism, data, points)).logpdf(paths) for data in (DATA, contrast.neighbour)
        )
        assert np.allclose(found, own - other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mechanism", [*BOTH, by_row()], ids=["predictive", "by row", "by row, everywhere"])
def test_leave_one_out_is_the_pair_of_each_record(mechanism):
    replacements = Dataset([[0.2, 0.7], [0.9, 0.9], [0.5, 0.5]], [-0.5, 1.0, 0.3])
    laws = mechanism.leave_one_out(DATA, replacements)
    for row in range(len(DATA)):
        for index in range(3):
            alone = mechanism.contrast(DATA, row, replacements.record(index)).law
            for name in NUMBERS:
                assert getattr(laws[row, index], name) == pytest.approx(float(getattr(alone, name)), abs=1e-10), name


def test_two_values_at_one_place_differ():
    drawn = predictive().sampler(DATA, POINTS).draw(50, paths=2, rng=np.random.default_rng(0))
    assert np.abs(drawn[..., 1] - drawn[..., 3]).min() > 0


def test_draws_follow_the_law_and_others_do_not():
    """By chance the first fails at 1e-6 a time; the second differs by the noise, which 20,000 paths cannot hide."""
    data, points = (DATA, DATA.replaced(3, Record([0.2, 0.7], -0.5))), POINTS
    right = fidelity(predictive(), data, points, paths=20_000, significance=1e-6, seed=3)
    assert right.passed
    mechanism = by_row(points=DISTINCT)
    assert fidelity(mechanism, data, DISTINCT, paths=20_000, significance=1e-6, seed=3).passed

    class Latent(Predictive):
        def sampler(self, data, points):
            return ExactPosterior(self.release).sampler(data, points)

    class OneRidge(PerRowNoise):
        def sampler(self, data, points):
            return ExactPosterior(self.release).sampler(data, points)

    wrong = fidelity(Latent(predictive().release), data, points, paths=20_000, significance=1e-6, seed=3)
    assert wrong.p_value < 1e-30
    wrong = fidelity(OneRidge(mechanism.release, RIDGES), data, DISTINCT, paths=20_000, significance=1e-6, seed=3)
    assert wrong.p_value < 1e-30


def test_certificates_are_those_of_the_paths_without_noise():
    """Post-processing: the noise is added to what is certified."""
    points = predictive(kernel=matern32(0.4), ridge=2.0)
    own, exact = (certificates(kind(points.release), Bounded(), 1e-3) for kind in (Predictive, ExactPosterior))
    assert [one.epsilon for one in own] == [one.epsilon for one in exact]
    everywhere = ExactPosterior(release(9, 2, kernel=matern32(0.4), ridge=2.0))
    assert certify(everywhere, Bounded(), 1e-3).epsilon == certify(points, Bounded(), 1e-3).epsilon


def test_the_worst_pair_is_what_it_says_and_less_than_without_noise():
    delta, points = 1e-3, DISTINCT
    mechanism = predictive(points=points)
    found = worst_pair(mechanism, Bounded(), delta)
    law = mechanism.contrast(found.datasets[0], found.row, found.replacement).law
    both = max(float(exact_epsilon(one, delta, paths=1)) for one in (law, law.swapped()))
    assert found.epsilon == pytest.approx(both, rel=1e-6)
    exposed = run_audit(Subject(DATA, mechanism, Bounded()), audit_plan(trials=100, fidelity=0), compute=SERIAL)
    exact = worst_pair(ExactPosterior(mechanism.release), Bounded(), delta).epsilon
    assert exposed.worst_epsilon < found.epsilon < 0.9 * exact
    assert found.epsilon < certify(mechanism, Bounded(), delta).epsilon


@pytest.mark.parametrize("paths", [1, 3])
def test_predictive_draws_are_attacked_by_everyone(paths):
    """20 attacks at most: by chance one of their bounds is above the certificate with probability 0.05."""
    data = random_data(np.random.default_rng(2), 30, 2)
    mechanism = predictive(30, paths=paths, ridge=0.5)
    plan = audit_plan(
        adversaries=["core", "population", "lira", "path"], shadows=150, trials=300, targets=2, fidelity=200
    )
    result = run_audit(Subject(data, mechanism, Bounded()), plan, compute=SERIAL)
    assert result.verdict is not Verdict.VIOLATED
    assert len(result.attacks) == 8
    assert max(attack.auc for attack in result.attacks) > 0.6


def test_what_they_refuse():
    with pytest.raises(InputError, match=r"list release\.points"):
        Predictive(release(9, 2))
    with pytest.raises(InputError, match="set prior_noise to 0"):
        Predictive(release(9, 2, points=POINTS, prior_noise=0.1))
    with pytest.raises(InputError, match="3 noise levels but 9 records"):
        PerRowNoise(release(9, 2), RIDGES[:3])
    with pytest.raises(InputError, match="must be positive"):
        PerRowNoise(release(9, 2), 0.0 * RIDGES)
    assert np.isinf(certify(by_row(), Bounded(), 1e-3).epsilon)
