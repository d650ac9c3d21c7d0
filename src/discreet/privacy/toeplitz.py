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

from discreet.arrays import Array
from discreet.privacy.noise import Noise
from discreet.state import Stateful, damaged

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
_SMALLEST, _LARGEST = 2**6, 2**40
_BLOCK = 128  # rounds per matrix product in `add_many`


class SquareRoot:
    """Noise sum_k c_k z_{t-k}: C = B = A^(1/2).

    horizon   rounds
    """

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
        """Std of the noise at round t, for z of std 1."""
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
        x = (math.log2(min(max(horizon, _SMALLEST), _LARGEST)) - 14) / 10
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
        """The streaming form, for white noise of std 1 that is to have this scale."""
        return Buffers(self, scale)


class Buffers:
    """z -> running noise, in O(5 dim) memory: one row for each pole.

    design   poles and weights
    scale    std of the white noise z
    """

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
        """The memory before the first round."""
        return np.zeros((1, dim))

    def step(self, memory: Array, t: int, z: Array) -> tuple[Array, Array]:
        """The memory after round t's z, t = 0, 1, ..., and the running noise."""
        memory = _with_room(memory, t, 1)
        memory[t] = z
        return memory, np.asarray(self._coefficients[: t + 1][::-1] @ memory[: t + 1])

    def steps(self, memory: Array, t: int, Z: Array) -> tuple[Array, Array]:  # (n, dim) each
        """`step` for n rounds, and the running noise of each."""
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


class FilteredSum(Stateful):
    """The exact running sum plus filtered float noise.

    A round is taken in whole or not at all: noise is drawn first, and all changes are one step.

    design   the filter
    dim      length of a row
    scale    std of the white noise; 0 for none
    noise    source of the noise
    """

    _state = ("rounds", "estimate", "_total", "_memory", "noise")
    _growing = frozenset({"_memory"})

    def __init__(self, design: SquareRoot | Buffered, dim: int, scale: float, noise: Noise) -> None:
        self.design = design
        self.dim = dim
        self.scale = scale
        self.noise = noise
        self.rounds = 0
        self.estimate = np.zeros(dim)
        self._kernel = design.kernel(scale)
        self._total = np.zeros(dim)
        self._memory = self._kernel.memory(dim)

    def add(self, x: Array) -> Array:
        """Take in one round and return the noisy prefix sum."""
        total = estimate = self._total + x
        memory = self._memory
        if self.scale:
            memory, running = self._kernel.step(memory, self.rounds, self.noise.normal(self.dim))
            estimate = total + running
        self._commit(rounds=self.rounds + 1, estimate=estimate, _total=total, _memory=memory)
        return estimate

    def add_many(self, X: Array) -> Array:  # (n, dim) -> (n, dim)
        """n rounds at once: the same sums as n calls of `add`."""
        if not len(X):
            return np.empty_like(X)
        totals = sums = self._total + np.cumsum(X, axis=0)
        memory = self._memory
        if self.scale:
            memory, running = self._kernel.steps(memory, self.rounds, self.noise.normal(X.shape))
            sums = totals + running
        self._commit(
            rounds=self.rounds + len(X),
            estimate=sums[-1].copy(),
            _total=totals[-1].copy(),
            _memory=memory,
        )
        return sums

    def _validate(self) -> None:
        if not 0 <= self.rounds <= self.design.horizon:
            raise damaged("rounds")
        fresh = self._kernel.memory(self.dim)
        fits = self._memory.shape == fresh.shape
        if isinstance(self._kernel, History):
            fits = self._memory.shape[1:] == fresh.shape[1:] and len(self._memory) >= self.rounds
        if not fits:
            raise damaged("memory")


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
