"""The worst pair: what is reported is what the written-out datasets leak, and nothing simpler finds more."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from support import pair, random_data, reference, release

from gpleak.audit import certify, clusters, exposure, worst
from gpleak.audit.accountant import closed_certificates
from gpleak.audit.clusters import Candidates, setting_of
from gpleak.audit.gdp import epsilon_of_mu
from gpleak.audit.worst import worst_pair
from gpleak.mechanisms import (
    Bounded,
    Centred,
    Dataset,
    Diagonal,
    Domain,
    ExactPosterior,
    Exponential1D,
    GaussianQuery,
    InputError,
    Noised,
    QuadraticForm,
    Record,
    Rkhs,
    Separated,
    Thompson,
    diagonal,
    exact_epsilon,
    exponential,
    log_profile,
    matern32,
    pair_epsilon,
    rbf,
)
from gpleak.mechanisms.pair import quadratic_form

DELTA = 1e-3
GRID = np.linspace(0.0, 1.0, 6)[:, None]
SCHEDULE = (1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0)
BOX = Domain([[0.0, 1.0], [-2.0, 3.0]])


@pytest.fixture
def quick(monkeypatch):
    """A search of a few hundred pairs: enough where the question is not how good it is."""
    small = {
        "_CHAINS": 1,
        "_CLUSTERS": (1, 2),
        "_STARTS": 256,
        "_ROUNDS": 5,
        "_CHILDREN": 64,
        "_POLISHING": 5,
        "_PROFILED": 32,
    }
    for name, value in small.items():
        monkeypatch.setattr(worst, name, value)


def checked(mechanism, regime, found):
    """The promises of a pair, each from the datasets themselves; the recomputed epsilon."""
    stated, (data, neighbour) = mechanism.release, found.datasets
    for dataset in (data, neighbour):
        assert len(dataset) == stated.records
        assert stated.domain.contains(dataset.covariates).all()
        assert np.abs(dataset.responses).max() <= stated.response_bound
        regime.check(stated, dataset)
    assert found.copies.sum() == stated.records - 1
    assert (found.copies > 0).all()
    assert len(found.copies) == len(found.core)
    differ = np.any(data.covariates != neighbour.covariates, axis=1) | (data.responses != neighbour.responses)
    assert set(np.flatnonzero(differ)) <= {found.row}
    contrast = mechanism.contrast(data, found.row, found.replacement)
    again = float(exact_epsilon(contrast.law, found.delta, paths=found.paths))
    assert found.epsilon == pytest.approx(again, rel=1e-6)
    law = contrast.law if found.direction == "D to D'" else contrast.law.swapped()
    assert float(pair_epsilon(law, found.delta, paths=found.paths)) == pytest.approx(again, rel=1e-6)
    # The searched-for certificate is held against in one test: it takes seconds.
    assert found.epsilon <= min(one.epsilon for one in closed_certificates(mechanism, regime, found.delta)) * (1 + 1e-9)
    return again


CASES = {
    "posterior": (ExactPosterior(release(8)), Exponential1D()),
    "five paths": (ExactPosterior(release(8, paths=5)), Bounded()),
    "plane": (ExactPosterior(release(8, 2, kernel=matern32(0.5), domain=BOX)), Bounded()),
    "space": (ExactPosterior(release(6, 3, kernel=rbf(0.5))), Bounded()),
    "noised": (Noised(release(8, prior_noise=0.7)), Exponential1D()),
    "noised plane": (Noised(release(8, 2, prior_noise=0.7, kernel=rbf(1.0), domain=BOX, paths=5)), Bounded()),
    "centred": (Centred(release(8)), Bounded()),
    "centred plane": (Centred(release(8, 2, kernel=rbf(0.7), domain=BOX, paths=5)), Bounded()),
    "points": (ExactPosterior(release(8, points=GRID)), Exponential1D()),
    "repeated points": (Noised(release(8, points=np.tile(GRID, (2, 1)), prior_noise=0.5, paths=5)), Bounded()),
    "centred points": (Centred(release(8, points=GRID)), Bounded()),
    "smooth points": (ExactPosterior(release(8, kernel=rbf(0.3), points=np.linspace(0, 1, 60)[:, None])), Bounded()),
    "plane of points": (ExactPosterior(release(8, 2, points=BOX.grid((5, 4)), domain=BOX)), Bounded()),
    "diagonal": (ExactPosterior(release(8, kernel=diagonal())), Diagonal()),
    "rkhs": (ExactPosterior(release(8, kernel=matern32(0.3))), Rkhs(0.9)),
    "rkhs above the bound": (Noised(release(8, kernel=matern32(0.3), response_bound=0.5, prior_noise=0.3)), Rkhs(1.5)),
    "centred rkhs": (Centred(release(8)), Rkhs(0.5)),
    "separated": (ExactPosterior(release(8, kernel=exponential(0.05))), Separated(0.1)),
    "separated plane": (Noised(release(20, 2, kernel=rbf(0.05), prior_noise=0.2)), Separated(0.2)),
    "separated full": (ExactPosterior(release(11, kernel=exponential(0.05))), Separated(0.0999)),
    "separated single": (ExactPosterior(release(1, kernel=exponential(0.05))), Separated(5.0)),
    "single record": (ExactPosterior(release(1)), Bounded()),
    "two records": (Noised(release(2, prior_noise=0.5)), Bounded()),
    "one place": (ExactPosterior(release(8, domain=Domain([[0.5, 0.5]]))), Bounded()),
    "many records": (ExactPosterior(release(1500, ridge=5.0)), Bounded()),
    "tiny ridge": (ExactPosterior(release(30, ridge=1e-3)), Exponential1D()),
    "transcript": (Thompson(release(8)), Bounded()),
    "separated transcript": (Thompson(release(8, schedule=SCHEDULE, kernel=rbf(0.03))), Separated(0.13)),
    "query": (GaussianQuery(release(8, paths=2, scale=2.0)), Bounded()),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("quick")
def test_the_pair_is_what_it_says(case):
    mechanism, regime = CASES[case]
    found = worst_pair(mechanism, regime, DELTA, seed=3)
    checked(mechanism, regime, found)
    assert found.epsilon > 0
    again = worst_pair(mechanism, regime, DELTA, seed=3)
    assert (found.epsilon, found.direction, found.evaluations) == (again.epsilon, again.direction, again.evaluations)
    for one, other in zip(found.datasets, again.datasets, strict=True):
        np.testing.assert_array_equal(one.covariates, other.covariates)
        np.testing.assert_array_equal(one.responses, other.responses)


@pytest.mark.parametrize("case", ["rkhs", "rkhs above the bound"])
@pytest.mark.usefixtures("quick")
def test_one_function_of_the_stated_norm_gives_every_response(case):
    """The smallest norm that interpolates D and D' together is ``sqrt(y^T K^-1 y)``."""
    mechanism, regime = CASES[case]
    found = worst_pair(mechanism, regime, DELTA)
    ends = found.record, found.replacement
    places = np.concatenate([found.core.covariates, *(end.covariates[None] for end in ends)])
    responses = np.concatenate([found.core.responses, [end.response for end in ends]])
    square = responses @ np.linalg.lstsq(mechanism.release.kernel(places, places), responses, rcond=1e-12)[0]
    assert square <= regime.norm**2 * (1 + 1e-9)
    largest = np.abs(responses).max() / mechanism.release.response_bound
    assert max(np.sqrt(square) / regime.norm, largest) == pytest.approx(1, rel=1e-6)  # all that is allowed is used


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("kernel", [exponential(0.4), matern32(0.5), rbf(0.3)], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("points", [None, GRID])
def test_laws_of_clusters_are_those_of_the_records(dimension, kernel, points):
    """Every number of the law against `contrast` on the written-out records, including empty clusters."""
    rng = np.random.default_rng(dimension)
    points = None if points is None else points * np.linspace(1.0, 0.5, dimension)
    for records in (1, 2, 40):
        shared = {"kernel": kernel, "points": points}
        for mechanism in (
            ExactPosterior(release(records, dimension, **shared)),
            Noised(release(records, dimension, prior_noise=0.7, **shared)),
            Centred(release(records, dimension, **shared)),
        ):
            setting = setting_of(mechanism, Bounded())
            copies = rng.multinomial(records - 1, [0.5, 0.3, 0.2], size=5)
            places = rng.random((5, 5, dimension))
            candidates = setting.settled(Candidates(places, rng.choice([-1.0, 1.0], (5, 5)), copies, np.zeros(5)))
            laws, fine = setting.law(candidates)
            assert fine.all()
            for index in range(5):
                at = np.concatenate([np.repeat(places[index, :3], copies[index], axis=0), places[index, 3:4]])
                responses = candidates.responses[index]
                data = Dataset(at, np.concatenate([np.repeat(responses[:3], copies[index]), responses[3:4]]))
                law = mechanism.contrast(data, records - 1, Record(places[index, 4], responses[4])).law
                for name in (field.name for field in dataclasses.fields(law) if field.name != "jitter"):
                    one = np.broadcast_to(getattr(laws, name), 5)[index]
                    np.testing.assert_allclose(one, getattr(law, name), rtol=1e-7, atol=1e-9, err_msg=name)


# Worst pairs of one cluster (reference/exact_pairs.json) are beaten by several clusters where THEORY section 3 says so;
# nothing exceeds the structured supremum given there (a numerical value, tolerance 0.5 %).
@pytest.mark.parametrize(("ridge", "least", "most"), [(0.5, 34.7, 41.628), (1.0, 7.52, 9.043)])
def test_reaches_the_worst_pairs_known(ridge, least, most):
    (row,) = [row for row in reference("exact_pairs") if row["n"] == 10 and row["ridge"] == ridge]
    mechanism = ExactPosterior(release(10, ridge=ridge, kernel=exponential(row["length_scale"]), scale=row["scale"]))
    found = worst_pair(mechanism, Exponential1D(), row["delta"])
    assert max(least, row["epsilon_exact"]) <= found.epsilon <= most * 1.005
    checked(mechanism, Exponential1D(), found)
    if ridge == 1.0:
        assert found.epsilon <= certify(mechanism, Exponential1D(), row["delta"]).epsilon


def test_reaches_the_worst_centred_pair_known(monkeypatch):
    """3.78 of the certified 3.92 (THEORY section 3), with one chain and one cluster."""
    monkeypatch.setattr(worst, "_CHAINS", 1)
    monkeypatch.setattr(worst, "_CLUSTERS", (1,))
    mechanism = Centred(release(10, ridge=1.0, kernel=exponential(1.0)))
    found = worst_pair(mechanism, Bounded(), DELTA)
    assert 3.78 <= checked(mechanism, Bounded(), found) <= 3.92


@pytest.mark.usefixtures("quick")
def test_single_record_by_brute_force():
    """Without a core a pair is two signs and one covariance, ``k(x, x')``."""
    stated = release(1)
    rho = np.linspace(stated.kappa, 1.0, 2001)
    grid = [exact_epsilon(pair(1.0, sign, 1.0, 1.0, rho, stated.ridge, stated.scale), DELTA).max() for sign in (1, -1)]
    found = worst_pair(ExactPosterior(stated), Bounded(), DELTA)
    assert found.epsilon == pytest.approx(max(grid), rel=1e-4)


def test_two_records_by_brute_force():
    """All places on a grid of 21, all signs; the posterior of one record is written out here."""
    stated = release(2, kernel=exponential(0.7), ridge=0.5, scale=1.0)
    axis = np.linspace(0.0, 1.0, 21)
    at, x, other = (values.ravel() for values in np.meshgrid(axis, axis, axis, indexing="ij"))
    near, far, between = (np.exp(-np.abs(a - b) / 0.7) for a, b in ((at, x), (at, other), (x, other)))
    pull, pull_other = near / 1.25, far / 1.25
    best = 0.0
    for y, y_other in ((1, 1), (1, -1), (-1, 1), (-1, -1)):  # the core's response is 1; the rest is its mirror image
        spread = 1 - pull * near, 1 - pull_other * far, between - pull * far
        laws = pair(y - pull, y_other - pull_other, *spread, stated.ridge, stated.scale)
        best = max(best, exposure(laws[None], DELTA, paths=1).epsilon[0])
    found = worst_pair(ExactPosterior(stated), Bounded(), DELTA)
    assert best <= found.epsilon * (1 + 1e-9)
    assert found.epsilon <= best * 1.01


@pytest.mark.parametrize("mechanism", [ExactPosterior(release(4)), Noised(release(4, 2, prior_noise=0.4))])
def test_no_record_of_a_dataset_is_more_exposed(mechanism):
    """36 datasets, random, clustered and with every response extreme, against 30 replacements each."""
    stated, rng = mechanism.release, np.random.default_rng(5)
    most = 0.0
    for index in range(36):
        data = random_data(rng, 4, stated.domain.dimension)
        places, responses = data.covariates, data.responses
        if index % 3:
            responses = np.sign(responses)
        if index % 3 == 2:
            places = np.rint(places)[rng.integers(2, size=4)]
        targets = random_data(rng, 30, stated.domain.dimension)
        replacements = Dataset(np.rint(targets.covariates * 4) / 4, np.sign(targets.responses))
        laws = mechanism.leave_one_out(Dataset(places, responses), replacements)
        most = max(most, exposure(laws, DELTA, paths=1).epsilon.max())
    found = worst_pair(mechanism, Bounded(), DELTA)
    assert 0.8 * found.epsilon < most <= found.epsilon  # the datasets are no walk-over


def test_single_local_searches_miss_it():
    """Nelder-Mead over the three places of one cluster, from 16 random starts: 6 come within 0.5 %, 10 get stuck."""
    mechanism = ExactPosterior(release(10, ridge=1.0, kernel=exponential(1.0), scale=1.0))
    setting, rng = setting_of(mechanism, Bounded()), np.random.default_rng(0)
    wanted = (
        0.995 * 7.48367
    )  # reference/exact_pairs.json, the best pair of one cluster; the search's is in a test above

    def log_delta(places, signs):
        at = np.clip(places, 0.0, 1.0).reshape(1, 3, 1)
        law, _ = setting.law(Candidates(at, signs[None], np.array([[9]]), np.zeros(1)))
        both = quadratic_form(law), quadratic_form(law.swapped())
        form = QuadraticForm(*(np.concatenate([getattr(one, name) for one in both]) for name in ("curvature", "shift")))
        return max(log_profile(form, np.full(2, wanted), paths=1).log_delta.max(), -1e3)

    reached = 0
    for _ in range(16):
        signs, start = rng.choice([-1.0, 1.0], size=3), rng.random(3)
        end = minimize(
            lambda at, signs=signs: -log_delta(at, signs), start, method="Nelder-Mead", options={"maxfev": 120}
        )
        reached += -end.fun >= np.log(DELTA)
    assert 1 <= reached <= 8


def test_closed_forms_of_the_baselines():
    query = GaussianQuery(release(5, paths=4, scale=3.0))
    assert worst_pair(query, Bounded(), DELTA).epsilon == pytest.approx(epsilon_of_mu(2 * 2 / 3, DELTA), rel=1e-6)
    # Two records: one round, of a path that has seen the first response alone; h = 1 / (1 + r^2) (THEORY section 5).
    stated = release(2)
    mu = 2.0 / (stated.scale * stated.ridge * np.sqrt(1 + stated.ridge**2))
    assert worst_pair(Thompson(stated), Bounded(), DELTA).epsilon == pytest.approx(epsilon_of_mu(mu, DELTA), rel=1e-6)
    far = Thompson(release(6, kernel=exponential(0.1)))
    assert worst_pair(far, Bounded(), DELTA).epsilon > 0.999 * certify(far, Bounded(), DELTA).epsilon


def test_nothing_to_search_is_none():
    class Outside(ExactPosterior):
        """What a subclass releases is not known."""

    class Premises(Bounded):
        """What it takes for granted is not known."""

    assert worst_pair(Outside(release(5)), Bounded(), DELTA) is None
    assert worst_pair(ExactPosterior(release(5)), Premises(), DELTA) is None
    assert worst_pair(GaussianQuery(release(5)), Premises(), DELTA) is None
    assert worst_pair(Thompson(release(5)), Rkhs(1.0), DELTA) is None
    crowded = release(12, kernel=exponential(0.05))
    assert worst_pair(ExactPosterior(crowded), Separated(0.1), DELTA) is None  # room for 11
    assert worst_pair(Thompson(crowded), Separated(0.1), DELTA) is None
    fine = release(500, 2, kernel=exponential(1e-3))
    assert worst_pair(ExactPosterior(fine), Separated(0.01), DELTA) is None  # more than are searched one by one


def test_wrong_arguments():
    with pytest.raises(InputError, match="delta must be in"):
        worst_pair(ExactPosterior(release(5)), Bounded(), 1.0)
    with pytest.raises(InputError, match="exponential_1d needs"):
        worst_pair(ExactPosterior(release(5, kernel=rbf(1.0))), Exponential1D(), DELTA)


@pytest.mark.usefixtures("quick")
def test_many_listed_points_are_thinned_for_the_search_only(monkeypatch):
    """The search sees 5 of 30 points; the result is judged at all of them, and so is larger than at the 5."""
    monkeypatch.setattr(clusters, "_MOST_POINTS", 5)
    points = np.linspace(0.0, 1.0, 30)[:, None]
    mechanism = ExactPosterior(release(8, points=points))
    found = worst_pair(mechanism, Bounded(), DELTA)
    checked(mechanism, Bounded(), found)
    coarse = ExactPosterior(release(8, points=points[np.linspace(0, 29, 5).astype(int)]))
    law = coarse.contrast(found.datasets[0], found.row, found.replacement).law
    assert found.epsilon > float(exact_epsilon(law, DELTA))
