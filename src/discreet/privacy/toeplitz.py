"""Running sums with correlated noise: square-root Toeplitz and its buffered approximation (BLT).

The prefix sums A x are published as A x + B z with A = B C and z white. Replacing round i moves
C x by a column of C, so z needs std |C e_1| / mu (the first column is the longest).

    square root   C = B = A^(1/2): c_0 = 1, c_k = c_{k-1} (1 - 1/(2k)); near-optimal, O(T) memory
    buffered      c_0 = 1, c_k = sum_j w_j q_j^(k-1), five terms: within 1% of it up to T = 2^20,
                  O(1) memory (McMahan, Xiao, Pillutla et al. 2024; Dvijotham et al. 2024)

    paper   theta   omega    B's poles and weights
    here    q       w        p, beta (and alpha, the weight of a plain running sum)

Snapshot. The state holds the exact sum and buffers that determine the noise almost exactly: a
stolen state hides nothing. Use a tree where that matters.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.privacy.accumulator import RunningSum
from discreet.privacy.noise import Noise
from discreet.state import damaged

# log w and logit q of the five buffers: quartics in (log2 T - 14) / 10, highest power first, from
# benchmarks/fit_blt.py. Within 0.2% of the best five buffers from T = 2^6 to 2^40; those have
# 0.1% more variance than the square root at 2^14, 0.9% at 2^20, 2.5% at 2^24, 7.4% at 2^30.
_LOG_W = (
    (-0.044, -0.044, -0.028, -0.017, -0.022),
    (0.296, 0.246, 0.137, 0.064, 0.081),
    (-0.829, -0.522, -0.270, -0.089, -0.067),
    (0.827, -0.478, -1.368, -2.197, -3.029),
    (-1.361, -1.893, -2.887, -3.905, -4.634),
)
_LOGIT_Q = (
    (-0.014, 0.001, 0.019, 0.041, 0.037),
    (0.117, 0.038, -0.040, -0.141, -0.151),
    (-0.360, -0.206, -0.127, -0.009, 0.183),
    (1.792, 2.878, 4.179, 5.458, 6.210),
    (0.474, 2.819, 4.962, 7.109, 9.866),
)
_BLOCK = 128  # rounds per matrix product in `add_many`
_GUARD = 8  # bits: the lost parts of all buffers together stay below 2^-_GUARD of a unit

Integers = NDArray[Any]  # of Python's integers: dtype object


class SquareRoot:
    """Noise sum_k c_k z_{t-k}: C = B = A^(1/2)."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.coefficients = _square_root(horizon)  # (horizon,)

    def sensitivity(self, contributions: int) -> float:
        """|sum of k columns of C|: adjacent at the start is the worst, as c is decreasing."""
        return _over_streams(self._sensitivity, contributions, len(self.coefficients))

    def _sensitivity(self, k: int) -> float:
        sums = np.cumsum(self.coefficients)
        sums[k:] -= sums[:-k].copy()
        return float(np.linalg.norm(sums))

    def std(self, t: Array) -> Array:
        return np.asarray(np.sqrt(np.cumsum(self.coefficients**2))[np.asarray(t) - 1])

    def kernel(self, scale: float) -> "History":
        """The streaming form, for white noise of std 1 that is to have this scale."""
        return History(scale * self.coefficients)


