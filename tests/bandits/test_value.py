"""What a bandit is worth: held-out rounds, and intervals that hold at all times."""

import math

import numpy as np
import pytest

from discreet.bandits import Holdout, LinearBandit, People
from discreet.bandits.value import EVENTS, RECENT, Interval, Totals, values
from discreet.bandits.window import (
    HELD,
    VALUE,
    sensitivity,
)
from discreet.environments.linear import linear_world
from discreet.privacy import SeededNoise

SENSITIVITY = sensitivity(None, People(rounds=1))
HELD_SENSITIVITY = sensitivity(Holdout(0.1), People(rounds=1))
HELD_SHARED_SENSITIVITY = sensitivity(Holdout(0.1), People(visits="all"))

DIM = 3


def make(baseline="uniform", fraction=0.2, **more):
    common = {"epsilon": 4.0, "seed": 1, "noise": SeededNoise(2), "reward_range": (0.0, 1.0)}
    return LinearBandit(DIM, **{**common, "holdout": Holdout(fraction, baseline), **more})


def contexts(n, actions=4, seed=0):
    z = np.random.default_rng(seed).standard_normal((n, actions, DIM))
    return z / np.linalg.norm(z, axis=2, keepdims=True)


def settle(bandit, rounds, reward):
    while bandit.rounds < rounds:
        chosen = bandit.decide_many(contexts(bandit.rounds_until_release, seed=bandit.rounds))
        bandit.learn_many(chosen, reward(chosen))
    bandit.turn()


# -- which rounds ----------------------------------------------------------------------------------


def test_holdout__its_rounds_follow_from_their_numbers_and_play_the_baseline():
    bandit = make(baseline=2, policy="greedy")
    one = [bandit.decide(x) for x in contexts(300)]
    other = make(baseline=2, policy="greedy")
    many = other.decide_many(contexts(300))
    assert [each.action for each in one] == many.action.tolist()
    held = bandit.held_out(np.arange(300))
    assert 0.1 < held.mean() < 0.3
    assert (many.action[held] == 2).all()
    assert [bool(bandit.held_out(t)) for t in range(300)] == held.tolist()
    assert len(set(many.action[~held].tolist())) == 4


def test_holdout__the_probability_is_the_true_one():
    """Averaged over the rounds of the hold-out: keys are drawn, contexts are not."""
    X = contexts(1)[0]
    counts = np.zeros(4)
    for seed in range(1500):
        decision = make(baseline=1, seed=seed).decide(X)
        counts[decision.action] += 1
        expected = decision.probabilities
    assert expected == pytest.approx([0.2, 0.4, 0.2, 0.2])
    # 4.9 standard deviations: wrong once in a million
    assert np.abs(counts / 1500 - expected).max() < 4.9 * math.sqrt(0.25 / 1500)


def test_holdout__is_resumed(tmp_path):
    bandit = make(seed=None, noise=None)
    settle(bandit, 200, lambda chosen: np.full(len(chosen), 0.5))
    bandit.save(tmp_path / "state")
    resumed = LinearBandit.load(tmp_path / "state")
    numbers = np.arange(1000)
    assert np.array_equal(resumed.held_out(numbers), bandit.held_out(numbers))
    assert resumed.values() == bandit.values()
    assert len(resumed.values()) > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"holdout": Holdout(0.1), "policy": "descent"}, "takes no holdout"),
        ({"holdout": Holdout(0.1), "trust": "local"}, "takes no holdout"),
    ],
)
def test_holdout__is_refused_where_nothing_would_be_released_of_it(arguments, words):
    with pytest.raises(ValueError, match=words):
        LinearBandit(DIM, noise=SeededNoise(0), **arguments)


@pytest.mark.parametrize(
    "wrong", [{"fraction": 0.0}, {"fraction": 0.6}, {"baseline": "best"}, {"baseline": -1}]
)
def test_holdout__refuses_what_is_none(wrong):
    with pytest.raises(ValueError, match=r"fraction|baseline"):
        Holdout(**wrong)


def test_holdout__needs_its_baseline_among_the_actions():
    bandit = make(baseline=5)
    with pytest.raises(ValueError, match="at least 6 actions"):
        bandit.decide(contexts(1)[0])
    mixed = bandit.decide_many([contexts(1)[0], contexts(1, actions=6)[0]])
    assert mixed.action[0] == -1
    assert mixed.action[1] >= 0


