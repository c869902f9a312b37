"""Lower bounds on epsilon against trials: bound / truth for every method, and the most that the trials allow."""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
from measuring import machine, quiet_blas

from gpleak.attacks import Scores
from gpleak.audit import bounds
from gpleak.audit.bounds import Bonferroni, Explicit, Guesses, IndependentCoins, Split

DELTA, SIGNIFICANCE = 1e-3, 0.05
REFERENCE = Path(__file__).parents[2] / "tests" / "reference" / "exact_pairs.json"


def draw(rng: np.random.Generator, row: dict[str, float], trials: int) -> Scores:
    """Exact log-likelihood ratios of the pair under both datasets (THEORY section 6)."""
    m, m_prime, v, v_prime, rho, ridge, scale = (
        row[name] for name in ("m", "m_prime", "v", "v_prime", "rho", "ridge", "scale")
    )
    gram, sides = np.array([[v, rho], [rho, v_prime]]), []
    for side, residual in enumerate((m, m_prime)):
        column, spread = gram[side], gram[side, side] + ridge**2
        root = np.linalg.cholesky(scale**2 * (gram - np.outer(column, column) / spread))
        u, u_prime = (residual / spread * column + rng.standard_normal((trials, 2)) @ root.T).T
        sides.append(
            ((m_prime - u_prime) ** 2 - (m - u) ** 2) / (2 * scale**2 * ridge**2)
            + m**2 / (2 * scale**2 * (v + ridge**2))
            - m_prime**2 / (2 * scale**2 * (v_prime + ridge**2))
            + 0.5 * np.log((v + ridge**2) / (v_prime + ridge**2))
        )
    return Scores(*sides)


def methods(trials: int, truth: float) -> dict[str, partial]:
    """Every method with its options; the explicit threshold and the grid are stated beforehand."""
    few = Guesses(trials // 100, trials // 100)
    grid = Bonferroni(tuple(np.arange(-1.0, 9.0)))
    return {
        "clopper_pearson, split 0.2": partial(bounds.clopper_pearson_bound, threshold=Split(0.2)),
        "clopper_pearson, split 0.3": bounds.clopper_pearson_bound,
        "clopper_pearson, split 0.5": partial(bounds.clopper_pearson_bound, threshold=Split(0.5)),
        "clopper_pearson, explicit": partial(bounds.clopper_pearson_bound, threshold=Explicit(4.5)),
        "clopper_pearson, grid of 10": partial(bounds.clopper_pearson_bound, threshold=grid),
        "sequential, claim truth / 2": partial(bounds.sequential_bound, batch=trials // 10, claimed=truth / 2),
        "one_run, all are guessed": partial(bounds.one_run_bound, design=IndependentCoins()),
        "one_run, 1 % are guessed": partial(bounds.one_run_bound, design=IndependentCoins(), guesses=few),
        "model_based (given the law)": bounds.model_based_bound,
        "jeffreys (estimate)": bounds.jeffreys_estimate,
        "joint_beta (estimate)": bounds.joint_beta_estimate,
    }


def provable(method: str, trials: int) -> float:
    """The most that perfect scores prove."""
    at = {"delta": DELTA, "significance": SIGNIFICANCE}
    if method.startswith("one_run"):
        few = Guesses(trials // 100, trials // 100) if "1 %" in method else None
        return bounds.one_run_provable(canaries=2 * trials, guesses=few, **at)
    if method.startswith("sequential"):
        return bounds.sequential_provable(trials=trials, batch=trials // 10, **at)
    if method.startswith("clopper_pearson"):
        evaluated = {"0.2": 0.8, "0.3": 0.7, "0.5": 0.5}.get(method[-3:], 1.0) * trials
        share = SIGNIFICANCE / (10 if method.endswith("of 10") else 1)
        return bounds.largest_provable_epsilon(evaluated=round(evaluated), delta=DELTA, significance=share)
    return float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    quiet_blas()
    print(machine())
    row = json.loads(REFERENCE.read_text())["rows"][1]
    truth = row["epsilon_exact"]
    print(f"GP pair, exact epsilon {truth:.4f} at delta {DELTA:g}, significance {SIGNIFICANCE:g}, {seeds} seeds")
    print(f"{'method':30s} {'trials':>9s} {'median / truth':>15s} {'smallest':>9s} {'largest':>9s}", end=" ")
    print(f"{'most / truth':>13s} ms")
    for trials in (1000, 10_000, 100_000, 1_000_000):
        scores = [draw(np.random.default_rng([90, seed]), row, trials) for seed in range(seeds)]
        for name, method in methods(trials, truth).items():
            start = time.perf_counter()
            values = [method(one, delta=DELTA, significance=SIGNIFICANCE).value / truth for one in scores]
            each = 1e3 * (time.perf_counter() - start) / seeds
            most = provable(name, trials) / truth
            print(
                f"{name:30s} {trials:9d} {np.median(values):15.3f} {min(values):9.3f} {max(values):9.3f} "
                f"{'none' if np.isnan(most) else f'{most:.3f}':>13s} {each:.1f}"
            )


if __name__ == "__main__":
    main()