@dataclass(frozen=True)
class Buffered:
    """Noise alpha * (running sum of z) + sum_j beta_j * (filter of z with pole p_j)."""

    horizon: int  # rounds
    w: Array  # weights of C's buffers
    q_gap: Array  # 1 - q, which keeps its digits when q is nearly 1
    p_gap: Array  # 1 - p
    beta: Array  # weights of B's buffers
    alpha: float  # weight of the plain running sum

    @classmethod
    def fitted(cls, horizon: int) -> "Buffered":
        """Parameters for a horizon, from the table above."""
        x = (math.log2(min(max(horizon, 2**6), 2**40)) - 14) / 10
        w = np.exp(np.polyval(np.array(_LOG_W), x))
        return cls.of(horizon, w, 1 / (1 + np.exp(np.polyval(np.array(_LOGIT_Q), x))))

    @classmethod
    def of(cls, horizon: int, w: Array, q_gap: Array) -> "Buffered":
        """C from its weights and poles, and B = A C^-1 from C.

        With s = sqrt(w), diag(q) - s s^T has eigenvalues p_j and vectors V; the rows of B are
        alpha + sum_j beta_j p_j^k, beta_j = (V^T s)_j^2 / (1 - p_j) and alpha = 1 - sum beta.
        """
        s = np.sqrt(w)
        minus_gap, vectors = np.linalg.eigh(-np.diag(q_gap) - np.outer(s, s))
        beta = (vectors.T @ s) ** 2 / -minus_gap
        return cls(horizon, w, q_gap, -minus_gap, beta, 1 - float(beta.sum()))

    def dyadic(self) -> "Buffered":
        """The same with weights and gaps of 24 bits, for C in integers; B and all norms are its."""
        short = [values.astype(np.float32).astype(np.float64) for values in (self.w, self.q_gap)]
        return Buffered.of(self.horizon, *short)

    def sensitivity(self, contributions: int) -> float:
        """|sum of the first k columns of C| in closed form; no other k columns are longer."""
        return _over_streams(self._sensitivity, contributions, self.horizon)

    def _sensitivity(self, k: int) -> float:
        T = self.horizon
        log_q = np.log1p(-self.q_gap)
        m = np.arange(k)[:, None]  # rows where some of the k columns have not begun
        head = 1 + np.expm1(m * log_q) / -self.q_gap @ self.w
        weights = self.w * np.expm1(k * log_q) / -self.q_gap
        tail = weights @ _geometric(log_q[:, None] + log_q, T - k) @ weights
        return math.sqrt(float(head @ head) + float(tail))

    def std(self, t: Array) -> Array:
        """Std of the noise at round t, for z of std 1: sqrt(sum_{k<t} b_k^2)."""
        n = np.asarray(t, dtype=np.float64)
        logs = [0.0, *np.log1p(-self.p_gap)]
        weights = [self.alpha, *self.beta]
        total = np.zeros(n.shape)
        for log_i, weight_i in zip(logs, weights, strict=True):
            for log_j, weight_j in zip(logs, weights, strict=True):
                total += weight_i * weight_j * _geometric(log_i + log_j, n)
        return np.asarray(np.sqrt(total))

    def kernel(self, scale: float) -> "Buffers":
        return Buffers(self, scale)


class Buffers:
    """z -> running noise, in O(5 dim) memory: one row for each pole."""

    def __init__(self, design: Buffered, scale: float) -> None:
        # Row 0 is the plain running sum of z (pole 1, weight alpha), the others the buffers.
        self._poles = np.concatenate([[1.0], 1 - design.p_gap])[:, None]
        self._weights = scale * np.concatenate([[design.alpha], design.beta])

    def memory(self, dim: int) -> Array:
        """The memory before the first round."""
        return np.zeros((len(self._weights), dim))

    def step(self, memory: Array, t: int, z: Array) -> tuple[Array, Array]:
        """The memory after round t's z, t = 0, 1, ..., and the running noise."""
        after = memory * self._poles
        after += z
        return after, np.asarray(self._weights @ after)

    def steps(self, memory: Array, t: int, Z: Array) -> tuple[Array, Array]:  # (n, dim) each
        """`step` for n rounds, and the running noise of each: one matrix product per block."""
        out = np.empty_like(Z)
        ages = np.arange(_BLOCK + 1)
        powers = self._poles[:, 0] ** ages[:, None]  # (age, buffer)
        kernel = powers[:-1] @ self._weights
        lags = ages[:-1, None] - ages[:-1]
        toeplitz = np.where(lags >= 0, kernel[np.abs(lags)], 0.0)
        for start in range(0, len(Z), _BLOCK):
            z = Z[start : start + _BLOCK]
            n = len(z)
            out[start : start + n] = toeplitz[:n, :n] @ z
            out[start : start + n] += (powers[1 : n + 1] * self._weights) @ memory
            memory = powers[n][:, None] * memory + powers[n - 1 :: -1].T @ z
        return memory, out


class History:
    """z -> running noise, remembering every z; blocks by fast Fourier transform.

    Rows of the memory from t on are room for what comes; whatever stands there is overwritten.

    coefficients   (horizon,), c_0, c_1, ... times the std of the white noise
    """

    def __init__(self, coefficients: Array) -> None:
        self._coefficients = coefficients

    def memory(self, dim: int) -> Array:
        return np.zeros((1, dim))

    def step(self, memory: Array, t: int, z: Array) -> tuple[Array, Array]:
        memory = _with_room(memory, t, 1)
        memory[t] = z
        return memory, np.asarray(self._coefficients[: t + 1][::-1] @ memory[: t + 1])

    def steps(self, memory: Array, t: int, Z: Array) -> tuple[Array, Array]:  # (n, dim) each
        after = t + len(Z)
        memory = _with_room(memory, t, len(Z))
        memory[t:after] = Z
        size = 2 * after
        kernel = np.fft.rfft(self._coefficients[:after], size)[:, None]
        spectrum = np.fft.rfft(memory[:after], size, axis=0)
        return memory, np.asarray(np.fft.irfft(kernel * spectrum, size, axis=0)[t:after])


