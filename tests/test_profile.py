"""Exact profile of a pair: oracles, two independent methods, extremes."""

import math

import numpy as np
import pytest
import second_methods
from dp_accounting import GaussianDpEvent, dp_event
from dp_accounting.pld import PLDAccountant
from scipy.special import log_ndtr
from support import pair, reference

from gpleak.mechanisms import InputError, PairLaw, exact_epsilon, pair_delta, pair_epsilon
from gpleak.mechanisms.contour import log_profile
from gpleak.mechanisms.pair import QuadraticForm, quadratic_form

FIVE = ("m", "m_prime", "v", "v_prime", "rho", "ridge", "scale")


def gaussian_pair(mu):
    """A pair at one location: exactly a Gaussian shift by mu standard deviations."""
    ridge, v = 0.7, 0.4
    shift = mu * math.sqrt(v * ridge**2 / (v + ridge**2)) * (v + ridge**2) / v
    return pair(shift, 0.0, v, v, v, ridge, 1.0)


def test_reference_profiles():
    """tests/reference/pair_profile.json: FFT and quadrature, absolute accuracy about 1e-12."""
    for row in reference("pair_profile"):
        law = pair(*(row[name] for name in FIVE))
        for side, expected in ((law, row["delta_forward"]), (law.swapped(), row["delta_backward"])):
            assert pair_delta(side, row["epsilon"], paths=row["paths"]) == pytest.approx(expected, abs=1e-11, rel=1e-8)


def test_reference_epsilons():
    """tests/reference/exact_pairs.json, printed to five decimals; one is near 34."""
    for row in reference("exact_pairs"):
        law = pair(*(row[name] for name in FIVE))
        assert exact_epsilon(law, row["delta"], paths=row["paths"]) == pytest.approx(row["epsilon_exact"], rel=1e-5)
        forward = pair_epsilon(law, row["delta"], paths=row["paths"])
        assert forward == pytest.approx(row["epsilon_forward"], abs=1e-5)


def random_pairs(rng, count):
    for _ in range(count):
        v, v_prime = 10.0 ** rng.uniform(-3, 0, 2)
        rho = math.sqrt(v * v_prime) * rng.uniform(-0.95, 0.95)
        ridge, scale = 10.0 ** rng.uniform(-0.7, 0.7), 10.0 ** rng.uniform(-0.5, 0.5)
        yield (*rng.uniform(-2, 2, 2), v, v_prime, rho, ridge, scale)


@pytest.mark.parametrize("case", list(random_pairs(np.random.default_rng(5), 12)))
@pytest.mark.parametrize("target", [0.3, 1e-3, 1e-9, 1e-40])
def test_one_path_agrees_with_quadrature_between_kinks(case, target):
    """The second method starts from the two densities, at 40 digits; depths down to 1e-40."""
    law = pair(*case)
    epsilon = float(pair_epsilon(law, target))
    curvature, shift = second_methods.quadratic(second_methods.pair_terms(*case))
    ours = float(pair_delta(law, epsilon))
    assert ours == pytest.approx(float(second_methods.delta_by_kinks(curvature, shift, epsilon)), rel=3e-9)
    if epsilon > 0:
        assert ours == pytest.approx(target, rel=1e-8)


@pytest.mark.parametrize("case", list(random_pairs(np.random.default_rng(6), 10)))
@pytest.mark.parametrize("paths", [2, 7, 40])
def test_many_paths_agree_with_chi_squares(case, paths):
    law = pair(*case)
    curvature, shift = second_methods.quadratic(second_methods.pair_terms(*case))
    for target in (0.5, 1e-3):
        epsilon = float(pair_epsilon(law, target, paths=paths))
        second = second_methods.delta_by_chi_squares(curvature, shift, epsilon, paths)
        assert pair_delta(law, epsilon, paths=paths) == pytest.approx(second, abs=3e-9)


@pytest.mark.parametrize("mu", [1e-3, 0.2, 1.0, 5.0, 60.0])
@pytest.mark.parametrize("paths", [1, 9])
def test_pair_at_one_location_is_gaussian(mu, paths):
    """``delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)`` with mu sqrt(L) for L paths."""
    law, total = gaussian_pair(mu), mu * math.sqrt(paths)
    for epsilon in (0.0, 0.3, 2.0, 30.0):
        a = log_ndtr(total / 2 - epsilon / total)
        b = epsilon + log_ndtr(-total / 2 - epsilon / total)
        expected = -math.exp(a) * math.expm1(b - a)
        got = float(pair_delta(law, epsilon, paths=paths))
        # The closed form cancels: it is good to the rounding unit times its larger term.
        assert got == pytest.approx(expected, rel=1e-8, abs=1e-15 + 4e-16 * math.exp(a))


@pytest.mark.parametrize(("mu", "delta"), [(1.0, 1e-5), (3.0, 1e-3), (0.5, 1e-6)])
def test_second_opinion_on_gaussian_epsilon(mu, delta):
    """dp-accounting's privacy-loss distribution, whose discretisation is pessimistic by about 1e-4."""
    accountant = PLDAccountant().compose(dp_event.ComposedDpEvent([GaussianDpEvent(1.0 / mu)]))
    assert float(pair_epsilon(gaussian_pair(mu), delta)) == pytest.approx(accountant.get_epsilon(delta), abs=2e-4)


