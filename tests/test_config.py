"""The configuration: every bad input is one clear line with value, rule and remedy."""

import textwrap

import numpy as np
import pytest

from gpleak.audit import AuditPlan, build_subject, load_config
from gpleak.mechanisms import InputError

CONFIG = """
[data]
file = "data.csv"
covariates = ["x"]
response = "y"

[release]
mechanism = "posterior"
kernel = "exponential"
length_scale = 0.3
ridge = 1.0
domain = [[0.0, 1.0]]
response_bound = 1.0
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n0.1,0.5\n0.9,-1.0\n0.4,0.25\n")
    (tmp_path / "audit.toml").write_text(CONFIG)
    return tmp_path


def load(folder, *overrides):
    return load_config(folder / "audit.toml", list(overrides))


def test_defaults_and_overrides(folder):
    config = load(folder, "release.ridge=2", "audit.targets=all", 'release.kernel="matern32"', "audit.delta=1e-4")
    assert config.release.ridge == 2.0
    assert config.audit.targets == "all"
    assert config.release.kernel == "matern32"
    assert config.audit.delta == 1e-4
    assert load(folder).audit == AuditPlan()
    assert load(folder).audit.trials == 20_000


def test_subject_is_built_with_worst_cases_from_public_numbers(folder):
    subject = build_subject(load(folder))
    assert len(subject.data) == 3
    assert subject.mechanism.release.records == 3
    assert subject.mechanism.release.kappa == pytest.approx(np.exp(-1 / 0.3))
    assert subject.clipped == 0


BAD = [
    ("release.ridge=0", r"release\.ridge = 0: should be greater than 0; set it to a positive number"),
    ("release.ridge=-1", r"release\.ridge = -1: should be greater than 0"),
    ("release.ridge=abc", r"release\.ridge = 'abc': should be a valid number"),
    ("release.ridge=nan", r"release\.ridge = nan: should be a finite number"),
    ("release.scale=0", r"release\.scale = 0: should be greater than 0"),
    ("release.prior_noise=-1", r"release\.prior_noise = -1: should be greater than or equal to 0"),
    (
        "release.kernel=cubic",
        r"release\.kernel = 'cubic': should be 'exponential', 'matern32', 'matern52', 'rbf' or 'diagonal'",
    ),
    (
        "release.regime=none",
        r"release\.regime = 'none': should be 'bounded', 'exponential_1d', 'rkhs', 'separated' or 'diagonal'",
    ),
    ("release.paths=1.5", r"release\.paths = 1\.5: should be a valid integer"),
    ("release.paths=0", r"release\.paths = 0"),
    ("release.domain=[[1]]", r"release\.domain is incomplete; set it to a list of \[low, high\]"),
    ("release.domain=[[0,1],[0,1]]", r"release\.domain has 2 side\(s\) and data\.covariates 1 column\(s\)"),
    ("release.regime=rkhs", r"release\.regime = 'rkhs' needs release\.rkhs_norm"),
    ("release.separation=0.1", r"release\.separation is for regime 'separated' only"),
    ("audit.delta=1e5", r"audit\.delta = 100000\.0: should be less than 1; set it to a probability .* not 1/delta"),
    ("audit.delta=0", r"audit\.delta = 0: should be greater than 0"),
    ("audit.significance=1", r"audit\.significance = 1: should be less than 1"),
    ("audit.targets=[]", r"audit\.targets = \[\]: is an empty list"),
    ("audit.targets=[1,1]", r"audit\.targets = \[1, 1\]: names a record twice"),
    ("audit.targets=0", r"audit\.targets = 0"),
    ("audit.targets=most", r"audit\.targets = 'most'"),
    ("audit.trials=1", r"audit\.trials = 1: should be greater than or equal to 2"),
    ("audit.seed=-1", r"audit\.seed = -1"),
    ("audit.claimed_epsilon=-1", r"audit\.claimed_epsilon = -1"),
    ("audit.claimed_epsilon=inf", r"audit\.claimed_epsilon = inf: should be a finite number"),
    ("release.ridge=true", r"release\.ridge = True: should be a valid number"),
    ('release.ridge="1"', r"release\.ridge = '1': should be a valid number"),
    ("audit.targets=true", r"audit\.targets = True"),
    ("data.covariates=['y']", r"name a column twice"),
    ("data.zzz=1", r"unknown key 'zzz' in \[data\]: did you mean"),
    ("audit.trails=5", r"unknown key 'trails' in \[audit\]: did you mean 'trials'\?"),
    ("release.rigde=5", r"unknown key 'rigde' in \[release\]: did you mean 'ridge'\?"),
    ("relese.ridge=5", r"unknown key 'relese': did you mean 'release'\?"),
    ("data.file=http://host/data.csv", r"is an address, not a path; nothing is fetched"),
    ("data.covariates=[]", r"data\.covariates = \[\]"),
    ("data.decimal=5", r"data\.decimal = 5: should be a valid string"),
    ("folder=x", r"write section\.key=value"),
    ("audit.adversaries=[]", r"audit\.adversaries = \[\]"),
    ("audit.adversaries=['core','core']", r"names an adversary twice"),
    (
        "audit.adversaries=['oracle']",
        r"audit\.adversaries = \['oracle'\]: names 'oracle', which is none; set it to a list of core, ",
    ),
    ("audit.lira.density=normal", r"audit\.lira\.density = 'normal': should be 'gaussian', 'mixture' or 'kernel'"),
    ("audit.lira.pooled=true", r'pooled = True needs density = "gaussian"'),
    ("audit.lira.mdoe=online", r"unknown key 'mdoe' in \[audit\.lira\]: did you mean 'mode'\?"),
    ("audit.shadows=1", r"audit\.shadows = 1: should be greater than or equal to 2"),
    ("compute.workers=0", r"compute\.workers = 0"),
    ("population.source=file", r"population\.source = 'file' needs population\.file"),
    ("population.source=jump", r"makes its own records: leave \[data\] out"),
    ("population.label_noise=0.5", r"is for source = 'jump' only"),
    ("release.ridge", r"--set release\.ridge: write section\.key=value"),
]


@pytest.mark.parametrize(("override", "message"), BAD, ids=[override for override, _ in BAD])
def test_bad_values_are_refused_in_one_line(folder, override, message):
    with pytest.raises(InputError, match=message) as error:
        load(folder, override)
    assert "\n" not in str(error.value)


def test_missing_keys_and_sections(folder):
    (folder / "audit.toml").write_text(CONFIG.replace("ridge = 1.0\n", ""))
    with pytest.raises(InputError, match=r"release\.ridge is missing: set it to a positive number"):
        load(folder)
    (folder / "audit.toml").write_text(CONFIG.replace("ridge = 1.0", "rigde = 1.0"))
    with pytest.raises(InputError, match=r"unknown key 'rigde' in \[release\]: did you mean 'ridge'\?"):
        load(folder)
    (folder / "audit.toml").write_text("")
    with pytest.raises(InputError, match=r"release is missing"):
        load(folder)
    (folder / "audit.toml").write_text(CONFIG[CONFIG.index("[release]") :])
    with pytest.raises(
        InputError, match=r"data is missing: add a section \[data\], or set population\.source = 'jump'"
    ):
        build_subject(load(folder))
    with pytest.raises(InputError, match=r"no private records for a core adversary"):
        build_subject(load(folder, "population.source=jump"))
    jump = ["population.source=jump", "audit.adversaries=['population']"]
    with pytest.raises(InputError, match=r"release\.records is missing"):
        build_subject(load(folder, *jump))
    subject = build_subject(load(folder, *jump, "release.records=10"))
    assert subject.data is None
    for change, message in (
        ("release.domain=[[0, 0.5]]", "a domain that holds"),
        ("release.response_bound=0.5", "above response_bound 0.5"),
        ("release.records=1", "at least 2 records"),
    ):
        with pytest.raises(InputError, match=message):
            build_subject(load(folder, *jump, "release.records=10", change))
    (folder / "audit.toml").write_text("[data\n")
    with pytest.raises(InputError, match="is not valid TOML"):
        load(folder)
    (folder / "audit.toml").write_text("folder = 'x'" + CONFIG)
    with pytest.raises(InputError, match="unknown key 'folder'"):
        load(folder)
    with pytest.raises(InputError, match="cannot be read"):
        load_config(folder / "none.toml")


BAD_SUBJECTS = [
    ("data.file=none.csv", r"none\.csv: cannot be read"),
    ("data.response=z", r"has no column 'z' among its 2"),
    ("release.domain=[[0.2, 1.0]]", r"line 2: lies outside the public domain .*widen the domain"),
    ("release.response_bound=0.4", r"line 2, 3: has a response above response_bound = 0\.4 .*clip_responses"),
    ("release.records=4", r"release\.records = 4 but data\.csv has 3"),
    ("release.prior_noise=0.5", r"mechanism posterior adds no prior noise"),
    (
        "release.mechanism=nosuch",
        r"release\.mechanism = 'nosuch': must be posterior, noised, predictive, centred, thompson, gaussian, sklearn, "
        "gpytorch, gstools, callable or module:Class",
    ),
    ("audit.adversaries=['os:system']", r"would run code from outside gpleak; read it first, then pass --allow-code"),
    ("release.mechanism=os:system", r"would run code from outside gpleak; read it first, then pass --allow-code"),
    ("release.points={shape = [3, 3]}", r"release\.points\.shape has 2 number\(s\)"),
    ("release.points=[]", r"release\.points must be a list of points"),
    ("release.points=[[0.1, 0.2]]", r"release\.points must be a list of points with 1 coordinate"),
    ("release.points=grid.csv", r"grid\.csv: cannot be read"),
    ("release.ridge=1e-200", r"ridge must be positive, from 1e-06 to 1e\+06"),
    ("release.scale=1e-13", r"check the units of both"),
    ("release.domain=[[-1e308, 1e308]]", r"domain reaches 1e\+308"),
    ("release.domain=[[1.0, 0.0]]", r"first number must not be larger"),
]


@pytest.mark.parametrize(("override", "message"), BAD_SUBJECTS, ids=[override for override, _ in BAD_SUBJECTS])
def test_bad_subjects_are_refused_in_one_line(folder, override, message):
    with pytest.raises(InputError, match=message) as error:
        build_subject(load(folder, override))
    assert "\n" not in str(error.value)


def test_one_record_is_too_few(folder):
    (folder / "data.csv").write_text("x,y\n0.1,0.5\n")
    with pytest.raises(InputError, match="has 1 record: an audit needs at least 2"):
        build_subject(load(folder))


def test_clipping_is_asked_for_and_counted(folder):
    subject = build_subject(load(folder, "release.response_bound=0.4", "data.clip_responses=true"))
    assert subject.clipped == 2
    assert subject.data.responses.tolist() == [0.4, -0.4, 0.25]


def test_points_from_a_list_a_grid_and_a_file(folder):
    (folder / "grid.csv").write_text("x\n0.25\n0.5\n")
    for override, expected in (
        ("release.points=[[0.25], [0.5]]", [[0.25], [0.5]]),
        ("release.points={shape = [3]}", [[0.0], [0.5], [1.0]]),
        ("release.points=grid.csv", [[0.25], [0.5]]),
    ):
        points = build_subject(load(folder, override)).mechanism.release.points
        assert points is not None
        assert points.tolist() == expected


def test_code_that_may_not_load_or_is_no_mechanism(folder):
    (folder / "mine_not.py").write_text(
        textwrap.dedent("""
        class Nothing:
            def __init__(self, release):
                self.release = release
        """)
    )
    for name, message in (
        ("no_such_module_here:Thing", "cannot be loaded"),
        ("mine_not:Absent", "cannot be loaded"),
        ("mine_not:Nothing", "is not a mechanism, it lacks name, sampler, renyi, leave_one_out, value_law, contrast"),
    ):
        with pytest.raises(InputError, match=message):
            build_subject(load(folder, f"release.mechanism={name}"), allow_code=True)
