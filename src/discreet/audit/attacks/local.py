"""Attacks on local channels: one report, two records as far apart as records can be.

The score is the log-likelihood ratio of the report, from the channel's published density. A device
is asked by a hostile server: every number is as extreme as the device accepts, or more. Whether a
report comes, and whether an honest device could have sent it, must not depend on the record; a
question that is refused must be refused whatever the record is.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.bandits import Device, PublicPolicy
from discreet.local import Device as LocalDevice
from discreet.local import PublicState, Question
from discreet.local.questions import LARGEST, SMALLEST_CLIP
from discreet.privacy import (
    BallChannel,
    BinaryChannel,
    IntervalChannel,
    Noise,
    SeededNoise,
    SymmetricChannel,
)
from discreet.privacy.mechanisms import symmetric_to_vector


@attack("ball channel", room="local", kind="pure")
def ball(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Opposite unit vectors; one report of each person is seen."""
    channel = BallChannel(4, claim.epsilon)
    e1 = np.eye(4)[0]
    v = e1 if neighbour else -e1
    sent = channel.privatize(np.tile(v, (runs, 1)), noise)
    ratio = channel.log_density(sent, e1) - channel.log_density(sent, -e1)
    return np.stack([ratio, sent[:, 0]], axis=1)


# log(p/q), p of the reports in the cap that is a fraction q of the sphere; a zero's are uniform.
@attack("ball channel, zero against full", room="local", kind="pure", attainable=0.51)
def ball_zero(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The zero vector against a unit vector: a zero must not be recognisable."""
    channel = BallChannel(4, claim.epsilon)
    e1 = np.eye(4)[0]
    sent = channel.privatize(np.tile(e1 * neighbour, (runs, 1)), noise)
    lengths = np.round(np.linalg.norm(sent, axis=1), 9)  # every report lies on the sphere
    return np.stack([sent[:, 0], lengths], axis=1)


@attack("ball channel, three reports of one user", room="local", kind="pure", contributions=3)
def ball_user(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """contributions=k: the sum of the log-likelihood ratios of one person's k reports."""
    k = claim.contributions
    channel = BallChannel(4, claim.epsilon, contributions=k)
    e1 = np.eye(4)[0]
    v = e1 if neighbour else -e1
    sent = channel.privatize(np.tile(v, (k * runs, 1)), noise)
    ratio = channel.log_density(sent, e1) - channel.log_density(sent, -e1)
    return np.asarray(np.round(ratio.reshape(runs, k).sum(axis=1), 9))


@attack("interval channel", room="local", kind="pure")
def interval(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The two ends of the interval; one report of each person is seen."""
    channel = IntervalChannel(claim.epsilon)
    sent = channel.privatize(np.full(runs, 2.0 * neighbour - 1.0), noise)
    ratio = channel.log_density(sent, 1) - channel.log_density(sent, -1)
    return np.asarray(np.round(np.stack([ratio, sent], axis=1), 9), dtype=np.float64)


@attack("binary channel", room="local", kind="pure")
def binary(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Yes or no; one report of each person is seen."""
    channel = BinaryChannel(claim.epsilon)
    sent = channel.privatize(np.full(runs, float(neighbour)), noise)
    ratio = channel.log_density(sent, 1) - channel.log_density(sent, 0)
    return np.stack([ratio, sent], axis=1)


@attack("symmetric channel", room="local", kind="pure")
def symmetric(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """A symmetric matrix of norm 1 against its negative; one report is seen."""
    channel = SymmetricChannel(2, claim.epsilon)
    matrix = np.array([[0.6, 0.4], [0.4, -0.56568542]])
    matrix = matrix / np.linalg.norm(matrix)
    sent = channel.privatize(np.tile(matrix if neighbour else -matrix, (runs, 1, 1)), noise)
    vectors = symmetric_to_vector(sent)
    v = symmetric_to_vector(matrix)
    ratio = channel.vectors.log_density(vectors, v) - channel.vectors.log_density(vectors, -v)
    return np.stack([ratio, vectors @ v], axis=1)


@attack("device, hostile policy", room="local", kind="pure")
def hostile(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One report of each of many devices: sent or not, and what it says about a reward."""
    e1 = np.eye(2)[0]
    policy = PublicPolicy(
        window=1,
        theta=np.array([0.0, LARGEST]),
        whitening=np.diag([1.0, LARGEST]),
        questions=(Question("moment", "moment", SMALLEST_CLIP, 1.0),),
        epsilon=claim.epsilon,
        root=LARGEST * np.eye(2),
        draws=LARGEST * np.eye(2),
    )
    channel = policy.channels["moment"]
    scores = np.full((runs, 2), np.nan)
    assert isinstance(channel, BallChannel)
    for run in range(runs):
        device = Device(policy, epsilon=claim.epsilon, seed=0, noise=noise)
        sent = device.report(device.decide([e1]), 2.0 * neighbour - 1.0).values
        ratio = channel.log_density(sent, e1) - channel.log_density(sent, -e1)
        scores[run] = ratio[0], sent[0, 0]
    return np.round(scores, 9)


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
    device = LocalDevice(honest, epsilon=honest.epsilon, seed=0, noise=noise)
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


@attack("device, hostile states", room="local", kind="pure")
def hostile_states(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Features of zeros or not, and states of extreme numbers: did a report come, as it should?"""
    scores = []
    for _ in range(runs):
        seen = []
        for kind in KINDS:
            question = Question(kind, kind, SMALLEST_CLIP, 1.0)
            honest = PublicState.start(2, claim.epsilon, (question,))
            seen += [
                answered(honest, changes, neighbour * RECORD, noise) for changes in EXTREME.values()
            ]
        scores.append(seen)
    return np.array(scores)


@attack("device, hostile state, one report", room="local", kind="pure")
def hostile_report(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The least clip that a device accepts, so that any residual fills the channel: its sign."""
    e1 = np.eye(2)[0]
    question = Question("moment", "moment", SMALLEST_CLIP, 1.0)
    state = replace(PublicState.start(2, claim.epsilon, (question,)), theta=0.5 * e1)
    channel = state.channels["moment"]
    scores = np.empty((runs, 2))
    assert isinstance(channel, BallChannel)
    for run in range(runs):
        device = LocalDevice(state, epsilon=claim.epsilon, seed=0, noise=noise)
        sent = device.answer(e1, 0.5 + (2 * neighbour - 1) * 1e-3).values
        ratio = channel.log_density(sent, e1) - channel.log_density(sent, -e1)
        scores[run] = ratio[0], sent[0, 0]
    return np.round(scores, 9)
