"""Buffered Toeplitz sums (BLT) with exact noise: C x + z in integers, B of it in floats.

A x + B z = B (C x + z) for A = B C, so it is enough to publish C x + z; applying B is
post-processing, and may round as it likes. What is published is a multiple of `spacing` and never
saw a float: x is rounded to the lattice, z is the discrete Gaussian on it, and C x is computed in
Python's integers. In units of the spacing, with X = x / spacing and the weights and poles of C
dyadic (w_j = W_j / 2^K, 1 - q_j = G_j / 2^E),

    U   = X + round(2^-(F+K) sum_j W_j S_j)             (C x)_t up to its rounding
    S_j <- S_j - floor(G_j S_j / 2^E) + 2^F X           buffer j, in 2^-F of a unit

Sensitivity. Let D be the change of all rows of one person. A floor loses less than 2^-F, and what
was lost fades by q_j each round: S_j lies above its exact recursion by less than
r_j = min(T, 1/(1 - q_j)) of its units, in both of two neighbouring runs, so that their difference
is off by less than r_j. F is such that sum_j w_j r_j <= 2^(F-8). Rounding to the nearest moves two
numbers apart by at most one more. Hence U moves by C D, as the exact coefficients have it, plus at
most 1 + 2^-8 in each coordinate of each of T rounds:

    |U - U'|_2 <= |C D|_2 + (1 + 2^-8) sqrt(T dim)      units of the spacing, 2^-40 of the noise

whatever later rows are chosen by looking at earlier outputs: given the outputs, both runs have the
same later rows, and a sequence of Gaussian releases whose moves, however chosen, have squares that
add up to at most D^2 is (D/s)-GDP (Koskela et al. 2022; Smith and Thakurta 2022).

Snapshot. The state holds the buffers of C x without noise: a stolen state hides nothing.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.privacy.noise import Noise
from discreet.privacy.toeplitz import Buffered
from discreet.state import Stateful, damaged

_GUARD = 8  # bits: the lost parts of all buffers together stay below 2^-_GUARD of a unit
Integers = NDArray[Any]  # of Python's integers: dtype object


def rounding(horizon: int, dim: int) -> float:
    """How much further than C D one person can move all published numbers, in spacings (l2)."""
    return (1 + 2.0**-_GUARD) * math.sqrt(horizon * dim)


class LatticeSum(Stateful):
    """The running sum. `noise` must draw its Gaussian noise exactly, on a lattice.

    A round is taken in whole or not at all: noise is drawn first, and all changes are one step.

    design    the filter, with dyadic weights
    dim       length of a row
    scale     std of the white noise
    spacing   of the lattice; a power of two
    noise     source of the noise
    """

    _state = ("rounds", "estimate", "_buffers", "_memory", "noise")

    def __init__(
        self, design: Buffered, dim: int, scale: float, spacing: float, noise: Noise
    ) -> None:
        self.design = design
        self.dim = dim
        self.scale = scale
        self.spacing = spacing
        self.noise = noise
        self.rounds = 0
        self.estimate = np.zeros(dim)
        self._kernel = design.kernel(1.0)
        self._memory = self._kernel.memory(dim)
        self._weights, self._weight_bits = _dyadic(design.w)  # W, K
        self._gaps, self._gap_bits = _dyadic(design.q_gap)  # G, E
        lost = float(design.w @ np.minimum(1 / design.q_gap, design.horizon))
        self._fraction_bits = max(0, math.ceil(math.log2(lost))) + _GUARD  # F
        self._buffers = np.full((len(design.w), dim), 0, dtype=object)

    def add(self, x: Array) -> Array:
        """Take in one round, a row on the lattice, and return the noisy prefix sum."""
        z = self.noise.gaussian(self.scale, self.dim, self.spacing)
        buffers, moved = self._step(self._buffers, self._units(x))
        published = self._floats(moved + self._units(z))
        memory, estimate = self._kernel.step(self._memory, self.rounds, published)
        self._commit(rounds=self.rounds + 1, estimate=estimate, _buffers=buffers, _memory=memory)
        return estimate

    def add_many(self, X: Array) -> Array:  # (n, dim) -> (n, dim)
        """n rounds at once: the same sums as n calls of `add`."""
        if not len(X):
            return np.empty_like(X)
        Z = self.noise.gaussian(self.scale, X.shape, self.spacing)
        buffers = self._buffers
        published = np.empty_like(X)
        for row, x, z in zip(published, X, Z, strict=True):
            buffers, moved = self._step(buffers, self._units(x))
            row[:] = self._floats(moved + self._units(z))
        memory, sums = self._kernel.steps(self._memory, self.rounds, published)
        self._commit(
            rounds=self.rounds + len(X),
            estimate=sums[-1].copy(),
            _buffers=buffers,
            _memory=memory,
        )
        return sums

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

    def _validate(self) -> None:
        if not 0 <= self.rounds <= self.design.horizon:
            raise damaged("rounds")


def _dyadic(values: Array) -> tuple[Integers, int]:
    """Integers and a number of bits: values = integers / 2^bits, exactly, as floats are dyadic."""
    ratios = [float(value).as_integer_ratio() for value in values]
    bits = max(denominator.bit_length() - 1 for _, denominator in ratios)
    return np.array([n * ((1 << bits) // d) for n, d in ratios], dtype=object), bits
