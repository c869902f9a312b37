"""GP Thompson sampling and the plain Gaussian mechanism: exactly Gaussian, so every number is known."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from support import audit_plan, random_data, release
from test_cli import CORE, EXAMPLE
from test_sampler import FALSE_FAILURE, law_p_value
from typer.testing import CliRunner

from gpleak.audit import Subject, Verdict, certify_closed, closed_certificates, run_audit
from gpleak.audit.gdp import epsilon_of_mu
from gpleak.mechanisms import (
    Bounded,
    Dataset,
    GaussianQuery,
    InputError,
    Mechanism,
    Thompson,
    condition,
    exact_epsilon,
    rbf,
)
from gpleak.reports.cli import app

SCHEDULE = (0.5, 0.7, 1.0, 1.4, 0.9)


def thompson(n=6, **changes):
    return Thompson(release(n, schedule=SCHEDULE if n == 6 else None, **changes))


def test_transcripts_follow_the_posterior_of_each_round():
    """Five rounds at three points, every mean and covariance from scratch; false-failure rate 1e-6."""
    mechanism, data = thompson(), random_data(np.random.default_rng(1), 6, 1)
    points = np.array([[0.1], [0.5], [0.9]])
    means, covariance = [], np.zeros((15, 15))
    for t, scale in enumerate(SCHEDULE, start=1):
        first = Dataset(data.covariates[:t], data.responses[:t])
        posterior = condition(first, kernel=mechanism.release.kernel, ridge=mechanism.release.ridge)
        means.append(posterior.mean(points))
        block = slice(3 * (t - 1), 3 * t)
        covariance[block, block] = scale**2 * posterior.covariance(points, points)
    paths = mechanism.sampler(data, points).draw(20_000, paths=1, rng=np.random.default_rng(2))
    assert law_p_value(paths, np.concatenate(means), covariance) > FALSE_FAILURE
    assert law_p_value(1.05 * paths, np.concatenate(means), covariance) < FALSE_FAILURE


@pytest.mark.parametrize("count", [1, 4])
def test_at_listed_points_the_score_is_the_log_ratio_of_the_dense_densities(count):
    """None of the points is a record's place: what they show of a round is less than its value there."""
    points = np.linspace(0.05, 0.95, count)[:, None]
    mechanism, data = thompson(points=points), random_data(np.random.default_rng(11), 6, 1)
    replacements = Dataset(data.covariates[:2], [1.0, -0.3])
    laws, everywhere = mechanism.leave_one_out(data, replacements), thompson().leave_one_out(data, replacements)
    for row in range(6):
        contrast = mechanism.contrast(data, row, replacements.record(1))
        assert contrast.points is mechanism.release.points
        paths = mechanism.sampler(data, points).draw(4, paths=1, rng=np.random.default_rng(row))[:, 0]
        statistics = paths @ contrast.weights - contrast.centre
        found = contrast.law.log_likelihood_ratio(statistics[:, 0], statistics[:, 1])
        expected = np.zeros(4)
        for member, sign in ((data, 1.0), (contrast.neighbour, -1.0)):
            law = mechanism.path_law(member, points)
            for block in range(5):
                values = paths[:, count * block : count * (block + 1)]
                expected += sign * multivariate_normal(law.mean[block], law.covariance[block]).logpdf(values)
        assert np.allclose(found, expected, rtol=0, atol=1e-9)
        assert float(laws[row, 1].gram) == pytest.approx(float(contrast.law.gram), rel=1e-10)
        if row < 5:  # the last record is seen by no round
            assert 0 < float(laws[row, 1].gram) < 0.999 * float(everywhere[row, 1].gram)


def test_points_among_which_all_places_are_show_all():
    data = random_data(np.random.default_rng(12), 6, 1)
    points = np.concatenate([data.covariates, [[0.5]]])
    replacements = Dataset(data.covariates[:1], [1.0])
    some, all_of_it = (one.leave_one_out(data, replacements) for one in (thompson(points=points), thompson()))
    assert np.allclose(some.gram, all_of_it.gram, rtol=1e-10)
    mechanism = thompson(points=points, ridge=2.0)
    result = run_audit(Subject(data, mechanism, Bounded()), audit_plan(trials=300, fidelity=300, targets=1))
    assert result.fidelity.passed  # by chance not, with probability 0.01; with this seed it is
    assert 0 < result.worst_epsilon < result.certificate.epsilon


def test_queries_follow_their_law():
    """False-failure rate 1e-6; a 5 % larger scale is 10 standard deviations off."""
    data = Dataset([[0.1], [0.2], [0.3]], [1.0, 0.5, -0.25])
    draws = GaussianQuery(release(3, scale=0.7)).sampler(data, np.zeros((1, 1)))
    values = draws.draw(20_000, paths=2, rng=np.random.default_rng(9))
    law = (np.full(1, 1.25), np.full((1, 1), 0.49))
    assert law_p_value(values, *law) > FALSE_FAILURE
    assert law_p_value(1.25 + 1.05 * (values - 1.25), *law) < FALSE_FAILURE


