"""Planted faults: how often an audit with default settings finds each, beside its right twin."""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from measuring import machine, quiet_blas

from gpleak import Verdict, build_subject, load_config, run_audit

EXAMPLE = Path(__file__).parents[2] / "examples" / "faults"


def violated(task: tuple[str, int]) -> tuple[bool, bool]:
    """Whether an audit ends VIOLATED, and whether an attack or an exact value alone would have done it."""
    name, seed = task
    config = load_config(
        EXAMPLE / "audit.toml",
        [f"release.mechanism=faults:{name}", f"audit.seed={seed}", "compute.workers=serial"],
    )
    result = run_audit(build_subject(config, allow_code=True), config.audit, compute=config.compute)
    by_attack = any(attack.epsilon_lower.value > result.claimed_epsilon for attack in result.attacks)
    return result.verdict == Verdict.VIOLATED, by_attack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args().seeds
    quiet_blas()
    print(machine())
    sys.path.insert(0, str(EXAMPLE))
    from faults import FAULTS

    print(f"share of {seeds} audits that end VIOLATED, and of those that an attack shows a violation in")
    print(f"{'fault':24s} {'found':>8s} {'by attack':>10s}   {'twin':14s} {'found':>8s} {'by attack':>10s}")
    names = dict.fromkeys(kind.__name__ for pair in FAULTS.items() for kind in pair)
    rates = {}
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        found = pool.map(violated, [(name, seed) for name in names for seed in range(seeds)], chunksize=10)
        for name in names:
            audits = [next(found) for _ in range(seeds)]
            rates[name] = [f"{100 * sum(column) / seeds:.1f} %" for column in zip(*audits, strict=True)]
    for fault, twin in FAULTS.items():
        left, right = rates[fault.__name__], rates[twin.__name__]
        print(f"{fault.__name__:24s} {left[0]:>8s} {left[1]:>10s}   {twin.__name__:14s} {right[0]:>8s} {right[1]:>10s}")


if __name__ == "__main__":
    main()