def test_extremes_stay_exact():
    """THEORY's Gaussian oracles at small delta and large mu; case 16's left ends (exact epsilon)."""
    for delta, expected in ((1e-5, 4.37718), (1e-18, 8.99718), (1e-30, 11.74388)):
        assert float(pair_epsilon(gaussian_pair(1.0), delta)) == pytest.approx(expected, abs=6e-6)
    assert float(pair_epsilon(gaussian_pair(100.0), 1e-5)) == pytest.approx(5425.510, abs=6e-4)
    assert float(pair_epsilon(gaussian_pair(1000.0), 1e-5)) == pytest.approx(504263.9, abs=0.06)


def test_identical_datasets_leak_nothing():
    law = pair(0.5, 0.5, 0.3, 0.3, 0.3, 1.0, 1.0)
    assert pair_delta(law, 0.0) == 0.0
    assert exact_epsilon(law, 1e-12) == 0.0


def test_bounded_ratio_has_no_mass_above_its_largest_value():
    """Where D's paths are narrower in every direction the ratio has a maximum, and delta is exactly 0 above it."""
    law = pair(0.0, 0.0, 0.8, 0.0, 0.0, 1.0, 1.0)
    top = 0.5 * math.log(1.8 / 1.0)
    assert pair_delta(law, top * 1.000001) == 0.0
    assert 0.0 < float(pair_delta(law, top * 0.999)) < 1e-3
    assert float(pair_epsilon(law, 1e-12)) < top


def test_two_scales_converge():
    """A nearly flat direction beside a strongly curved one: the integrand has two widely separated scales."""
    form = QuadraticForm(np.array([[-5.53902395e-05, 1.28654583]]), np.array([[-0.03673209, -0.0117627]]))
    got = float(np.exp(log_profile(form, np.array([5.0]), paths=1).log_delta[0]))
    second = float(second_methods.delta_by_kinks(form.curvature[0], form.shift[0], 5.0))
    assert got == pytest.approx(second, rel=1e-8)


def test_whole_range_of_pairs_converges():
    """6,000 pairs over many orders of magnitude: a profile value either converges or raises; none raises."""
    rng = np.random.default_rng(7)
    n = 6_000
    v, v_prime = 10.0 ** rng.uniform(-6, 0, (2, n))
    rho = np.sqrt(v * v_prime) * rng.choice([0.0, 1.0, -1.0, 0.5, 0.999999, -0.3], n)
    ridge, scale = 10.0 ** rng.uniform(-1.5, 1.3, n), 10.0 ** rng.uniform(-1.5, 1.5, n)
    m, m_prime = rng.uniform(-2, 2, (2, n)) * rng.choice([0.0, 1.0, 1e-4], (2, n))
    law = pair(m, m_prime, v, v_prime, rho, ridge, scale)
    for paths in (1, 2, 100):
        for epsilon in (0.0, 1.0, 30.0):
            delta = pair_delta(law, epsilon, paths=paths)
            assert np.all((delta >= 0) & (delta <= 1))
    epsilon = exact_epsilon(law, 1e-3, paths=3)
    assert np.all(np.isfinite(epsilon))
    assert epsilon.max() > 1e4


def test_profile_falls_and_slope_is_its_derivative():
    form = quadratic_form(pair(1.5, -1.2, 0.6, 0.5, 0.2, 1.0, 1.0))
    for paths in (1, 12):
        for epsilon in (0.0, 0.4, 3.0, 12.0):
            step = 1e-5
            points = [log_profile(form, np.array([epsilon + s]), paths=paths) for s in (0.0, step, 2 * step)]
            numeric = (points[2].log_delta - points[0].log_delta) / (2 * step)
            assert points[1].slope == pytest.approx(numeric, rel=1e-6, abs=1e-9)
            assert points[1].slope < 0


def test_directions_differ_and_the_larger_counts():
    law = pair(1.0, 1.0, 0.3, 0.9, -0.1, 0.5, 1.0)
    forward, backward = float(pair_epsilon(law, 1e-3)), float(pair_epsilon(law.swapped(), 1e-3))
    assert abs(forward - backward) > 0.1
    assert float(exact_epsilon(law, 1e-3)) == max(forward, backward)


def test_ratio_is_the_ratio_of_the_two_densities():
    rng = np.random.default_rng(8)
    from scipy.stats import multivariate_normal

    case = (0.7, -1.1, 0.6, 0.4, -0.2, 0.8, 1.3)
    laws = second_methods.pair_terms(*case)
    values = rng.standard_normal((50, 2)) * 2
    direct = multivariate_normal(*laws[0]).logpdf(values) - multivariate_normal(*laws[1]).logpdf(values)
    law: PairLaw = pair(*case)
    s = values / case[-1] ** 2  # statistics are <w, path> = u / sigma^2
    assert law.log_likelihood_ratio(s[:, 0], s[:, 1]) == pytest.approx(direct, rel=1e-10)


@pytest.mark.parametrize("delta", [0.0, 1.0, 1e5, -1e-3, float("nan")])
def test_delta_out_of_range_is_refused(delta):
    with pytest.raises(InputError, match=r"delta must be in \(0, 1\).*not 1/delta"):
        pair_epsilon(gaussian_pair(1.0), delta)


def test_other_bad_arguments_are_refused():
    with pytest.raises(InputError, match="epsilon must be at least 0"):
        pair_delta(gaussian_pair(1.0), -0.1)
    with pytest.raises(InputError, match="paths must be a whole number"):
        pair_delta(gaussian_pair(1.0), 0.1, paths=0)
