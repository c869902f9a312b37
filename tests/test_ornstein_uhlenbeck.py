"""The O(n) algebra of the Ornstein-Uhlenbeck process against dense matrices, in float64 and in 40 digits.

Weights of records in a posterior mean are not negative for this kernel (every step of the filter is a mixture), so
the mean of the absolute responses is the natural unit for an error of the mean: also where the mean is 1e-20.
"""

import mpmath
import numpy as np
import pytest

from gpleak.mechanisms import InputError
from gpleak.mechanisms.ornstein_uhlenbeck import _weights, filtered

# Against 40 digits. Worst seen 6e-14, in means some hundred length scales from the data: exp(-d) has error d eps.
SHARP = 3e-13
EPS = np.finfo(float).eps


def dense(covariates, responses, precision, points, *, length_scale):
    """Log likelihood, posterior mean and covariance by n x n matrices in float64, and the n x n matrix."""
    x, y, p = (one[precision > 0] for one in (covariates, responses, precision))
    gram = np.exp(-np.abs(x[:, None] - x) / length_scale) + np.diag(1 / p)
    reach = np.exp(-np.abs(points[:, None] - x) / length_scale)
    prior = np.exp(-np.abs(points[:, None] - points) / length_scale)
    likelihood = -0.5 * (y @ np.linalg.solve(gram, y) + np.linalg.slogdet(gram)[1] + len(x) * np.log(2 * np.pi))
    covariance = prior - reach @ np.linalg.solve(gram, reach.T)
    return likelihood, reach @ np.linalg.solve(gram, y), covariance, gram


def exact(covariates, responses, precision, points, *, length_scale):
    """The same in 40 digits: log likelihood and the sum of its terms' sizes, mean, unit of the mean, covariance."""
    with mpmath.workdps(40):
        kept = [i for i in range(len(covariates)) if precision[i] > 0]
        x, y = ([mpmath.mpf(float(one[i])) for i in kept] for one in (covariates, responses))
        t, scale = [mpmath.mpf(float(point)) for point in points], mpmath.mpf(float(length_scale))

        def kernel(a, b):
            return mpmath.matrix([[mpmath.exp(-abs(u - v) / scale) for v in b] for u in a])

        covariance = kernel(t, t)
        if not kept:
            zero = np.zeros(len(points))
            return 0.0, 0.0, zero, zero, as_float(covariance)
        gram = kernel(x, x)
        for i, row in enumerate(kept):
            gram[i, i] += 1 / mpmath.mpf(float(precision[row]))
        factor = mpmath.cholesky(gram)
        reach, response = kernel(x, t), mpmath.matrix(y)
        white, white_response, white_size = (
            mpmath.matrix(forward(factor, one)) for one in (reach, response, response.apply(abs))
        )
        logs = [2 * mpmath.log(factor[i, i]) for i in range(len(kept))]
        constant, square = len(kept) * mpmath.log(2 * mpmath.pi), sum(v * v for v in white_response)
        covariance -= white.T * white
        return (
            float(-(square + sum(logs) + constant) / 2),
            float((square + sum(abs(one) for one in logs) + constant) / 2),
            as_float(white.T * white_response)[:, 0],
            as_float(white.T * white_size)[:, 0],
            as_float(covariance),
        )


def forward(lower, columns):
    """``lower^-1 @ columns``."""
    solved = columns.copy()
    for i in range(lower.rows):
        for column in range(columns.cols):
            known = mpmath.fsum(lower[i, j] * solved[j, column] for j in range(i))
            solved[i, column] = (solved[i, column] - known) / lower[i, i]
    return solved


def as_float(matrix):
    return np.array(matrix.tolist(), dtype=object).astype(float)


