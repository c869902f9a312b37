"""The published figures: small sizes of what scripts/reproduce_figures computes, held against theory and references."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import reference

from gpleak.attacks import Serial

sys.path.append(str(Path(__file__).parent.parent / "scripts"))

from published import tables as published_tables
from published.__main__ import facts, write
from published.attacked import Sizes, attacked, attacked_without_noise
from published.certified import Certified, allowed_excess, certified, certified_by_search, paths_within, worst_epsilon
from published.stress import DELTA, RATES, Setting
from published.tables import CENTRED, COLUMNS, Plan, compute

SMALL = Plan(
    ridges=(0.1, 2),
    scales=(0.5,),
    fine_scales=(0.5, 2),
    few_ridges=(0.1,),
    paths=(1, 3),
    pairs=((0.1, 0.5),),
    searched_ridges=(0.1,),
    searched_scales=(0.5,),
    searched_paths=(1,),
    budget_ridges=(2, 5),
    budget_scales=(1,),
    budget_few_ridges=(5,),
    one=Sizes(2000, 10_000),
    some=Sizes(1000, 2000),
    limit=Sizes(2000, 4000),
)


@pytest.fixture(scope="module")
def found():
    """The tables of a small plan. Searches take seconds and have a test of their own: here they are stood in for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published_tables, "certified_by_search", halved)
        patch.setattr(published_tables, "worst_epsilon", lambda setting: 0.4 * certified(setting).renyi)
        heard = []
        tables = compute(SMALL, Serial(), lambda done, total: heard.append((done, total)))
    assert heard[-1][0] == heard[-1][1] == len(heard) - 1
    return tables


def halved(setting):
    return Certified(certified(setting).renyi, 0.5 * certified(setting).renyi, "structured")


def test_tables_are_tidy_and_no_attack_exceeds_its_certificate(found):
    """Six standard errors: false-failure rate 1e-9 each, were the attack as strong as the certificate allows."""
    assert [len(t) for t in (found.by_ridge, found.by_scale, found.by_paths)] == [8, 6, 6]
    for table in (found.by_ridge, found.by_scale, found.by_paths):
        assert tuple(table.columns) == COLUMNS
        limit = np.isinf(table.paths)
        assert np.isfinite(table[["ridge", "fpr", "tpr", "excess_tpr", "standard_error", "shadows", "trials"]]).all(
            axis=None
        )
        assert np.isfinite(table.loc[~limit, ["certified_renyi", "allowed_excess_tpr"]]).all(axis=None)
        assert table.loc[limit, ["certified_renyi", "certified_sharper", "worst_pair"]].isna().all(axis=None)
        assert table.excess_tpr.between(-0.05, 1.0).all()
        assert (table.excess_tpr == table.tpr - table.fpr).all()
        assert not table.duplicated(["ridge", "scale", "paths", "fpr"]).any()
        rows = table[~limit]
        best = rows[["certified_renyi", "certified_sharper"]].min(axis=1)
        allowance = 6.0 * rows.standard_error
        assert (rows.tpr - DELTA <= np.exp(np.minimum(best, 700.0)) * rows.fpr + allowance).all()
        assert (rows.excess_tpr <= rows.allowed_excess_tpr + allowance).all()
    searched = found.by_ridge.worst_pair.notna()
    assert (searched == (found.by_ridge.ridge == 0.1)).all()
    assert set(found.by_ridge.sharper_method[searched]) == {"structured", "dominating_pair"}
    assert set(found.by_paths.paths) == {1, 3, math.inf}


def test_most_paths_are_the_most(found):
    table = found.most_paths
    assert list(table.columns) == ["ridge", "scale", "mechanism", "delta", "budget", "most_paths"]
    for (ridge, scale), rows in table.groupby(["ridge", "scale"]):
        assert rows.sort_values("budget").most_paths.is_monotonic_increasing
        for budget, most in zip(rows.budget, rows.most_paths, strict=True):
            # By the Renyi theorem alone, or for the centred release by the sharper bound.
            assert certified(Setting(ridge, scale, most + 1)).best > budget
            assert most == 0 or certified(Setting(ridge, scale, most)).best <= budget
    assert paths_within(Setting(20, 1), (1.0,)) > paths_within(Setting(5, 1), (1.0,)) > (0,)


