"""The evidence of a release that was seen: against dense normal densities, and its stated distribution."""

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import betabinom, multivariate_normal
from support import random_data, release

from gpleak import rbf
from gpleak.attacks import Jump, Pool
from gpleak.audit import draw_replacements
from gpleak.audit.file_fidelity import stated_law
from gpleak.audit.membership import LEVELS, choose_others, membership_evidence, simulated_evidence
from gpleak.audit.released import Released
from gpleak.mechanisms import Centred, Dataset, Domain, ExactPosterior, Noised, PerRowNoise, Predictive
from gpleak.mechanisms.membership import membership

N, D, T, J = 7, 2, 9, 4
RNG = np.random.default_rng(300)
DATA, OTHERS, POINTS = random_data(RNG, N, D), random_data(RNG, J, D), RNG.random((T, D))
MECHANISMS = {
    "posterior": ExactPosterior(release(N, D, points=POINTS)),
    "tiny ridge": ExactPosterior(release(N, D, points=POINTS, ridge=0.03)),
    "smooth": ExactPosterior(release(N, D, points=POINTS, kernel=rbf(0.4))),
    "noised": Noised(release(N, D, points=POINTS, prior_noise=0.7)),
    "predictive": Predictive(release(N, D, points=POINTS)),
    "centred": Centred(release(N, D, points=POINTS)),
    "per row": PerRowNoise(release(N, D, points=POINTS), np.random.default_rng(301).uniform(0.3, 1.0, N)),
}


def law_of(mechanism, data, points, step=0.0):
    """Mean and covariance of a released path, rounding included, by the dense formulas of THEORY section 1."""
    at = mechanism.release
    scale, noise = (1.0, 0.0) if isinstance(mechanism, Centred) else (at.scale, at.prior_noise)
    ridges = mechanism.ridges if isinstance(mechanism, PerRowNoise) else at.ridge
    gram = at.kernel(data.covariates, data.covariates) + np.diag(np.broadcast_to(np.square(ridges), len(data)))
    reach, prior = at.kernel(data.covariates, points), at.kernel(points, points)
    mean = 0.0 if isinstance(mechanism, Centred) else 1.0
    mean = mean * reach.T @ np.linalg.solve(gram, data.responses)
    covariance = scale**2 * (prior - reach.T @ np.linalg.solve(gram, reach)) + noise**2 * prior
    white = (at.ridge * at.scale) ** 2 if isinstance(mechanism, Predictive) else 0.0
    return multivariate_normal(mean, covariance + (white + step**2 / 12.0) * np.eye(len(points)))


def pairs_of(mechanism, data, others, *, step=0.0, points=None):
    points = mechanism.release.points if points is None else points
    stated = stated_law(mechanism.path_recipe, data, Released(points, np.zeros((1, len(points))), step))
    return membership(stated.recipe, data, others, stated.whitening), stated.whitening


def ratios_of(pairs, white):
    """Of releases ``(N, L, k)``."""
    mean = white.mean(axis=1)
    return pairs.log_ratios(pairs.seen(mean, white - mean[:, None], paths=white.shape[1]))


