"""From a configuration to the objects of an audit: the only place where a string selects a class."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..attacks import Attack, Jump, Pool, Population
from ..mechanisms import (
    Array,
    Bounded,
    Centred,
    Dataset,
    Diagonal,
    Domain,
    ExactPosterior,
    Exponential1D,
    GaussianQuery,
    InputError,
    Kernel,
    Mechanism,
    Noised,
    Predictive,
    RecordError,
    Regime,
    Release,
    Rkhs,
    Separated,
    Thompson,
    diagonal,
    exponential,
    matern32,
    matern52,
    rbf,
    shortened,
)
from .config import ADVERSARIES, ATTACK_GROUP, POPULATION_GROUP, POPULATIONS, AuditConfig, DataConfig, check_auditable
from .deployed import as_mechanism, check_deployed, check_without_data, read_deployed, with_parameters
from .ingest import Format, Table, read_table
from .plugins import MECHANISM_GROUP, is_outside, load_outside
from .release_section import ADAPTERS, GridConfig, ReleaseConfig
from .released import Released, read_released

KERNELS: dict[str, Callable[[float], Kernel]] = {
    "exponential": exponential,
    "matern32": matern32,
    "matern52": matern52,
    "rbf": rbf,
    "diagonal": diagonal,
}
MECHANISMS: dict[str, Callable[[Release], Mechanism]] = {
    "posterior": ExactPosterior,
    "noised": Noised,
    "predictive": Predictive,
    "centred": Centred,
    "thompson": Thompson,
    "gaussian": GaussianQuery,
}
REGIMES: dict[str, Callable[[ReleaseConfig], Regime]] = {
    "bounded": lambda _: Bounded(),
    "exponential_1d": lambda _: Exponential1D(),
    "rkhs": lambda section: Rkhs(section.rkhs_norm or 0.0),
    "separated": lambda section: Separated(section.separation or 0.0),
    "diagonal": lambda _: Diagonal(),
}


@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited: private data, the mechanism and the regime that its certificate rests on.

    Attributes:
        data: The private records; None for the stress test, which has none.
        mechanism: Draws releases and knows the law they claim to follow.
        regime: Premises about the data.
        population: What the population adversary knows; None means the data without the targets.
        sha256: Of the data file; None when the data did not come from a file.
        clipped: How many responses were clipped.
        released: What was released, to be held against the mechanism; None when it is only simulated.
        outsiders: Attacks from outside gpleak, by the names that the plan gives them.
    """

    data: Dataset | None
    mechanism: Mechanism
    regime: Regime
    population: Population | None = None
    sha256: str | None = None
    clipped: int = 0
    released: Released | None = None
    outsiders: Mapping[str, Attack] = field(default_factory=dict)


def build_subject(config: AuditConfig, *, allow_code: bool = False) -> Subject:
    """Load the data and put the mechanism together.

    Args:
        config: A validated configuration.
        allow_code: Whether a mechanism ``module:Class`` may be imported, which runs its code.

    Raises:
        InputError: The data, the parameters or their combination are not acceptable.
    """
    check_auditable(config)
    regime = REGIMES[config.release.regime](config.release)
    if config.data is None:
        mechanism = _mechanism(config, records=config.release.records or 0, allow_code=allow_code)
        jump = Jump(config.population.label_noise)
        jump.check(mechanism.release)
        outsiders = build_outsiders(config, mechanism.release, allow_code=allow_code)
        return Subject(None, mechanism, regime, jump, outsiders=outsiders)
    data, table, clipped = _load(config, config.data, config.data.file, "data.file")
    if len(data) < 2:
        raise InputError(f"{config.folder / config.data.file}: has 1 record: an audit needs at least 2")
    released = _released(config, config.data)
    mechanism = _mechanism(config, records=len(data), allow_code=allow_code, data=data, released=released)
    release = mechanism.release
    _check_rows(config.folder / config.data.file, table, release, data)
    check_deployed(mechanism, data, claimed=config.audit.claimed_epsilon)
    return Subject(
        data,
        mechanism,
        regime,
        _population(config, config.data, release, allow_code=allow_code),
        table.sha256,
        clipped,
        released,
        build_outsiders(config, release, allow_code=allow_code),
    )


