"""The core adversary: knows every other record and asks which of two records completes the dataset."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..mechanisms import Array, Contrast, Dataset, InputError, Mechanism, Sampler
from .engine import CHUNK_SECONDS, Engine, Part, noted
from .scores import Scores

_VALUES_AT_ONCE = 1 << 22  # 32 MiB of released values
_RELEASE = 1  # first key of a seed, as in audit/run.py; then the attacked row, the hypothesis and the block
_BLOCK = 1000  # trials of one seed
_MOST_BLOCKS = 1000  # of a chunk: its scores are held and sent at once
_SPAN = 10**12  # numbers of the trials against one row


@dataclass(frozen=True, eq=False)
class CoreAttack:
    """Attacks on records against their replacements with the Neyman-Pearson optimal score (THEORY section 6).

    Releases are drawn through ``mechanism.sampler``, never from the law behind the score: if the
    implementation is not the stated mechanism, the scores show it.

    Attributes:
        mechanism: What is audited.
        data: The private dataset D.
        rows: 0-based rows of the attacked records.
        replacements: For each of them, the record that takes its place in D'.
        seed: Root of all seeds; those of a trial depend on row, hypothesis and number of the trial only.
    """

    mechanism: Mechanism
    data: Dataset
    rows: tuple[int, ...]
    replacements: Dataset
    seed: int

    def attempt(self, trials: range, *, engine: Engine, finished: Callable[[], None]) -> "list[CoreScores]":
        """Scores of independent releases, ``trials`` under each of D and D', for every attacked record.

        Args:
            trials: Numbers of the trials: those of another range are other releases.
            engine: Where the work is done.
            finished: Called after each chunk.
        """
        chunks = core_chunks(self.mechanism, self.rows, trials=trials)
        parts = engine.map(_core_chunk, self, chunks, finished)
        found: dict[int, list[CoreScores]] = {row: [] for row in self.rows}
        for chunk, part in zip(chunks, parts, strict=True):
            scores = Scores(part["member"], part["nonmember"])
            found[chunk.start // _SPAN].append(CoreScores(scores, float(part["jitter"])))
        return [_joined(own) for own in found.values()]


@dataclass(frozen=True, eq=False)
class CoreScores:
    """Scores against one record, and the largest jitter a sampler needed."""

    scores: Scores
    jitter: float


def core_chunks(mechanism: Mechanism, rows: Sequence[int], *, trials: range) -> list[range]:
    """Chunks of trials, target by target: numbers of trials, of which each row has a span of its own.

    Chunks begin at fixed numbers, so that those of more trials are the same ones and some more.
    """
    # What a target needs once is shared within a chunk: it has as many trials as are worth that.
    worth = max(_once(mechanism), CHUNK_SECONDS) / _per_trial(mechanism)
    size = _BLOCK * max(1, min(round(worth / _BLOCK), _MOST_BLOCKS))
    starts = range(trials.start // size * size, trials.stop, size)
    return [
        range(row * _SPAN + max(start, trials.start), row * _SPAN + min(start + size, trials.stop))
        for row in rows
        for start in starts
    ]


def core_seconds(mechanism: Mechanism, targets: int, *, trials: int) -> float:
    """Rough seconds of one processor for the whole attack; decides chunks and engine, never a result."""
    return targets * (_once(mechanism) + trials * _per_trial(mechanism))


def _once(mechanism: Mechanism) -> float:
    """Of the core, and of the listed points for the score and for both samplers."""
    points = 0 if mechanism.release.points is None else len(mechanism.release.points)
    return 0.005 + 4e-11 * (mechanism.release.records**3 + 3 * points**3)


def _per_trial(mechanism: Mechanism) -> float:
    release = mechanism.release
    points = len(release.points) if release.points is not None else 2
    points = points if release.prior_noise == 0 else max(points, release.records + 1)
    return 2.0 * release.paths * points * (1e-8 + 6e-11 * points)


def _blocks(trials: range) -> list[range]:
    """The parts of a range of trials that share a seed."""
    first, last = trials.start // _BLOCK, (trials.stop - 1) // _BLOCK
    return [
        range(max(trials.start, block * _BLOCK), min(trials.stop, (block + 1) * _BLOCK))
        for block in range(first, last + 1)
    ]


def _core_chunk(attack: CoreAttack, chunk: range) -> Part:
    """Scores of some trials against one target, "member" and "nonmember", and the "jitter" that a sampler added."""
    row = chunk.start // _SPAN
    trials, target = range(chunk.start - row * _SPAN, chunk.stop - row * _SPAN), attack.rows.index(row)
    with noted(f"in trials {trials.start} to {trials.stop - 1} against record {row}"):
        contrast = attack.mechanism.contrast(attack.data, row, attack.replacements.record(target))
        samplers = [attack.mechanism.sampler(data, contrast.points) for data in (attack.data, contrast.neighbour)]
        sides: list[list[Array]] = [[], []]
        if any(block.start % _BLOCK for block in _blocks(trials)):
            for sampler in samplers:
                _check_prefix(sampler, attack)
        for block in _blocks(trials):
            for side, sampler in enumerate(samplers):
                key = (_RELEASE, row, side, block.start // _BLOCK)
                rng = np.random.default_rng(np.random.SeedSequence(attack.seed, spawn_key=key))
                sides[side].append(_simulate(sampler, attack.mechanism.release.paths, contrast, block, rng))
    member, nonmember = map(np.concatenate, sides)
    jitter = max(contrast.law.jitter, *(sampler.jitter for sampler in samplers))
    return {"member": member, "nonmember": nonmember, "jitter": np.array(jitter)}


def _check_prefix(sampler: Sampler, attack: CoreAttack) -> None:
    """Trials that begin within a block rest on the rule that a release does not depend on how many are asked for."""
    # Each from a seed sequence of its own: one that is shared would remember what the other spawned.
    first, rng = (np.random.default_rng(np.random.SeedSequence(attack.seed)) for _ in range(2))
    paths = attack.mechanism.release.paths
    whole = sampler.draw(3, paths=paths, rng=first)
    parts = np.concatenate([sampler.draw(1, paths=paths, rng=rng) for _ in range(3)])
    # The last digits of a product of matrices may depend on its size; the random numbers must not.
    if not np.allclose(whole, parts, rtol=1e-9, atol=1e-9 * float(np.abs(whole).max())):
        raise InputError(
            "a sampler's releases depend on how many are asked for at once, so that looks would share their numbers: "
            "draw them one after the other, or use audit.batch and audit.trials in thousands"
        )


def _simulate(sampler: Sampler, paths: int, contrast: Contrast, block: range, rng: np.random.Generator) -> Array:
    """Scores of releases `block` of one dataset; over the paths of one release the log ratio adds up."""
    at_once = max(1, _VALUES_AT_ONCE // (paths * len(contrast.weights)))
    scores, skipped = [], block.start % _BLOCK
    for start in range(0, skipped + len(block), at_once):
        released = sampler.draw(min(at_once, skipped + len(block) - start), paths=paths, rng=rng)
        statistics = released @ contrast.weights - contrast.centre
        ratio = contrast.law.log_likelihood_ratio(statistics[..., 0], statistics[..., 1])
        scores.append(ratio.sum(axis=1))
    return np.concatenate(scores)[skipped:]


def _joined(parts: list[CoreScores]) -> CoreScores:
    return CoreScores(Scores.joined([part.scores for part in parts]), max(part.jitter for part in parts))
