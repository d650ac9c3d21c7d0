"""Attacks on local channels: one report, two records as far apart as records can be.

The score is the log-likelihood ratio of the report, from the channel's published density. A device
is asked by a hostile server: every number is as extreme as the device accepts.
"""

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.bandits import Device, PublicPolicy
from discreet.local import Question
from discreet.local.questions import LARGEST, SMALLEST_CLIP
from discreet.privacy import (
    BallChannel,
    BinaryChannel,
    IntervalChannel,
    SeededNoise,
    SymmetricChannel,
)
from discreet.privacy.checks import Array
from discreet.privacy.mechanisms import symmetric_to_vector


@attack("ball channel", room="local", kind="pure")
def ball(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Opposite unit vectors; one report of each person is seen."""
    channel, e1 = BallChannel(4, claim.epsilon), np.eye(4)[0]
    v = e1 if world else -e1
    sent = channel.privatize(np.tile(v, (runs, 1)), noise)
    ratio = channel.log_density(sent, e1) - channel.log_density(sent, -e1)
    return np.stack([ratio, sent[:, 0]], axis=1)


# log(p/q), p of the reports in the cap that is a share q of the sphere; a zero's are uniform.
@attack("ball channel, zero against full", room="local", kind="pure", near=0.51)
def ball_zero(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The zero vector against a unit vector: a zero must not be recognisable."""
    channel, e1 = BallChannel(4, claim.epsilon), np.eye(4)[0]
    sent = channel.privatize(np.tile(e1 * world, (runs, 1)), noise)
    lengths = np.round(np.linalg.norm(sent, axis=1), 9)  # every report lies on the sphere
    return np.stack([sent[:, 0], lengths], axis=1)


@attack("ball channel, three reports of one user", room="local", kind="pure")
def ball_user(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """contributions=3: the sum of the log-likelihood ratios of one person's three reports."""
    channel, e1 = BallChannel(4, claim.epsilon, contributions=3), np.eye(4)[0]
    v = e1 if world else -e1
    sent = channel.privatize(np.tile(v, (3 * runs, 1)), noise)
    ratio = channel.log_density(sent, e1) - channel.log_density(sent, -e1)
    return np.asarray(np.round(ratio.reshape(runs, 3).sum(axis=1), 9))


@attack("interval channel", room="local", kind="pure")
def interval(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The two ends of the interval; one report of each person is seen."""
    channel = IntervalChannel(claim.epsilon)
    sent = channel.privatize(np.full(runs, 2.0 * world - 1.0), noise)
    ratio = channel.log_density(sent, 1) - channel.log_density(sent, -1)
    return np.asarray(np.round(np.stack([ratio, sent], axis=1), 9), dtype=np.float64)


@attack("binary channel", room="local", kind="pure")
def binary(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Yes or no; one report of each person is seen."""
    channel = BinaryChannel(claim.epsilon)
    sent = channel.privatize(np.full(runs, float(world)), noise)
    ratio = channel.log_density(sent, 1) - channel.log_density(sent, 0)
    return np.stack([ratio, sent], axis=1)


@attack("symmetric channel", room="local", kind="pure")
def symmetric(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """A symmetric matrix of norm 1 against its negative; one report is seen."""
    channel, matrix = SymmetricChannel(2, claim.epsilon), np.array([[0.6, 0.4], [0.4, -0.56568542]])
    matrix = matrix / np.linalg.norm(matrix)
    sent = channel.privatize(np.tile(matrix if world else -matrix, (runs, 1, 1)), noise)
    vectors, v = symmetric_to_vector(sent), symmetric_to_vector(matrix)
    ratio = channel.vectors.log_density(vectors, v) - channel.vectors.log_density(vectors, -v)
    return np.stack([ratio, vectors @ v], axis=1)


@attack("device, hostile policy", room="bandits", kind="pure")
def hostile(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
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
    channel, scores = policy.channels["moment"], np.full((runs, 2), np.nan)
    assert isinstance(channel, BallChannel)
    for run in range(runs):
        device = Device(policy, epsilon=claim.epsilon, seed=0, noise=noise)
        sent = device.report(device.decide([e1]), 2.0 * world - 1.0).values
        ratio = channel.log_density(sent, e1) - channel.log_density(sent, -e1)
        scores[run] = ratio[0], sent[0, 0]
    return np.round(scores, 9)