def random_stack(rng, size, count, ridge):
    """Datasets with duplicated places, absent records and records that stand for several; and points to look at."""
    covariates = rng.random((size, count))
    covariates[:, count // 2 :][rng.random((size, count - count // 2)) < 0.3] = 0.25
    responses = rng.choice([-1.0, 1.0, 0.3], (size, count))
    precision = rng.choice([0.0, 1.0, 1.0, 3.0], (size, count)) / ridge**2
    points = np.array([1.7, -0.4, 0.25, 0.5, covariates[0, 0], 0.5, 0.250001])  # outside, equal to data, equal, close
    return covariates, responses, precision, points


def far_off(got, truth, unit):
    """The largest error in units of `unit`."""
    return float(np.max(np.abs(got - truth) / np.maximum(unit, 1e-300), initial=0.0))


CASES = [
    (count, ridge, length_scale)
    for count in (1, 2, 10)
    for ridge in (1e-6, 1e-4, 0.1, 10.0)
    for length_scale in (1e-3, 0.3, 1e3, 1e8)
]


@pytest.mark.parametrize(("count", "ridge", "length_scale"), [*CASES, (60, 1e-5, 0.5)])
def test_agrees_with_dense_matrices_in_forty_digits(count, ridge, length_scale):
    """Likelihood, mean, variance, and the covariance of `sample`, all to 3e-13 relative."""
    rng = np.random.default_rng([count, CASES.index((count, ridge, length_scale)) if count < 60 else 0])
    covariates, responses, precision, points = random_stack(rng, 3 if count < 60 else 1, count, ridge)
    got = filtered(covariates, responses, precision, length_scale=length_scale)
    seen = got.moments(points)
    centred = filtered(covariates, 0.0, precision, length_scale=length_scale)
    # Path j belongs to the j-th unit vector, so a column of `root` is a path.
    root = centred.sample(points, scale=0.5, normals=np.eye(len(points))).transpose(0, 2, 1)
    for b, data in enumerate(zip(covariates, responses, precision, strict=True)):
        likelihood, terms, mean, unit, covariance = exact(*data, points, length_scale=length_scale)
        variance = np.diag(covariance)
        assert far_off(got.log_likelihood[b], likelihood, terms) < SHARP
        assert far_off(seen.mean[b], mean, unit) < SHARP
        assert far_off(seen.variance[b], variance, variance) < SHARP
        unit = 0.25 * np.sqrt(np.outer(variance, variance))
        assert far_off(root[b] @ root[b].T, 0.25 * covariance, unit) < SHARP


@pytest.mark.parametrize("count", [1, 2, 10, 60])
@pytest.mark.parametrize("ridge", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("length_scale", [1e-3, 0.3, 1e3])
def test_agrees_with_dense_matrices_in_float64(count, ridge, length_scale):
    """Many datasets. The tolerance is what the dense solution itself can lose: eps times the condition number."""
    rng = np.random.default_rng([7, count])
    covariates, responses, precision, points = random_stack(rng, 30, count, ridge)
    got = filtered(covariates, responses, precision, length_scale=length_scale)
    seen = got.moments(points)
    for b, data in enumerate(zip(covariates, responses, precision, strict=True)):
        likelihood, mean, covariance, gram = dense(*data, points, length_scale=length_scale)
        tolerance = 20 * EPS * (np.linalg.cond(gram) if len(gram) else 1.0)
        assert got.log_likelihood[b] == pytest.approx(likelihood, rel=tolerance, abs=count * tolerance)
        assert seen.mean[b] == pytest.approx(mean, rel=0, abs=tolerance)
        assert seen.variance[b] == pytest.approx(np.diag(covariance), rel=0, abs=tolerance)


def wrong(fault, covariates, responses, precision, point, *, length_scale):
    """A filter written out for one dataset and one point, with one fault: posterior variance and log likelihood."""

    def fresh(distance):
        return 1 - np.exp(-2 * distance) if fault == "cancelling 1 - exp" else -np.expm1(-2 * distance)

    def side(records):
        mean, variance, place, likelihood = 0.0, 1.0, None, 0.0
        for x, y, p in records:
            distance = np.inf if place is None else abs(x - place) / length_scale
            mean, variance, place = np.exp(-distance) * mean, np.exp(-2 * distance) * variance + fresh(distance), x
            total = variance + 1 / p
            likelihood -= 0.5 * (np.log(2 * np.pi * total) + (y - mean) ** 2 / total)
            mean += variance / total * (y - mean)
            variance = variance - variance**2 / total if fault == "cancelling update" else variance / (1 + p * variance)
        distance = np.inf if place is None else abs(point - place) / length_scale
        return np.exp(-2 * distance) * variance + fresh(distance), likelihood

    records = sorted(zip(covariates, responses, precision, strict=True))
    _, likelihood = side(records)
    inclusive = fault == "record counted on both sides"
    left, _ = side([one for one in records if one[0] <= point])
    right, _ = side([one for one in reversed(records) if one[0] > point or (inclusive and one[0] == point)])
    product = 0.0 if fault == "prior counted twice" else left * right
    return left * right / (left + right - product), likelihood


FAULTS = ["cancelling 1 - exp", "cancelling update", "prior counted twice", "record counted on both sides"]


@pytest.mark.parametrize("fault", [*FAULTS, "none"])
def test_the_comparison_sees_a_fault(fault):
    """Positive control: each fault is off by more than a hundred tolerances; without a fault the twin passes."""
    data = np.array([0.2, 0.2 + 1e-9, 0.6]), np.array([1.0, 1.0, -1.0]), np.full(3, 1e8)
    point = 0.2
    likelihood, terms, _, _, covariance = exact(*data, np.array([point]), length_scale=0.5)
    variance, twin = wrong(fault, *data, point, length_scale=0.5)
    if fault == "none":
        assert far_off(variance, covariance, covariance) < SHARP
        assert far_off(twin, likelihood, terms) < SHARP
    else:
        assert far_off(variance, covariance, covariance) > 100 * SHARP


def test_no_observation_gives_the_prior():
    """No record at all, and only absent records: mean 0, variance 1, likelihood 1, covariance the kernel."""
    points = np.array([-1.0, 0.3, 0.8])
    kernel = np.exp(-np.abs(points[:, None] - points) / 0.7)
    for count in (0, 1, 5):
        covariates = np.random.default_rng(2).random((4, count))
        got = filtered(covariates, np.ones(count), np.zeros(count), length_scale=0.7)
        seen = got.moments(points)
        assert got.log_likelihood.tolist() == [0.0] * 4
        assert seen.mean.tolist() == [[0.0] * 3] * 4
        assert seen.variance == pytest.approx(np.ones((4, 3)), rel=4 * EPS)
        root = got.sample(points, scale=3.0, normals=np.eye(3)).transpose(0, 2, 1)
        assert root @ root.transpose(0, 2, 1) == pytest.approx(np.broadcast_to(9 * kernel, (4, 3, 3)), rel=1e-14)


def test_the_order_of_records_and_points_does_not_matter():
    rng = np.random.default_rng(3)
    covariates, responses, precision, points = random_stack(rng, 20, 15, 0.1)
    normals = rng.standard_normal((20, 2, len(points)))
    one = filtered(covariates, responses, precision, length_scale=0.4)
    mixed, turned = rng.permutation(15), rng.permutation(len(points))
    other = filtered(covariates[:, mixed], responses[:, mixed], precision[:, mixed], length_scale=0.4)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-12)
    assert other.moments(points[turned]).mean == pytest.approx(one.moments(points).mean[:, turned], rel=1e-12)
    assert other.moments(points[turned]).variance == pytest.approx(one.moments(points).variance[:, turned], rel=1e-12)
    distinct = np.array([1.7, -0.4, 0.25, 0.5, 0.1, 0.6, 0.250001])  # of equal points the first one's number counts
    paths = one.sample(distinct, scale=1.0, normals=normals)
    assert other.sample(distinct[turned], scale=1.0, normals=normals[..., turned]) == pytest.approx(
        paths[..., turned], rel=1e-11, abs=1e-13
    )


def test_absent_records_are_as_if_left_out_and_collapsed_ones_as_if_repeated():
    rng = np.random.default_rng(4)
    covariates, responses, points = rng.random(8), rng.choice([-1.0, 1.0], 8), np.array([0.1, 0.5, 1.2])
    repeats = np.array([1, 0, 3, 1, 0, 2, 1, 1])
    weighted = filtered(covariates, responses, repeats / 0.01, length_scale=0.3)
    written_out = filtered(
        np.repeat(covariates, repeats), np.repeat(responses, repeats), np.full(1, 100.0), length_scale=0.3
    )
    assert weighted.moments(points).mean == pytest.approx(written_out.moments(points).mean, rel=1e-12)
    assert weighted.moments(points).variance == pytest.approx(written_out.moments(points).variance, rel=1e-12)
    present = repeats > 0
    left_out = filtered(covariates[present], responses[present], repeats[present] / 0.01, length_scale=0.3)
    assert weighted.log_likelihood == pytest.approx(float(left_out.log_likelihood), rel=1e-12)
    assert weighted.log_likelihood != pytest.approx(float(written_out.log_likelihood), rel=0.1)


def test_stacks_broadcast_and_equal_their_datasets_one_by_one():
    rng = np.random.default_rng(5)
    covariates, responses = rng.random((2, 3, 6)), rng.random((3, 6))
    points, normals = rng.random((2, 3, 4)), rng.standard_normal((2, 3, 5, 4))
    stacked = filtered(covariates, responses, np.array([4.0]), length_scale=0.3)
    common = stacked.sample(points[0, 0], scale=0.5, normals=normals)
    assert stacked.log_likelihood.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            alone = filtered(covariates[i, j], responses[j], np.full(6, 4.0), length_scale=0.3)
            assert alone.log_likelihood.shape == ()
            # The sum over records may be taken in another order.
            assert stacked.log_likelihood[i, j] == pytest.approx(float(alone.log_likelihood), rel=1e-14)
            for given in (points, points[0, 0]):
                here = alone.moments(given if given.ndim == 1 else given[i, j])
                assert stacked.moments(given).mean[i, j].tolist() == here.mean.tolist()
                assert stacked.moments(given).variance[i, j].tolist() == here.variance.tolist()
            drawn = alone.sample(points[0, 0], scale=0.5, normals=normals[i, j])
            assert common[i, j].tolist() == drawn.tolist()


def test_sample_scales_the_noise_and_not_the_mean():
    """No noise gives the mean; equal points get equal values; a path is affine in the numbers, of slope `scale`."""
    rng = np.random.default_rng(6)
    covariates, responses, precision, points = random_stack(rng, 10, 12, 0.05)
    got = filtered(covariates, responses, precision, length_scale=0.4)
    mean = got.moments(points).mean
    assert np.abs(mean).max() > 0.5
    nothing = got.sample(points, scale=3.0, normals=np.zeros((2, len(points))))
    assert nothing.tolist() == np.stack([mean, mean], axis=1).tolist()
    normals = rng.standard_normal((10, 2, len(points)))
    once, thrice = (got.sample(points, scale=scale, normals=normals) - nothing for scale in (1.0, 3.0))
    assert thrice == pytest.approx(3 * once, abs=1e-14)
    assert np.abs(once).max() > 0.5
    assert points[3] == points[5]
    assert once[..., 3].tolist() == once[..., 5].tolist()


def test_both_sides_combine_at_the_ends_of_the_range():
    """Variance 0 is certain, variance 1 knows nothing; both sides certain take the left, without dividing by 0."""
    left = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1e-300])
    right = np.array([0.0, 1.0, 0.0, 1.0, 1e-300, 1e-300])
    of_left, of_right = _weights(left, right)
    assert of_left.tolist() == [1.0, 1.0, 0.0, 1.0, 1.0, 0.5]
    assert of_right.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.5]  # both know nothing: both means are 0