def noise_matrix(design: SquareRoot | Buffered, rounds: int) -> Array:  # (rounds, rounds)
    """B: the running noise is B z, for white noise z of std 1."""
    kernel = design.kernel(1.0)
    _, matrix = kernel.steps(kernel.memory(rounds), 0, np.eye(rounds))
    return matrix


class FilteredSum(RunningSum):
    """The exact running sum plus filtered float noise.

    scale    std of the white noise; 0 for none
    """

    _state = ("rounds", "estimate", "_total", "_memory", "noise")
    _growing = frozenset({"_memory"})

    def __init__(self, design: SquareRoot | Buffered, dim: int, scale: float, noise: Noise) -> None:
        super().__init__(design.horizon, dim)
        self.design = design
        self.scale = scale
        self.noise = noise
        self._kernel = design.kernel(scale)
        self._total = np.zeros(dim)
        self._memory = self._kernel.memory(dim)

    def _advanced(self, x: Array) -> tuple[Array, dict[str, Any]]:
        total = estimate = self._total + x
        memory = self._memory
        if self.scale:
            memory, running = self._kernel.step(memory, self.rounds, self.noise.normal(self.dim))
            estimate = total + running
        return estimate, {"_total": total, "_memory": memory}

    def _advanced_by(self, X: Array) -> tuple[Array, dict[str, Any]]:
        totals = sums = self._total + np.cumsum(X, axis=0)
        memory = self._memory
        if self.scale:
            memory, running = self._kernel.steps(memory, self.rounds, self.noise.normal(X.shape))
            sums = totals + running
        return sums, {"_total": totals[-1].copy(), "_memory": memory}

    def _validate(self) -> None:
        super()._validate()
        fresh = self._kernel.memory(self.dim)
        fits = self._memory.shape == fresh.shape
        if isinstance(self._kernel, History):
            fits = self._memory.shape[1:] == fresh.shape[1:] and len(self._memory) >= self.rounds
        if not fits:
            raise damaged("memory")


