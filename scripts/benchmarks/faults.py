"""Planted faults: how often an audit with default settings finds each, beside its right twin."""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from measuring import machine, quiet_blas

from gpleak import Verdict, build_subject, load_config, run_audit

EXAMPLE = Path(__file__).parents[2] / "examples" / "faults"


def audited(task: tuple[str, int]) -> tuple[bool, bool, float]:
    """Whether an audit ends VIOLATED, whether an attack alone would have done it, and the fidelity test's p-value."""
    name, seed = task
    config = load_config(
        EXAMPLE / "audit.toml",
        [f"release.mechanism=faults:{name}", f"audit.seed={seed}", "compute.workers=serial"],
    )
    result = run_audit(build_subject(config, allow_code=True), config.audit, compute=config.compute)
    by_attack = any(attack.epsilon_lower.value > result.claimed_epsilon for attack in result.attacks)
    return result.verdict == Verdict.VIOLATED, by_attack, result.fidelity.p_value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args().seeds
    quiet_blas()
    print(machine())
    sys.path.insert(0, str(EXAMPLE))
    from faults import FAULTS

    print(f"share of {seeds} audits that end VIOLATED (of those in which an attack shows it), p-values of fidelity")
    print(f"{'fault':24s} {'found':>18s} {'largest p':>10s}   {'twin':14s} {'found':>18s} {'smallest p':>10s}")
    names = dict.fromkeys(kind.__name__ for pair in FAULTS.items() for kind in pair)
    shares, p_values = {}, {}
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        found = pool.map(audited, [(name, seed) for name in names for seed in range(seeds)], chunksize=10)
        for name in names:
            violated, by_attack, p_values[name] = zip(*(next(found) for _ in range(seeds)), strict=True)
            shares[name] = f"{100 * sum(violated) / seeds:.1f} % ({100 * sum(by_attack) / seeds:.1f} %)"
    for fault, twin in ((fault.__name__, twin.__name__) for fault, twin in FAULTS.items()):
        left = f"{fault:24s} {shares[fault]:>18s} {max(p_values[fault]):10.1e}"
        print(f"{left}   {twin:14s} {shares[twin]:>18s} {min(p_values[twin]):10.1e}")


if __name__ == "__main__":
    main()