def test_files_and_facts(found, tmp_path):
    written = write(found, SMALL, tmp_path / "figures")
    assert {path.name for path in written} == {
        f"{name}.{kind}" for name in ("by_ridge", "by_scale", "by_paths", "most_paths") for kind in ("csv", "png")
    }
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
    read = pd.read_csv(tmp_path / "figures" / "by_ridge.csv")
    assert set(read.scale) == {0.5, CENTRED}
    assert np.allclose(read.excess_tpr, found.by_ridge.excess_tpr)
    lines = facts(read)
    assert lines == facts(found.by_ridge)
    assert "ridge 0.1" in lines[0]
    assert "centred release" in lines[1]
    assert "ridge 2" in lines[3]


@pytest.mark.parametrize("scale", [0.5, 5, CENTRED])
def test_certificates_decrease_in_the_ridge(scale):
    bounds = [certified(Setting(ridge, scale)) for ridge in Plan().ridges]
    assert (np.diff([bound.renyi for bound in bounds]) < 0).all()
    assert (np.diff([bound.best for bound in bounds]) < 0).all()
    assert all((bound.method == "dominating_pair") == (scale == CENTRED) for bound in bounds)


def test_what_a_certificate_allows():
    """Both inequalities of differential privacy, each where it binds; the values are the formulas' by hand."""
    assert allowed_excess(0.1, 0.01) == pytest.approx(0.01 * math.exp(0.1) + 1e-3 - 0.01)
    assert allowed_excess(3.0, 0.9) == pytest.approx(1 - (0.1 - 1e-3) / math.exp(3.0) - 0.9)
    assert allowed_excess(1e4, 0.1) == pytest.approx(0.9)
    assert allowed_excess(0.0, 0.1) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("ridge", "scale", "bound"),
    [(0.1, 0.5, certified_by_search), (2.0, CENTRED, certified)],
    ids=["posterior", "centred"],
)
def test_worst_pair_is_below_the_certificates(ridge, scale, bound):
    """Two records, for which the worst pair is found at once; the bands of the figures are not vacuous."""
    setting = Setting(ridge, scale, records=2)
    upper = bound(setting)
    assert 0.5 * upper.sharper < worst_epsilon(setting) < upper.sharper < upper.renyi


def test_the_centred_release_is_the_limit_of_large_scale():
    """At scale 50 within 5.1 combined standard errors of independent runs: false-failure rate 7e-7 for both rates.

    At scale 2 the difference at 10 % is more than twice what is tolerated. On common seeds scale 50 is 0.0003 above the
    limit at 10 %, a tenth of a standard error (400,000 trials).
    """
    limit = attacked(Setting(0.3, CENTRED), Sizes(10_000, 40_000, seed=1))
    large = attacked(Setting(0.3, 50), Sizes(10_000, 40_000, seed=2))
    small = attacked(Setting(0.3, 2), Sizes(10_000, 40_000, seed=3))
    tolerated = [5.1 * math.hypot(one.error, other.error) for one, other in zip(limit, large, strict=True)]
    for one, other, most in zip(limit, large, tolerated, strict=True):
        assert abs(one.excess - other.excess) <= most
    assert small[0].excess - limit[0].excess > 2 * tolerated[0]


def test_attack_agrees_with_the_reference():
    """tests/reference/lira_jump.json, (r, sigma) = (0.5, 1): 5 combined standard errors, false-failure rate 6e-7 each.

    The reference's own standard errors, computed from densities, are ours but for the number of trials.
    """
    (row,) = (
        row
        for row in reference("lira_jump")
        if row["attack"].startswith("optimal") and (row["ridge"], row["scale"], row["paths"]) == (0.5, 1, 1)
    )
    trials = 50_000
    for success, percent in zip(attacked(Setting(0.5, 1), Sizes(20_000, trials)), (10, 1), strict=True):
        error = row[f"se_tpr_{percent}pct"]
        assert success.tpr == pytest.approx(row[f"tpr_at_{percent}pct"], abs=5 * math.hypot(error, success.error))
        assert success.error == pytest.approx(error * math.sqrt(100_000 / trials), rel=0.3)


def test_exact_mean_and_variance_tell_more_than_any_path():
    """At (r, sigma) = (0.5, 1): dozens of standard errors apart, at both rates of `RATES`."""
    limit = attacked_without_noise(Setting(0.5, 1), Sizes(5000, 10_000))
    for one, exact, fpr in zip(attacked(Setting(0.5, 1), Sizes(5000, 10_000)), limit, RATES, strict=True):
        assert one.fpr == exact.fpr == fpr
        assert exact.excess > one.excess + 6 * math.hypot(one.error, exact.error)
