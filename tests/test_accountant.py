"""Conversion both ways, composition, calibration, the dominating pair, and Gaussian-DP reporting."""

import dataclasses
import json
import math
import signal
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from support import REFERENCE, mechanisms, pair, reference, release

from gpleak.audit import (
    certified_delta,
    certify_closed,
    closed_certificates,
    covariance_lower_bound,
    curves,
    epsilon_grid,
    gdp_report,
    most_paths,
    renyi_delta,
    renyi_epsilon,
    smallest_value,
    solve_closed,
)
from gpleak.audit.gdp import (
    delta_of_mu,
    epsilon_of_mu,
    mu_from_advantage,
    mu_from_precision,
    mu_of_epsilon,
    mu_of_pure_epsilon,
    trade_off,
)
from gpleak.mechanisms import (
    Bounded,
    Centred,
    Dataset,
    Diagonal,
    Domain,
    ExactPosterior,
    InputError,
    Noised,
    RenyiCurve,
    Rkhs,
    Separated,
    Tuning,
    composed,
    covariance_leakage_variances,
    diagonal,
    exact_epsilon,
    exponential,
    gaussian_divergence,
    pair_delta,
    rbf,
    smallest_fnr,
    trade_off_at,
)
from gpleak.reports.cli import main

ROOT = Path(__file__).parent.parent


def line(rho):
    return RenyiCurve(math.inf, lambda excess: rho * (1.0 + excess))


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-12, 1e-30])
@pytest.mark.parametrize("rho", [1e-6, 0.5, 50.0, 1e4])
def test_conversion_is_the_minimum_to_30_digits(rho, delta):
    """mpmath minimises the stated formula for R = rho alpha."""
    with mp.workdps(30):
        r, d = mp.mpf(rho), mp.mpf(delta)

        def epsilon(t):
            a = 1 + mp.exp(t)
            return r * a + mp.log((a - 1) / a) - (mp.log(d) + mp.log(a)) / (a - 1)

        start = 0.5 * math.log(-math.log(delta) / rho)
        best = min((epsilon(start + s) for s in np.linspace(-4, 4, 33)), default=None)
        low, high = mp.mpf(start - 5), mp.mpf(start + 5)
        for _ in range(120):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, b) if epsilon(a) < epsilon(b) else (a, high)
        best = float(max(min(best, epsilon(low)), 0))
    ours = float(renyi_epsilon(line(rho), delta)[0])
    assert ours == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert ours >= best * (1 - 1e-14)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 500), ridge=st.floats(0.2, 20), scale=st.floats(0.1, 10), delta=st.floats(1e-12, 0.2))
def test_delta_and_epsilon_are_inverse(n, ridge, scale, delta):
    for mechanism in mechanisms(n, ridge=ridge, scale=scale):
        curve = mechanism.renyi(Bounded().sensitivity(mechanism.release))
        epsilon = float(renyi_epsilon(curve, delta, paths=2)[0])
        back = float(renyi_delta(curve, epsilon, paths=2))
        assert back == pytest.approx(delta, rel=1e-6) if epsilon > 0 else back <= delta * (1 + 1e-9)
        best = certify_closed(mechanism, Bounded(), delta).epsilon
        assert certified_delta(mechanism, Bounded(), best) <= delta * (1 + 1e-6)


def test_grid_is_the_scalar_certificate_everywhere():
    ridge, scale = np.meshgrid([0.3, 1.0, 7.0], [0.2, 1.0, 9.0])
    for kind, noise in ((ExactPosterior, 0.0), (Noised, 0.4), (Centred, 0.0)):
        tuning = Tuning(ridge[..., None], scale[..., None], np.asarray(noise))
        epsilon, order = epsilon_grid(
            kind(release(40, prior_noise=noise)), Bounded(), 1e-3, tuning=tuning, paths=np.array([1, 6])
        )
        assert epsilon.shape == order.shape == (3, 3, 2)
        for i, j, k in np.ndindex(3, 3, 2):
            stated = release(40, ridge=ridge[i, j], scale=scale[i, j], prior_noise=noise, paths=(1, 6)[k])
            single = next(c for c in closed_certificates(kind(stated), Bounded(), 1e-3) if c.method == "renyi")
            assert epsilon[i, j, k] == pytest.approx(single.epsilon, rel=1e-9)


