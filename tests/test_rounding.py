"""Rounded files: their tests stay exact where values coincide, lie on a lattice or are alike."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom
from support import release

from gpleak import exponential, rbf
from gpleak.audit.file_fidelity import file_fidelity, stated_law
from gpleak.audit.released import Released
from gpleak.audit.rounding import alike, hiding_noise, least_variance, noisy, on_lattice
from gpleak.mechanisms import Centred, Dataset, ExactPosterior

FEW = Dataset(np.linspace(0, 1, 20)[:, None], np.random.default_rng(411).uniform(-1, 1, 20))
KERNELS = {"rough": exponential(0.02), "smooth": rbf(0.4)}
GRID = [
    # kernel, points, paths, standard deviations a step, files. Without the noise nearly all fail too often.
    ("rough", 1, 1, 1.0, 400),
    ("rough", 1, 200, 1.0, 100),
    ("rough", 1, 200, 2.0, 100),
    ("rough", 1, 1000, 4.0, 100),
    ("rough", 3, 1000, 1.5, 60),
    ("rough", 2, 20, 2.0, 200),
    ("rough", 3, 1000, 10.0, 20),
    ("rough", 5, 100, 1.0, 100),
    ("rough", 80, 50, 1.0, 60),
    ("rough", 80, 1, 2.0, 200),
    ("smooth", 10, 1, 1.0, 400),
    ("smooth", 10, 200, 30.0, 100),
    ("smooth", 10, 1000, 4.0, 60),
    ("smooth", 80, 20, 100.0, 60),
]


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize(("kernel", "count", "paths", "steps", "files"), GRID)
def test_rounded_files_fail_no_more_often_than_they_should(kernel, count, paths, steps, files, mean):
    """Right files of a release with a mean and of one without, rounded coarsely: binomial at 1 %, each check and all.

    28 cases of at most 15 checks and all of them together at 2e-9: failure rate 9e-7.
    """
    points = np.linspace(0.03, 0.97, count)[:, None]
    stated = release(20, points=points, kernel=KERNELS[kernel], ridge=2.0)
    mechanism = ExactPosterior(stated) if mean else Centred(stated)
    sampler, rng = mechanism.sampler(FEW, points), np.random.default_rng([412, count, paths])
    spread = np.sqrt(mechanism.path_recipe.law(FEW, points).covariance[0].diagonal().max())
    step, law, failed = float(spread / steps), None, Counter()
    for _ in range(files):
        drawn = sampler.draw(1, paths=paths, rng=rng)[0]
        file = Released(points, np.round(drawn / step) * step, step)
        law = law or stated_law(mechanism.path_recipe, FEW, file)
        found = file_fidelity(law, file, significance=0.01)
        failed.update(check.name for check in found.checks if check.p_value <= 0.01)
        failed["all"] += not found.passed
    assert law.directions >= 1
    assert max(failed.values()) <= binom.isf(2e-9, files, 0.01), failed


def test_noise_is_the_files_own():
    """Given by the values, so that the same file has the same p-value; normal, and nothing where nothing is rounded."""
    values = np.round(np.random.default_rng(413).standard_normal((100, 50)), 1)
    noise = (noisy(values, 0.5) - values) / 0.5
    assert np.array_equal(noisy(values, 0.5), noisy(values.copy(), 0.5))
    assert noisy(values, 0.0) is values
    other = noisy(values + 0.1, 0.5) - values - 0.1
    # Variances and a product of 5,000 numbers, within 6 standard errors: 2e-9 each.
    assert abs(np.square(noise).mean() - 1) <= 6 * np.sqrt(2 / 5000)
    assert abs((noise * other / 0.5).mean()) <= 6 / np.sqrt(5000)
    assert abs((noise * values).mean()) <= 6 / np.sqrt(5000)
    covariance = np.full((4, 4), 9.0) + 1e-9 * np.eye(4)
    assert hiding_noise(np.eye(3), 0.1) == pytest.approx(0.075)
    assert hiding_noise(covariance, 1.0) == pytest.approx(0.75 * 2.0, rel=0.02)  # four alike: a lattice of step 2


def test_steps_that_differ_are_noticed():
    values = np.random.default_rng(415).standard_normal(200)
    assert on_lattice(np.round(values, 2), 0.01)
    assert on_lattice(1e6 * np.round(values), 1e6)
    assert not on_lattice(values, 0.01)
    assert not on_lattice(values.astype(np.float32).astype(float), 2.0**-22)
    own = np.diag([1.0, 4.0])
    assert least_variance(own, 0.1, paths=1, even=True) == pytest.approx(0.01)
    assert least_variance(own, 0.1, paths=1, even=False) == pytest.approx(0.01 * 100 / 12)
    assert least_variance(own, 0.1, paths=5000, even=False) == pytest.approx(0.01 * 1000 / 12)


def test_values_within_a_step_are_left_out():
    """A value at a record of a tiny ridge always rounds to the same: its error is no noise, and would bend a mean."""
    points = np.append(FEW.covariates[:3], [[0.51], [0.27]], axis=0)
    stated = release(20, points=points, kernel=exponential(0.3), ridge=0.01)
    mechanism, step = ExactPosterior(stated), 0.05
    law = stated_law(mechanism.path_recipe, FEW, Released(points, np.zeros((1, 5)), step))
    assert law.directions == 2
    assert (law.whitening.columns[0][:3][:, law.whitening.kept[0]] == 0).all()
    paths = (
        np.round(mechanism.sampler(FEW, points).draw(1, paths=2000, rng=np.random.default_rng(414))[0] / step) * step
    )
    file = Released(points, paths, step)  # 2,000 paths see a bend of a tenth of a step; significance 1e-6
    assert file_fidelity(stated_law(mechanism.path_recipe, FEW, file), file, significance=1e-6).passed


def test_rounding_errors_are_alike_where_values_are():
    """The bound on covariances of rounding errors against 200,000 draws: within 6 standard errors (2e-9)."""
    rng, step = np.random.default_rng(405), 0.1
    assert alike(np.eye(3), step) == 0.0  # far apart: independent
    together = alike(np.ones((3, 3)) + 1e-9 * np.eye(3), step)
    assert together == pytest.approx(2 * step**2 / 12, rel=0.05)  # three errors that are one
    for root in ([[1.0, 0.0], [0.999, 0.02]], [[1.0, 0.0], [-0.999, 0.02]], [[1.0, 0.0], [1.999, 0.02]]):
        covariance = np.array(root) @ np.array(root).T
        values = rng.standard_normal((200_000, 2)) @ np.array(root).T
        errors = np.round(values / step) * step - values
        found, stated = abs(float((errors[:, 0] * errors[:, 1]).mean())), alike(covariance, step)
        assert found == pytest.approx(stated, abs=6 * step**2 / 12 / np.sqrt(200_000))
        assert found > 0.05 * step**2 / 12
    assert alike(np.array([[1.0, 0.0], [0.0, 0.0]]), step) == 0.0
