"""From a model in memory to the subject of an audit: in Python what ``[release] model`` is in a configuration."""

from collections.abc import Collection
from typing import Any, Literal

from numpy.typing import ArrayLike

from ..mechanisms import Bounded, Dataset, Domain, InputError, Kernel, Regime, Release, frozen_array
from ..mechanisms.foreign import Statement, check_moments
from .build import KERNELS, Subject
from .deployed import (
    Draws,
    as_mechanism,
    check_black_box,
    check_same_data,
    check_statements,
    read_by,
    with_parameters,
)
from .release_section import ReleaseConfig


def deployed_subject(
    model: Any,
    data: Dataset,
    *,
    domain: Domain,
    response_bound: float,
    regime: Regime | None = None,
    kernel: Kernel | None = None,
    ridge: float | None = None,
    scale: float | None = None,
    prior_noise: float = 0.0,
    paths: int = 1,
    points: ArrayLike | None = None,
    draws: Draws | None = None,
    stated: Literal["posterior", "noised", "predictive", "centred"] | None = None,
    public: Collection[Statement] = (),
) -> Subject:
    """What `run_audit` needs to audit a deployed model: releases are drawn by its own code.

    Parameters are read off the model; those that can be read need not be given, and are compared if they are.

    Args:
        model: A scikit-learn ``GaussianProcessRegressor``, a GPyTorch ``ExactGP``, a GSTools ``CondSRF``, or a function
            ``release(x, y, points, paths, rng)`` with x ``(n, d)``, y ``(n,)`` and points ``(t, d)`` that returns
            ``(paths, t)`` and takes all randomness from the generator.
        data: The private records.
        domain: Public box that every record lies in.
        response_bound: Public bound on the size of responses.
        regime: Premises of the certificate; `Bounded` by default.
        kernel: Its kernel. Of a function: what an adversary takes it for; nothing rests on that.
        ridge: Standard deviation of the noise over the kernel's.
        scale: Standard deviation of the prior, in units of the responses.
        prior_noise: Standard deviation of an independent prior path that it adds.
        paths: Independent paths released.
        points: Where, ``(t, d)``; None for everywhere.
        draws: Values of the function ("latent"), or with fresh noise on each ("predictive").
        stated: The mechanism of ours that a function is stated to be; None makes it a black box, of which nothing is
            certified: give the plan a claimed_epsilon.
        public: What was chosen without the private data: "hyperparameters", "noise".

    Raises:
        InputError: The model does what no certificate covers, was fitted to other data, contradicts what is given, or
            its mean and covariance are not those of the mechanism that it is stated to be.
    """
    name, kind = type(model).__name__, _adapter(model)
    try:
        reading = read_by(kind, model, public=frozenset(public), draws=draws)
    except InputError as error:
        raise InputError(f"the model {error}") from None
    check_statements(reading, draws=draws, stated=stated, key="")
    if reading.trained_on is not None:
        check_same_data(name, data, *reading.trained_on)
    section = ReleaseConfig.model_construct(
        mechanism=kind,
        model=name,
        stated=stated,
        draws=draws,
        public=list(public),
        kernel=None if kernel is None else kernel.name,
        length_scale=None if kernel is None else kernel.length_scale,
        ridge=ridge,
        scale=scale,
    )
    read = with_parameters(section, reading)
    release = Release(
        kernel=kernel or KERNELS[str(read.kernel)](float(read.length_scale or 0.0)),
        ridge=float(read.ridge or 0.0),
        scale=1.0 if read.scale is None else read.scale,
        prior_noise=prior_noise,
        paths=paths,
        domain=domain,
        response_bound=response_bound,
        records=len(data),
        points=None if points is None else frozen_array(points, ndim=2, name="points"),
    )
    release.check(data)
    mechanism = as_mechanism(reading, section, release)
    check_black_box(mechanism)
    check_moments(mechanism, data)
    return Subject(data, mechanism, regime or Bounded())


def _adapter(model: Any) -> str:
    """The adapter's name, chosen by whose class it is."""
    makers = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    return next((name for name in ("gpytorch", "gstools", "sklearn") if name in makers), "callable")