def test_different_releases_add_up():
    """Two Gaussian releases, adaptively: rho adds; and paths are compositions with themselves."""
    both = composed([(line(0.5), 1), (line(0.2), 3)])
    assert renyi_epsilon(both, 1e-5)[0] == pytest.approx(renyi_epsilon(line(1.1), 1e-5)[0], rel=1e-9)
    one, two = (m.renyi(Bounded().sensitivity(m.release)) for m in mechanisms(20)[:2])
    mixed = composed([(one, 2), (two, 1)])
    assert mixed.excess_limit == min(float(one.excess_limit), float(two.excess_limit))
    assert renyi_epsilon(mixed, 1e-3)[0] > renyi_epsilon(one, 1e-3, paths=2)[0]
    with pytest.raises(InputError, match="nothing is released"):
        composed([])


@pytest.mark.parametrize("row", reference("centred"), ids=lambda row: f"n{row['n']}-r{row['ridge']:g}-L{row['paths']}")
def test_dominating_pair_of_the_centred_release(row):
    """tests/reference/centred.json, to 1e-3; and it dominates: the covariance pair comes within 25 % from below."""
    mechanism = Centred(
        release(
            row["n"],
            kernel=exponential(row["length_scale"]),
            ridge=row["ridge"],
            paths=row["paths"],
            domain=Domain([[0.0, row["domain_diameter"]]]),
        )
    )
    renyi, dominating = closed_certificates(mechanism, Bounded(), row["delta"])
    assert renyi.epsilon == pytest.approx(row["epsilon_renyi"], abs=1e-4)
    assert dominating.method == "dominating_pair"
    assert dominating.epsilon == pytest.approx(row["epsilon_dominating_pair"], rel=1e-3)
    assert certify_closed(mechanism, Bounded(), row["delta"]) == dominating
    lower = covariance_lower_bound(mechanism, row["delta"])
    assert 0.75 * dominating.epsilon < lower <= dominating.epsilon


def test_dominating_pair_is_the_stated_chi_square_formula():
    """THEORY: ``delta = P[A - (1-s) B > 2 eps/tau] - e^eps P[(1-s) A - B > 2 eps/tau]``, by direct quadrature."""
    from scipy.integrate import quad
    from scipy.stats import chi2

    for ridge, paths in ((0.5, 2), (1.0, 5), (2.0, 20)):
        mechanism = Centred(release(10, ridge=ridge, paths=paths))
        variance = float(Bounded().sensitivity(mechanism.release).variance)
        s, tau = variance / (variance + ridge**2), variance / ridge**2
        for epsilon in (0.1, 1.0, 4.0):
            top = 2 * epsilon / tau

            def tails(b, top=top, s=s, paths=paths, epsilon=epsilon):
                both = chi2.sf(top + (1 - s) * b, paths) - math.exp(epsilon) * chi2.sf((top + b) / (1 - s), paths)
                return chi2.pdf(b, paths) * both

            expected = quad(tails, 0, np.inf, epsabs=1e-13, epsrel=1e-10)[0]
            form = mechanism.dominating_pair(Bounded().sensitivity(mechanism.release))
            from gpleak.mechanisms import log_profile

            got = float(np.exp(log_profile(form, np.array([epsilon]), paths=paths).log_delta[0]))
            assert got == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_renyi_divergence_of_gaussians():
    """CASES 13: 3.526717 at 1.05, 12.818876 at 1.2, infinite from 1.25; the other way .764703 at 1.2; 1 is KL."""
    assert gaussian_divergence(1.05, 0.0, 1.0, 0.8, 0.2) == pytest.approx(3.526717, abs=1e-6)
    assert gaussian_divergence(1.2, 0.0, 1.0, 0.8, 0.2) == pytest.approx(12.818876, abs=1e-6)
    assert gaussian_divergence(1.2, 0.8, 0.2, 0.0, 1.0) == pytest.approx(0.764703, abs=1e-6)
    for alpha in (1.25, 1.5, 10.0):
        assert gaussian_divergence(alpha, 0.0, 1.0, 0.8, 0.2) == math.inf
    kl = 0.5 * (0.2 / 1.0 + 0.8**2 - 1 + math.log(1.0 / 0.2))
    assert gaussian_divergence(1.0, 0.8, 0.2, 0.0, 1.0) == pytest.approx(kl)
    assert gaussian_divergence(1.000001, 0.8, 0.2, 0.0, 1.0) == pytest.approx(kl, rel=1e-5)
    with pytest.raises(InputError, match="order must be positive"):
        gaussian_divergence(0.0, 0.0, 1.0, 0.0, 1.0)