# -- what is released ------------------------------------------------------------------------------


def test_release__counts_and_sums_are_exact_without_noise():
    bandit = make(epsilon=math.inf, fraction=0.5)
    first = bandit.rounds_until_release
    chosen = bandit.decide_many(contexts(first))
    rewards = np.random.default_rng(0).random(first)
    bandit.learn_many(list(chosen)[:-1], rewards[:-1])
    bandit.learn(chosen[first - 1], rewards[-1])
    held = bandit.held_out(chosen.round)
    bandit.turn()
    (found,) = bandit._totals
    assert (found.count, found.held_count) == pytest.approx(((~held).sum(), held.sum()))
    assert found.sum == pytest.approx(rewards[~held].sum())
    assert found.held_sum == pytest.approx(rewards[held].sum())
    assert bandit.value.mean.estimate == pytest.approx(rewards[~held].mean())
    assert bandit.value.holdout.estimate == pytest.approx(rewards[held].mean())


def test_release__the_belief_is_that_of_a_learner_without_holdout():
    """The same rows teach the same: counting apart takes nothing away."""
    one, other = make(epsilon=math.inf), make(epsilon=math.inf, holdout=None)
    X = contexts(one.rounds_until_release)
    rows, rewards = X[:, 0], np.random.default_rng(0).random(len(X))
    for bandit in (one, other):
        bandit.turn()
        held = () if bandit.holdout is None else (bandit.held_out(np.arange(len(X))),)
        bandit.window.fold(rows, rewards, *held)
        bandit.advance(len(X))
        bandit.turn()
    assert one.theta == pytest.approx(other.theta)


@pytest.mark.parametrize("held", [(False, False), (True, True), (True, False)])
@pytest.mark.parametrize("visits", [None, "all"])
def test_sensitivity__a_held_out_row_replaced_gone_or_new(held, visits):
    """Of what one row adds to a window's sum, whichever of the two is held out."""
    person = {} if visits is None else {"people": People(visits=visits), "horizon": 500}
    terms = []
    for which, reward in zip(held, (1.0, -1.0), strict=True):
        bandit = make(epsilon=math.inf, reward_range=(-1.0, 1.0), **person)
        bandit.turn()
        before = bandit._window.total._value.copy()
        bandit.window.fold(np.eye(DIM)[:1], np.array([reward]), np.array([which]))
        terms.append(bandit._window.total._value - before)
    moved = np.linalg.norm(terms[0] - terms[1])
    gone = max(np.linalg.norm(term) for term in terms)
    bound = HELD_SENSITIVITY if visits is None else HELD_SHARED_SENSITIVITY
    assert max(moved, gone if visits else math.sqrt(2) * gone) <= bound * (1 + 1e-12)
    assert make(**person).guarantee.epsilon == 4.0
    if held == (True, True) and visits is None:
        assert math.sqrt(2) * gone == pytest.approx(bound)


def test_sensitivity__what_the_hold_out_costs():
    assert HELD > VALUE
    more = HELD_SENSITIVITY / SENSITIVITY
    assert more == pytest.approx(1.042, abs=0.001)
    bandit = make()
    bandit.turn()
    (release,) = bandit.guarantee.releases
    assert release.sensitivity == pytest.approx(HELD_SENSITIVITY)


# -- intervals -------------------------------------------------------------------------------------


def test_interval__holds_for_all_windows_at_once_and_is_no_wider_than_it_needs():
    """Simulated rewards in [0, 1] of mean .7 and .4, 300 runs of 10 windows each, at 90%.

    Wrong at most 10% of the time; with intervals of a third of the width most runs are.
    """
    rng = np.random.default_rng(0)
    misses, narrow_misses, widths = 0, 0, []
    runs = 300
    for _ in range(runs):
        windows = []
        for k in range(10):
            n = 200 * 2**k
            held = n // 10
            y, h = rng.random(n) < 0.7, rng.random(held) < 0.4
            noise = 30.0
            z = noise * rng.standard_normal(4)
            windows.append(
                Totals(n + held, n + z[0], y.sum() + z[1], held + z[2], h.sum() + z[3],
                       (noise**2,) * 4)
            )  # fmt: skip
        found = values(windows, (0.0, 1.0), 1 / 11, 0.9)
        wrong, narrow = False, False
        for each in found:
            for interval, truth in ((each.mean, 0.7), (each.holdout, 0.4), (each.uplift, 0.3)):
                if interval is None:
                    continue
                wrong |= not interval.low <= truth <= interval.high
                third = (interval.high - interval.low) / 6
                narrow |= abs(interval.estimate - truth) > third
        misses += wrong
        narrow_misses += narrow
        widths.append(found[-1].uplift.high - found[-1].uplift.low)
    assert misses <= 0.1 * runs
    assert narrow_misses > 0.1 * runs, "a third of the width is not enough"
    assert np.mean(widths) < 0.1


