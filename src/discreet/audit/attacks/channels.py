"""Attacks on local channels: one report, two records as far apart as records can be.

The score is the log-likelihood ratio of the report, from the channel's published density. A device
is asked by a hostile server: every number is as extreme as the device accepts, or more. Whether a
report comes, and whether an honest device could have sent it, must not depend on the record; a
question that is refused must be refused whatever the record is.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array, symmetric_to_vector
from discreet.audit.rows import Claim, attack
from discreet.audit.views import each, log_ratio, rounded
from discreet.bandits import Device, LocalServer, Promise, PublicPolicy
from discreet.local.questions import LARGEST, SMALLEST_CLIP, Channel, Question
from discreet.local.state import PublicState
from discreet.privacy import BallChannel, IntervalChannel, SeededNoise
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.noise import Noise

reported = partial(attack, room="local", kind="pure")
E1 = np.eye(4)[0]
MATRIX = np.array([[0.6, 0.4], [0.4, -0.56568542]])
MATRIX = symmetric_to_vector(MATRIX / np.linalg.norm(MATRIX))


def _channel(
    name: str, make: Callable[..., Channel], records: tuple[Any, Any], contributions: int = 1
) -> None:
    @reported(name, contributions=contributions)
    def report(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Two opposite records; one report of each person is seen, or all that they may send."""
        k = claim.contributions
        channel = make(claim.epsilon, contributions=k)
        record = np.asarray(records[neighbour])
        sent = channel.privatize(np.tile(record, (k * runs, *np.ones(record.ndim, int))), noise)
        along = np.sum((sent * records[1]).reshape(k * runs, -1), axis=1)
        views = np.stack([log_ratio(channel, sent, records), along], axis=1)
        return rounded(views.reshape(runs, k, 2).sum(axis=1))


_channel("ball channel", partial(BallChannel, 4), (-E1, E1))
_channel("ball channel, three reports of one user", partial(BallChannel, 4), (-E1, E1), 3)
_channel("interval channel", IntervalChannel, (-1.0, 1.0))
_channel("binary channel", BinaryChannel, (0.0, 1.0))
_channel("symmetric channel", partial(BallChannel, 3), (-MATRIX, MATRIX))  # of a matrix of norm 1


# log(p/q), p of the reports in the cap that is a fraction q of the sphere; a zero's are uniform.
@reported(
    "ball channel, zero against full", attainable=0.51,
    lost="the attack: a zero and a unit vector are closer than two unit vectors",
)  # fmt: skip
def ball_zero(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The zero vector against a unit vector: a zero must not be recognisable."""
    channel = BallChannel(4, claim.epsilon)
    sent = channel.privatize(np.tile(E1 * neighbour, (runs, 1)), noise)
    lengths = rounded(np.linalg.norm(sent, axis=1))  # every report lies on the sphere
    return np.stack([sent[:, 0], lengths], axis=1)


# -- devices that are asked by a hostile server ----------------------------------------------------

E2 = np.eye(2)[0]
SHARPEST = Question("moment", "moment", SMALLEST_CLIP, 1.0)  # any residual fills the channel


def _moment(state: PublicState, sent: Array) -> Array:
    """What one report of a moment says of its sign."""
    channel = state.channels["moment"]
    return rounded([log_ratio(channel, sent, (-E2, E2))[0], sent[0, 0]])


@reported(
    "device, hostile policy", LocalServer, fits=lambda server, promise: promise.trust == "local"
)
@each
def hostile(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
    """One report of each of many devices: sent or not, and what it says about a reward."""
    policy = PublicPolicy(
        window=1,
        theta=np.array([0.0, LARGEST]),
        whitening=np.diag([1.0, LARGEST]),
        questions=(SHARPEST,),
        epsilon=claim.epsilon,
        root=LARGEST * np.eye(2),
        draws=LARGEST * np.eye(2),
    )
    device = Device(policy, Promise(claim.epsilon), noise=noise, seed=0)
    return _moment(policy, device.report(device.decide([E2]), 2.0 * neighbour - 1.0).values)


@reported("device, hostile state, one report")
@each
def hostile_report(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
    """The least clip that a device accepts, so that any residual fills the channel: its sign."""
    state = replace(PublicState.start(2, claim.epsilon, (SHARPEST,)), theta=0.5 * E2)
    device = Device(state, Promise(claim.epsilon), seed=0, noise=noise)
    return _moment(state, device.answer(E2, 0.5 + (2 * neighbour - 1) * 1e-3).values)


RECORD = np.full(2, 0.7)  # against zeros; both entries count in a sum that overflows
EXTREME: dict[str, dict[str, Any]] = {
    "whitening": {"whitening": np.full((2, 2), LARGEST)},
    "theta": {"theta": np.full(2, LARGEST)},
    "both": {"whitening": np.full((2, 2), LARGEST), "theta": np.full(2, -LARGEST)},
    "overflowing whitening": {"whitening": np.full((2, 2), 1.7e308)},
    "overflowing theta": {"theta": np.full(2, 1.7e308)},
    "bare records": {"epsilon": np.inf},
    "more reports": {"contributions": 2},
}
KINDS = ("gram", "moment", "within", "square")


def answered(honest: PublicState, changes: dict[str, Any], record: Array, noise: Noise) -> float:
    """1 if a device sends what an honest one could have sent, 0 if not; -1 if it refuses."""
    device = Device(honest, Promise(honest.epsilon), seed=0, noise=noise)
    try:
        asked = replace(honest, window=1, **changes)
        device.update(asked)
    except ValueError:  # before the device looks at its record
        return -1.0
    with np.errstate(all="ignore"):
        try:
            report = device.answer(record, 1.0)
        except Exception:  # whatever it is, the server sees that nothing came
            return 0.0
    channel = asked.channels[report.question]
    return float(np.all(np.isfinite(report.values)) and np.all(channel.possible(report.values)))


@reported("device, hostile states", attainable=0.0, effort=0.2)
@each
def hostile_states(claim: Claim, neighbour: int, noise: SeededNoise) -> list[float]:
    """Features of zeros or not, and states of extreme numbers: did a report come, as it should?"""
    seen = []
    for kind in KINDS:
        question = Question(kind, kind, SMALLEST_CLIP, 1.0)
        honest = PublicState.start(2, claim.epsilon, (question,))
        for changes in EXTREME.values():
            seen.append(answered(honest, changes, neighbour * RECORD, noise))
    return seen
