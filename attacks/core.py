"""The core adversary: knows every other record and asks which of two records completes the dataset."""

import numpy as np

from ..mechanisms import Array, Contrast, Dataset, Mechanism, Record
from .scores import Scores

_VALUES_AT_ONCE = 1 << 22  # 32 MiB of released values


def attack_core(
    mechanism: Mechanism,
    data: Dataset,
    row: int,
    replacement: Record,
    *,
    trials: int,
    seeds: tuple[np.random.SeedSequence, np.random.SeedSequence],
) -> tuple[Scores, float]:
    """Attack record `row` against `replacement` with the Neyman-Pearson optimal score (THEORY section 6).

    Releases are drawn through ``mechanism.sampler``, never from the law behind the score: if the
    implementation is not the stated mechanism, the scores show it.

    Args:
        mechanism: What is audited.
        data: The private dataset D.
        row: 0-based row of the attacked record.
        replacement: The record that takes its place in D'.
        trials: Independent releases simulated under each of D and D'.
        seeds: One for the releases of D, one for those of D'.

    Returns:
        The scores, and the largest jitter a sampler needed.
    """
    contrast = mechanism.contrast(data.without(row), data.record(row), replacement)
    member, jitter = _simulate(mechanism, data, contrast, trials, seeds[0])
    neighbour = data.replaced(row, replacement)
    nonmember, jitter_prime = _simulate(mechanism, neighbour, contrast, trials, seeds[1])
    return Scores(member, nonmember), max(jitter, jitter_prime)


def _simulate(
    mechanism: Mechanism, data: Dataset, contrast: Contrast, trials: int, seed: np.random.SeedSequence
) -> tuple[Array, float]:
    """Scores of `trials` releases of `data`; over the paths of one release the log ratio adds up."""
    sampler = mechanism.sampler(data, contrast.points)
    rng, paths = np.random.default_rng(seed), mechanism.release.paths
    at_once = max(1, _VALUES_AT_ONCE // (paths * len(contrast.points)))
    scores = []
    for start in range(0, trials, at_once):
        released = sampler.draw(min(at_once, trials - start), paths=paths, rng=rng)
        statistics = released @ contrast.weights - contrast.centre
        ratio = contrast.law.log_likelihood_ratio(statistics[..., 0], statistics[..., 1])
        scores.append(ratio.sum(axis=1))
    return np.concatenate(scores), sampler.jitter