def test_no_point_and_no_path():
    got = filtered(np.ones((2, 3)), np.ones(3), np.ones(3), length_scale=1.0)
    assert got.moments(np.zeros(0)).mean.shape == (2, 0)
    assert got.sample(np.zeros(0), scale=1.0, normals=np.zeros((2, 4, 0))).shape == (2, 4, 0)
    assert got.sample(np.zeros(3), scale=1.0, normals=np.zeros((0, 3))).shape == (2, 0, 3)


@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_places_a_million_apart_are_independent(ridge):
    """Closed form: mean y / (1 + r^2), variance r^2 / (1 + r^2), the prior in between; exp underflows to 0."""
    places, responses = 1e6 * np.arange(5.0), np.array([1.0, -1.0, 0.5, 0.0, 2.0])
    got = filtered(places, responses, np.full(5, ridge**-2), length_scale=1.0)
    seen = got.moments(np.concatenate([places, places + 5e5]))
    assert seen.mean[:5] == pytest.approx(responses / (1 + ridge**2), rel=1e-15)
    assert seen.variance[:5] == pytest.approx(np.full(5, ridge**2 / (1 + ridge**2)), rel=1e-15)
    assert seen.mean[5:].tolist() == [0.0] * 5
    assert seen.variance[5:].tolist() == [1.0] * 5
    total = 1 + ridge**2
    expected = -0.5 * (np.sum(responses**2) / total + 5 * np.log(2 * np.pi * total))
    assert got.log_likelihood == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_two_thousand_records_at_one_place(ridge):
    """Closed form: mean sum(y) / (n + r^2), variance r^2 / (n + r^2); the matrix is a constant plus r^2 I."""
    count = 2000
    responses = np.random.default_rng(8).choice([-1.0, 1.0], count, p=[0.2, 0.8])
    got = filtered(np.full(count, 0.3), responses, np.full(count, ridge**-2), length_scale=0.5)
    seen = got.moments(np.array([0.3, 0.8]))
    mean, variance = responses.sum() / (count + ridge**2), ridge**2 / (count + ridge**2)
    decay = np.exp(-1.0)
    assert seen.mean == pytest.approx([mean, decay * mean], rel=1e-12)
    assert seen.variance == pytest.approx([variance, 1 - decay**2 * (1 - variance)], rel=1e-12)
    square = (responses @ responses - responses.sum() ** 2 / (count + ridge**2)) / ridge**2
    determinant = (count - 1) * np.log(ridge**2) + np.log(count + ridge**2)
    assert got.log_likelihood == pytest.approx(-0.5 * (square + determinant + count * np.log(2 * np.pi)), rel=1e-11)


