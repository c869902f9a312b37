"""GPyTorch's ``ExactGP``: its modules taken apart, its releases drawn by its own ``rsample``, all in float64."""

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from ..arrays import Array
from ..base import Sampler
from ..data import Dataset
from ..errors import InputError, brief
from .deployed import SMOOTHNESS, Reading, Reported

Draws = Literal["latent", "predictive"]

_INEXACT = ("InducingPointKernel", "GridInterpolationKernel", "RFFKernel")  # SGPR, KISS-GP, random features
# Global settings of GPyTorch that numbers depend on: workers must take them over.
_SIZE, _RANK, _RESIDUAL = "max_cholesky_size", "max_root_decomposition_size", "eval_cg_tolerance"
_SOLVES, _ROOTS, _LOVE = "fast_computations.solves", "fast_computations.covar_root_decomposition", "fast_pred_var"
_OTHERS = (
    "max_cg_iterations",
    "max_preconditioner_size",
    "cholesky_max_tries",
    "skip_posterior_variances",
    "prior_mode",
)


@dataclass(frozen=True, eq=False)
class _Numbers:
    """A tensor as numpy's: the pickle of torch's own differs from run to run."""

    values: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class _Settings:
    """GPyTorch's settings where a model was read."""

    jitter: float
    of: dict[str, Any]

    def exact(self, rows: int, points: int) -> bool:
        """Whether so many records are solved for, and so many points drawn, by Cholesky."""
        fast = self.of[_SOLVES] or (self.of[_LOVE] and self.of[_ROOTS])
        return not (fast and rows > self.of[_SIZE]) and not (self.of[_ROOTS] and points > self.of[_SIZE])

    def __str__(self) -> str:
        solves = f"conjugate gradients to {self.of[_RESIDUAL]:g}" if self.of[_SOLVES] else "Cholesky"
        roots = f"Lanczos of rank {self.of[_RANK]}" if self.of[_ROOTS] else "Cholesky"
        love = "on" if self.of[_LOVE] else "off"
        return f"Cholesky up to {self.of[_SIZE]} records or points, above {solves} or {roots}; {_LOVE} {love}"


@dataclass(frozen=True, eq=False)
class GPyTorchModel:
    """An ``ExactGP`` without its training data, in float64, with fixed hyperparameters."""

    module: Any = field(repr=False)  # the model, packed: the same model has the same pickle
    draws: Draws
    settings: _Settings
    approximate: bool  # whether GPyTorch may approximate
    levels: int | None  # how many noise levels there are, if rows have their own
    code: str  # versions, and the byte code of forward: a pickle has the name of a class alone
    name: str = "gpytorch"

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """``rsample`` of the model's posterior of `data`, at points ``(t, d)``."""
        return _Draws(self, data, points)

    def reported(self, data: Dataset, points: Array) -> Reported:
        """Mean and dense covariance of the model's posterior of `data`."""
        with _computing(self.settings):
            found, exact = _posterior(self, data, points), self.settings.exact(len(data), len(points))
            # Conjugate gradients stop at a residual; ten times that is what is made of it.
            accuracy = Reported.accuracy if exact else 10.0 * self.settings.of[_RESIDUAL]
            return Reported(found.mean.numpy(), found.covariance_matrix.numpy(), accuracy)


