"""The floating-point attack: outputs that are possible for one input and not for its neighbour.

Float noise z has finer steps near 0 than doubles have near 1. So 0 + z is hardly ever a multiple
of 2^-53, and 1 + z always is where it falls below 1/4 (Mironov 2012): one output in a few proves
which input it was, whatever epsilon says. Lattice noise rounds the value first and adds multiples
of one step: both inputs reach the same outputs. It is what `SecureNoise` draws, so these attacks
draw from it whatever source they are given; K-norm noise stays float, and its guarantees
say so.

Float reports of channels would fail too, each by its own arithmetic, if they were not rounded. A
vector that is an axis is mixed with noise without any addition, so that small coordinates keep all
their digits; those of another vector are sums of larger numbers. A plateau is reached by one
addition, with another last bit than the rest of the line.

Nothing is `attainable` here: where noise is as fine as it should be, last bits prove nothing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.arrays import Array, symmetric_to_vector
from discreet.audit.rows import Claim, Draw, attack
from discreet.privacy import BallChannel, IntervalChannel, SecureNoise, SeededNoise
from discreet.privacy.mechanisms import Mechanisms, Released
from discreet.privacy.noise import Noise

GRID = 2.0**-53

# Values are zeros or ones, n at once: each coordinate is a draw. Scales are about 1.
SAMPLERS: dict[str, Callable[[Array, Noise], Released]] = {
    "gaussian": lambda x, noise: Mechanisms(noise).gaussian(x, sensitivity=1.0, mu=1.0),
    "laplace": lambda x, noise: Mechanisms(noise).laplace(x, sensitivity=1.0, epsilon=1.0),
    "k-norm": lambda x, noise: Mechanisms(noise).k_norm(
        x, sensitivity=1.0, epsilon=len(x) + 1.0, norm="linf"
    ),
}


def off_grid(outputs: Array) -> Array:
    """1 where an output below 1/4 is not a multiple of 2^-53: it cannot come from 1 + z."""
    fine = outputs / GRID != np.rint(outputs / GRID)
    return np.asarray((np.abs(outputs) < 0.25) & fine, dtype=np.float64)


def many_digits(x: Array) -> Array:
    """1 where a small number is no multiple of 2^-56: it is not the sum of two larger ones."""
    steps = x / 2.0**-56
    fine = np.abs(steps - np.rint(steps)) > 3 / 16
    return np.asarray((np.abs(x) < 2.0**-7) & fine, dtype=np.float64)


def _sampler(name: str) -> None:
    @attack(f"{name}, last bits", room="mechanisms", kind="pure", attainable=0.0)
    def last_bits(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Draws of exact noise around 1 or 0: which of them are no sums of 1 and a double?"""
        drawn = SAMPLERS[name](np.full(runs, 1.0 - neighbour), SecureNoise())
        return off_grid(np.asarray(drawn.value))


for _name in ("gaussian", "laplace"):
    _sampler(_name)


def _sphere(records: Any, place: int) -> Draw:
    def last_bits(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Reports of an axis, or of another vector: which small numbers have too many digits?"""
        channel = BallChannel(3, claim.epsilon)
        sent = channel.privatize(np.tile(records[neighbour], (runs, 1)), noise)
        return many_digits(sent[:, place] / channel.radius)

    return last_bits


def _interval(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Reports of an end of an interval, or of its middle: which are no multiples of 2^-52?"""
    sent = IntervalChannel(claim.epsilon).privatize(np.full(runs, 1.0 - neighbour), noise)
    fine = (np.abs(sent) < 0.25) & (sent * 2.0**52 != np.rint(sent * 2.0**52))
    return np.asarray(fine, dtype=np.float64)


MATRICES = symmetric_to_vector(np.array([np.diag([0.6, 0.8]), np.diag([1.0, 0.0])]))
CHANNELS: dict[str, Draw] = {
    "ball": _sphere(((0.6, 0.8, 0.0), (1.0, 0.0, 0.0)), 1),
    "symmetric": _sphere(MATRICES, 2),
    "interval": _interval,
}
for _name, _draw in CHANNELS.items():
    attack(f"{_name} channel, last bits", room="local", kind="pure", attainable=0.0)(_draw)
