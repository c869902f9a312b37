"""The only Cholesky factorisation, with the jitter it needed on record."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.blas import dtrsm

from .arrays import Array
from .errors import NumericalError

# The first is the honest one. The others are tried because the covariance of a smooth path at many points
# is singular in float64; each step is relative to the largest variance.
_RELATIVE_JITTERS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8)
_BLOCK = 56  # rows of a step of the substitution; 48 to 80 are equally fast
_MANY = 32  # columns from which blocks are worth it


@dataclass(frozen=True, eq=False)
class Factor:
    """``lower @ lower.T = matrix + jitter * I``.

    Attributes:
        lower: Lower triangle, ``(n, n)``.
        jitter: What was added to the diagonal: 0 unless the matrix was singular in float64.
    """

    lower: Array
    jitter: float

    def whiten(self, columns: Array) -> Array:
        """``lower^-1 @ columns`` for columns ``(n,)`` or ``(n, m)``."""
        if not len(columns):
            return columns
        if columns.ndim == 2 and columns.shape[1] >= _MANY and len(columns) > 2 * _BLOCK:
            return self._whiten_many(columns)
        return np.asarray(solve_triangular(self.lower, columns, lower=True, check_finite=False))

    def _whiten_many(self, columns: Array) -> Array:
        """Block by block: most of the work is then a product of matrices, twice as fast as LAPACK's substitution."""
        white = np.array(columns, order="C")
        for start in range(0, len(white), _BLOCK):
            rows = slice(start, start + _BLOCK)
            if start:
                white[rows] -= self.lower[rows, :start] @ white[:start]
            # From the right, on the transposed block: rows are contiguous, nothing is copied to Fortran's order.
            white[rows] = dtrsm(1.0, self.lower[rows, rows].T, white[rows].T, side=1).T
        return white

    def solve(self, columns: Array) -> Array:
        """``(matrix + jitter I)^-1 @ columns`` for columns ``(n,)`` or ``(n, m)``."""
        if not len(columns):
            return columns
        half = self.whiten(columns)
        return np.asarray(solve_triangular(self.lower, half, lower=True, trans="T", check_finite=False))

    def inverse_diagonal(self) -> Array:
        """Diagonal of the inverse, ``(n,)``, as sums of squares (no cancellation)."""
        return np.asarray(np.square(self.whiten(np.eye(len(self.lower)))).sum(axis=0))


def factorise(matrix: Array) -> Factor:
    """Cholesky factor of a symmetric positive semi-definite matrix ``(n, n)``.

    Jitter 0 is tried first; what had to be added is recorded in the result.

    Raises:
        NumericalError: Not even the largest jitter, 1e-8 of the largest diagonal entry, was enough.
    """
    if len(matrix) == 0:
        return Factor(np.zeros((0, 0)), 0.0)
    largest = float(np.max(np.diag(matrix)))
    for relative in _RELATIVE_JITTERS:
        jitter = relative * largest
        try:
            lower = cholesky(matrix + jitter * np.eye(len(matrix)) if jitter else matrix, lower=True)
        except LinAlgError:
            continue
        return Factor(np.asarray(lower), jitter)
    raise NumericalError(
        f"a {len(matrix)} x {len(matrix)} covariance matrix is not positive definite even with jitter "
        f"{_RELATIVE_JITTERS[-1] * largest:.3g}: use fewer or more widely spaced points, or a larger ridge"
    )