class _Draws:
    """Draws of one posterior, factorised once, with normal numbers from the audit's generator."""

    def __init__(self, model: GPyTorchModel, data: Dataset, points: Array) -> None:
        self.settings, self.points = model.settings, len(points)
        with _computing(self.settings):
            self.posterior = _posterior(model, data, points)
            covariance = self.posterior.lazy_covariance_matrix
            root = covariance.root_decomposition().root.to_dense().numpy()  # which rsample finds again
            variances = covariance.diagonal(dim1=-1, dim2=-2).numpy()
        if not np.isfinite(root).all():
            raise InputError("GPyTorch draws NaN: by rounding, a variance is negative; raise the noise variance")
        # What the factor has and the covariance has not: GPyTorch's jitter, if it is more than rounding.
        added = float((np.square(root).sum(axis=1) - variances).max())
        rounding = 8.0 * np.finfo(float).eps * self.points * float(np.abs(variances).max())
        self.jitter, self.rank = added if added > rounding else 0.0, root.shape[1]

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent releases, ``(releases, paths, points)``."""
        torch, drawn = import_module("torch"), np.empty((releases, paths, self.points))
        with _computing(self.settings):
            for one in drawn:  # a call each: the last digits of a product depend on how many columns it has
                normals = torch.from_numpy(rng.standard_normal((paths, self.rank)))
                one[...] = self.posterior.rsample(base_samples=normals).numpy()
        return drawn


def _posterior(model: GPyTorchModel, data: Dataset, points: Array) -> Any:
    """What the model says of points ``(t, d)`` given `data`, as GPyTorch's own distribution; to be called computing."""
    torch, module, n, t = import_module("torch"), _unpacked(model.module), len(data), len(points)
    if model.levels not in (None, n):  # GPyTorch would leave the noise out, with a warning
        raise InputError(f"the model has {model.levels} noise levels and there are {n} records: give one level each")
    if not (model.approximate or model.settings.exact(n, t)):
        raise InputError(
            f"GPyTorch approximates at {n} records and {t} points ({model.settings}): raise max_cholesky_size of "
            "gpytorch.settings where the model is deployed and read, or read it with its data, for a black box"
        )
    x, y, at = (torch.from_numpy(array.copy()) for array in (data.covariates, data.responses, points))
    with warnings.catch_warnings(record=True, action="always") as said:
        try:
            if n:  # without any, the prior
                module.set_train_data(x, y, strict=False)
            found = module(at)
            found = module.likelihood(found) if model.draws == "predictive" else found
            kinds = [(str(one.dtype), *one.shape) for one in (found.mean, found.covariance_matrix)]
        except (RuntimeError, ValueError) as error:
            raise InputError(f"GPyTorch cannot predict from {n} records: {brief(str(error), 200)}") from None
    if any("added jitter" in str(one.message) for one in said):
        raise InputError("GPyTorch adds jitter to the covariance of the records, which is noise: state more noise")
    if kinds != [("torch.float64", t), ("torch.float64", t, t)]:
        raise InputError(f"the model's mean and covariance are {kinds}: they must be of float64, and one value a point")
    return found