def test_covariance_leakage_is_that_of_its_datasets():
    """Lambda in closed form (THEORY section 7), and against the posterior of the two datasets themselves."""
    from gpleak.mechanisms import condition

    stated = release(6, ridge=0.8)
    n, noise, kappa = 6, 0.64, stated.kappa
    q = 1 - kappa**2
    closed = (noise + n * q) * (noise**2 + n * noise + (n - 1) * q) / (noise * (noise + n) * (noise + (n - 1) * q))
    before, after = covariance_leakage_variances(stated)
    assert before / after == pytest.approx(closed, rel=1e-12)
    for members, expected in (([[0.0]] * 6, before), ([[0.0]] * 5 + [[1.0]], after)):
        posterior = condition(Dataset(members, np.zeros(6)), kernel=stated.kernel, ridge=stated.ridge)
        assert posterior.covariance(np.ones((1, 1)), np.ones((1, 1)))[0, 0] == pytest.approx(expected, rel=1e-12)
    for mechanism in mechanisms(6, ridge=0.8):
        data = Dataset([[0.0]] * 6, np.zeros(6))
        exact = float(exact_epsilon(mechanism.leave_one_out(data, Dataset([[1.0]], [0.0]))[0, 0], 1e-3))
        lower = covariance_lower_bound(mechanism, 1e-3)
        assert 0.3 * exact < lower <= exact * (1 + 1e-9) <= certify_closed(mechanism, Bounded(), 1e-3).epsilon


@pytest.mark.parametrize(
    ("index", "parameter"), [(0, "ridge"), (0, "scale"), (1, "prior_noise"), (1, "scale"), (2, "ridge")]
)
def test_calibration_meets_the_budget_and_no_smaller_value_does(index, parameter):
    mechanism = mechanisms(60)[index]
    budget = 0.8 if parameter != "scale" else 6.0
    changed = {"ridge": 4.0} if parameter != "ridge" else {}
    mechanism = type(mechanism)(dataclasses.replace(mechanism.release, **changed))
    found = solve_closed(mechanism, Bounded(), 1e-3, parameter=parameter, budget=budget)
    assert found.value is not None
    assert found.epsilon <= budget

    def at(value):
        changed = dataclasses.replace(mechanism.release, **{parameter: value})
        return certify_closed(type(mechanism)(changed), Bounded(), 1e-3)

    assert at(found.value).epsilon <= budget
    if found.value > 1e-6:
        assert at(found.value * (1 - 1e-6)).epsilon > budget


def test_what_cannot_be_met_is_infeasible():
    """Below the centred epsilon no scale exists (THEORY section 4); and a scale that is not used is refused."""
    stated = release(60, ridge=1.0)
    centred = next(c for c in closed_certificates(Centred(stated), Bounded(), 1e-3) if c.method == "renyi").epsilon
    assert solve_closed(ExactPosterior(stated), Bounded(), 1e-3, parameter="scale", budget=0.99 * centred).value is None
    assert (
        solve_closed(ExactPosterior(stated), Bounded(), 1e-3, parameter="scale", budget=1.01 * centred).value
        is not None
    )
    with pytest.raises(InputError, match="mechanism centred does not use scale"):
        solve_closed(Centred(stated), Bounded(), 1e-3, parameter="scale", budget=1.0)


