"""Posterior of one core with one more record, seen at one location: what a shadow dataset needs, and no more.

A shadow pair is ``core + z0`` (in) and ``core + z'`` (out). By the rank-one update (THEORY section 6) one factor of
the core serves every target ``z0``, the other record ``z'`` and both hypotheses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from .arrays import Array
from .cholesky import factorise
from .data import Dataset
from .errors import NumericalError
from .kernels import Kernel


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and variance of a value, arrays of one shape."""

    mean: Array
    variance: Array

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Those of several chunks side by side, along axis 1."""
        mean = np.concatenate([part.mean for part in parts], axis=1)
        return cls(mean, np.concatenate([part.variance for part in parts], axis=1))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Kernel blocks of one core ``(m rows)`` or of a stack of cores (leading axes).

    Attributes:
        gram: ``K_C + noise``, ``(..., m, m)``; a row that stands for c copies has noise ``r^2 / c`` on the diagonal.
        responses: ``(..., m)``.
        to_targets: ``k(C, x0)``, ``(..., m, T)``.
        to_other: ``k(C, x')``, ``(..., m)``.
        to_seen: ``k(C, t)``, ``(..., m, T)``: where the adversary looks for each target; the same array as
            `to_targets` where that is at the target itself, which saves its part of the work.
        other_seen: ``k(x', t)``, ``(..., T)``.
        other_response: ``y'``, ``(...)``.
    """

    gram: Array
    responses: Array
    to_targets: Array
    to_other: Array
    to_seen: Array
    other_seen: Array
    other_response: Array


def extended_moments(blocks: Blocks, targets: Dataset, target_seen: Array, *, ridge: float) -> Moments:
    """Posterior mean and variance at each target's location of interest, ``(2, ..., T)``: in first, then out.

    Args:
        blocks: The core or cores.
        targets: The T target records.
        target_seen: ``k(x0, t)``, ``(T,)``.
        ridge: r.

    Raises:
        NumericalError: The kernel matrix of a core is singular.
    """
    size = blocks.to_targets.shape[-1]
    apart = [] if blocks.to_seen is blocks.to_targets else [blocks.to_seen]
    columns = [blocks.to_targets, blocks.to_other[..., None], *apart, blocks.responses[..., None]]
    white = _whiten(blocks.gram, np.concatenate(columns, axis=-1))
    added, response = white[..., : size + 1], white[..., -1:]
    seen = white[..., size + 1 : -1] if apart else white[..., :size]
    added_mean = _dot(added, response)
    added_variance = np.maximum(1.0 - _dot(added, added), 0.0)
    seen_mean = _dot(seen, response)
    seen_variance = np.maximum(1.0 - _dot(seen, seen), 0.0)
    # in: the target is added; out: the other record is. Columns of `reach` are the covariances with what is seen.
    reach = np.stack(
        [
            target_seen - _dot(added[..., :size], seen),
            blocks.other_seen - _dot(added[..., size:], seen),
        ]
    )
    other_variance = np.broadcast_to(added_variance[..., size:], seen_variance.shape)
    variance = np.stack([added_variance[..., :size], other_variance])
    residual = np.stack(
        [
            targets.responses - added_mean[..., :size],
            np.broadcast_to(blocks.other_response[..., None] - added_mean[..., size:], seen_mean.shape),
        ]
    )
    spread = variance + ridge**2
    # One fraction: where the adversary looks at the target itself the first two terms cancel exactly.
    left = (seen_variance * variance - reach**2 + seen_variance * ridge**2) / spread
    return Moments(seen_mean + residual * reach / spread, np.maximum(left, 0.0))


def _dot(one: Array, other: Array) -> Array:
    """Inner products of columns, ``(..., m, T)`` with ``(..., m, T)`` or ``(..., m, 1)``: ``(..., T)``."""
    return np.asarray(np.einsum("...mt,...mt->...t", one, other))


def _whiten(gram: Array, columns: Array) -> Array:
    if gram.ndim == 2:
        return factorise(gram).whiten(columns)
    try:
        lower = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        raise NumericalError("a shadow's kernel matrix is singular: use a larger ridge") from None
    # Small matrices, many at once: a general solver on a stack is faster than one triangular solve each.
    return np.asarray(np.linalg.solve(lower, columns))


def stacked_blocks(
    kernel: Kernel,
    covariates: Array,
    responses: Array,
    other: Array,
    other_response: Array,
    *,
    targets: Dataset,
    seen: Array,
    ridge: float,
) -> Blocks:
    """Blocks of a stack of cores ``(B, m, d)`` with other records ``(B, d)``, for many small cores at once."""
    gram = kernel.of_distance(_distances(covariates, covariates))
    gram[..., np.arange(gram.shape[-1]), np.arange(gram.shape[-1])] += ridge**2
    to_targets = kernel.of_distance(_distances(covariates, targets.covariates))
    return Blocks(
        gram,
        responses,
        to_targets,
        kernel.of_distance(_distances(covariates, other[:, None]))[..., 0],
        to_targets if seen is targets.covariates else kernel.of_distance(_distances(covariates, seen)),
        kernel.of_distance(_distances(other[:, None], seen))[:, 0],
        other_response,
    )


def _distances(a: Array, b: Array) -> Array:
    """``(..., m, u)`` distances between ``(..., m, d)`` and ``(..., u, d)``."""
    return np.asarray(np.sqrt(np.square(a[..., :, None, :] - b[..., None, :, :]).sum(axis=-1)))
