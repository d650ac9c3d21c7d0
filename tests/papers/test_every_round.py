"""Algorithm 3 as printed: its recursion, its sensitivity, its price, its schedule, an attack."""

import json
import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.audit.attacks.optimization import rare_share, rare_vertex
from discreet.audit.rows import Claim
from discreet.domains import LpBall
from discreet.privacy import Budget, SeededNoise
from discreet.privacy.gaussian import zcdp_epsilon
from papers.every_round import EveryRound
from papers.sparse_arms import sparse_arms

LINKS = ("identity", "logistic")


def people(rounds, dim=12, arms=3, link="identity", seed=0):
    world = sparse_arms(arms, dim, nonzero=2, contexts="uniform", link=link, seed=seed)
    rng = np.random.default_rng([seed, 9])
    X = world.contexts(rounds, rng)
    return X, np.array([world.rewards(m, rng) for m in world.means(X)])  # (n, dim), (n, arms)


@pytest.mark.parametrize("link", LINKS)
def test_steps__without_privacy_are_the_papers(link):
    """Algorithm 3 with Algorithm 2 as printed: d_m by the recursion, zero rows for other arms."""
    K, d, T, t0, h = 3, 10, 200, 12, 0.3
    X, Y = people(T, d, K, link)
    bandit = EveryRound(K, d, T, math.inf, link=link, forced=t0, gap=h, seed=0)
    nu = (lambda z: z) if link == "identity" else (lambda z: 1 / (1 + np.exp(-z)))
    theta, before, total = np.zeros((K, d)), np.zeros((K, d)), np.zeros((K, d))
    steps, first, narrowed = np.zeros(K, dtype=int), None, 0
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        if t < K * t0:
            a = t % K
        else:
            first = theta.copy() if first is None else first
            early = nu(first @ x)
            allowed = early > early.max() - h / 2
            narrowed += not allowed.all()
            a = int(np.argmax(np.where(allowed, theta @ x, -np.inf)))
        decision = bandit.decide(x)
        assert decision.action == a
        assert bandit.theta == pytest.approx(theta, abs=1e-9)
        bandit.learn(decision, y[a])
        for i in range(K) if t >= K * t0 else [a]:
            steps[i] += 1
            m, row = steps[i], x if i == a else 0 * x
            now, old = nu(row @ theta[i]) - y[a], nu(row @ before[i]) - y[a]
            total[i] += ((m + 1) * now - m * old) * row
            v = LpBall(1, d).linear_minimizer(total[i])
            before[i] = theta[i]
            theta[i] = theta[i] + (v - theta[i]) / (m + 1)
    assert narrowed > 5
    assert (steps == T - (K - 1) * t0).all()


@pytest.mark.parametrize("link", LINKS)
def test_gradients__stay_within_the_clip_and_are_of_the_chosen_arm(link):
    K, d, T = 3, 10, 300
    X, Y = people(T, d, K, link)
    bandit = EveryRound(K, d, T, 2.0, link=link, forced=10, noise=SeededNoise(0))
    sizes = []
    for x, y in zip(X, Y, strict=True):
        decision = bandit.decide(np.sign(x))
        before = np.array([each._total for each in bandit._directions])
        bandit.learn(decision, y[decision.action])
        new = np.array([each._total for each in bandit._directions]) - before
        assert (np.delete(new, decision.action, axis=0) == 0).all()
        sizes.append(np.abs(new[decision.action]).max())
    assert max(sizes) <= bandit.bound * (1 + 1e-12)
    assert max(sizes) >= 0.99 * bandit.bound


def test_guarantee__spends_rho_over_the_steps_of_one_arm():
    K, T, t0 = 3, 500, 20
    bandit = EveryRound(K, 12, T, 1.0, 1e-5, forced=t0)
    step = bandit._directions[0]
    n = T - (K - 1) * t0
    assert step.horizon == step.choices == n
    spent = sum((2 * 2 * bandit.bound / step.scale(m)) ** 2 / 8 for m in range(1, n + 1))
    rho = Budget(1.0, 1e-5).rho
    assert spent == pytest.approx(rho, rel=1e-3)
    assert spent <= rho * (1 + 1e-9)
    assert (bandit.guarantee.epsilon, bandit.guarantee.delta) == (1.0, 1e-5)


def test_schedule__arms_choose_in_the_same_rounds_whatever_comes_and_not_past_the_horizon():
    draws = []
    for case in (0, 1):
        bandit = EveryRound(3, 12, 90, 1.0, forced=20, noise=SeededNoise(0))
        X, Y = people(100, seed=case)
        states = []
        for x, y in zip(X, Y, strict=True):
            decision = bandit.decide(case * x)
            bandit.learn(decision, y[decision.action])
            states.append([json.loads(each._noise.state())["generator"]
                           for each in bandit._directions])  # fmt: skip
        draws.append(states)
    assert draws[0] == draws[1]
    assert draws[0][0] != draws[0][89] == draws[0][-1]


def test_learn__takes_the_reward_of_the_last_decision_once():
    bandit = EveryRound(2, 3, 40, 1.0, forced=5, noise=SeededNoise(0))
    decision = bandit.decide([1.0, 0.0, 0.0])
    for wrong in (1.5, math.nan, None):
        with pytest.raises(ValueError, match="reward must"):
            bandit.learn(decision, wrong)
    bandit.learn(decision, 0.5)
    with pytest.raises(ValueError, match="once"):
        bandit.learn(decision, 0.5)
    assert bandit.rounds == 1


STEPS = 31  # of each arm
DELTA = 1e-6
PRICE = 2.0  # of one choice


def chosen(claim, neighbour, noise):
    """Was the vertex -e_1 chosen first, as the canary's gradient asks?"""
    # n choices for each arm, epsilon_m = sqrt(8 rho/(m H_n)): the first costs the claim.
    rho = claim.epsilon**2 / 8 * sum(1 / m for m in range(1, STEPS + 1))
    bandit = EveryRound(
        2, 2, STEPS + 1, zcdp_epsilon(rho, DELTA), DELTA, forced=1, seed=0, noise=noise
    )
    # The guarantee states the scale of the last choice; scales grow as the root of m.
    others = rare_vertex(bandit.guarantee.releases[0].scale / math.sqrt(STEPS))
    bandit._directions[0]._total = others
    bandit.learn(bandit.decide([1.0, -1.0]), 1.0 - 2.0 * neighbour)
    return bool(bandit.theta[0, 0] < 0)


def scores(price, runs=3000):
    """(runs,) for each of two neighbours, where the first choice costs `price`."""
    for neighbour in (0, 1):
        noises = SeededNoise(neighbour).spawn(runs)
        claim = Claim(price, 0.0, "pure")
        yield np.array([chosen(claim, neighbour, noise) for noise in noises], dtype=float)


def test_attack__stays_below_the_price_of_a_choice_and_half_the_noise_is_caught():
    assert rare_share() > 0.8  # of epsilon = 1 that this choice can show
    found = audit_scores(*scores(PRICE), confidence=0.9999).lower_bound
    assert 0.3 * PRICE <= found <= PRICE
    assert audit_scores(*scores(2 * PRICE), confidence=0.9999).lower_bound > PRICE