def test_calibration_does_not_assume_monotone():
    """With prior noise a larger scale can cost more: only a window may be feasible, and its lower end is the answer."""
    window = smallest_value(lambda x: abs(math.log(x)), 0.5, np.geomspace(1e-3, 1e3, 61))
    assert window == pytest.approx(math.exp(-0.5), rel=1e-8)
    assert smallest_value(lambda _: 0.0, 0.0, np.array([0.0, 1.0])) == 0.0  # a budget of 0 is a budget
    # And a real one: prior noise 3, ridge 1: a scale of 10 costs more than one of 0.01, a very large one less again.
    stated = release(60, ridge=1.0, prior_noise=3.0)
    mechanisms_at = [Noised(dataclasses.replace(stated, scale=scale)) for scale in (0.01, 10.0, 1000.0)]
    small, middle, large = (certify_closed(mechanism, Bounded(), 1e-3).epsilon for mechanism in mechanisms_at)
    assert middle > 1.2 * small
    assert middle > 1.1 * large


def test_most_paths():
    assert most_paths(lambda paths: 0.3 * paths, 3.0) == 10
    assert most_paths(lambda paths: 0.3 * paths, 0.29) == 0
    mechanism = mechanisms(60, ridge=6.0)[0]

    def certified(paths):
        changed = dataclasses.replace(mechanism.release, paths=paths)
        return certify_closed(ExactPosterior(changed), Bounded(), 1e-3).epsilon

    found = most_paths(certified, 3.0)
    assert certified(found) <= 3.0 < certified(found + 1)


def test_separated_regime_verifies_the_data():
    data = Dataset([[0.0], [0.3], [0.31], [0.9]], np.zeros(4))
    stated = release(4, kernel=rbf(0.05))
    with pytest.raises(InputError, match=r"records 1 and 2 lie 0\.01 apart, less than separation = 0\.2"):
        Separated(0.2).check(stated, data)
    Separated(0.2).check(stated, Dataset([[0.0], [0.3], [0.6], [0.9]], np.zeros(4)))
    duplicate = Dataset([[0.5], [0.5], [0.5], [0.9]], np.zeros(4))
    with pytest.raises(InputError, match="lie 0 apart"):
        Separated(0.2).check(stated, duplicate)
    with pytest.raises(InputError, match="needs kernel row sums below"):
        Separated(0.001).sensitivity(release(4, kernel=exponential(1.0)))
    assert any("refuses datasets" in premise for premise in Separated(0.2).assumptions)


def test_rkhs_regime_checks_what_data_can_show():
    stated = release(2, response_bound=5.0)
    Rkhs(2.0).check(stated, Dataset([[0.1], [0.2]], [2.0, -1.0]))
    with pytest.raises(InputError, match="record 1 has a response above rkhs_norm = 2"):
        Rkhs(2.0).check(stated, Dataset([[0.1], [0.2]], [2.0, -2.1]))
    with pytest.raises(InputError, match="rkhs_norm must be positive"):
        Rkhs(0.0)


def test_diagonal_regime_needs_its_kernel():
    with pytest.raises(InputError, match="needs the diagonal kernel"):
        Diagonal().sensitivity(release(5))
    sensitivity = Diagonal().sensitivity(release(5, kernel=diagonal()))
    assert float(sensitivity.shift) == pytest.approx(math.sqrt(2) / 0.6)
    assert float(sensitivity.variance) == 1.0


