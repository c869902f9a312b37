"""Posteriors on the line with the exponential kernel, in O(n) and for a stack of datasets at once.

``k(x, x') = exp(-|x - x'| / length_scale)`` is the Ornstein-Uhlenbeck process: stationary, variance 1, Markov. Given
the value at one place, what lies left and right of it is independent, so two numbers (mean and variance) sum up all
records on one side: a Kalman filter from the left, another from the right (Sarkka and Svensson, Bayesian Filtering
and Smoothing, 2nd ed. 2023, chapters 6 and 12; the two-filter form of the Rauch-Tung-Striebel smoother).

Every step adds and multiplies numbers that are not negative, so variances keep their relative accuracy where a dense
factorisation loses it: coincident places, a tiny ridge, gaps small against the length scale.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .errors import InputError
from .moments import Moments


@dataclass(frozen=True, eq=False)
class Filtered:
    """What the records left and the records right of every gap say of the process. Made by `filtered`.

    The record axis comes first and the S datasets of the stack are flattened behind it. Gap c lies between the c-th
    and the next record; gap 0 is left of all records and gap n right of them.

    Attributes:
        stack: The leading shape, ``(...)``, of S datasets.
        length_scale: Of the kernel.
        locations: Sorted covariates between minus and plus infinity, ``(n + 2, S)``.
        responses: In the same order, ``(n, S)``.
        precision: Reciprocals of the noise variances, ``(n, S)``.
        left: Row c: the value at the c-th record given the first c; row 0 is the prior. ``(n + 1, S)``.
        right: Row c: the value at the record after gap c given that one and all after it; row n is the prior.
    """

    stack: tuple[int, ...]
    length_scale: float
    locations: Array
    responses: Array
    precision: Array
    left: Moments
    right: Moments

    @cached_property
    def log_likelihood(self) -> Array:
        """``log N(y; 0, K + diag(1 / precision))`` of the records with positive precision, ``(...)``.

        The product of the one-step predictive densities. It is that of the records as given: collapsed duplicates
        have the posterior of the duplicates but not their likelihood.
        """
        before = Moments(self.left.mean[:-1], self.left.variance[:-1])
        ahead = _carried(before, self._distance(self.locations[:-2], self.locations[1:-1]))
        relative = self.precision * ahead.variance
        excess = self.precision * np.square(self.responses - ahead.mean) / (1.0 + relative)
        present = self.precision > 0
        log_variance = np.log1p(relative) - np.log(np.where(present, self.precision, 1.0))
        terms = np.where(present, math.log(2.0 * math.pi) + log_variance + excess, 0.0)
        return np.asarray(-0.5 * terms.sum(axis=0)).reshape(self.stack)

    def moments(self, points: Array) -> Moments:
        """Posterior mean and variance of the process itself at points, ``(..., t)``, in O(log n) a point.

        Args:
            points: ``(t,)``, the same for all datasets, or ``(..., t)``; in any order.

        Raises:
            InputError: Points are not finite.
        """
        points = np.asarray(points, dtype=np.float64)
        _check_finite(points, "points")
        shape = (*self.stack, points.shape[-1])
        if points.ndim == 1:
            columns = np.broadcast_to(points[:, None], (len(points), self._size))
        else:
            columns = np.broadcast_to(points, shape).reshape(self._size, shape[-1]).T
        seen = _both_sides(*self._sides(columns, self._gap(columns)))
        return Moments(seen.mean.T.reshape(shape), seen.variance.T.reshape(shape))

    def sample(self, points: Array, *, scale: float, normals: Array) -> Array:
        """Exact draws of ``GP(mu, scale^2 k_D)`` at points, ``(..., paths, t)``, in O(n + t) a dataset.

        With the value at one point given, the value at the next is normal, with an expectation linear in it. The
        coefficients need one pass over records and points together, the paths one over the points.

        Args:
            points: ``(t,)``, the same for all datasets; in any order; equal points get equal values.
            scale: Standard deviations are multiplied by it, means are not.
            normals: Independent standard normal numbers, ``(..., paths, t)``, or ``(paths, t)`` to use the same for
                all datasets. All zero gives the posterior mean.

        Raises:
            InputError: Points are not finite, or there is not one normal number for each.
        """
        points, normals = np.asarray(points, dtype=np.float64), np.asarray(normals, dtype=np.float64)
        _check_finite(points, "points")
        if normals.shape[-1] != len(points):
            raise InputError(f"normals must end with one number a point, {len(points)}, got shape {normals.shape}")
        order = np.argsort(points, kind="stable")
        columns = np.broadcast_to(points[order, None], (len(points), self._size))
        gap = self._gap(columns)
        left, right = self._sides(columns, gap)
        slope, variance = self._transitions(columns, gap)
        weight, _ = _weights(variance, right.variance)
        slope, deviation = slope * weight, np.sqrt(variance * weight)

        shape = (*self.stack, *normals.shape[-2:])
        across = np.broadcast_to(normals, shape).reshape(self._size, *shape[-2:])
        drawn = np.ascontiguousarray(across[..., order].transpose(2, 0, 1))  # (t, S, paths)
        drawn *= deviation[..., None]
        for j in range(1, len(points)):
            drawn[j] += slope[j][:, None] * drawn[j - 1]
        drawn *= scale
        drawn += _both_sides(left, right).mean[..., None]
        paths = np.empty((self._size, *shape[-2:]))
        paths[..., order] = drawn.transpose(1, 2, 0)
        return paths.reshape(shape)

    @property
    def _size(self) -> int:
        return int(self.locations.shape[1])

    def _distance(self, a: Array, b: Array) -> Array:
        return np.asarray((b - a) / self.length_scale)

    def _gap(self, points: Array) -> NDArray[np.intp]:
        """How many records are at or left of each point ``(t, S)``: bisection, all points in step."""
        last = len(self.locations) - 1
        gap = np.zeros(points.shape, dtype=np.intp)
        step = 1 << last.bit_length()
        while step := step >> 1:
            # Beyond the last record lies infinity, which no point has reached.
            reached = np.take_along_axis(self.locations, np.minimum(gap + step, last), axis=0) <= points
            gap += step * reached
        return gap

    def _sides(self, points: Array, gap: NDArray[np.intp]) -> tuple[Moments, Moments]:
        """The value at each point ``(t, S)`` given the records at or left of it, and given those right of it."""
        left, right = _rows(self.left, gap), _rows(self.right, gap)
        before = np.take_along_axis(self.locations, gap, axis=0)
        after = np.take_along_axis(self.locations, gap + 1, axis=0)
        return _carried(left, self._distance(before, points)), _carried(right, self._distance(points, after))

    def _transitions(self, points: Array, gap: NDArray[np.intp]) -> tuple[Array, Array]:
        """The value at each sorted point ``(t, S)`` given the value at the previous point and the records up to it.

        Returns:
            Slope of the expectation in the previous value (0 at the first point), and the variance.
        """
        inner = self.locations[1:-1]
        merged = np.concatenate([inner, points])
        order = np.argsort(merged, axis=0, kind="stable")  # a record comes before a point at the same place
        merged = np.take_along_axis(merged, order, axis=0)
        precision = np.take_along_axis(np.concatenate([self.precision, np.zeros(points.shape)]), order, axis=0)
        at_record = (order < len(inner)).astype(np.float64)
        start = np.full((1, self._size), -np.inf)
        decay, fresh = _transfer(self._distance(np.concatenate([start, merged[:-1]]), merged))

        slopes, variances = np.empty(merged.shape), np.empty(merged.shape)
        slope, variance = np.zeros(self._size), np.ones(self._size)
        for k in range(len(merged)):
            slope = decay[k] * slope
            variance = decay[k] ** 2 * variance + fresh[k]
            shrinkage = 1.0 + precision[k] * variance
            slopes[k], variances[k] = slope / shrinkage, variance / shrinkage
            # From a point on, its value is known.
            slope = slopes[k] * at_record[k] + (1.0 - at_record[k])
            variance = variances[k] * at_record[k]
        rows = gap + np.arange(len(points))[:, None]
        return np.take_along_axis(slopes, rows, axis=0), np.take_along_axis(variances, rows, axis=0)


def filtered(covariates: Array, responses: Array, precision: Array, *, length_scale: float) -> Filtered:
    """Filter a stack of datasets on the line from both ends, in O(n log n) a dataset (the sorting; the rest is O(n)).

    The three arrays are broadcast against each other. ``y_i = f(x_i)`` plus noise of variance ``1 / precision_i``.

    Args:
        covariates: ``(..., n)``, in any order.
        responses: ``(..., n)``; zeros for a centred release.
        precision: ``(..., n)``: ``1 / r^2`` for a record, ``c / r^2`` for the mean of c records at one place, 0 for
            a record that is absent.
        length_scale: Of the exponential kernel.

    Raises:
        InputError: Something is not finite, a precision is negative or the length scale is not positive.
    """
    if not (math.isfinite(length_scale) and length_scale > 0):
        raise InputError(f"length_scale must be positive, got {length_scale!r}")
    given = {"covariates": covariates, "responses": responses, "precision": precision}
    for name, values in given.items():
        _check_finite(np.asarray(values), name)
    if np.any(np.asarray(precision) < 0):
        lowest = float(np.min(precision))
        raise InputError(f"precision must not be negative, got {lowest:g}; 0 stands for an absent record")
    own = np.atleast_1d(covariates)
    covariates, responses, precision = np.broadcast_arrays(covariates, responses, precision)
    *stack, count = covariates.shape
    size = math.prod(stack)
    # Places that several datasets share are sorted once.
    order = np.argsort(np.broadcast_to(own, (*own.shape[:-1], count)), axis=-1, kind="stable")
    order = np.broadcast_to(order, covariates.shape).reshape(size, count)
    # Flat places of the sorted records, record axis first: one look-up sorts and transposes.
    places = np.ascontiguousarray(order.T) + count * np.arange(size)
    locations = np.empty((count + 2, size))
    locations[0], locations[-1] = -np.inf, np.inf
    locations[1:-1] = np.take(covariates, places)
    sorted_responses = np.take(responses, places).astype(np.float64, copy=False)
    sorted_precision = np.take(precision, places).astype(np.float64, copy=False)
    decay, fresh = _transfer((locations[1:] - locations[:-1]) / length_scale)
    from_right = _filter(decay[:0:-1], fresh[:0:-1], sorted_responses[::-1], sorted_precision[::-1])
    return Filtered(
        tuple(stack),
        length_scale,
        locations,
        sorted_responses,
        sorted_precision,
        _filter(decay[:-1], fresh[:-1], sorted_responses, sorted_precision),
        Moments(from_right.mean[::-1], from_right.variance[::-1]),
    )


def _filter(decay: Array, fresh: Array, responses: Array, precision: Array) -> Moments:
    """State after 0 to n records, ``(n + 1, S)``; the four arrays ``(n, S)`` are in the order of travel.

    Row k of `decay` and `fresh` is the way to record k. All work is done in place, row by row: for many datasets
    memory traffic is the cost, for few it is the number of calls.
    """
    decay_squared, weighted = decay * decay, precision * responses
    mean, variance = (np.empty((len(decay) + 1, decay.shape[1])) for _ in range(2))
    mean[0], variance[0] = 0.0, 1.0
    ahead, shrinkage = np.empty_like(mean[0]), np.empty_like(mean[0])
    for k in range(len(decay)):
        next_mean = mean[k + 1]
        np.multiply(decay_squared[k], variance[k], out=ahead)
        ahead += fresh[k]
        np.multiply(precision[k], ahead, out=shrinkage)
        shrinkage += 1.0
        np.divide(ahead, shrinkage, out=variance[k + 1])
        np.multiply(decay[k], mean[k], out=next_mean)
        ahead *= weighted[k]
        next_mean += ahead
        next_mean /= shrinkage
    return Moments(mean, variance)


def _transfer(distance: Array) -> tuple[Array, Array]:
    """What is left of a value after a distance, ``exp(-d)``, and the variance that is new, ``1 - exp(-2 d)``."""
    return np.exp(-distance), -np.expm1(-2.0 * distance)


def _carried(state: Moments, distance: Array) -> Moments:
    decay, fresh = _transfer(distance)
    return Moments(decay * state.mean, np.square(decay) * state.variance + fresh)


def _rows(state: Moments, rows: NDArray[np.intp]) -> Moments:
    return Moments(np.take_along_axis(state.mean, rows, axis=0), np.take_along_axis(state.variance, rows, axis=0))


def _weights(left: Array, right: Array) -> tuple[Array, Array]:
    """How much the left and the right mean count, from their variances.

    Precisions ``1/left + 1/right - 1``: both sides contain the prior N(0, 1), which must count once. Neither a variance
    0 nor a variance 1 divides by zero or cancels; where both are 0 they say the same and the left is taken.
    """
    total = left + right * (1.0 - left)
    known = total == 0
    total = np.where(known, 1.0, total)
    return np.where(known, 1.0, right / total), left / total


def _both_sides(left: Moments, right: Moments) -> Moments:
    of_left, of_right = _weights(left.variance, right.variance)
    return Moments(of_left * left.mean + of_right * right.mean, of_left * left.variance)


def _check_finite(values: Array, name: str) -> None:
    if not np.isfinite(values).all():
        raise InputError(f"{name} must be finite; {int((~np.isfinite(values)).sum())} are not: remove or repair them")
