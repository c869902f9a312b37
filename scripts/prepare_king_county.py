#!/usr/bin/env python3
"""Make examples/king_county/king_county.csv from the raw table of house sales, and print the public parameters.

    python scripts/prepare_king_county.py king_county_house_sales.csv

The 500 records of the example play the private data. Length scale and scale are fitted to 1,500 other sales, at
other locations, by maximum marginal likelihood; the ridge is then the one whose certified epsilon is 2.95 at
delta 1e-3. Nothing about the 500 enters but their number.
"""

import hashlib
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from gpleak import Bounded, Domain, ExactPosterior, Release, exponential
from gpleak.audit import certify

SHA256 = "e4c1afade6f6cff3200e7f6cda4f40235a9b6766aa0462845a245b1cf7ddb171"
TARGET = Path(__file__).resolve().parent.parent / "examples" / "king_county" / "king_county.csv"

CORNER_LONGITUDE, CORNER_LATITUDE, REFERENCE_LATITUDE = -122.56, 47.14, 47.5
KM_PER_DEGREE = 111.195  # of a great circle of the mean Earth radius, 6371.0 km
DOMAIN = [[0.0, 95.0], [0.0, 72.0]]
RECORDS, PUBLIC_SALES, SEED = 500, 1500, 20260501
CERTIFIED, DELTA = 2.95, 1e-3


def main(source: Path) -> None:
    raw = source.read_bytes()
    if hashlib.sha256(raw).hexdigest() != SHA256:
        sys.exit(f"{source}: is not the expected file (its sha256 differs from {SHA256})")
    everything = pd.read_csv(source)
    sales = everything.drop_duplicates(["x", "y"], keep="first")
    table = pd.DataFrame(
        {
            "east_km": (sales["x"] - CORNER_LONGITUDE) * KM_PER_DEGREE * math.cos(math.radians(REFERENCE_LATITUDE)),
            "north_km": (sales["y"] - CORNER_LATITUDE) * KM_PER_DEGREE,
            "log_price_ratio": np.log(sales["value"] / 450_000).clip(-1.0, 1.0),
        }
    ).round({"east_km": 3, "north_km": 3, "log_price_ratio": 6})
    if not Domain(DOMAIN).contains(table[["east_km", "north_km"]].to_numpy()).all():
        sys.exit("a sale lies outside the domain")
    drawn = np.random.default_rng(SEED).permutation(len(table))
    private, public = table.iloc[drawn[:RECORDS]], table.iloc[drawn[RECORDS : RECORDS + PUBLIC_SALES]]
    private.to_csv(TARGET, index=False, lineterminator="\n")
    print(f"wrote {TARGET.name}: {len(private)} of {len(table)} distinct locations ({len(everything)} sales)")

    length_scale, scale = fit(public)
    print(f"from {len(public)} other sales: length_scale = {length_scale}, scale = {scale}")
    print(f"ridge with certified epsilon {CERTIFIED}: {solve_ridge(length_scale, scale)}")


def fit(public: pd.DataFrame) -> tuple[float, float]:
    """Length scale (km) and prior standard deviation by maximum marginal likelihood, to two digits."""
    kernel = ConstantKernel(0.2, (1e-3, 1e2)) * Matern(10.0, (0.1, 1e3), nu=0.5) + WhiteKernel(0.05, (1e-4, 1e1))
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=0, random_state=0)
    model.fit(public[["east_km", "north_km"]].to_numpy(), public["log_price_ratio"].to_numpy())
    print(f"maximum likelihood: {model.kernel_}")
    product = model.kernel_.k1
    return float(f"{product.k2.length_scale:.2g}"), float(f"{math.sqrt(product.k1.constant_value):.2g}")


def solve_ridge(length_scale: float, scale: float) -> float:
    """Smallest ridge, to three decimals, that certifies the wanted epsilon."""

    def excess(ridge: float) -> float:
        release = Release(
            kernel=exponential(length_scale),
            ridge=ridge,
            scale=scale,
            domain=Domain(DOMAIN),
            response_bound=1.0,
            records=RECORDS,
        )
        return certify(ExactPosterior(release), Bounded(), DELTA).epsilon - CERTIFIED

    return math.ceil(brentq(excess, 0.1, 100.0) * 1000) / 1000


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