def regime_pair(regime, rng, stated, d):
    """A dataset pair that satisfies a regime's premises and tries to leak much."""
    n = stated.records
    if regime.name == "separated":
        places = stated.domain.grid((int(1 / regime.separation),) * d)
        chosen = places[rng.choice(len(places), n + 1, replace=False)]
        sign = rng.choice([-1.0, 1.0])
        y = np.append(np.full(n, sign), -sign) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], n + 1)
    elif regime.name == "diagonal":
        chosen, y = rng.integers(0, 3, (n + 1, d)) / 2.0, rng.choice([-1.0, 1.0], n + 1)
    else:  # rkhs: f = sum of two kernel sections, scaled to the norm
        centres, weights = rng.random((2, d)), rng.choice([-1.0, 1.0], 2)
        gram = stated.kernel(centres, centres)
        weights *= regime.norm / math.sqrt(weights @ gram @ weights)
        chosen = np.concatenate([np.tile(rng.random((1, d)), (n - 1, 1)), centres])
        y = stated.kernel(chosen, centres) @ weights
    order = rng.permutation(n + 1) if regime.name == "separated" else np.arange(n + 1)
    chosen, y = chosen[order], y[order]
    return Dataset(chosen[:n], y[:n]), Dataset(chosen[n:], y[n:])


@pytest.mark.parametrize("name", ["rkhs", "separated", "diagonal"])
@pytest.mark.parametrize("index", [0, 1, 2], ids=["posterior", "noised", "centred"])
def test_no_pair_of_a_regime_exceeds_its_certificate(name, index):
    """150 datasets each, all records; some pair must reach 60 % of the certificate, or nothing is shown."""
    rng, nearest = np.random.default_rng(90), 0.0
    for _ in range(150):
        d, n = (1 if name == "separated" else int(rng.integers(1, 3))), int(rng.integers(2, 7))
        regime = {"rkhs": Rkhs(1.5), "separated": Separated(0.1), "diagonal": Diagonal()}[name]
        kernel = {"rkhs": rbf(0.4), "separated": rbf(0.03), "diagonal": diagonal()}[name]
        paths, delta = int(rng.choice([1, 10])), float(rng.choice([1e-3, 1e-6]))
        mechanism = mechanisms(
            n,
            d,
            response_bound=2.0 if name == "rkhs" else 1.0,
            kernel=kernel,
            ridge=10 ** rng.uniform(-0.3, 0.5),
            scale=1e4 if rng.random() < 0.33 else 10 ** rng.uniform(-0.3, 0.5),
            paths=paths,
        )[index]
        data, other = regime_pair(regime, rng, mechanism.release, d)
        regime.check(mechanism.release, data)
        exact = float(exact_epsilon(mechanism.leave_one_out(data, other), delta, paths=paths).max())
        certified = certify_closed(mechanism, regime, delta).epsilon
        assert exact <= certified * (1 + 1e-9) + 1e-9
        nearest = max(nearest, exact / certified)
    assert nearest > 0.6


def test_a_kernel_with_negative_values_needs_the_floor():
    """THEORY section 1. A cosine kernel, kappa = -1: without the floor V would be 1/11, and a pair leaks more.

    Core at 0, the record a quarter period away, where the core says nothing: its posterior variance is 1.
    """
    from gpleak.audit.accountant import renyi_epsilon as convert
    from gpleak.mechanisms import Kernel, Sensitivity
    from gpleak.mechanisms.regimes import peak_root

    cosine = Kernel("cosine", 1.0, lambda a, b: np.cos(a - b.T))
    stated = release(11, kernel=cosine, ridge=1.0, scale=1e3, domain=Domain([[0.0, math.pi]]))
    assert stated.kappa == pytest.approx(-1.0)
    floored = Bounded().sensitivity(stated)
    assert float(floored.variance) == 1.0
    mechanism = ExactPosterior(stated)
    data = Dataset([[0.0]] * 10 + [[math.pi / 2]], [0.0] * 10 + [1.0])
    exact = float(exact_epsilon(mechanism.leave_one_out(data, Dataset([[0.0]], [-1.0]))[10, 0], 1e-3))
    assert exact <= certify_closed(mechanism, Bounded(), 1e-3).epsilon
    variance = np.asarray(1.0 - 10 / 11)
    drift = math.sqrt(10) * variance / (1.0 + variance)
    unfloored = Sensitivity("bounded", variance, drift + 2 * peak_root(variance, np.asarray(1.0)), None)
    assert exact > float(convert(mechanism.renyi(unfloored), 1e-3)[0])


