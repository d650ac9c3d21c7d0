"""Attacks on every mechanism: below the claim, close to it, and catching halved noise.

A claim is refuted, or a bug caught, at 99.99% confidence each, so that all of these together raise
a false alarm with less than 1%; how close the attack comes is measured at 95%.
Running a mechanism with half the sensitivity it needs plants the bug "half the noise".
"""

import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.privacy import (
    BallChannel,
    Budget,
    IntervalChannel,
    PrefixSum,
    SecureNoise,
    SeededNoise,
    Tree,
    gaussian_mu,
)
from discreet.privacy.mechanisms import gaussian, gaussian_symmetric, k_norm, laplace, select
from discreet.privacy.tree import TreeSum

RUNS = 10_000
EPSILON, DELTA = 1.0, 1e-6
MU = gaussian_mu(EPSILON, DELTA)
SURE = 0.9999


def gdp(first, second, confidence=SURE):
    report = audit_scores(first, second, delta=DELTA, confidence=confidence, method="gdp")
    return report.lower_bound


def pure(first, second, confidence=SURE):
    return audit_scores(first, second, confidence=confidence).lower_bound


def repeat(run):
    """RUNS outputs for each of the two neighbouring inputs."""
    return [np.array([run(which) for _ in range(RUNS)]) for which in (0, 1)]


def gaussian_vector(claimed):
    noise = SeededNoise(1)
    values = (np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0]))  # opposite rows: 2 apart
    out = repeat(lambda i: gaussian(values[i], sensitivity=claimed * 2, mu=MU, noise=noise).value)
    return out[0][:, 0], out[1][:, 0]


def gaussian_matrix(claimed):
    noise = SeededNoise(2)
    a, b = np.array([0.8, 0.6]), np.array([-0.6, 0.8])  # orthogonal: sqrt(2) apart
    values = (np.outer(a, a), np.outer(b, b))
    canary = (values[1] - values[0]) / math.sqrt(2)
    out = repeat(
        lambda i: (
            gaussian_symmetric(
                values[i], sensitivity=claimed * math.sqrt(2), mu=MU, noise=noise
            ).value
        )
    )
    return tuple(np.einsum("nij,ij->n", values, canary) for values in out)


def laplace_scalar(claimed):
    noise = SeededNoise(3)
    return repeat(
        lambda i: float(laplace(float(i), sensitivity=claimed, epsilon=1.0, noise=noise).value)
    )


def k_norm_cube(claimed):
    noise = SeededNoise(4)
    values = (np.zeros(3), np.ones(3))
    out = repeat(
        lambda i: (
            k_norm(values[i], sensitivity=claimed, epsilon=1.0, norm="linf", noise=noise).value
        )
    )
    # Rounded: the last bits of float noise give the input away (test_noise.py, the attack).
    return tuple(np.round(np.abs(z).max(axis=1) - np.abs(z - 1).max(axis=1), 9) for z in out)


def selection(claimed):
    noise = SeededNoise(5)
    # All scores move by one, the first up and the nine others down.
    values = (np.zeros(10), np.array([1.0] + [-1.0] * 9))
    out = repeat(lambda i: select(values[i], sensitivity=claimed, epsilon=1.0, noise=noise).value)
    return out[0] == 0, out[1] == 0


def ball(claimed):
    channel = BallChannel(4, EPSILON / claimed)
    e1 = np.eye(4)[0]
    reports = [
        channel.privatize(np.tile(v, (RUNS, 1)), SeededNoise(seed))
        for seed, v in ((6, e1), (7, -e1))
    ]
    return tuple(channel.log_density(r, -e1) - channel.log_density(r, e1) for r in reports)


def interval(claimed):
    channel = IntervalChannel(EPSILON / claimed)
    reports = [
        channel.privatize(np.full(RUNS, v), SeededNoise(seed)) for seed, v in ((8, -1), (9, 1))
    ]
    return tuple(channel.log_density(r, 1) - channel.log_density(r, -1) for r in reports)


