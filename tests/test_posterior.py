"""Posterior algebra and the law of pairs: against scikit-learn, against brute force, and at the edges."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from support import mechanisms, random_data, release

from gpleak.mechanisms import (
    Centred,
    Dataset,
    Domain,
    ExactPosterior,
    InputError,
    Noised,
    NumericalError,
    RecordError,
    condition,
    exact_epsilon,
    exponential,
    matern32,
    matern52,
    rbf,
)
from gpleak.mechanisms.cholesky import factorise


@pytest.mark.parametrize("kernel", [exponential(0.3), matern32(0.3), matern52(0.3), rbf(0.3)])
@pytest.mark.parametrize("d", [1, 3])
def test_posterior_agrees_with_scikit_learn(kernel, d):
    rng = np.random.default_rng(1)
    data, points = random_data(rng, 30, d), rng.random((7, d))
    ours = condition(data, kernel=kernel, ridge=0.5)
    model = GaussianProcessRegressor(kernel.evaluator, alpha=0.25, optimizer=None)
    mean, covariance = model.fit(data.covariates, data.responses).predict(points, return_cov=True)
    assert ours.mean(points) == pytest.approx(mean, rel=1e-10, abs=1e-12)
    assert ours.covariance(points, points) == pytest.approx(covariance, abs=1e-12)


def test_case_10_same_location_records_are_both_kept():
    """CASES 10a: mean 0, variance r2 / (2 + r2); without the -1 record mean .990099, variance .00990099."""
    both = Dataset([[0.3], [0.3]], [1.0, -1.0])
    at = np.array([[0.3]])
    posterior = condition(both, kernel=rbf(0.2), ridge=0.1)
    assert posterior.mean(at) == pytest.approx(0.0, abs=1e-12)
    assert posterior.covariance(at, at) == pytest.approx(0.00497512, abs=5e-9)
    single = condition(both.without(1), kernel=rbf(0.2), ridge=0.1)
    assert single.mean(at) == pytest.approx(0.990099, abs=5e-7)
    assert single.covariance(at, at) == pytest.approx(0.00990099, abs=5e-9)


def test_case_10_the_latent_function_is_released():
    """CASES 10b: latent variance .20, not the predictive .45; mean .64."""
    at = np.array([[0.3]])
    posterior = condition(Dataset(at, [0.8]), kernel=rbf(0.2), ridge=0.5)
    assert posterior.mean(at) == pytest.approx(0.64)
    assert posterior.covariance(at, at) == pytest.approx(0.20)


def test_case_14_one_record_and_its_opposite():
    """CASES 14: shift 1.6, variance .2, so mu = 3.577709; exact epsilon 21.00297 at L = 1, 44.86969 at L = 3."""
    here = [[0.3]]
    for paths, expected in ((1, 21.00297), (3, 44.86969)):
        mechanism = ExactPosterior(release(1, ridge=0.5, scale=1.0, kernel=rbf(0.2), paths=paths))
        law = mechanism.leave_one_out(Dataset(here, [1.0]), Dataset(here, [-1.0]))
        assert exact_epsilon(law, 1e-5, paths=paths) == pytest.approx(expected, abs=6e-6)


def points_and_replacements(rng, data, where):
    replacements = Dataset(np.concatenate([rng.random((4, data.dimension)), data.covariates[:1]]), [1, -1, 1, 1, -1])
    everywhere = np.unique(np.concatenate([data.covariates, replacements.covariates]), axis=0)
    points = {"everywhere": None, "seven": rng.random((7, data.dimension)), "all": everywhere}[where]
    return replacements, points


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("where", ["everywhere", "seven", "all"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_leave_one_out_agrees_with_conditioning_on_each_core(d, where, index):
    """One factor for all pairs against one Cholesky a pair; the data hold a duplicate location."""
    rng = np.random.default_rng(2)
    data = random_data(rng, 40, d)
    data = Dataset(np.concatenate([data.covariates[:-1], data.covariates[:1]]), data.responses)
    replacements, points = points_and_replacements(rng, data, where)
    mechanism = mechanisms(40, d, points=points)[index]
    laws = mechanism.leave_one_out(data, replacements)
    assert laws.shape == (40, 5)
    for row in (0, 3, 39):
        for column in (0, 2, 4):
            one = mechanism.contrast(data, row, replacements.record(column)).law
            assert exact_epsilon(one, 1e-3) == pytest.approx(float(exact_epsilon(laws[row, column], 1e-3)), rel=1e-9)
            for ours, theirs in zip(one._fields(), laws[row, column]._fields(), strict=True):
                assert ours == pytest.approx(float(theirs), abs=1e-11)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_everywhere_means_all_core_locations_and_both_ends(index):
    """THEORY section 6: more points add nothing. The closed form against the Gram matrix of those points."""
    rng = np.random.default_rng(3)
    data = random_data(rng, 25, 2)
    replacements, points = points_and_replacements(rng, data, "all")
    closed = mechanisms(25, 2)[index].leave_one_out(data, replacements)
    gram = mechanisms(25, 2, points=points)[index].leave_one_out(data, replacements)
    assert exact_epsilon(closed, 1e-3) == pytest.approx(exact_epsilon(gram, 1e-3), rel=1e-8)


def test_noised_paths_leak_more_than_their_two_values():
    """{x, x'} is not sufficient once prior noise is added; for exact sampling it is."""
    rng = np.random.default_rng(4)
    data = random_data(rng, 25, 1)
    replacement = Dataset([[0.1]], [1.0])
    ends = np.concatenate([data.covariates[:1], replacement.covariates])
    leak = {}
    for where, points in (("everywhere", None), ("ends", ends)):
        exact, noised, _ = mechanisms(25, points=points, ridge=0.2)
        leak["exact", where] = float(exact_epsilon(exact.leave_one_out(data, replacement)[0, 0], 1e-3))
        leak["noised", where] = float(exact_epsilon(noised.leave_one_out(data, replacement)[0, 0], 1e-3))
    assert leak["exact", "ends"] == pytest.approx(leak["exact", "everywhere"], rel=1e-9)
    assert leak["noised", "ends"] < 0.8 * leak["noised", "everywhere"]


def test_whole_path_densities_give_the_same_ratio():
    """The contrast's score against the full Gaussian densities of a path at 30 points, for every mechanism."""
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(5)
    data = random_data(rng, 12, 1)
    other = Dataset([[0.9]], [-1.0]).record(0)
    for where in ("everywhere", "listed"):
        points = None if where == "everywhere" else rng.random((6, 1))
        for mechanism in mechanisms(12, points=points):
            contrast = mechanism.contrast(data, 4, other)
            laws = []
            for member in (data, data.replaced(4, other)):
                sampler = mechanism.sampler(member, contrast.points)
                lower = sampler.factor.lower[sampler.of]
                covariance = lower @ lower.T
                laws.append(multivariate_normal(sampler.mean[sampler.of], covariance, allow_singular=True))
            path = mechanism.sampler(data, contrast.points).draw(20, paths=1, rng=rng)[:, 0]
            s = path @ contrast.weights - contrast.centre
            ours = contrast.law.log_likelihood_ratio(s[:, 0], s[:, 1])
            assert ours == pytest.approx(laws[0].logpdf(path) - laws[1].logpdf(path), rel=1e-6, abs=1e-7), mechanism


def test_prior_noise_small_and_large():
    """Continuous at 0, and with noise a thousand times the scale the digits that remain are enough."""
    rng = np.random.default_rng(6)
    data, replacements = random_data(rng, 30, 1), Dataset([[0.2], [0.9]], [1.0, -1.0])

    def leak(noise):
        return exact_epsilon(Noised(release(30, prior_noise=noise)).leave_one_out(data, replacements), 1e-3)

    exact = exact_epsilon(ExactPosterior(release(30)).leave_one_out(data, replacements), 1e-3)
    assert leak(0.0) == pytest.approx(exact, rel=1e-13)
    assert leak(1e-6) == pytest.approx(exact, rel=1e-5)
    assert np.all(np.diff(np.stack([leak(noise) for noise in (0.0, 0.1, 0.5, 2.0)]), axis=0) <= 1e-12)
    # All covariance of the path is eta^2 k here, so the leak scales like 1 / eta: m^2 <w, w> in the limit.
    far = Noised(release(30, prior_noise=800.0)).leave_one_out(data, replacements)
    nearer = Noised(release(30, prior_noise=80.0)).leave_one_out(data, replacements)
    assert 100.0 * far.gram == pytest.approx(nearer.gram, rel=1e-4)


@pytest.mark.parametrize("ridge", [1e-2, 1e-4, 1e-6])
def test_tiny_ridge_keeps_the_digits(ridge):
    """Isolated records: epsilon r^2 tends to a constant, 7.1293 here (r = 1e-4 and 1e-5 agree to 5 digits)."""
    data = Dataset([[0.0], [0.5], [1.0]], [1.0, -1.0, 1.0])
    mechanism = ExactPosterior(release(3, ridge=ridge, scale=1.0, kernel=exponential(0.3)))
    law = mechanism.leave_one_out(data, Dataset([[0.25], [0.75]], [1.0, -1.0]))
    reference = ExactPosterior(release(3, ridge=1e-3, scale=1.0, kernel=exponential(0.3)))
    expected = exact_epsilon(reference.leave_one_out(data, Dataset([[0.25], [0.75]], [1.0, -1.0])), 1e-3) * 1e-6
    assert exact_epsilon(law, 1e-3) * ridge**2 == pytest.approx(expected, rel=30 * max(ridge, 1e-3))


def test_noised_values_without_digits_are_refused():
    """Dense records, tiny ridge, noise a thousand times the scale: the difference of two posteriors is rounding."""
    x = np.repeat(np.linspace(0, 1, 4), 5)[:, None]
    data, other = Dataset(x, np.tile([1.0, -1.0], 10)), Dataset([[0.0]], [1.0])
    mechanism = Noised(release(20, kernel=matern52(3.0), ridge=1e-3, scale=0.1, prior_noise=100.0))
    with pytest.raises(NumericalError, match="has lost its digits"):
        mechanism.leave_one_out(data, other)


def test_one_record_is_legal_and_its_core_is_empty():
    data, other = Dataset([[0.3]], [0.8]), Dataset([[0.7]], [-1.0])
    for mechanism in mechanisms(1):
        law = mechanism.leave_one_out(data, other)
        single = mechanism.contrast(data, 0, other.record(0))
        assert exact_epsilon(law, 1e-3)[0, 0] == pytest.approx(float(exact_epsilon(single.law, 1e-3)), rel=1e-10)


def test_replacing_a_record_by_itself_leaks_nothing():
    rng = np.random.default_rng(7)
    data = random_data(rng, 20, 2)
    for mechanism in mechanisms(20, 2):
        law = mechanism.leave_one_out(data, Dataset(data.covariates[:1], data.responses[:1]))
        assert exact_epsilon(law, 1e-3)[0, 0] < 1e-6


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, lambda a: pd.DataFrame(a), lambda a: a.astype(int)])
def test_any_array_of_numbers_is_copied_to_float64(make):
    raw = np.arange(12.0).reshape(6, 2)
    data = Dataset(make(raw), pd.Series([0, 1, 0, 1, 0, 1]))
    assert data.covariates.dtype == np.float64
    assert data.covariates.flags.c_contiguous
    assert not data.covariates.flags.writeable
    raw[0, 0] = 99.0
    assert data.covariates[0, 0] == 0.0