def read(thing: Any, *, public: Set[str] = frozenset(), draws: Draws = "latent") -> Reading:
    """Take a model apart; training data that it has are handed over and not kept.

    GPyTorch does not record whether parameters were tuned. Those that a fit would tune (``requires_grad``) therefore
    need the publisher's statement, whether the model has data or not; ``requires_grad_(False)`` says they are fixed.

    Args:
        thing: The model, with its likelihood.
        public: What the publisher states to have been chosen without the private data: "hyperparameters", "noise".
        draws: "latent" for ``model(x)``, "predictive" for ``likelihood(model(x))``.

    Raises:
        InputError: It does something that no certificate covers; the message says what and what would help.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # torch finds fault with itself
            gpytorch = import_module("gpytorch")
    except ImportError:
        raise InputError("needs gpytorch: pip install 'gpleak[gpytorch]'") from None
    trained_on, settings = _trained_on(thing, gpytorch), _settings_now(gpytorch)
    tuned = [name for name, parameter in thing.named_parameters() if parameter.requires_grad]
    if tuned and "hyperparameters" not in public:
        raise InputError(
            f"has parameters that a fit tunes ({brief(', '.join(tuned))}), and no certificate covers tuning on the "
            "private data: call requires_grad_(False) on the model if it was never fitted, or state release.public = "
            "['hyperparameters'] if their values were chosen without the private data; they are then kept as they are"
        )
    module = _packed(thing, gpytorch)
    fresh = _unpacked(module)
    amplitude, name, length_scale = _taken_apart(fresh, gpytorch)
    noise, per_row, floor = _noise(fresh.likelihood, gpytorch, public, draws)
    if not (np.isfinite([amplitude, *noise]).all() and min(amplitude, *noise) > 0):
        raise InputError(f"has amplitude {amplitude:g} and noise variance {noise.min():g}: both must be positive")
    rows = 0 if trained_on is None else len(trained_on[1])
    approximate = None if settings.exact(rows, 1) else f"GPyTorch approximates at {rows} records ({settings})"
    versions = ", ".join(f"{one} {version(one)}" for one in ("gpytorch", "linear_operator", "torch"))
    formats = ", ".join(sorted({str(parameter.dtype) for parameter in thing.parameters()}))
    code = f"{versions}, {getattr(getattr(type(thing).forward, '__code__', None), 'co_code', None)!r}"
    ridges, highest = np.sqrt(noise / amplitude), settings.jitter * 10.0 ** (settings.of["cholesky_max_tries"] - 1)
    return Reading(
        model=GPyTorchModel(module, draws, settings, approximate is not None, noise.size if per_row else None, code),
        kernel=name,
        length_scale=length_scale,
        ridge=float(ridges.min()),
        scale=float(np.sqrt(amplitude)),
        ridges=ridges if per_row else None,
        draws=draws,
        trained_on=trained_on,
        approximate=approximate,
        notes=(
            f"{versions}: {'latent draws, model(x)' if draws == 'latent' else 'predictive draws, likelihood(model(x))'}"
            f", amplitude {amplitude:.6g}, noise variance {noise.min():.6g}, {floor}",
            f"parameters in {formats}, read and audited in float64: a deployment in float32 rounds and jitters more",
            f"a covariance without a factor is given a jitter, first {settings.jitter:g}, at most {highest:g} whatever "
            "the amplitude; the result says what was added",
            f"{settings}. These are the settings where the model was read: under others it is another release",
        ),
    )


def _trained_on(thing: Any, gpytorch: Any) -> tuple[Array, Array] | None:
    """Training data of what is an exact model, and nothing more than that."""
    if not isinstance(thing, gpytorch.models.ExactGP):
        raise InputError(f"is a {type(thing).__name__}, not a gpytorch.models.ExactGP: only that is exact")
    known = (gpytorch.kernels.Kernel, gpytorch.means.Mean, gpytorch.likelihoods.Likelihood)
    more = [*thing._parameters, *(name for name, child in thing.named_children() if not isinstance(child, known))]
    more += [name for name, own in vars(thing).items() if hasattr(own, "__array__") and name != "_train_targets"]
    if more:
        raise InputError(
            f"has {', '.join(more)} beside mean, kernel and likelihood: transforms, deep kernels and what is kept of "
            "the training data are in every release; transform by public numbers before the model, and leave it out"
        )
    if thing.train_inputs is None or thing.train_targets is None:
        return None
    if [one.ndim for one in (*thing.train_inputs, thing.train_targets)] != [2, 1]:
        raise InputError("has several inputs or responses (a batch or multitask model): audit one model a response")
    x, y = (np.array(one.detach().cpu().double().numpy()) for one in (thing.train_inputs[0], thing.train_targets))
    return x, y


def _taken_apart(module: Any, gpytorch: Any) -> tuple[float, str, float]:
    """Amplitude, name and length scale of the one kernel; the mean is zero."""
    kernels, means, amplitude = gpytorch.kernels, gpytorch.means, 1.0
    for mean in (child for child in module.children() if isinstance(child, means.Mean)):
        constant = mean.constant.tolist() if type(mean) is means.ConstantMean else None
        if type(mean) is not means.ZeroMean and constant != 0.0:
            raise InputError(
                f"has a {type(mean).__name__}{'' if constant is None else f' of {constant}'}: certificates assume mean "
                "0; subtract a public constant or trend from the responses first, and use ZeroMean"
            )
    found = [child for child in module.children() if isinstance(child, kernels.Kernel)]
    if len(found) != 1:
        raise InputError(f"has {len(found)} kernels: one, with or without ScaleKernel around it, is supported")
    for one in found:  # it grows: a scale kernel has another one inside
        if one.active_dims is not None or one.batch_shape:
            raise InputError("has a kernel with active_dims or of a batch: leave other covariates and models out")
        if type(one) is kernels.ScaleKernel:
            amplitude *= float(one.outputscale)
            found.append(one.base_kernel)
    base, kind = found[-1], type(found[-1]).__name__
    if type(base) not in (kernels.RBFKernel, kernels.MaternKernel):
        why = "approximates the posterior: it is not exact" if kind in _INEXACT else "is not supported"
        raise InputError(f"has a {kind}, which {why}: use RBFKernel or MaternKernel, nu 0.5, 1.5 or 2.5")
    scales = base.lengthscale.reshape(-1).numpy()
    if np.ptp(scales) > 1e-12 * scales.max():
        raise InputError(
            f"has length scales {np.array2string(scales, precision=6)} (ARD): certificates assume one; divide each "
            "covariate (and its side of the domain) by its own, all of them public, and use length scale 1"
        )
    return amplitude, SMOOTHNESS[base.nu] if hasattr(base, "nu") else "rbf", float(scales[0])


def _noise(likelihood: Any, gpytorch: Any, public: Set[str], draws: Draws) -> tuple[Array, bool, str]:
    """Noise variances of the records, one for all or one a row, which of them, and in words how small they can be."""
    per_row = type(likelihood) is gpytorch.likelihoods.FixedNoiseGaussianLikelihood
    if per_row and ("noise" not in public or draws == "predictive"):
        raise InputError(
            "has a noise level for each row, where certificates assume one ridge: use GaussianLikelihood, or latent "
            "draws and release.public = ['noise'] if the levels are public; nothing is certified then"
        )
    known = per_row or type(likelihood) is gpytorch.likelihoods.GaussianLikelihood
    if not known or likelihood.noise.ndim != 1:
        raise InputError(f"has a {type(likelihood).__name__}: use GaussianLikelihood, one noise for all rows")
    constraint = None if per_row else likelihood.noise_covar.raw_noise_constraint
    words = f"which the likelihood keeps above {constraint.lower_bound:g}" if constraint else "the smallest of the rows"
    return np.asarray(likelihood.noise.numpy(), dtype=np.float64), per_row, words


def _settings_now(gpytorch: Any) -> _Settings:
    known, names = gpytorch.settings, (_SIZE, _RANK, _RESIDUAL, _SOLVES, _ROOTS, _LOVE, *_OTHERS)
    if known.ciq_samples.on():
        raise InputError("was read under gpytorch.settings.ciq_samples, which approximates draws: switch it off")
    asked = {name: attrgetter(name)(known) for name in names}
    found = {name: one.on() if hasattr(one, "on") else one.value() for name, one in asked.items()}
    return _Settings(float(known.cholesky_jitter.value(import_module("torch").float64)), found)


@contextmanager
def _computing(settings: _Settings) -> Iterator[None]:
    """Under the settings of a model, on one thread; torch's generator and threads are given back as they were."""
    torch, known = import_module("torch"), import_module("gpytorch").settings
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))  # what draws are like is measured
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices=[]))
        torch.default_generator.manual_seed(0)  # where Lanczos starts
        for name, value in settings.of.items():
            stack.enter_context(attrgetter(name)(known)(value))
        stack.enter_context(known.cholesky_jitter(double_value=settings.jitter))
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        yield