def _released(config: AuditConfig, section: DataConfig) -> Released | None:
    if config.release.released is None:
        return None
    path = config.folder / config.release.released
    return read_released(path, section.covariates, _format(section), key="release.released")


def _population(config: AuditConfig, section: DataConfig, release: Release, *, allow_code: bool) -> Population | None:
    """A public table, or an outsider's population, called with the release; None means the data themselves."""
    if config.population.file is not None:
        known, table, _ = _load(config, section, config.population.file, "population.file")
        _check_rows(config.folder / config.population.file, table, replace(release, records=len(known)), known)
        return Pool(known, np.arange(len(known)), "file")
    if config.population.kind in POPULATIONS:
        return None
    name, key = config.population.kind, "population.source"
    make = load_outside(name, group=POPULATION_GROUP, key=key, folder=config.folder, allow_code=allow_code)
    found = make(release)
    lacking = [part for part in ("name", "draw") if not hasattr(found, part)]
    if lacking:
        raise InputError(f"{key} = {name!r}: is not a population, it lacks {', '.join(lacking)}")
    return found  # type: ignore[no-any-return]


def build_stated(config: AuditConfig, *, allow_code: bool = False) -> tuple[Mechanism, Regime]:
    """The mechanism and its regime from public parameters alone; the data are opened only if n is not stated.

    Raises:
        InputError: The parameters or their combination are not acceptable.
    """
    if config.release.records is None:
        subject = build_subject(config, allow_code=allow_code)
        return subject.mechanism, subject.regime
    released = None
    if config.release.released is not None:
        if config.data is None:
            raise InputError("release.released needs the names of its columns: add a section [data]")
        released = _released(config, config.data)
    mechanism = _mechanism(config, records=config.release.records, allow_code=allow_code, released=released)
    check_without_data(mechanism)
    return mechanism, REGIMES[config.release.regime](config.release)


def _mechanism(
    config: AuditConfig,
    *,
    records: int,
    allow_code: bool,
    data: Dataset | None = None,
    released: Released | None = None,
) -> Mechanism:
    """One of ours or an outsider's with its public parameters, or a deployed model with what was read off it."""
    section, folder = config.release, config.folder
    if section.mechanism not in ADAPTERS:
        release = build_release(config, records=records, released=released)
        return build_mechanism(section, release, folder=folder, allow_code=allow_code)
    reading = read_deployed(section, folder=folder, allow_code=allow_code, data=data)
    read = config.model_copy(update={"release": with_parameters(section, reading)})
    release = build_release(read, records=records, released=released)
    return as_mechanism(reading, section, release)


def _load(config: AuditConfig, section: DataConfig, file: Path, key: str) -> tuple[Dataset, Table, int]:
    """A table of records, with clipping if it was asked for, and how many responses were clipped."""
    table = _read(config.folder / file, [*section.covariates, section.response], section, key)
    covariates, responses = table.values[:, :-1], table.values[:, -1]
    bound, clipped = config.release.response_bound, 0
    if section.clip_responses:
        clipped = int((np.abs(responses) > bound).sum())
        responses = np.clip(responses, -bound, bound)
    return Dataset(covariates, responses), table, clipped


def _check_rows(path: Path, table: Table, release: Release, data: Dataset) -> None:
    """`Release.check`, naming lines of the file in place of rows."""
    try:
        release.check(data)
    except RecordError as error:
        lines = shortened([table.lines[row] for row in error.rows])
        raise InputError(f"{path}, line {lines}: {error.rule}") from None


