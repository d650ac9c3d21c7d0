"""The floating-point attack: outputs that are possible for one input and not for its neighbour.

Float noise z has finer steps near 0 than doubles have near 1. So 0 + z is hardly ever a multiple
of 2^-53, and 1 + z always is where it falls below 1/4 (Mironov 2012): one output in a few proves
which input it was, whatever epsilon says. Lattice noise rounds the value first and adds multiples
of one step: both inputs reach the same outputs.

Float reports of channels would fail too, each by its own arithmetic, if they were not rounded. A
vector that is an axis is mixed with noise without any addition, so that small coordinates keep all
their digits; those of another vector are sums of larger numbers. A plateau is reached by one
addition, with another last bit than the rest of the line.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discreet.arrays import Array
from discreet.audit.bounds import AuditReport, audit_scores
from discreet.privacy import BallChannel, IntervalChannel, Noise, SymmetricChannel, mechanisms
from discreet.privacy.mechanisms import Released

GRID = 2.0**-53
Sampler = Callable[[Array, Noise], Released]

# Values are zeros or ones, n at once: each coordinate is a draw. Scales are about 1.
SAMPLERS: dict[str, Sampler] = {
    "gaussian": lambda x, noise: mechanisms.gaussian(x, sensitivity=1.0, mu=1.0, noise=noise),
    "laplace": lambda x, noise: mechanisms.laplace(x, sensitivity=1.0, epsilon=1.0, noise=noise),
    "k-norm": lambda x, noise: mechanisms.k_norm(
        x, sensitivity=1.0, epsilon=len(x) + 1.0, norm="linf", noise=noise
    ),
}


class FloatAudit(NamedTuple):
    """A sampler, how the library labels it, and the epsilon that its last bits prove.

    mechanism   that draws
    label       its sampler, as guarantees name it
    report      what its last bits prove
    """

    mechanism: str
    label: str
    report: AuditReport

    @property
    def safe(self) -> bool:
        """Whether the last bits prove nothing."""
        return self.report.lower_bound == 0


def off_grid(outputs: Array) -> Array:
    """1 where an output below 1/4 is not a multiple of 2^-53: it cannot come from 1 + z."""
    fine = outputs / GRID != np.rint(outputs / GRID)
    return np.asarray((np.abs(outputs) < 0.25) & fine, dtype=np.float64)


def float_attack(mechanism: str, noise: Noise, runs: int = 4000) -> FloatAudit:
    """Look at the last bits of `runs` draws around 0, and as many around 1.

    >>> from discreet.privacy import SeededNoise
    >>> found = float_attack("laplace", SeededNoise(0))
    >>> found.label, found.safe
    ('float, simulation only', False)
    """
    sides = []
    label = ""
    for value in (1.0, 0.0):
        released = SAMPLERS[mechanism](np.full(runs, value), noise)
        sides.append(off_grid(np.asarray(released.value)))
        label = released.release.sampler
    return FloatAudit(mechanism, label, audit_scores(*sides, confidence=0.9999))


def _many_digits(x: Array) -> Array:
    """1 where a small number is no multiple of 2^-56: it is not the sum of two larger ones."""
    steps = x / 2.0**-56
    fine = np.abs(steps - np.rint(steps)) > 3 / 16
    return np.asarray((np.abs(x) < 2.0**-7) & fine, dtype=np.float64)


def _ball(record: int, runs: int, noise: Noise) -> tuple[Array, str]:
    channel = BallChannel(3, 1.0)
    records = np.array([[0.6, 0.8, 0.0], [1.0, 0.0, 0.0]])
    sent = channel.privatize(np.tile(records[record], (runs, 1)), noise)
    return _many_digits(sent[:, 1] / channel.radius), channel.guarantee.releases[0].sampler


def _symmetric(record: int, runs: int, noise: Noise) -> tuple[Array, str]:
    channel = SymmetricChannel(2, 1.0)
    records = np.array([np.diag([0.6, 0.8]), np.diag([1.0, 0])])
    sent = channel.privatize(np.tile(records[record], (runs, 1, 1)), noise)
    ratio = sent[:, 1, 1] / channel.vectors.radius
    return _many_digits(ratio), channel.guarantee.releases[0].sampler


def _interval(epsilon: float, record: int, runs: int, noise: Noise) -> tuple[Array, str]:
    channel = IntervalChannel(epsilon)
    sent = channel.privatize(np.full(runs, 1.0 - record), noise)
    fine = (np.abs(sent) < 0.25) & (sent * 2.0**52 != np.rint(sent * 2.0**52))
    return np.asarray(fine, dtype=np.float64), channel.guarantee.releases[0].sampler


# (record 0 or 1, runs, noise) -> what the last bits of each report say, and the label.
CHANNELS: dict[str, Callable[[int, int, Noise], tuple[Array, str]]] = {
    "ball channel": _ball,
    "symmetric channel": _symmetric,
    "interval channel": lambda *about: _interval(2.0, *about),
    "interval channel, two values": lambda *about: _interval(0.5, *about),
}


def channel_attack(channel: str, noise: Noise, runs: int = 100_000) -> FloatAudit:
    """Look at the last bits of `runs` reports of one record, and as many of another.

    >>> from discreet.privacy import SeededNoise
    >>> channel_attack("interval channel, two values", SeededNoise(0)).safe
    True
    """
    (first, _), (second, label) = (CHANNELS[channel](record, runs, noise) for record in (0, 1))
    return FloatAudit(channel, label, audit_scores(first, second, confidence=0.9999))