# Where the claim is not used up by this attack, the share of it that the attack can prove.
ATTACKS = {
    "gaussian": (gaussian_vector, gdp, 0.5),
    "gaussian_symmetric": (gaussian_matrix, gdp, 0.5),
    "laplace": (laplace_scalar, pure, 0.8),
    "k_norm": (k_norm_cube, pure, 0.8),
    "select": (selection, pure, 0.6),
    "ball channel": (ball, pure, 0.8),
    "interval channel": (interval, pure, 0.8),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_audit__stays_below_the_claim_comes_close_and_catches_half_noise(name):
    attack, bound, close = ATTACKS[name]
    scores = [np.asarray(sample, dtype=float) for sample in attack(1.0)]
    assert bound(*scores) <= EPSILON
    assert bound(*scores, 0.95) >= close * EPSILON
    caught = bound(*(np.asarray(scores, dtype=float) for scores in attack(0.5)))
    assert caught > EPSILON


def outputs_per_noise(design, T):
    """Row t: which noise enters output t, and how (from the running code)."""
    if not isinstance(design, Tree):
        return design.filter(T).steps(np.eye(T))
    fresh = iter(np.eye(6 * T))
    sums = TreeSum(design, T, 6 * T, lambda level, n: np.array([next(fresh) for _ in range(n)]))
    return np.array([sums.add(np.zeros(6 * T)) for _ in range(T)])


def running_sum_scores(mechanism, canary, *, claimed=1.0, contributions=1, noise=None):
    """The best attack on the whole sequence of sums: a canary of +1/2 against -1/2.

    Coordinates carry independent noise of the same scale, so each is one run of the attack.
    """
    T = 24
    budget = Budget(EPSILON, DELTA, contributions)
    move = np.zeros(T)
    move[list(canary)] = 1.0
    scores = []
    for sign, seed in ((-0.5, 10), (0.5, 11)):
        sums = PrefixSum(
            T,
            RUNS,
            budget,
            sensitivity=claimed,
            bound=RUNS,
            mechanism=mechanism,
            noise=noise or SeededNoise(seed),
        )
        out = sums.add_many(np.tile(sign * move[:, None], (1, RUNS)))
        B = outputs_per_noise(sums._calibration.design, T)
        scores.append(np.cumsum(move) @ np.linalg.solve(B @ B.T, out))
    return scores


@pytest.mark.parametrize("canary", [(0,), (11,), (23,)], ids=["first", "middle", "last"])
@pytest.mark.parametrize("mechanism", ["blt", "toeplitz", Tree(2), Tree(5)], ids=str)
def test_audit__running_sums(mechanism, canary):
    scores = running_sum_scores(mechanism, canary)
    assert gdp(*scores) <= EPSILON
    if canary == (0,) and mechanism in ("blt", "toeplitz"):
        assert gdp(*scores, 0.95) >= 0.5 * EPSILON
    if canary == (0,):
        assert gdp(*running_sum_scores(mechanism, canary, claimed=0.4)) > EPSILON


@pytest.mark.parametrize("mechanism", ["blt", Tree(2)], ids=str)
def test_audit__contributions_of_one_user_and_ignoring_them_is_caught(mechanism):
    person = (0, 1, 2)
    scores = running_sum_scores(mechanism, person, contributions=3)
    assert gdp(*scores) <= EPSILON
    assert gdp(*scores, 0.95) >= 0.4 * EPSILON
    assert gdp(*running_sum_scores(mechanism, person, contributions=1)) > EPSILON


def test_audit__running_sums_with_exact_noise():
    T, runs = 2, 2000
    scores = []
    for sign in (-0.5, 0.5):
        sums = PrefixSum(
            T,
            runs,
            Budget(EPSILON),
            sensitivity=1.0,
            norm="l1",
            bound=runs,
            mechanism=Tree(2),
            noise=SecureNoise(),
        )
        scores.append(_pure_tree_score(sums.add_many(np.full((T, runs), 1.0) * [[sign], [0.0]])))
    assert 0.3 < pure(*scores) <= EPSILON


def _pure_tree_score(out):
    """Two rounds of a binary tree: the first leaf and the root, each with Laplace(2) noise."""
    leaf, root = out
    return sum(np.abs(node + 0.5) - np.abs(node - 0.5) for node in (leaf, root)) / 2


def test_audit__pure_running_sums():
    def scores(claimed):
        result = []
        for sign, seed in ((-0.5, 12), (0.5, 13)):
            sums = PrefixSum(
                2,
                RUNS,
                Budget(EPSILON),
                sensitivity=claimed,
                norm="l1",
                bound=RUNS,
                mechanism=Tree(2),
                noise=SeededNoise(seed),
            )
            result.append(_pure_tree_score(sums.add_many([[sign] * RUNS, [0.0] * RUNS])))
        return result

    assert 0.6 * EPSILON <= pure(*scores(1.0)) <= EPSILON
    assert pure(*scores(0.5)) > EPSILON


def test_audit__an_adaptive_stream_costs_no_more():
    # The input after the canary copies the sign of the last output: the whole sequence of sums
    # of a tree that runs ahead of the data (balanced digits) still hides the canary.
    T, tree = 8, Tree(3)
    scores = []
    for sign, seed in ((-0.5, 14), (0.5, 15)):
        sums = PrefixSum(
            T,
            RUNS,
            Budget(EPSILON, DELTA),
            sensitivity=1.0,
            bound=RUNS,
            mechanism=tree,
            noise=SeededNoise(seed),
        )
        inputs, outputs = [], []
        x = np.full(RUNS, sign)
        for _ in range(T):
            inputs.append(x)
            outputs.append(sums.add(x))
            x = 0.5 * np.sign(outputs[-1])
        # The attacker knows the rule, hence every input but the canary.
        known = np.cumsum(np.array(inputs) - np.eye(T)[:, :1] * sign, axis=0)
        B = outputs_per_noise(sums._calibration.design, T)
        scores.append(np.ones(T) @ np.linalg.solve(B @ B.T, np.array(outputs) - known))
    assert gdp(*scores) <= EPSILON
    assert gdp(*scores, 0.95) >= 0.4 * EPSILON