def _packed(thing: Any, gpytorch: Any) -> Any:
    """A copy in float64, with arrays for tensors; without training data, priors, or ids that count up in a process."""
    memo = dict[int, Any].fromkeys((id(thing.train_inputs), id(thing.train_targets)))
    for module in (one for one in thing.modules() if isinstance(one, gpytorch.Module)):
        memo |= {id(module._load_state_dict_pre_hooks): OrderedDict(), id(module._priors): {}}
        memo |= {id(child): None for child in module.children() if isinstance(child, gpytorch.priors.Prior)}

    def array(one: Any) -> _Numbers:
        return _Numbers((one.double() if one.is_floating_point() else one).detach().cpu().numpy().copy())

    return _copied(thing, import_module("torch").Tensor, array, memo)


def _unpacked(module: Any) -> Any:
    """A module of its own, with tensors, to predict with."""
    return _copied(module, _Numbers, lambda one: import_module("torch").from_numpy(one.values.copy()), {})


def _copied(thing: Any, kind: type, exchange: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
    """A deep copy, but for what stands in the memo and for members of a kind, which are exchanged."""
    for module in thing.modules():
        for own in (module._parameters, module._buffers, vars(module)):
            memo |= {id(one): exchange(one) for one in own.values() if isinstance(one, kind) and id(one) not in memo}
    return copy.deepcopy(thing, memo).eval()