def test_two_thousand_records():
    """Against the dense solution; condition number about 1e4, so 1e-10 is generous."""
    rng = np.random.default_rng(9)
    covariates, points = rng.random(2000), np.array([-0.1, 0.2, 0.5, 0.99])
    responses, precision = np.sign(covariates - 0.5), np.full(2000, 4.0)
    likelihood, mean, covariance, _ = dense(covariates, responses, precision, points, length_scale=0.2)
    got = filtered(covariates, responses, precision, length_scale=0.2)
    assert got.log_likelihood == pytest.approx(likelihood, rel=1e-10)
    assert got.moments(points).mean == pytest.approx(mean, abs=1e-10)
    assert got.moments(points).variance == pytest.approx(np.diag(covariance), abs=1e-10)
    root = got.sample(points, scale=2.0, normals=np.eye(4)) - got.moments(points).mean
    assert root.T @ root == pytest.approx(4 * covariance, abs=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"covariates": [0.1, np.nan]}, "covariates must be finite"),
        ({"responses": [0.1, np.inf]}, "responses must be finite"),
        ({"precision": [1.0, np.inf]}, "precision must be finite"),
        ({"precision": [1.0, -2.0]}, "precision must not be negative, got -2"),
        ({"length_scale": 0.0}, "length_scale must be positive"),
        ({"length_scale": np.nan}, "length_scale must be positive"),
    ],
)
def test_unacceptable_input_is_refused(changes, message):
    given = {"covariates": [0.1, 0.2], "responses": [1.0, 1.0], "precision": [1.0, 1.0], "length_scale": 1.0}
    length_scale, *arrays = (np.asarray({**given, **changes}[name]) for name in ("length_scale", *list(given)[:3]))
    with pytest.raises(InputError, match=message):
        filtered(*arrays, length_scale=float(length_scale))


def test_unacceptable_points_and_normals_are_refused():
    got = filtered(np.zeros(2), np.zeros(2), np.ones(2), length_scale=1.0)
    with pytest.raises(InputError, match="points must be finite"):
        got.moments(np.array([np.nan]))
    with pytest.raises(InputError, match="points must be finite"):
        got.sample(np.array([np.inf]), scale=1.0, normals=np.zeros((1, 1)))
    with pytest.raises(InputError, match="one number a point, 2"):
        got.sample(np.array([0.1, 0.2]), scale=1.0, normals=np.zeros((5, 1)))