@pytest.mark.parametrize("mechanism", [thompson(), GaussianQuery(release(6))], ids=["thompson", "gaussian"])
def test_conformance(mechanism):
    data, points = random_data(np.random.default_rng(3), 6, 1), np.array([[0.2], [0.8]])
    assert isinstance(mechanism, Mechanism)

    def draw(seed, releases=4):
        return mechanism.sampler(data, points).draw(releases, paths=3, rng=np.random.default_rng(seed))

    whole = draw(1)
    assert np.array_equal(whole, draw(1))
    assert np.allclose(whole[:2], draw(1, releases=2), rtol=1e-12, atol=1e-12)
    assert not np.any(whole == draw(2))
    assert len(np.unique(whole[..., 0])) == 12
    assert mechanism.sampler(data, points).jitter == 0.0


@pytest.mark.parametrize("row", [0, 2, 5])
def test_score_of_a_transcript_is_the_ratio_of_its_densities(row):
    """The whole transcript at four points, x_j among them, against the values at x_j alone: those are sufficient.

    The last record is never learnt from: its ratio is 0.
    """
    mechanism, data = thompson(), random_data(np.random.default_rng(4), 6, 1)
    contrast = mechanism.contrast(data, row, Dataset([[0.77]], [-1.0]).record(0))
    assert np.array_equal(contrast.neighbour.covariates, data.covariates)
    points = np.concatenate([data.covariates[row : row + 1], [[0.15], [0.5], [0.95]]])
    samplers = [mechanism.sampler(member, points) for member in (data, contrast.neighbour)]
    transcripts = samplers[0].draw(30, paths=1, rng=np.random.default_rng(5))[:, 0].reshape(30, 5, 4)
    direct = np.zeros(30)
    for t in range(5):
        for sampler, sign in zip(samplers, (1.0, -1.0), strict=True):
            lower = sampler.factors[t].lower
            density = multivariate_normal(sampler.means[t], lower @ lower.T)
            direct += sign * density.logpdf(transcripts[:, t])
    s = transcripts[:, :, 0] @ contrast.weights - contrast.centre
    ours = contrast.law.log_likelihood_ratio(s[:, 0], s[:, 1])
    assert ours == pytest.approx(direct, rel=1e-8, abs=1e-9)
    if row == 5:
        assert np.array_equal(ours, np.zeros(30))


def test_exact_shift_is_that_of_the_influence_matrix():
    """``mu^2 = sum_t d^2 h_j(t) / (sigma_t^2 r^2)``, h_j from explicit inverses; leave-one-out and contrast agree."""
    mechanism, data = thompson(), random_data(np.random.default_rng(6), 6, 1)
    ridge, other = mechanism.release.ridge, Dataset([[0.3]], [1.0])
    laws = mechanism.leave_one_out(data, other)
    for row in range(6):
        square = 0.0
        for t, scale in enumerate(SCHEDULE, start=1):
            if row < t:
                gram = mechanism.release.kernel(data.covariates[:t], data.covariates[:t])
                h = (gram @ np.linalg.inv(gram + ridge**2 * np.eye(t)))[row, row]
                square += (data.responses[row] - 1.0) ** 2 * h / (scale**2 * ridge**2)
        exact = float(exact_epsilon(laws[row, 0], 1e-3))
        assert exact == pytest.approx(epsilon_of_mu(math.sqrt(square), 1e-3), rel=1e-9, abs=1e-12)
        single = mechanism.contrast(data, row, other.record(0)).law
        assert float(exact_epsilon(single, 1e-3)) == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_thompson_certificate_is_converted_without_loss():
    """THEORY section 5: delta = 1e-5, rho_T = 0.5: 4.38 instead of 4.73."""
    mechanism = Thompson(release(2, ridge=1.0, scale=math.sqrt(2.0)))
    renyi, lossless = closed_certificates(mechanism, Bounded(), 1e-5)
    assert renyi.epsilon == pytest.approx(4.73, abs=0.005)
    assert lossless.epsilon == pytest.approx(4.37718, abs=6e-6)
    assert certify_closed(mechanism, Bounded(), 1e-5) == lossless
    # The bound is reached: the first record far from all others, at both ends of the range.
    data = Dataset([[0.0], [1.0]], [1.0, 0.0])
    alone = dataclasses.replace(mechanism, release=dataclasses.replace(mechanism.release, kernel=rbf(0.01)))
    exact = float(exact_epsilon(alone.leave_one_out(data, Dataset([[0.5]], [-1.0]))[0, 0], 1e-5))
    assert exact == pytest.approx(lossless.epsilon, rel=1e-7)
    assert exact <= lossless.epsilon