class LatticeSum(RunningSum):
    """The buffered sum with exact noise: C x + z in integers, B of it in floats.

    A x + B z = B (C x + z) for A = B C, so it is enough to publish C x + z; applying B is
    post-processing, and may round as it likes. What is published is a multiple of `spacing` and
    never saw a float: x is rounded to the lattice, z is the discrete Gaussian on it, and C x is
    computed in Python's integers. In units of the spacing, with X = x / spacing and the weights and
    poles of C dyadic (w_j = W_j / 2^K, 1 - q_j = G_j / 2^E),

        U   = X + round(2^-(F+K) sum_j W_j S_j)             (C x)_t up to its rounding
        S_j <- S_j - floor(G_j S_j / 2^E) + 2^F X           buffer j, in 2^-F of a unit

    Sensitivity. Let D be the change of all rows of one person. A floor loses less than 2^-F, and
    what was lost fades by q_j each round: S_j lies above its exact recursion by less than r_j =
    min(T, 1/(1 - q_j)) of its units, in both of two neighbouring runs, so that their difference is
    off by less than r_j. F is such that sum_j w_j r_j <= 2^(F-8). Rounding to the nearest moves two
    numbers apart by at most one more. Hence U moves by C D, as the exact coefficients have it, plus
    at most 1 + 2^-8 in each coordinate of each of T rounds:

        |U - U'|_2 <= |C D|_2 + (1 + 2^-8) sqrt(T dim)      units of the spacing, 2^-40 of the noise

    whatever later rows are chosen by looking at earlier outputs: given the outputs, both runs have
    the same later rows, and a sequence of Gaussian releases whose moves, however chosen, have
    squares that add up to at most D^2 is (D/s)-GDP (Koskela et al. 2022; Smith and Thakurta 2022).

    Snapshot. The state holds the buffers of C x without noise: a stolen state hides nothing.

    `noise` must draw its Gaussian noise exactly, on a lattice.

    scale     std of the white noise
    spacing   of the lattice; a power of two
    """

    _state = ("rounds", "estimate", "_buffers", "_memory", "noise")

    def __init__(
        self, design: Buffered, dim: int, scale: float, spacing: float, noise: Noise
    ) -> None:
        super().__init__(design.horizon, dim)
        self.design = design
        self.scale = scale
        self.spacing = spacing
        self.noise = noise
        self._kernel = design.kernel(1.0)
        self._memory = self._kernel.memory(dim)
        self._weights, self._weight_bits = _dyadic(design.w)  # W, K
        self._gaps, self._gap_bits = _dyadic(design.q_gap)  # G, E
        lost = float(design.w @ np.minimum(1 / design.q_gap, design.horizon))
        self._fraction_bits = max(0, math.ceil(math.log2(lost))) + _GUARD  # F
        self._buffers = np.full((len(design.w), dim), 0, dtype=object)

    def _advanced(self, x: Array) -> tuple[Array, dict[str, Any]]:
        """x is a row on the lattice."""
        z = self.noise.gaussian(self.scale, self.dim, self.spacing)
        buffers, moved = self._step(self._buffers, self._units(x))
        published = self._floats(moved + self._units(z))
        memory, estimate = self._kernel.step(self._memory, self.rounds, published)
        return estimate, {"_buffers": buffers, "_memory": memory}

    def _advanced_by(self, X: Array) -> tuple[Array, dict[str, Any]]:
        Z = self.noise.gaussian(self.scale, X.shape, self.spacing)
        buffers = self._buffers
        published = np.empty_like(X)
        for row, x, z in zip(published, X, Z, strict=True):
            buffers, moved = self._step(buffers, self._units(x))
            row[:] = self._floats(moved + self._units(z))
        memory, sums = self._kernel.steps(self._memory, self.rounds, published)
        return sums, {"_buffers": buffers, "_memory": memory}

    def _step(self, buffers: Integers, x: Integers) -> tuple[Integers, Integers]:
        """The buffers after a row, and the row of C x: U, in units of the spacing."""
        bits = self._fraction_bits + self._weight_bits
        past = self._weights @ buffers
        moved = x + ((past + (1 << (bits - 1))) >> bits)
        faded = (buffers * self._gaps[:, None]) >> self._gap_bits
        return buffers - faded + (x << self._fraction_bits), moved

    def _units(self, row: Array) -> Integers:
        """A row on the lattice as integers: exact, as the spacing is a power of two."""
        return np.array([int(unit) for unit in row / self.spacing], dtype=object)

    def _floats(self, units: Integers) -> Array:
        return units.astype(np.float64) * self.spacing


def rounding(horizon: int, dim: int) -> float:
    """How much further than C D one person can move all published numbers, in spacings (l2)."""
    return (1 + 2.0**-_GUARD) * math.sqrt(horizon * dim)


def _dyadic(values: Array) -> tuple[Integers, int]:
    """Integers and a number of bits: values = integers / 2^bits, exactly, as floats are dyadic."""
    ratios = [float(value).as_integer_ratio() for value in values]
    bits = max(denominator.bit_length() - 1 for _, denominator in ratios)
    return np.array([n * ((1 << bits) // d) for n, d in ratios], dtype=object), bits


def _with_room(memory: Array, t: int, count: int) -> Array:
    """The memory, or a longer copy of its first t rows."""
    if t + count <= len(memory):
        return memory
    longer = np.zeros((max(2 * len(memory), t + count), memory.shape[1]))
    longer[:t] = memory[:t]
    return longer


def _over_streams(sensitivity: Callable[[int], float], k: int, horizon: int) -> float:
    """The sensitivity to k rounds in several streams of this length, one after another.

    Costs add in squares over streams; filling one stream before the next is the worst.
    """
    full, rest = divmod(k, horizon)
    squares = (full * sensitivity(horizon) ** 2 if full else 0.0) + (
        sensitivity(rest) ** 2 if rest else 0.0
    )
    return math.sqrt(squares)


@functools.lru_cache(maxsize=8)
def _square_root(horizon: int) -> Array:
    factors = 1 - 1 / (2 * np.maximum(np.arange(horizon), 1))
    factors[0] = 1.0
    return np.asarray(np.cumprod(factors), dtype=np.float64)


def _geometric(log_ratio: Any, n: Any) -> Array:
    """sum_{k < n} exp(k log_ratio), for a ratio of at most one."""
    if np.all(log_ratio == 0):
        return np.asarray(n, dtype=np.float64)
    return np.asarray(np.expm1(n * log_ratio) / np.expm1(log_ratio))