def test_bad_arrays_are_refused():
    with pytest.raises(InputError, match="row 1"):
        Dataset([[0.0], [np.nan]], [0.0, 0.0])
    with pytest.raises(InputError, match="2 rows but there are 3 responses"):
        Dataset([[0.0], [1.0]], [0.0, 0.0, 0.0])
    with pytest.raises(InputError, match="numbers"):
        Dataset([["a"]], [0.0])
    with pytest.raises(InputError, match="2 dimension"):
        Dataset([0.0, 1.0], [0.0, 0.0])
    with pytest.raises(InputError, match="first number must not be larger"):
        Domain([[1.0, 0.0]])


def test_records_outside_the_rules_are_named():
    stated = release(3)
    with pytest.raises(RecordError, match="record 1 lies outside the public domain") as caught:
        stated.check(Dataset([[0.5], [1.5], [0.2]], [0.0, 0.0, 0.0]))
    assert caught.value.rows == [1]
    with pytest.raises(RecordError, match="record 0, 2 has a response above response_bound = 1"):
        stated.check(Dataset([[0.5], [1.0], [0.2]], [1.01, 0.0, -3.0]))
    with pytest.raises(InputError, match="2 records but records = 3"):
        stated.check(Dataset([[0.5], [1.0]], [0.0, 0.0]))


