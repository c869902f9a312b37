"""Gaussian-process posterior with ridge: mean and covariance of one dataset."""

from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .cholesky import Factor, factorise
from .data import Dataset
from .kernels import Kernel


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of the latent function given a dataset (THEORY section 1).

    ``mu(t) = k_X(t)^T (K + r^2 I)^-1 y`` and ``k_D(t, t') = k(t, t') - k_X(t)^T (K + r^2 I)^-1 k_X(t')``.
    This is the posterior of the *function*: no observation noise is in it.
    """

    data: Dataset
    kernel: Kernel
    ridge: float | Array
    factor: Factor

    @property
    def noise(self) -> float | Array:
        """Noise variance on the diagonal, ``r^2`` plus the jitter that the factorisation needed (usually 0)."""
        return self.ridge**2 + self.factor.jitter

    def mean(self, points: Array) -> Array:
        """Posterior mean ``(t,)`` at points ``(t, d)``."""
        return self.kernel(points, self.data.covariates) @ self.factor.solve(self.data.responses)

    def covariance(self, points: Array, others: Array) -> Array:
        """Posterior covariance ``(t, u)``, kernel variance 1, between ``(t, d)`` and ``(u, d)``."""
        left = self.factor.whiten(self.kernel(self.data.covariates, points))
        right = left if others is points else self.factor.whiten(self.kernel(self.data.covariates, others))
        covariance = self.kernel(points, others)
        covariance -= left.T @ right
        return covariance


def condition(data: Dataset, *, kernel: Kernel, ridge: float | Array) -> Posterior:
    """The posterior of `data`; ``ridge^2`` is the noise variance in units of the kernel's, one or one a row ``(n,)``.

    Raises:
        NumericalError: The kernel matrix cannot be factorised.
    """
    gram = kernel(data.covariates, data.covariates)
    gram[np.diag_indices_from(gram)] += ridge**2
    return Posterior(data, kernel, ridge, factorise(gram))
