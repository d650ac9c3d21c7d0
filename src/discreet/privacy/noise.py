"""Where privacy noise comes from.

    SeededNoise(seed)   numpy generator, reproducible: for simulation only
    SystemNoise()       the same float formulas on OS entropy; what `noise=None` means
    SecureNoise()       exact lattice samplers (OpenDP) on OS entropy: for release

Exploration coins and simulated worlds never draw from here; they have their own `seed=`.

Float noise has gaps that depend on the value it is added to (Mironov 2012), so whoever sees all
53 bits of an output can tell values apart. `SecureNoise` draws the discrete Gaussian or discrete
Laplace distribution on a lattice, a power of two far below the noise; the value is rounded to the
same lattice first and the sensitivity grows by that rounding (`mechanisms.py`). One addition of two
lattice points in floating point is post-processing of their exact sum; longer sums stay below 2^53
units of the lattice (`spacing`), where they are exact.

How exact: discrete Laplace noise is epsilon-DP as it stands. The discrete Gaussian differs from
a rounded Gaussian, which is mu-GDP by post-processing, by less than (spacing/std)^2 in total
variation per coordinate: below 1e-23 at the default spacing, and below 1e-12 at the coarsest.
Float sources also cut the tails (Laplace at 37 scales, normals at 8 standard deviations): a delta
of about 1e-16 per draw that no rounding of outputs removes.
"""

import functools
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Self, cast

import numpy as np
import scipy

from discreet.arrays import Array, integer
from discreet.state import register_with_like

Size = int | tuple[int, ...]


class Noise(ABC):
    """A source of privacy noise: float primitives, and mechanisms that may be exact.

    `exact` names the mechanisms drawn by exact samplers; all others are float.
    """

    entropy: str
    exact: frozenset[str] = frozenset()

    def sampler(self, mechanism: str) -> str:
        """How this source draws noise for a mechanism, in the words of a guarantee."""
        if mechanism in ("randomized response", "hybrid channel"):  # chosen by integers
            return f"52-bit coin, {self.entropy}"
        return f"{'exact lattice' if mechanism in self.exact else 'float'}, {self.entropy}"

    @abstractmethod
    def uniform(self, size: Size) -> Array:
        """Floats strictly between 0 and 1."""

    @abstractmethod
    def normal(self, size: Size) -> Array:
        """Standard normal floats."""

    @abstractmethod
    def spawn(self, count: int) -> list[Self]:
        """Independent sources of the same kind, one for each part that keeps its own state."""

    def state(self) -> str:
        """What is needed to draw the same future; empty where saving it would reveal noise."""
        return ""

    def _config_kind(self) -> dict[str, Any]:
        """What a saved configuration says of this source: its kind, never a seed."""
        return {"@": "Noise", "of": {"kind": type(self).__name__, "position": ""}}

    def gamma(self, shape: float, size: Size) -> Array:
        """Standard gamma floats, one uniform each."""
        return np.asarray(scipy.special.gammaincinv(shape, self.uniform(size)))

    def gaussian(self, std: float, size: Size, spacing: float = 0.0) -> Array:
        """N(0, std^2), on the lattice of this spacing (0 for float sources)."""
        return std * self.normal(size)

    def laplace(self, scale: float, size: Size, spacing: float = 0.0) -> Array:
        """Laplace noise of density exp(-|z|/scale), on the lattice (0 for float sources)."""
        u = self.uniform(size) - 0.5
        return np.asarray(-scale * np.sign(u) * np.log1p(-2 * np.abs(u)))

    def select(self, scores: Array, scale: float) -> int:
        """The index that maximises score + Gumbel(scale): the exponential mechanism."""
        return int(np.argmax(scores - scale * np.log(-np.log(self.uniform(scores.shape)))))

    def spacing(self, mechanism: str, scale: float, largest: float = 0.0) -> float:
        """The lattice for noise of this scale such that sums up to `largest` stay exact."""
        return 0.0


