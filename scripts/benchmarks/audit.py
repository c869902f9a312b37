"""Default King County audit: wall time and peak memory of the process tree; and its parts and mechanisms."""

import sys
import tempfile
from pathlib import Path

from measuring import machine, run

CONFIG = Path(__file__).resolve().parents[2] / "examples" / "king_county" / "audit.toml"
CORE = ["--set", "audit.adversaries=['core']"]
RUNS = {
    "the default": [],
    "serial": ["--set", "compute.workers=serial"],
    "core adversary only": CORE,
    "core only, noised with 0.2": [*CORE, "--set", "release.mechanism=noised", "--set", "release.prior_noise=0.2"],
    "core only, centred": [*CORE, "--set", "release.mechanism=centred"],
}


def main() -> None:
    print(machine())
    base = run([sys.executable, "-m", "gpleak", "--version"])
    print(f"{'imports alone':28} {base.seconds:7.2f} s {base.mebibytes:7.0f} MiB")
    with tempfile.TemporaryDirectory() as out:
        for name, options in RUNS.items():
            command = [sys.executable, "-m", "gpleak", "audit", str(CONFIG), "--out", out, *options]
            cost = min((run(command) for _ in range(2)), key=lambda cost: cost.seconds)
            ratio = cost.seconds / base.seconds
            print(f"{name:28} {cost.seconds:7.2f} s {cost.mebibytes:7.0f} MiB   {ratio:5.1f} x imports")


if __name__ == "__main__":
    main()