@pytest.mark.parametrize(
    "change",
    [
        {"ridge": 1e-7},
        {"ridge": 1e200},
        {"scale": 1e-200},
        {"response_bound": 1e200},
        {"ridge": 0.0},
        {"ridge": -1.0},
        {"scale": 0.0},
        {"scale": float("nan")},
        {"prior_noise": -0.1},
        {"paths": 0},
        {"records": 0},
        {"points": np.zeros((0, 1))},
        {"points": np.zeros((2, 2))},
    ],
)
def test_release_parameters_out_of_range_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        release(5, **change)


@pytest.mark.parametrize("mechanism", [ExactPosterior, Centred])
def test_prior_noise_that_nobody_adds_is_refused(mechanism):
    with pytest.raises(InputError, match="adds no prior noise"):
        mechanism(release(5, prior_noise=0.1))


def test_jitter_is_tried_at_zero_first_and_recorded():
    assert factorise(np.eye(3)).jitter == 0.0
    singular = np.ones((3, 3))
    factor = factorise(singular)
    assert 0.0 < factor.jitter <= 1e-8
    assert factor.lower @ factor.lower.T == pytest.approx(singular + factor.jitter * np.eye(3), abs=1e-12)
    with pytest.raises(NumericalError, match="not positive definite"):
        factorise(np.array([[1.0, 2.0], [2.0, 1.0]]))
