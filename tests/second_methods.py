"""Slow, independent computations that the tests set beside the package's own. Nothing here uses gpleak's formulas."""

import itertools

import mpmath as mp
import numpy as np
from scipy import integrate, stats


def pair_terms(m, m_prime, v, v_prime, rho, ridge, scale):
    """The log-likelihood ratio of two values, straight from the Gaussian densities of (u, u').

    Returns mean and covariance under D and under D' (THEORY section 6). The rank-one update is written out.
    """
    gram = np.array([[v, rho], [rho, v_prime]])
    laws = []
    for residual, column in ((m, 0), (m_prime, 1)):
        reach = gram[:, column]
        spread = reach[column] + ridge**2
        laws.append((residual / spread * reach, scale**2 * (gram - np.outer(reach, reach) / spread)))
    return laws


def quadratic(laws):
    """Coefficients (curvature, shift) per coordinate, by a generalised eigenproblem of the two covariances."""
    (mean, cov), (mean_prime, cov_prime) = laws
    root = np.linalg.cholesky(cov)
    excess = root.T @ np.linalg.solve(cov_prime, root)
    values, basis = np.linalg.eigh(excess)
    return values - 1.0, basis.T @ np.linalg.solve(root, mean - mean_prime)


def delta_by_kinks(curvature, shift, epsilon):
    """delta for one path with mpmath: closed form in one coordinate, quadrature between kinks in the other."""
    with mp.workdps(40):
        k = [mp.mpf(float(value)) for value in curvature]
        d = [mp.mpf(float(value)) for value in shift]
        c = [(1 + k[j]) * d[j] ** 2 / 2 - mp.log(1 + k[j]) / 2 for j in (0, 1)]
        order = (0, 1) if abs(k[0]) <= abs(k[1]) else (1, 0)
        i, j = order  # integrate numerically over i, in closed form over j

        def value(index, x):
            return k[index] * x * x / 2 + (1 + k[index]) * d[index] * x + c[index]

        def tail(low, high):
            """Normal probability of [low, high] without cancellation."""
            if low > 0:
                return (mp.erfc(low / mp.sqrt(2)) - mp.erfc(high / mp.sqrt(2))) / 2
            return (mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2

        def inner(h):
            """P(value_j > h) - exp(h) Q(value_j > h), Q = N(-d, 1 / (1 + k))."""
            a, b, e = k[j] / 2, (1 + k[j]) * d[j], c[j] - h
            if a == 0:
                root = -e / b
                pieces = [(root, mp.inf)] if b > 0 else [(-mp.inf, root)]
            else:
                inside = b * b - 4 * a * e
                if inside <= 0:
                    pieces = [(-mp.inf, mp.inf)] if a > 0 else []
                else:
                    r = sorted([(-b - mp.sqrt(inside)) / (2 * a), (-b + mp.sqrt(inside)) / (2 * a)])
                    pieces = [(-mp.inf, r[0]), (r[1], mp.inf)] if a > 0 else [(r[0], r[1])]
            s = mp.sqrt(1 + k[j])
            return sum(tail(x, y) - mp.exp(h) * tail(s * (x + d[j]), s * (y + d[j])) for x, y in pieces)

        # Kinks: where the threshold passes the extremum of value_j.
        kinks = []
        if k[j] != 0:
            top = c[j] - ((1 + k[j]) * d[j]) ** 2 / (2 * k[j])
            a, b, e = k[i] / 2, (1 + k[i]) * d[i], c[i] - (mp.mpf(epsilon) - top)
            if a != 0 and b * b - 4 * a * e > 0:
                kinks = [(-b - mp.sqrt(b * b - 4 * a * e)) / (2 * a), (-b + mp.sqrt(b * b - 4 * a * e)) / (2 * a)]
            elif a == 0 and b != 0:
                kinks = [-e / b]
        reach = 14 + max([abs(d[i])] + [abs(x) for x in kinks if abs(x) < 60])
        grid = sorted({*map(mp.mpf, np.linspace(-1, 1, 17) * float(reach)), *[x for x in kinks if abs(x) < reach]})
        return mp.quad(lambda x: mp.npdf(x) * inner(mp.mpf(epsilon) - value(i, x)), grid)


def delta_by_chi_squares(curvature, shift, epsilon, paths):
    """delta for any number of paths: the two coordinates' sums are shifted, scaled noncentral chi-squares."""
    k, d = np.asarray(curvature), np.asarray(shift)
    lam = 1.0 + k
    base = paths * (0.5 * lam * d**2 - 0.5 * np.log(lam) - lam**2 * d**2 / (2 * k))
    under_p = paths * (lam * d / k) ** 2
    under_q = paths * lam * (d / k) ** 2  # of lam * the square

    def inner(h):
        # sum_1 > h  <=>  k/2 chi > h - base
        x = (h - base[1]) / (0.5 * k[1])
        p = stats.ncx2.sf(x, paths, under_p[1]) if k[1] > 0 else stats.ncx2.cdf(x, paths, under_p[1])
        q = stats.ncx2.sf(lam[1] * x, paths, under_q[1]) if k[1] > 0 else stats.ncx2.cdf(lam[1] * x, paths, under_q[1])
        return p - np.exp(h) * q

    def outer(x):
        return stats.ncx2.pdf(x, paths, under_p[0]) * inner(epsilon - base[0] - 0.5 * k[0] * x)

    kink = (epsilon - base[0] - base[1]) / (0.5 * k[0])
    spread = stats.ncx2.ppf([1e-14, 0.01, 0.5, 0.99, 1 - 1e-14], paths, under_p[0])
    edges = sorted({*spread, *([kink] if spread[0] < kink < spread[-1] else [])})
    return sum(
        integrate.quad(outer, a, b, epsabs=1e-12, epsrel=1e-10, limit=200)[0] for a, b in itertools.pairwise(edges)
    )
