"""Certificates: a grid of Renyi bounds against a loop, and how near the worst pair found comes to the best."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import machine, quiet_blas
from scipy.optimize import differential_evolution, minimize_scalar

from gpleak import Bounded, Domain, ExactPosterior, Exponential1D, Release, exponential, rbf
from gpleak.audit import certificates, epsilon_grid, worst_pair
from gpleak.mechanisms import PairLaw, Tuning, exact_epsilon

DELTA = 1e-3
REFERENCE = Path(__file__).parents[2] / "tests" / "reference" / "structured.json"


def scalar_epsilon(mechanism: ExactPosterior, ridge: float, scale: float) -> float:
    """One certificate by a bounded scalar optimiser over the logit of the order."""
    at = Tuning(np.asarray(ridge), np.asarray(scale), np.zeros(()))
    curve = mechanism.renyi(Bounded().sensitivity(mechanism.release, ridge=at.ridge), at)
    limit = float(curve.excess_limit)

    def epsilon(t: float) -> float:
        excess = limit / (1.0 + np.exp(-t))
        alpha = 1.0 + excess
        divergence = float(curve.divergence(np.asarray(excess)))
        return divergence + np.log(excess / alpha) - (np.log(DELTA) + np.log(alpha)) / excess

    return max(
        float(minimize_scalar(epsilon, bounds=(-20.0, 30.0), method="bounded", options={"xatol": 1e-9}).fun), 0.0
    )


def main() -> None:
    quiet_blas()
    print(machine())
    release = Release(kernel=exponential(0.1), ridge=1.0, domain=Domain([[0.0, 1.0]]), response_bound=1.0, records=500)
    mechanism = ExactPosterior(release)
    ridge, scale = np.meshgrid(np.geomspace(0.1, 10, 100), np.geomspace(0.1, 10, 100))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        grid, _ = epsilon_grid(mechanism, Bounded(), DELTA, tuning=Tuning(ridge, scale, np.zeros(())))
        times.append(time.perf_counter() - start)
    sample = np.random.default_rng(0).choice(ridge.size, 300, replace=False)
    start = time.perf_counter()
    loop = [scalar_epsilon(mechanism, ridge.flat[i], scale.flat[i]) for i in sample]
    per_point = (time.perf_counter() - start) / len(sample)
    worst = np.max(np.abs(grid.flat[sample] / loop - 1.0))
    ratio = per_point * ridge.size / min(times)
    print(
        f"10,000 certificates in {min(times):.3f} s; a scalar loop would take {ratio:.0f} x as long (300 of them timed)"
    )
    print(f"largest relative difference between the two: {worst:.1e}")
    sharpness()


def sharpness() -> None:
    """Worst pair / structured certificate for the settings of the reference table.

    The worst pair found for one of gpleak's kernels (of several domains the worst), and, where the certificate is for
    any kernel, the worst four places of a kernel of which nothing is known but its infimum.
    """
    print(f"{'regime':15s} {'n':>5s} {'ridge':>5s} {'theorem':>8s} {'structured':>10s}", end=" ")
    print(f"{'seconds':>7s} {'worst':>8s} {'seconds':>7s} ratio  any kernel  ratio")
    for row in json.loads(REFERENCE.read_text())["rows"]:
        releases = [Release(domain=domain, kernel=kernel, **public(row)) for kernel, domain in places(row)]
        regime = Exponential1D() if row["regime"] == "exponential_1d" else Bounded()
        mechanisms = [ExactPosterior(release) for release in releases]
        start = time.perf_counter()
        renyi, structured = certificates(mechanisms[0], regime, row["delta"])
        middle = time.perf_counter()
        worst = max(worst_pair(mechanism, regime, row["delta"]).epsilon for mechanism in mechanisms)
        end = time.perf_counter()
        print(
            f"{row['regime']:15s} {row['n']:5d} {row['ridge']:5g} {renyi.epsilon:8.3f} {structured.epsilon:10.4f} "
            f"{middle - start:7.1f} {worst:8.4f} {(end - middle) / len(releases):7.1f} "
            f"{worst / structured.epsilon:.3f}",
            end="",
        )
        if row["regime"] == "bounded":
            epsilon, values = four_places(row)
            print(f" {epsilon:11.4f}  {epsilon / structured.epsilon:.3f}  {values}", end="")
        print(flush=True)


def four_places(row: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """The worst pair of a symmetric table of kernel values at four places, and the table.

    Half of the core lies at z and half at z', with responses -M and +M; the record is at x with +M, its replacement at
    x' with -M. The table is k(z, x) = k(z', x') = near, k(z, x') = k(z', x) = far, k(z, z') = clusters and
    k(x, x') = ends, all of them in [kappa, 1]. Sums and differences diagonalise everything: what the core knows of
    f(x) - f(x') it learns from f(z) - f(z').
    """
    floor, bound, variance = row["kappa"], row["response_bound"], row["scale"] ** 2
    noise = row["ridge"] ** 2
    each = noise / ((row["n"] - 1) / 2)

    def table(at: Any) -> tuple[float, float, float, float]:
        clusters, ends = floor + (1.0 - floor) * at[0], floor + (1.0 - floor) * at[1]
        far = floor + (1.0 - floor) * at[2]
        return far + at[3] * np.sqrt((1.0 - clusters) * (1.0 - ends)), far, clusters, ends

    def epsilon(at: Any) -> float:
        near, far, clusters, ends = table(at)
        if near > 1.0 or (near + far) ** 2 > (1.0 + clusters) * (1.0 + ends):
            return 0.0
        alike = (near + far) ** 2 / 2.0 / (1.0 + clusters + each)
        unlike = (near - far) ** 2 / 2.0 / (1.0 - clusters + each)
        m = bound + bound * (near - far) / (1.0 - clusters + each)
        v, rho = 1.0 - alike - unlike, ends - alike + unlike
        drop = variance / (v + noise)
        own, cross, kept = v / variance, rho / variance, noise / (v + noise)
        law = PairLaw(m / (v + noise), -m / (v + noise), drop, drop, own, own, cross, kept, kept)
        return float(exact_epsilon(law, row["delta"], paths=row["paths"]))

    box = [(0.0, 1.0), (0.0, 1.0), (0.0, 0.3), (0.0, 1.0)]
    found = differential_evolution(lambda at: -epsilon(at), box, rng=1, maxiter=60, popsize=12, polish=False)
    names = ("near", "far", "clusters", "ends")
    return -float(found.fun), dict(zip(names, map(float, table(found.x)), strict=True))


def public(row: dict[str, Any]) -> dict[str, Any]:
    names = {"ridge": "ridge", "scale": "scale", "response_bound": "response_bound", "paths": "paths", "n": "records"}
    return {ours: row[theirs] for theirs, ours in names.items()}


def places(row: dict[str, Any]) -> list[tuple[Any, Domain]]:
    """Kernels and domains with the row's infimum: the exponential one, and where any is allowed also smooth ones."""
    if row["regime"] == "exponential_1d":
        return [(exponential(row["length_scale"]), Domain([[0.0, row["domain_diameter"]]]))]
    found = []
    for dimension in (1, 2):
        side = 1.0 / np.sqrt(dimension)
        reach = np.sqrt(-2.0 * np.log(row["kappa"]))  # RBF: k = exp(-d^2 / 2 l^2) at distance 1
        found.append((rbf(1.0 / reach), Domain([[0.0, side]] * dimension)))
    return found


if __name__ == "__main__":
    main()