def test_interval__holds_when_rewards_stop_coming_at_the_worst_moment():
    """Fair coins whose rewards stop where their mean is furthest out: Azuma's bound for the n that
    came would be wrong in many more than 5% of runs, this one must not be."""
    rng = np.random.default_rng(1)
    runs, n = 400, 20_000
    came = np.arange(1, n + 1)
    risk = 0.05
    wrong = 0
    azuma = 0
    for _ in range(runs):
        sums = np.cumsum(rng.choice([-1.0, 1.0], n))
        worst = int(np.argmax(np.abs(sums[100:]) / np.sqrt(came[100:]))) + 100
        total = Totals(n, float(came[worst]), float(sums[worst]), 0.0, 0.0, (0.0,) * 4)
        (found,) = values([total], (-1.0, 1.0), 0.0, 1 - 2 * EVENTS * risk)
        wrong += not found.mean.low <= 0 <= found.mean.high
        azuma += abs(sums[worst]) > math.sqrt(2 * came[worst] * math.log(2 / risk))
    assert wrong <= risk * runs
    assert azuma > 2 * risk * runs


def test_interval__covers_the_truth_of_a_learner_at_work():
    """Sphere, greedy against blind choice: all windows of 20 runs."""
    for seed in range(20):
        world = linear_world("sphere", DIM, seed=seed)
        rng = np.random.default_rng(seed)
        bandit = make(seed=seed, noise=SeededNoise(seed), reward_range=(-1.0, 1.0))
        means, held = [], []
        for _ in range(14):
            people = world.people(bandit.rounds_until_release, rng)
            chosen = bandit.decide_many(people.features)
            bandit.learn_many(chosen, people.rewards(chosen.action, rng))
            apart = bandit.held_out(chosen.round)
            expected = people.means[np.arange(len(chosen)), chosen.action]
            means.append(expected[~apart])
            held.append(expected[apart])
            bandit.turn()
            found = bandit.value
            lengths = [len(a) + len(b) for a, b in zip(means, held, strict=True)]
            start = next(i for i, n in enumerate(lengths) if n >= RECENT * max(lengths))
            recent = range(start, len(lengths))
            mean = np.concatenate([means[i] for i in recent]).mean()
            if found.mean is not None:
                assert found.mean.low <= mean <= found.mean.high
            if found.uplift is not None:
                uplift = mean - np.concatenate([held[i] for i in recent]).mean()
                assert found.uplift.low <= uplift <= found.uplift.high
        assert found.uplift is not None
        assert found.uplift.low > 0, "and it tells that the policy is better"


def test_value__is_none_before_the_first_release_and_while_noise_hides_the_count():
    bandit = make(epsilon=0.1)
    assert bandit.value is None
    chosen = bandit.decide_many(contexts(20))
    bandit.learn_many(chosen, np.full(20, 0.5))
    bandit.advance(bandit.rounds_until_release)
    bandit.turn()
    assert bandit.value.mean is None
    assert "None" in str(bandit.value)


def test_value__is_there_without_a_hold_out():
    bandit = make(holdout=None)
    settle(bandit, 2000, lambda chosen: np.full(len(chosen), 0.75))
    assert bandit.value.holdout is None
    assert bandit.value.uplift is None
    assert bandit.value.mean.low < 0.75 < bandit.value.mean.high


def test_value__is_a_function_of_releases_alone():
    bandit = make()
    settle(bandit, 300, lambda chosen: np.full(len(chosen), 0.75))
    before = bandit.values()
    chosen = bandit.decide_many(contexts(5))
    bandit.learn_many(chosen, np.ones(5))
    assert bandit.values() == before


def test_interval__differences():
    one, other = Interval(3.0, 1.0, 5.0), Interval(1.0, 0.5, 2.0)
    assert one.minus(other) == Interval(2.0, -1.0, 4.5)
    with pytest.raises(ValueError, match="confidence"):
        values([], (0.0, 1.0), True, 1.5)