def test_no_pair_exceeds_the_certificate():
    """100 transcripts and 100 queries, all records; the nearest comes within 40 %."""
    rng, nearest = np.random.default_rng(7), {"thompson": 0.0, "gaussian": 0.0}
    for _ in range(100):
        n, paths = int(rng.integers(2, 12)), int(rng.choice([1, 5]))
        stated = release(
            n, ridge=10 ** rng.uniform(-1, 1), scale=10 ** rng.uniform(-1, 1), paths=paths, kernel=rbf(0.02)
        )
        data = Dataset(rng.random((n, 1)), rng.choice([-1.0, 1.0], n))
        other = Dataset(rng.random((2, 1)), [-1.0, 1.0])
        for mechanism in (Thompson(stated), GaussianQuery(stated)):
            exact = float(exact_epsilon(mechanism.leave_one_out(data, other), 1e-3, paths=paths).max())
            certified = certify_closed(mechanism, Bounded(), 1e-3).epsilon
            assert exact <= certified
            nearest[mechanism.name] = max(nearest[mechanism.name], exact / certified)
    assert min(nearest.values()) > 0.6


def test_gaussian_query_is_known_to_the_last_digit():
    """mu = 2 M sqrt(L) / scale; its exact pair and its certificate are both that."""
    for scale, paths in ((0.5, 1), (2.0, 1), (2.0, 9)):
        mechanism = GaussianQuery(release(4, scale=scale, paths=paths))
        known = epsilon_of_mu(2.0 * math.sqrt(paths) / scale, 1e-5)
        assert certify_closed(mechanism, Bounded(), 1e-5).epsilon == pytest.approx(known, rel=1e-7)
        data = Dataset([[0.1], [0.2], [0.3], [0.4]], [1.0, 0.2, 0.3, -0.4])
        exact = float(exact_epsilon(mechanism.leave_one_out(data, Dataset([[0.9]], [-1.0]))[0, 0], 1e-5, paths=paths))
        assert exact == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("kind", [Thompson, GaussianQuery])
def test_audit_from_end_to_end(kind):
    """Sandwich with false-failure rate 1e-6; a claim at half the exact epsilon is refuted by proof."""
    data = random_data(np.random.default_rng(8), 20, 1)
    mechanism = kind(release(20, scale=2.0, ridge=0.8))
    plan = audit_plan(significance=1e-6, trials=20_000, targets=3)
    result = run_audit(Subject(data, mechanism, Bounded()), plan)
    for attack in result.attacks:
        assert 0.0 < attack.epsilon_lower.value <= attack.epsilon_exact <= result.certificate.epsilon
    assert result.certificate.method == "dominating_pair"
    claim = result.worst_epsilon / 2
    refuted = run_audit(Subject(data, mechanism, Bounded()), plan.model_copy(update={"claimed_epsilon": claim}))
    assert refuted.verdict == "VIOLATED"
    with pytest.raises(InputError, match="use audit"):
        run_audit(Subject(data, mechanism, Bounded()), audit_plan(adversaries=["population"], shadows=5, trials=5))


def test_what_thompson_and_the_query_refuse():
    with pytest.raises(InputError, match="schedule has 5 scales, but 7 records make 6 rounds"):
        Thompson(release(7, schedule=SCHEDULE))
    with pytest.raises(InputError, match="at least 2 records"):
        Thompson(release(1))
    with pytest.raises(InputError, match="adds no prior noise"):
        Thompson(release(3, prior_noise=0.1))
    with pytest.raises(InputError, match="adds no prior noise"):
        GaussianQuery(release(3, prior_noise=0.1))
    with pytest.raises(InputError, match="schedule must hold positive"):
        release(3, schedule=(1.0, 0.0))


@pytest.mark.parametrize("name", ["thompson", "gaussian"])
def test_command(tmp_path, name):
    changes = [f"release.mechanism={name}", "release.scale=30", "audit.trials=300", "audit.targets=1"]
    more = [part for change in changes for part in ("--set", change)]
    arguments = ["audit", str(EXAMPLE / "audit.toml"), "--out", str(tmp_path), *CORE, *more]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code in (0, 1), done.output
    record = json.loads((tmp_path / "audit.json").read_text())
    assert record["release"]["mechanism"] == name
    assert record["certificate"]["method"] == "dominating_pair"
    assert record["worst_exact"]["epsilon"] <= record["certificate"]["epsilon"]


def test_a_worst_pair_with_other_actions_refutes_no_claim():
    """The actions are public: what other actions would leak says nothing about a claim on these."""
    data = Dataset(np.full((10, 1), 0.5), np.linspace(-1.0, 1.0, 10))
    mechanism = Thompson(release(10, ridge=1.0, scale=3.0))
    plan = audit_plan(search=True, trials=4000, targets=1, claimed_epsilon=3.5)
    result = run_audit(Subject(data, mechanism, Bounded()), plan)
    assert result.worst_epsilon < 3.5 < result.worst_pair.epsilon <= result.certificate.epsilon
    assert result.verdict != Verdict.VIOLATED