@pytest.mark.parametrize("step", [0.0, 0.02])
@pytest.mark.parametrize("name", MECHANISMS)
def test_log_ratios_are_those_of_dense_densities(name, step):
    mechanism = MECHANISMS[name]
    pairs, whitening = pairs_of(mechanism, DATA, OTHERS, step=step)
    assert whitening.kept.all()
    paths = mechanism.sampler(DATA, POINTS).draw(1, paths=3, rng=np.random.default_rng(302))[0]
    found = ratios_of(pairs, whitening.white(paths)[:, None])
    inside = law_of(mechanism, DATA, POINTS, step).logpdf(paths)
    expected = np.empty((3, N, J))
    for i in range(N):
        for j in range(J):
            other = law_of(mechanism, DATA.replaced(i, OTHERS.record(j)), POINTS, step)
            expected[:, i, j] = inside - other.logpdf(paths)
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)
    together = ratios_of(pairs, whitening.white(paths)[None])
    assert together[0] == pytest.approx(expected.sum(axis=0), rel=1e-8, abs=1e-8)
    # The mixture.
    evidence = membership_evidence(pairs, whitening.white(paths), population="file", seed=0, draws=5)
    both = np.log(J) - logsumexp(-expected.sum(axis=0), axis=1)
    assert evidence.evidence == pytest.approx(both, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", MECHANISMS)
def test_simulated_releases_without_the_record_follow_the_dense_law(name):
    """By algebra, not by draws: the map from standard normals is linear, so offset and square are the moments."""
    mechanism = MECHANISMS[name]
    pairs, whitening = pairs_of(mechanism, DATA, OTHERS)
    columns = whitening.columns[0][:, whitening.kept[0]]
    size = columns.shape[1]
    basis = np.concatenate([np.zeros((1, size)), np.eye(size)])
    for j in range(J):
        ends = (basis @ pairs.end_part)[:, None]
        record, ends = pairs.without(basis @ pairs.record_part, ends, np.full(len(basis), j))
        for i in range(N):
            law = law_of(mechanism, DATA.replaced(i, OTHERS.record(j)), POINTS)
            look = columns @ np.column_stack([pairs.record_part[:, i], pairs.end_part])
            drawn = np.column_stack([record[:, i], ends[:, i]])
            root = drawn[1:] - drawn[0]
            assert drawn[0] == pytest.approx((law.mean - whitening.mean[0]) @ look, rel=1e-7, abs=1e-7)
            assert root.T @ root == pytest.approx(look.T @ law.cov @ look, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", MECHANISMS)
def test_many_paths_of_a_simulated_release_are_moved_one_by_one(name):
    """Sums of squares and products against the same map of every path."""
    pairs, whitening = pairs_of(MECHANISMS[name], DATA, OTHERS)
    white = np.random.default_rng(307).standard_normal((20, 3, whitening.kept.sum()))
    chosen = np.random.default_rng(308).integers(J, size=20)
    mean = white.mean(axis=1)
    seen = pairs.seen(mean, white - mean[:, None], paths=3)
    expected = np.zeros((20, N, J))
    for path in range(3):
        one = pairs.seen(white[:, path], np.zeros((20, 0, white.shape[2])), paths=1)
        expected += pairs.log_ratios_without(one, chosen)
    assert pairs.log_ratios_without(seen, chosen) == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_directions_left_out_leave_the_ratios_of_the_rest():
    """Repeated points say nothing more, and a projection of the paths is a release with a law of its own."""
    mechanism = ExactPosterior(release(N, D, points=np.concatenate([POINTS, POINTS[:4]])))
    pairs, whitening = pairs_of(mechanism, DATA, OTHERS)
    assert whitening.kept.sum() == T
    paths = mechanism.sampler(DATA, mechanism.release.points).draw(1, paths=2, rng=np.random.default_rng(303))[0]
    once, white = pairs_of(mechanism, DATA, OTHERS, points=POINTS)
    assert ratios_of(pairs, whitening.white(paths)[None]) == pytest.approx(
        ratios_of(once, white.white(paths[:, :T])[None]), abs=1e-8
    )
    smooth = ExactPosterior(release(N, 1, points=np.linspace(0, 1, 60)[:, None], kernel=rbf(0.4)))
    data, others = random_data(np.random.default_rng(304), N, 1), random_data(np.random.default_rng(305), J, 1)
    pairs, whitening = pairs_of(smooth, data, others)
    columns = whitening.columns[0][:, whitening.kept[0]]
    assert 5 < columns.shape[1] < 30
    path = smooth.sampler(data, smooth.release.points).draw(1, paths=1, rng=np.random.default_rng(306))[0]
    found = ratios_of(pairs, whitening.white(path)[None])[0]
    for i, j in ((0, 0), (3, 2), (6, 3)):
        laws = [law_of_projection(smooth, one, columns) for one in (data, data.replaced(i, others.record(j)))]
        expected = laws[0].logpdf(path @ columns) - laws[1].logpdf(path @ columns)
        # The columns are up to 3e4 long, so the dense covariances are right to about 1e-6.
        assert found[i, j] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def law_of_projection(mechanism, data, columns):
    at = mechanism.release
    gram = at.kernel(data.covariates, data.covariates) + at.ridge**2 * np.eye(len(data))
    reach = at.kernel(data.covariates, at.points)
    mean = reach.T @ np.linalg.solve(gram, data.responses)
    covariance = at.scale**2 * (at.kernel(at.points, at.points) - reach.T @ np.linalg.solve(gram, reach))
    return multivariate_normal(mean @ columns, columns.T @ covariance @ columns)


RELEASES = 2000


def within(values, sorted_draws, level, chance):
    """Whether a share `level` of new values may lie below the quantile of as many draws of the same law.

    With a number k of n draws below a point between two of them, the number of m new values below the k-th smallest is
    beta-binomial(m; k, n + 1 - k) whatever the law is.
    """
    draws, new = len(sorted_draws), len(values)
    at = level * (draws - 1)  # where numpy's quantile lies, between order statistics (0-based)
    low, high = int(np.floor(at)), int(np.ceil(at))
    quantile = np.quantile(sorted_draws, level)
    below = int((values <= quantile).sum())
    least = betabinom.ppf(chance, new, low + 1, draws - low)
    most = betabinom.isf(chance, new, high + 1, draws - high)
    return least <= below <= most


def real_releases(mechanism, drawn_from, data, others, *, paths, seed):
    """Evidence of every record in releases that the mechanism's own sampler drew: ``(RELEASES, n)``."""
    pairs, whitening = pairs_of(mechanism, data, others)
    points, rng = mechanism.release.points, np.random.default_rng(seed)
    drawn = drawn_from.draw(RELEASES, paths=paths, rng=rng) if hasattr(drawn_from, "draw") else drawn_from(rng)
    assert drawn.shape == (RELEASES, paths, len(points))
    ratios = ratios_of(pairs, whitening.white(drawn))
    return np.log(len(others)) - logsumexp(-ratios, axis=-1)


@pytest.mark.parametrize("paths", [1, 3])
@pytest.mark.parametrize("name", ["posterior", "noised", "predictive", "centred", "per row", "tiny ridge"])
def test_stated_quantiles_are_those_of_real_releases(name, paths):
    """Releases by the mechanism's own sampler, with every record, and with another in the place of record 2.

    12 settings, (7 + 1) records and hypotheses, 3 quantiles, two sides: 576 comparisons at 1.5e-9, 9e-7 in all.
    """
    mechanism = MECHANISMS[name]
    pairs, whitening = pairs_of(mechanism, DATA, OTHERS)
    stated = membership_evidence(pairs, np.zeros((paths, whitening.kept.sum())), population="file", seed=1, draws=3000)
    drawn = simulated(pairs, paths)
    assert pytest.approx(np.quantile(drawn[0], LEVELS, axis=0)) == stated.in_quantiles.T
    assert pytest.approx(np.quantile(drawn[1], LEVELS, axis=0)) == stated.out_quantiles.T
    member = real_releases(mechanism, mechanism.sampler(DATA, POINTS), DATA, OTHERS, paths=paths, seed=310)
    other = real_releases(mechanism, without(mechanism, 2, paths), DATA, OTHERS, paths=paths, seed=311)[:, 2]
    for level in LEVELS:
        for row in range(N):
            assert within(member[:, row], np.sort(drawn[0][:, row]), level, 1.5e-9)
        assert within(other, np.sort(drawn[1][:, 2]), level, 1.5e-9)
    # Relative entropies are not negative; the mean has standard error below spread / sqrt(2000), times 6 (2e-9 each).
    assert (member.mean(axis=0) >= -6 * member.std(axis=0) / np.sqrt(RELEASES)).all()
    assert other.mean() <= 6 * other.std() / np.sqrt(RELEASES)


def simulated(pairs, paths):
    return simulated_evidence(pairs, paths=paths, seed=1, draws=3000)


def without(mechanism, row, paths, bend=1.0):
    """Releases with one of the others, each as likely, in the place of a record."""

    def drawn(rng):
        which = rng.integers(J, size=RELEASES)
        samplers = [mechanism.sampler(DATA.replaced(row, OTHERS.record(j)), POINTS) for j in range(J)]
        parts = np.stack([sampler.draw(RELEASES, paths=paths, rng=rng) for sampler in samplers])
        return bend * parts[which, np.arange(RELEASES)]

    return drawn


def test_wrong_laws_are_not_those_of_real_releases():
    """The comparison above has power: 30 % more scale, and the records themselves where others should be."""
    mechanism = MECHANISMS["posterior"]
    pairs, _ = pairs_of(mechanism, DATA, OTHERS)
    member, other = simulated(pairs, 3)
    louder = ExactPosterior(dataclasses.replace(mechanism.release, scale=1.3 * mechanism.release.scale))
    wrong = real_releases(mechanism, louder.sampler(DATA, POINTS), DATA, OTHERS, paths=3, seed=312)
    assert not all(within(wrong[:, 2], np.sort(member[:, 2]), level, 1.5e-9) for level in LEVELS)
    swapped = real_releases(mechanism, mechanism.sampler(DATA, POINTS), DATA, OTHERS, paths=3, seed=313)
    assert not all(within(swapped[:, 2], np.sort(other[:, 2]), level, 1.5e-9) for level in LEVELS)


def evidence_of(mechanism, data, others, *, seed, draws=1000, paths=1):
    pairs, whitening = pairs_of(mechanism, data, others)
    points = mechanism.release.points
    drawn = mechanism.sampler(data, points).draw(1, paths=paths, rng=np.random.default_rng(seed))[0]
    return membership_evidence(pairs, whitening.white(drawn), population="replacements", seed=seed, draws=draws)


def test_a_tiny_ridge_betrays_every_record_and_a_huge_one_none():
    """Five paths through the records leave no doubt; paths that hardly know them say nothing (nats below 0.01).

    Of 21 seeds the least evidence with a tiny ridge was 12.6 nats, all false alarms were 1 / 1001 and the two ranges of
    nine in ten lay at least 599 nats apart.
    """
    data = Dataset(np.linspace(0, 1, 30)[:, None], np.random.default_rng(320).uniform(-0.5, 0.5, 30))
    others = draw_replacements(Domain([[0.0, 1.0]]), 1.0, 10, np.random.SeedSequence(321))
    sharp = ExactPosterior(release(30, points=data.covariates, ridge=0.01, scale=0.1))
    found = evidence_of(sharp, data, others, seed=1, paths=5)
    assert (found.evidence > 10.0).all()
    assert (found.false_alarm == 1 / 1001).all()
    assert (found.in_quantiles[:, 0] > found.out_quantiles[:, 2] + 10.0).all()
    blunt = ExactPosterior(release(30, points=data.covariates, ridge=1e4, scale=1.0))
    found = evidence_of(blunt, data, others, seed=1)
    for values in (found.evidence, found.in_quantiles, found.out_quantiles):
        assert np.abs(values).max() < 0.01
    assert found.false_alarm.min() > 1 / 1001


def test_false_alarms_are_p_values():
    """Of releases without a record they are at most uniform: 2,000 real ones, binomial with failure rate 1e-7 each."""
    mechanism = MECHANISMS["posterior"]
    pairs, _ = pairs_of(mechanism, DATA, OTHERS)
    _, other = simulated(pairs, 1)
    real = real_releases(mechanism, without(mechanism, 2, 1), DATA, OTHERS, paths=1, seed=330)[:, 2]
    alarm = (1 + (other[:, 2] >= real[:, None]).sum(axis=1)) / 3001
    for level in (0.01, 0.1, 0.5):
        # Given the draws the count is binomial, and over them beta-binomial with k = 3001 level of 3,001.
        k = int(level * 3001)
        assert (alarm <= level).sum() <= betabinom.isf(1e-7, RELEASES, k, 3001 - k)


def test_same_seed_same_evidence_whatever_the_chunks(monkeypatch):
    mechanism = MECHANISMS["posterior"]
    whole = evidence_of(mechanism, DATA, OTHERS, seed=5, draws=100)
    monkeypatch.setattr("gpleak.audit.membership._VALUES", 1)
    parts = evidence_of(mechanism, DATA, OTHERS, seed=5, draws=100)
    assert whole.evidence == pytest.approx(parts.evidence, rel=1e-12)
    assert whole.out_quantiles == pytest.approx(parts.out_quantiles, rel=1e-12)
    assert np.array_equal(whole.false_alarm, parts.false_alarm)


def test_whom_the_adversary_thinks_of():
    public = random_data(np.random.default_rng(6), 50, D)
    drawn, name = choose_others(Pool(public, np.arange(10), "file"), OTHERS, seed=0)
    assert name == "file"
    assert len(drawn) == J
    rows = (public.covariates[:10, None] == drawn.covariates).all(axis=-1)
    assert rows.any(axis=0).all()
    assert set(drawn.responses) <= set(public.responses[:10])
    for population in (None, Jump(), Pool(DATA, np.arange(N), "data")):
        assert choose_others(population, OTHERS, seed=0) == (OTHERS, "replacements")


def test_one_record_and_one_other():
    """The smallest case, where the core is empty."""
    data, other = Dataset([[0.2]], [0.5]), Dataset([[0.9]], [-1.0])
    mechanism = ExactPosterior(release(1, points=np.array([[0.1], [0.6]])))
    pairs, whitening = pairs_of(mechanism, data, other)
    path = np.array([[0.3, -0.2]])
    found = ratios_of(pairs, whitening.white(path)[None])
    points = mechanism.release.points
    expected = law_of(mechanism, data, points).logpdf(path) - law_of(mechanism, other, points).logpdf(path)
    assert found[0, 0, 0] == pytest.approx(expected, rel=1e-10)