class SeededNoise(Noise):
    """Reproducible noise for simulation: anyone who knows the seed knows the noise.

    seed   of the generator

    >>> SeededNoise(7).gaussian(1.0, 2).round(3) == SeededNoise(7).gaussian(1.0, 2).round(3)
    array([ True,  True])
    """

    entropy = "simulation only"

    def __init__(self, seed: int) -> None:
        # Tagged: seed=7 for coins and SeededNoise(7) must not yield the same stream.
        tag = (0x6E6F6973,)
        self._begin(np.random.SeedSequence(integer("seed", seed, least=0), spawn_key=tag))

    def _begin(self, seeds: np.random.SeedSequence) -> None:
        self._seeds = seeds
        self._generator = np.random.Generator(np.random.PCG64(seeds))

    def uniform(self, size: Size) -> Array:
        return self._generator.random(size) * (1 - 2.0**-53) + 2.0**-54

    def normal(self, size: Size) -> Array:
        return self._generator.standard_normal(size)

    def spawn(self, count: int) -> list["SeededNoise"]:
        children = []
        for seeds in self._seeds.spawn(count):
            child = SeededNoise.__new__(SeededNoise)
            child._begin(seeds)
            children.append(child)
        return children

    def state(self) -> str:
        """The generator's position, so that a simulation resumes to the same future."""
        seeds = self._seeds
        record = {
            "entropy": seeds.entropy,
            "spawn_key": list(seeds.spawn_key),
            "children": seeds.n_children_spawned,
            "generator": self._generator.bit_generator.state,
        }
        return json.dumps(record)

    @classmethod
    def restored(cls, state: str) -> "SeededNoise":
        """A source that continues from `state()`."""
        record = json.loads(state)
        noise = cls.__new__(cls)
        noise._begin(
            np.random.SeedSequence(
                record["entropy"],
                spawn_key=record["spawn_key"],
                n_children_spawned=record["children"],
            )
        )
        noise._generator.bit_generator.state = record["generator"]
        return noise


class SystemNoise(Noise):
    """Float noise from the operating system's entropy: unpredictable, not floating-point safe."""

    entropy = "OS entropy"

    def uniform(self, size: Size) -> Array:
        """Floats strictly between 0 and 1, from 52 fresh bits each."""
        count = math.prod(size) if isinstance(size, tuple) else size
        words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(12)
        return np.asarray((words + 0.5) * 2.0**-52, dtype=np.float64).reshape(size)

    def normal(self, size: Size) -> Array:
        return np.asarray(scipy.special.ndtri(self.uniform(size)))

    def spawn(self, count: int) -> list[Self]:
        return [self] * count


class SecureNoise(SystemNoise):
    """Noise for release: exact lattice samplers where they exist (Gaussian, Laplace, selection).

    Needs the `secure` extra. K-norm noise, the generalised Gaussian, half-sphere channels and
    square-root Toeplitz sums have no exact sampler: they draw float noise from OS entropy and their
    guarantee says "float".

    >>> noise = SecureNoise()
    >>> spacing = noise.spacing("gaussian", 1.0)
    >>> bool((noise.gaussian(1.0, 8, spacing) % spacing == 0).all())
    True
    """

    exact = frozenset({"gaussian", "laplace", "exponential"})

    def __init__(self) -> None:
        _opendp()

    def spacing(self, mechanism: str, scale: float, largest: float = 0.0) -> float:
        """2^-40 of the scale, or coarser where `largest` needs the bits to stay exact."""
        if mechanism not in self.exact or scale == 0:
            return 0.0
        fine = 2.0 ** (math.floor(math.log2(scale)) - 40)
        # Doubles hold 53 bits: sums up to `largest`, and the noise itself, must fit above it.
        room = 2.0 ** (math.ceil(math.log2(largest + 64 * scale)) - 52)
        spacing = max(fine, room)
        if spacing > scale * 2.0**-20:
            raise ValueError(
                "SecureNoise cannot keep these sums exact: the largest total is more than 2^31 "
                "times the noise; lower epsilon, the horizon or the bound"
            )
        return spacing

    def gaussian(self, std: float, size: Size, spacing: float = 0.0) -> Array:
        return self._on_lattice("gaussian", std, size, spacing)

    def laplace(self, scale: float, size: Size, spacing: float = 0.0) -> Array:
        return self._on_lattice("laplace", scale, size, spacing)

    def select(self, scores: Array, scale: float) -> int:
        """Report-noisy-max with exact Gumbel comparisons."""
        return int(_noisy_max(scale)(scores.tolist()))

    def _on_lattice(self, mechanism: str, scale: float, size: Size, spacing: float) -> Array:
        if scale == 0:
            return np.zeros(size)
        spacing = spacing or self.spacing(mechanism, scale)
        count = math.prod(size) if isinstance(size, tuple) else size
        draw = _integer_noise(mechanism, scale / spacing)
        return np.array(draw([0] * count), dtype=np.float64).reshape(size) * spacing


