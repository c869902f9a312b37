"""How likely a release that was seen is with each record in the data, against another record in its place.

The log-likelihood ratio of one path at listed points for every pair (record i, replacement j), from one whitening of
the law of all the data. In coordinates where a path of ``D`` is ``d ~ N(0, I)``, with ``beta_i`` and ``a_i`` of
`leave_one_out`, ``E_j`` the whitened ``k_D(T, x'_j)``, ``w_ij = k_{C_i}(x_i, x'_j)`` and ``alpha = A^-1 y``:

    given core i     e_i ~ N(0, I + (sigma^2 / a_i) beta_i beta_i^T),     e_i = d + (alpha_i / a_i) beta_i
    with record i    c_i = beta_i / a_i           with replacement j    c'_ij = E_j + w_ij beta_i

so that only the inner products ``beta_i . d`` and ``E_j . d`` of a path and the Gram matrix of ``beta, E`` enter, and
by the same numbers a path of ``D`` becomes one of ``D`` with the replacement: simulation needs no other factor.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .data import Dataset
from .gaussian import Paths
from .leave_one_out import grams_at_points, laws_of, left_out, whitened_parts
from .pair import PairLaw
from .path_law import Whitening


@dataclass(frozen=True, eq=False)
class Membership:
    """All pairs (record, replacement) of one dataset at the points of a release.

    Attributes:
        record_part: ``beta``, ``(k, n)``: k whitened coordinates of a path.
        end_part: ``E``, ``(k, J)``.
        offset: ``alpha / a``, ``(n,)``; 0 for a release without the posterior mean.
        precision: ``a``, ``(n,)``.
        update: ``sigma^2 / a``, ``(n,)``.
        weight: ``w``, ``(n, J)``.
        own: ``|beta|^2``, ``(n,)``.
        mixed: ``beta . E``, ``(n, J)``.
        across: ``E . E``, ``(J, J)``.
        law: The pairs at these points, ``(n, J)``.
    """

    record_part: Array
    end_part: Array
    offset: Array
    precision: Array
    update: Array
    weight: Array
    own: Array
    mixed: Array
    across: Array
    law: PairLaw

    @property
    def shape(self) -> tuple[int, int]:
        """Records and replacements, ``(n, J)``."""
        return self.weight.shape[0], self.weight.shape[1]

    def seen(self, mean: Array, apart: Array, *, paths: int) -> "Seen":
        """What the ratios need of N releases of L paths.

        Args:
            mean: Of the paths in whitened coordinates, ``(N, k)``.
            apart: Any vectors ``(N, m, k)`` with ``sum_m a a^T = sum_l (d_l - mean)(d_l - mean)^T``: the deviations
                from the mean, or L - 1 standard normal ones for simulated releases.
            paths: L.
        """
        record, ends = apart @ self.record_part, apart @ self.end_part  # (N, m, n), (N, m, J)
        return Seen(
            paths,
            mean @ self.record_part,
            (mean @ self.end_part)[:, None, :],
            np.square(record).sum(axis=1),
            record.swapaxes(1, 2) @ ends,
            ends.swapaxes(1, 2) @ ends,
        )

    def log_ratios(self, seen: "Seen") -> Array:
        """``log p(release | D) - log p(release | D with z'_j for record i)``, ``(N, n, J)``; higher speaks for i.

        Over L paths they add up: L times that of the mean path, and what the deviations from it add.
        """
        own, both, ends = seen.own, seen.both, np.diagonal(seen.ends_both, axis1=1, axis2=2)[:, None, :]
        return self._total(seen.paths, seen.record, seen.ends, own, both, ends)

    def log_ratios_without(self, seen: "Seen", chosen: NDArray[np.intp]) -> Array:
        """The same after each release of D became one of D with replacement `chosen` ``(N,)`` for record i.

        A path is stretched along ``beta`` to one of the core and then shrunk and shifted along ``c'``: a linear map,
        so standard normal coordinates go to exactly the law of the other dataset.
        """
        move = self._move(chosen)
        record, ends = self._moved(move, seen.record, seen.ends, chosen)
        if seen.paths == 1:
            return self._total(1, record, ends, seen.own, seen.both, ends)
        a, b, c, d = move.record, move.record_star, move.ends, move.ends_star
        at = np.arange(len(chosen))
        star = seen.ends_both[at, chosen][:, None, :]  # of the replacement with all
        star_own = seen.ends_both[at, chosen, chosen][:, None]
        star_record = seen.both[at, :, chosen]
        own = a**2 * seen.own + 2.0 * a * b * star_record + b**2 * star_own
        on_record, on_star = a * seen.own + b * star_record, a * star_record + b * star_own
        both = a[..., None] * seen.both + c * on_record[..., None] + d * on_star[..., None] + b[..., None] * star
        squares = np.diagonal(seen.ends_both, axis1=1, axis2=2)[:, None, :] + 2.0 * (c * seen.both + d * star)
        squares = squares + c**2 * seen.own[..., None] + d**2 * star_own[..., None]
        squares += 2.0 * c * d * star_record[..., None]
        return self._total(seen.paths, record, ends, own, both, squares)

    def without(self, record: Array, ends: Array, chosen: NDArray[np.intp]) -> tuple[Array, Array]:
        """What `log_ratios_without` makes of one path's ``beta . d``, ``(N, n)``, and ``E . d``, ``(N, 1, J)``."""
        return self._moved(self._move(chosen), record, ends, chosen)

    def _move(self, chosen: NDArray[np.intp]) -> "_Move":
        law = self.law
        stretch = 1.0 / np.sqrt(law.kept[:, 0])
        bend = (self.update / (stretch + 1.0))[:, None] * self.mixed  # of ends by beta . d, on the way to the core
        shrink = (law.drop_prime / (1.0 + np.sqrt(law.kept_prime)))[:, chosen].T
        record_shift = self.mixed[:, chosen].T + self.weight[:, chosen].T * self.own  # beta . c'
        ends_shift = self.across[chosen][:, None, :] + self.weight[:, chosen].T[..., None] * self.mixed  # E . c'
        by_record = shrink * (bend + self._pull() * stretch[:, None])[:, chosen].T
        return _Move(
            stretch - record_shift * by_record,
            -record_shift * shrink,
            bend - ends_shift * by_record[..., None],
            -ends_shift * shrink[..., None],
            record_shift,
            ends_shift,
        )

    def _moved(self, move: "_Move", record: Array, ends: Array, chosen: NDArray[np.intp]) -> tuple[Array, Array]:
        star = ends[np.arange(len(chosen)), 0, chosen][:, None]
        tilt = self.law.tilt_prime[:, chosen].T
        moved = move.record * record + move.record_star * star + move.record_shift * tilt - self.offset * self.own
        ends = ends + move.ends * record[..., None] + move.ends_star * star[..., None]
        ends += move.ends_shift * tilt[..., None] - self.offset[:, None] * self.mixed
        return moved, ends

    def _total(self, paths: int, record: Array, ends: Array, own: Array, both: Array, squares: Array) -> Array:
        """All log ratios, from the mean path and, of more than one, the sums of squares and products around it."""
        law, kept, pull = self.law, self.law.kept[:, 0], self._pull()
        share = kept / self.precision
        residual = record * share
        first = _log_density(residual, tilt=law.tilt[:, 0], drop=law.drop[:, 0], gram=law.gram[:, 0], kept=kept)
        residual_prime = ends + pull * (record + self.offset * self.own)[..., None]
        residual_prime += self.offset[:, None] * self.mixed - law.tilt_prime * law.gram_prime
        second = _log_density(
            residual_prime, tilt=law.tilt_prime, drop=law.drop_prime, gram=law.gram_prime, kept=law.kept_prime
        )
        ratios = np.subtract(first[..., None], second, out=second)
        if paths > 1:
            ratios *= paths
            around = squares + pull * (2.0 * both + pull * own[..., None])
            ratios += 0.5 * (law.drop_prime / law.kept_prime) * around
            ratios -= 0.5 * (law.drop[:, 0] / kept * share**2 * own)[..., None]
        return np.asarray(ratios)

    def _pull(self) -> Array:
        """What ``beta . e`` adds to the statistic of a replacement, ``(n, J)``."""
        return np.asarray((self.weight - self.update[:, None] * self.mixed) * self.law.kept)


@dataclass(frozen=True, eq=False)
class Seen:
    """What the log-likelihood ratios need of N releases of L paths.

    Attributes:
        paths: L.
        record: ``beta . mean``, ``(N, n)``.
        ends: ``E . mean``, ``(N, 1, J)``.
        own: Squares of ``beta . d`` around its mean, summed over paths, ``(N, n)``.
        both: Products of it with ``E . d``, ``(N, n, J)``.
        ends_both: Products of ``E . d`` with itself, ``(N, J, J)``.
    """

    paths: int
    record: Array
    ends: Array
    own: Array
    both: Array
    ends_both: Array


@dataclass(frozen=True, eq=False)
class _Move:
    """From a path of D to one without record i, both seen as ``beta . d`` and ``E . d``: a linear map.

    Attributes:
        record: Of ``beta . d`` on itself, ``(N, n)``, and
        record_star: on the chosen replacement's ``E_* . d``.
        ends: Of ``E . d`` on ``beta . d``, ``(N, n, J)``, and
        ends_star: on ``E_* . d``, beside itself.
        record_shift: ``beta . c'``, ``(N, n)``.
        ends_shift: ``E . c'``, ``(N, n, J)``.
    """

    record: Array
    record_star: Array
    ends: Array
    ends_star: Array
    record_shift: Array
    ends_shift: Array


def membership(paths: Paths, data: Dataset, replacements: Dataset, whitening: Whitening) -> Membership:
    """All pairs (record, replacement) of a release at the points of `paths`.

    Args:
        paths: How paths are made of a posterior; its `points` are those of the release.
        data: The private records.
        replacements: J other records.
        whitening: Of the law of a path of `data` (``paths.law``), one block. Where it leaves directions out, the ratios
            are those of what is left, exactly.

    Raises:
        NumericalError: The law of a pair has lost its digits.
    """
    assert paths.points is not None  # a release that was seen has points
    posterior = paths.condition(data)
    base = left_out(posterior, replacements.covariates)
    columns = whitening.columns[0][:, whitening.kept[0]]
    record_part, end_part = whitened_parts(
        posterior, paths.points, replacements.covariates, lambda values: np.asarray(columns.T @ values)
    )
    law = laws_of(paths, posterior, replacements, base, grams_at_points(paths, base, record_part, end_part))
    law = law[:, :]  # every field (n, J)
    return Membership(
        record_part,
        end_part,
        law.tilt[:, 0] / base.precision,
        base.precision,
        paths.scale**2 / base.precision,
        base.covariance,
        np.square(record_part).sum(axis=0),
        record_part.T @ end_part,
        end_part.T @ end_part,
        law,
    )


def _log_density(residual: Array, *, tilt: Array, drop: Array, gram: Array, kept: Array) -> Array:
    """Log density under one dataset against the core alone, from the statistic less its mean under that dataset.

    As in `pair`, without its cancellation: ``s = residual + tilt * gram``.
    """
    density = residual * (tilt - 0.5 * (drop / kept) * residual)
    density += 0.5 * tilt**2 * gram - 0.5 * np.log(kept)
    return np.asarray(density)