def build_release(config: AuditConfig, *, records: int, released: Released | None = None) -> Release:
    """The public parameters of a configuration that names all of them.

    Raises:
        InputError: They contradict the data or what was released.
    """
    section = config.release
    if config.data is not None and section.records not in (None, records):
        raise InputError(
            f"release.records = {section.records} but {config.data.file} has {records}: n is public and must match"
        )
    if section.kernel is None or section.length_scale is None or section.ridge is None:
        raise InputError("release.kernel, release.length_scale and release.ridge must be set")
    domain, paths = Domain(section.domain), section.paths
    if released is not None:
        if "paths" in section.model_fields_set and paths != len(released.paths):
            raise InputError(
                f"release.paths = {paths} but {section.released} holds {len(released.paths)}: leave release.paths out"
            )
        paths = len(released.paths)
    return Release(
        kernel=KERNELS[section.kernel](section.length_scale),
        ridge=section.ridge,
        scale=1.0 if section.scale is None else section.scale,
        prior_noise=section.prior_noise,
        paths=paths,
        domain=domain,
        response_bound=section.response_bound,
        records=records,
        points=_points(config, domain) if released is None else released.points,
        schedule=None if section.schedule is None else tuple(section.schedule),
    )


def build_mechanism(section: ReleaseConfig, release: Release, *, folder: Path, allow_code: bool) -> Mechanism:
    """One of ours by name, or an outsider's ``module:Class``, called with the release.

    Raises:
        InputError: No such mechanism, or code that may not be run.
    """
    name = section.mechanism
    if name in MECHANISMS:
        return MECHANISMS[name](release)
    if not is_outside(name, MECHANISM_GROUP):
        raise InputError(f"release.mechanism = {name!r}: must be {', '.join((*MECHANISMS, *ADAPTERS))} or module:Class")
    found = load_outside(name, group=MECHANISM_GROUP, key="release.mechanism", folder=folder, allow_code=allow_code)(
        release
    )
    if not isinstance(found, Mechanism):
        lacking = [
            part
            for part in ("name", "release", "sampler", "renyi", "leave_one_out", "value_law", "contrast")
            if not hasattr(found, part)
        ]
        raise InputError(f"release.mechanism = {name!r}: is not a mechanism, it lacks {', '.join(lacking)}")
    return found


def build_outsiders(config: AuditConfig, release: Release, *, allow_code: bool) -> dict[str, Attack]:
    """Attacks ``module:Class`` or registered ones that the plan names, called with the release.

    Raises:
        InputError: Code that may not be run, or that is no attack.
    """
    found: dict[str, Attack] = {}
    for name in config.audit.adversaries:
        if name in ADVERSARIES:
            continue
        key = "audit.adversaries"
        attack = load_outside(name, group=ATTACK_GROUP, key=key, folder=config.folder, allow_code=allow_code)(release)
        if not isinstance(attack, Attack):
            lacking = [part for part in ("name", "sees", "learner") if not hasattr(attack, part)]
            raise InputError(f"{key} = {name!r}: is not an attack, it lacks {', '.join(lacking)}")
        found[name] = attack
    return found


def _points(config: AuditConfig, domain: Domain) -> Array | None:
    points = config.release.points
    if points is None:
        return None
    if isinstance(points, GridConfig):
        if len(points.shape) != domain.dimension:
            raise InputError(
                f"release.points.shape has {len(points.shape)} number(s), the domain {domain.dimension} side(s): "
                "give one a side"
            )
        return domain.grid(tuple(points.shape))
    if isinstance(points, Path):
        if config.data is None:
            raise InputError("release.points is a file, but without [data] its columns have no names: list the points")
        return _read(config.folder / points, config.data.covariates, config.data, "release.points").values
    lengths = {len(point) for point in points}
    if lengths != {domain.dimension}:
        raise InputError(f"release.points must be a list of points with {domain.dimension} coordinate(s) each")
    return np.array(points, dtype=np.float64)


def _read(path: Path, columns: list[str], section: DataConfig, key: str) -> Table:
    return read_table(path, columns, _format(section), key=key)


def _format(section: DataConfig) -> Format:
    header = section.header if isinstance(section.header, bool) else tuple(section.header)
    return Format(section.decimal, section.thousands, header, section.separator)