def source(noise: Noise | None) -> Noise:
    """What `noise=` means: the source itself, or float noise on OS entropy for None."""
    if noise is None:
        return SystemNoise()
    if not isinstance(noise, Noise):
        raise ValueError(
            f"noise must be SeededNoise(seed), SecureNoise() or None, got {type(noise).__name__}"
        )
    return noise


def source_named(name: str) -> Noise:
    """A source of the class that a saved state names; a seeded one waits for its position."""
    sources: dict[str, Callable[[], Noise]] = {
        "SeededNoise": lambda: SeededNoise(0),
        "SystemNoise": SystemNoise,
        "SecureNoise": SecureNoise,
    }
    if name not in sources:
        raise ValueError(f"a state of noise {name!r} cannot be loaded from a file")
    return sources[name]()


def _from_state(plain: Any, like: Any) -> Noise:
    """A source of the saved kind: a seeded one at its position, others as fresh as ever."""
    same = like if type(like).__name__ == plain["kind"] else None
    if plain["position"]:
        return (type(same) if isinstance(same, SeededNoise) else SeededNoise).restored(
            plain["position"]
        )
    return source_named(plain["kind"]) if same is None else cast(Noise, same)


register_with_like(
    Noise,  # type: ignore[type-abstract]
    lambda noise: {"kind": type(noise).__name__, "position": noise.state()},
    _from_state,
)


def to_lattice(value: Array, spacing: float) -> Array:
    """`value` rounded to multiples of `spacing`, a power of two; unchanged for floats (0)."""
    return np.rint(value / spacing) * spacing if spacing else value


@functools.cache
def _opendp() -> Any:
    """The rooms of OpenDP that are needed; its prelude would load scikit-learn and more."""
    try:
        from opendp import domains, measurements, measures, metrics, mod
    except ImportError:
        raise ImportError(
            "SecureNoise needs OpenDP's exact samplers: pip install 'discreet[secure]'"
        ) from None
    mod.enable_features("contrib")
    return SimpleNamespace(
        domains=domains, measurements=measurements, measures=measures, metrics=metrics
    )


@functools.lru_cache(maxsize=256)
def _integer_noise(mechanism: str, scale: float) -> Callable[[Sequence[int]], list[int]]:
    dp = _opendp()
    domain = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
    if mechanism == "gaussian":
        return dp.measurements.make_gaussian(  # type: ignore[no-any-return]
            domain, dp.metrics.l2_distance(T="f64"), scale=scale
        )
    return dp.measurements.make_laplace(  # type: ignore[no-any-return]
        domain, dp.metrics.l1_distance(T="i64"), scale=scale
    )


@functools.lru_cache(maxsize=256)
def _noisy_max(scale: float) -> Callable[[Sequence[float]], int]:
    dp = _opendp()
    domain = dp.domains.vector_domain(dp.domains.atom_domain(T="f64", nan=False))
    # Measured in zCDP, OpenDP's noisy max adds Gumbel noise: the exponential mechanism.
    measure = dp.measures.zero_concentrated_divergence()
    return dp.measurements.make_noisy_max(  # type: ignore[no-any-return]
        domain, dp.metrics.linf_distance(T="f64"), measure, scale=scale
    )