@pytest.mark.parametrize(
    ("mu", "delta", "exact", "mironov"),
    [
        (1.0, 1e-5, 4.37718, 5.29853),
        (1.0, 1e-18, 8.99718, 9.60457),
        (1.0, 1e-30, 11.74388, 12.25395),
        (100.0, 1e-5, 5425.510, 5479.853),
        (1000.0, 1e-5, 504263.9, 504798.6),
    ],
)
def test_case_16_extremes(mu, delta, exact, mironov):
    """CASES 16: no overflow, no cap, between the exact value and Mironov's; and no noise is infinite, not an error."""
    assert exact * (1 - 1e-6) <= float(renyi_epsilon(line(mu**2 / 2), delta)[0]) <= mironov * (1 + 1e-6)
    assert epsilon_of_mu(mu, delta) == pytest.approx(exact, rel=1e-5)
    assert float(renyi_epsilon(line(math.inf), delta)[0]) == math.inf
    assert epsilon_of_mu(math.inf, delta) == math.inf
    assert float(renyi_epsilon(line(0.0), delta)[0]) < 1e-10  # the search ends at an order of 1e13


GDP = json.loads((REFERENCE / "gdp.json").read_text())["rows"]


@pytest.mark.parametrize(
    ("table", "function"),
    [
        ("gdp_delta", delta_of_mu),
        ("gdp_eps", epsilon_of_mu),
        ("mu_from_eps_advantage", mu_from_advantage),
        ("mu_from_eps_precision", mu_from_precision),
        ("mu_from_eps_profile", mu_of_epsilon),
    ],
)
def test_gaussian_dp_reference(table, function):
    """tests/reference/gdp.json."""
    for first, second, expected in GDP[table]:
        assert function(first, second) == pytest.approx(expected, rel=1e-9)


def test_gaussian_dp_oracles():
    """THEORY section 10, and case 16's extremes."""
    assert trade_off(1.0, 0.05) == pytest.approx(0.7405, abs=5e-5)
    for mu, expected in ((0.5, 0.401), (1, 0.309), (3, 0.067), (6, 0.00135)):
        point = norm.cdf(-mu / 2)
        assert point == pytest.approx(expected, abs=6e-4)
        assert trade_off(mu, point) == pytest.approx(point)
    assert mu_of_pure_epsilon(1.0) == pytest.approx(1.232, abs=5e-4)
    assert epsilon_of_mu(100.0, 1e-5) == pytest.approx(5425.510, abs=1e-3)
    assert epsilon_of_mu(1000.0, 1e-5) == pytest.approx(504263.9, abs=0.1)
    assert epsilon_of_mu(math.inf, 1e-5) == math.inf
    assert epsilon_of_mu(0.0, 1e-5) == 0.0
    assert mu_of_epsilon(0.0, 1e-5) > 0.0


def test_mu_has_no_regret_for_a_gaussian_pair_and_some_for_others():
    gaussian = pair(0.5, 0.0, 0.4, 0.4, 0.4, 0.7, 1.0)
    quadratic = pair(1.5, -1.2, 0.6, 0.5, 0.2, 0.7, 1.0)
    for law, low, high in ((gaussian, 0.0, 1e-9), (quadratic, 1e-4, 1.0)):
        epsilon = float(exact_epsilon(law, 1e-3))

        def profile(at, law=law):
            return max(float(pair_delta(law, at)), float(pair_delta(law.swapped(), at)))

        report = gdp_report(epsilon, 1e-3, profile)
        assert low <= report.regret <= high
        for at in np.linspace(0, 2 * epsilon, 23):
            assert profile(at) <= delta_of_mu(report.mu, at) + report.regret + 1e-4


