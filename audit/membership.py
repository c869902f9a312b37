"""Which records does a release that was seen speak for? Exact log-likelihood ratios, beside what was to be expected.

The adversary knows every other record, and that in a record's place there is either it or one of J others with equal
odds. Then no statistic says more than the evidence

    log p(release | D) - log mean_j p(release | D with the j-th other record in the place of record i)

in nats (natural logarithms): odds of membership grow by its exponential. What it would be with the record and with one
of the others in its place is simulated from the exact law; nothing is fitted.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ..attacks import Pool, Population
from ..mechanisms import Array, Dataset
from ..mechanisms.membership import Membership

LEVELS = (0.05, 0.5, 0.95)  # of the stated quantiles
DRAWS = 1000  # simulated releases under each hypothesis
_MEMBERSHIP = 8  # first key of a seed, as in audit/run.py; then what for: means of paths, deviations from them,
_MEANS, _APART, _WHICH, _ROWS = 0, 1, 2, 3  # who is in the record's place, and rows of a pool
_VALUES = 2**16  # log-likelihood ratios at a time: half a MiB an array stays in a processor's cache


@dataclass(frozen=True, eq=False)
class MembershipEvidence:
    """What a release says about the membership of every record.

    Attributes:
        evidence: Log-likelihood ratio in nats, ``(n,)``; above 0 it speaks for the record.
        in_quantiles: 5, 50 and 95 % quantiles of the evidence if the record is in, ``(n, 3)``.
        out_quantiles: The same if one of the others is in its place.
        false_alarm: Share of simulated releases without the record whose evidence is no smaller, ``(n,)``; with the
            one that was seen counted among them, so a p-value, of each record by itself.
        population: Where the others come from: "file", or "replacements" for the audit's public ones.
        others: J.
        draws: Simulated releases under each hypothesis, the same for all records.
        directions: Numbers of a path that are told from rounding.
    """

    evidence: Array
    in_quantiles: Array
    out_quantiles: Array
    false_alarm: Array
    population: str
    others: int
    draws: int
    directions: int


def choose_others(population: Population | None, replacements: Dataset, *, seed: int) -> tuple[Dataset, str]:
    """J records that the adversary thinks possible in a record's place, and where they come from.

    Rows of a public table, drawn with replacement; without one the public replacements of the audit. The private
    records are never a population here: a record's place would be given to its neighbours.
    """
    if not (isinstance(population, Pool) and population.name == "file"):
        return replacements, "replacements"
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_MEMBERSHIP, _ROWS)))
    rows = rng.choice(population.rows, size=len(replacements))
    return Dataset(population.data.covariates[rows], population.data.responses[rows]), "file"


def membership_evidence(
    pairs: Membership, white: Array, *, population: str, seed: int, draws: int = DRAWS
) -> MembershipEvidence:
    """Evidence for every record, and its expected distribution.

    Takes memory for about fifteen arrays of half a MiB, or of ``n J`` or ``L k`` numbers if that is more, and for the
    ``draws * n`` results.

    Args:
        pairs: All pairs (record, other).
        white: The release in whitened coordinates, ``(L, k)``.
        population: Where the others come from.
        seed: Root of all seeds.
        draws: Releases to simulate under each hypothesis.
    """
    mean = white.mean(axis=0)
    evidence = _mixture(pairs.log_ratios(pairs.seen(mean[None], (white - mean)[None], paths=len(white))))[0]
    member, other = simulated_evidence(pairs, paths=len(white), seed=seed, draws=draws)
    return MembershipEvidence(
        evidence,
        np.quantile(member, LEVELS, axis=0).T,
        np.quantile(other, LEVELS, axis=0).T,
        (1.0 + (other >= evidence).sum(axis=0)) / (1.0 + draws),
        population,
        pairs.shape[1],
        draws,
        white.shape[1],
    )


def simulated_evidence(pairs: Membership, *, paths: int, seed: int, draws: int) -> tuple[Array, Array]:
    """Evidence in simulated releases with each record, and with one of the others in its place, ``(draws, n)`` each.

    All records share the draws: one release of all the data shows what every one of them would have shown.
    """
    means, aparts, which = (
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_MEMBERSHIP, what)))
        for what in (_MEANS, _APART, _WHICH)
    )
    size = len(pairs.record_part)
    together = max(1, _VALUES // max(pairs.shape[0] * pairs.shape[1], paths * size))
    member, other = np.empty((draws, pairs.shape[0])), np.empty((draws, pairs.shape[0]))
    for start in range(0, draws, together):
        some = slice(start, min(start + together, draws))
        count = some.stop - start
        mean = means.standard_normal((count, size)) / np.sqrt(paths)
        seen = pairs.seen(mean, aparts.standard_normal((count, paths - 1, size)), paths=paths)
        member[some] = _mixture(pairs.log_ratios(seen))
        other[some] = _mixture(pairs.log_ratios_without(seen, which.integers(pairs.shape[1], size=count)))
    return member, other


def _mixture(log_ratios: Array) -> Array:
    """Against all of the others with equal odds, ``(..., J)`` to ``(...)``."""
    return np.asarray(np.log(log_ratios.shape[-1]) - logsumexp(-log_ratios, axis=-1))