def test_trade_off_curve_of_a_gaussian_pair():
    law = pair(0.9, 0.0, 0.4, 0.4, 0.4, 0.7, 1.0)
    mu = mu_of_epsilon(float(exact_epsilon(law, 1e-3, paths=4)), 1e-3)
    for fpr in (1e-6, 0.01, 0.3, 0.9):
        assert smallest_fnr(law, fpr, paths=4) == pytest.approx(trade_off(mu, fpr), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("paths", [1, 6])
def test_trade_off_curve_against_draws(paths):
    """Rates of the optimal test on 40,000 draws of each side; 6 standard errors, false-failure rate 2e-9 each."""
    rng, count = np.random.default_rng(91), 40_000
    law = pair(1.0, -0.6, 0.5, 0.7, 0.1, 0.8, 1.0)
    gram = np.array([[float(law.gram), float(law.gram_cross)], [float(law.gram_cross), float(law.gram_prime)]])
    ratios = []
    for tilt, drop, column in ((law.tilt, law.drop, 0), (law.tilt_prime, law.drop_prime, 1)):
        w = gram[:, column]
        draws = rng.multivariate_normal(float(tilt) * w, gram - float(drop) * np.outer(w, w), (count, paths))
        ratios.append(law.log_likelihood_ratio(draws[..., 0], draws[..., 1]).sum(axis=1))
    thresholds = np.array([-2.0, -0.5, 0.0, 0.4, 3.0])
    curve = trade_off_at(law, thresholds, paths=paths)
    for i, t in enumerate(thresholds):
        assert np.mean(ratios[0] <= t) == pytest.approx(curve.fnr[i], abs=6 * 0.5 / math.sqrt(count))
        assert np.mean(ratios[1] > t) == pytest.approx(curve.fpr[i], abs=6 * 0.5 / math.sqrt(count))


@dataclasses.dataclass(frozen=True)
class Done:
    """What a process would have left: test_cli.py starts real ones."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, capsys):
    """The command in this process: no second for the libraries to load, and a supremum is searched for once."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpleak", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return Done(int(end.value.code), *capsys.readouterr())

    handler = signal.getsignal(signal.SIGINT)
    yield command
    signal.signal(signal.SIGINT, handler)


JUMP = ROOT / "examples" / "jump" / "audit.toml"


def test_certify_prints_strict_json_without_data(run):
    done = run("certify", JUMP, "--json", "--set", "release.mechanism=centred", "--solve", "ridge", "--epsilon", "3")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout, parse_constant=pytest.fail)
    assert [entry["method"] for entry in record["certificates"]] == ["renyi", "dominating_pair"]
    assert record["best"] == record["certificates"][1]
    assert record["best"]["alpha"] is None
    assert record["covariance_lower_bound"] <= record["best"]["epsilon"]
    assert set(record["gdp"]) == {"mu", "regret"}
    assert record["l_max"] == {"epsilon": 3.0, "paths": 0}
    assert record["solved"]["parameter"] == "ridge"
    assert record["solved"]["epsilon"] <= 3.0
    assert record["release"]["records"] == 10


def test_certify_says_infeasible_and_refuses_nonsense(run):
    done = run("certify", JUMP, "--solve", "scale", "--epsilon", "0.1")
    assert done.returncode == 1
    assert "infeasible" in done.stdout
    assert run("certify", JUMP, "--solve", "kernel", "--epsilon", "1").returncode == 2
    assert "add --epsilon" in run("certify", JUMP, "--solve", "ridge").stderr


def test_curve_writes_a_picture_and_a_table(tmp_path, run):
    done = run("curve", JUMP, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "curve.csv")
    assert set(table["parameter"]) == {"ridge", "scale", "paths"}
    for name, direction in (("ridge", -1), ("scale", -1), ("paths", 1)):
        part = table[table["parameter"] == name]
        assert (direction * part["epsilon"].diff().dropna() >= -1e-9).all()
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_curves_match_the_certificate_where_they_cross_it():
    mechanism = mechanisms(30)[0]
    found = curves(mechanism, Bounded(), 1e-3)
    at = certify_closed(mechanism, Bounded(), 1e-3).epsilon
    for name, middle in (("ridge", 40), ("scale", 40), ("paths", 0)):
        assert found[name][1][middle] == pytest.approx(at, rel=1e-9)
