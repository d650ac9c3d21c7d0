"""What a bandit is worth: held-out rounds, and intervals that hold at all times."""

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.bandits import Holdout, LinearBandit, People
from discreet.bandits.window import EARNED, HELD, KEPT, ROW, sensitivity
from discreet.environments.linear import linear_world
from discreet.evaluation.worth import Totals, needed, values
from discreet.privacy import SeededNoise

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


def test_values__without_spreads_nothing_is_said_of_them():
    # Rewards of -1 or 1: their variance is the largest there is. A record from before spreads were
    # released must not be read as "all rewards are 0".
    old = Totals(20_000, 4000, 20_000.0, 1600.0, 0.0, (0.0, 9.0, 9.0))
    known = replace(old, spreads=(-16_000.0, -4000.0))
    wide, exact = (values([each], (-1.0, 1.0), held_out=0.2)[-1] for each in (old, known))
    assert wide.uplift.half_width == pytest.approx(exact.uplift.half_width, rel=0.05)


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
    assert (found.rounds, found.held) == (first, held.sum())
    assert found.count == pytest.approx(((~held) + KEPT * held).sum())
    assert found.sum == pytest.approx(rewards[~held].sum())
    assert found.held_sum == pytest.approx(rewards[held].sum())
    calm = rewards * (1 - rewards)
    assert found.spreads == pytest.approx((calm[~held].sum(), calm[held].sum()))
    assert bandit.value.mean.estimate == pytest.approx(rewards[~held].mean())
    assert bandit.value.holdout.estimate == pytest.approx(rewards[held].mean())


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-1.0, 3.0), (1.0, 5.0), (-4.0, -2.0)])
@pytest.mark.parametrize("fraction", [0.3, None])
def test_release__a_decision_without_a_reward_in_time_earns_what_is_closest_to_0(
    reward_range, fraction
):
    holdout = None if fraction is None else Holdout(fraction)
    bandit = make(epsilon=math.inf, reward_range=reward_range, holdout=holdout)
    low, high = reward_range
    earned, apart, late = [], [], []
    for _ in range(3):
        n = bandit.rounds_until_release
        chosen = bandit.decide_many(contexts(n, seed=bandit.rounds))
        rewards = np.random.default_rng(bandit.rounds).uniform(low, high, n)
        came = np.arange(n) % 3 > 0
        bandit.learn_many([d for d, c in zip(chosen, came, strict=True) if c], rewards[came])
        for decision in late if holdout is not None else []:  # counts for the worth no more
            bandit.learn(decision, high)
        late = [d for d, c in zip(chosen, came, strict=True) if not c]
        bandit.turn()
        zero = min(max(0.0, low), high)
        earned.append(np.where(came, rewards, zero))
        apart.append(bandit.held_out(chosen.round))
    found, held = np.concatenate(earned), np.concatenate(apart)
    assert bandit.value.mean.estimate == pytest.approx(found[~held].mean())
    if holdout is not None:
        assert bandit.value.holdout.estimate == pytest.approx(found[held].mean())


def move(bandit, reward, held, late=False, row=0):
    """What one row adds to the open window's sum, in the clear."""
    rounds = np.arange(4 * bandit.rounds_until_release)
    now = rounds[bandit.rounds : bandit._end]
    before = rounds[: bandit.rounds]
    some = before if late else now
    t = int(some[bandit.held_out(some) == held][0])
    start = bandit._window.total._value.copy()
    bandit.window.fold(np.eye(DIM)[[row]], np.array([reward]), np.array([t]))
    return bandit._window.total._value - start


def moved(person, reward_range):
    """The farthest that replacing a row moves all windows, or one where they share the budget."""
    bandit = make(epsilon=math.inf, reward_range=reward_range, fraction=0.3, **person)
    bandit.turn()
    bandit.advance(bandit.rounds_until_release)
    bandit.turn()
    low, high = reward_range
    found = []
    groups = (False, True)
    shares = person.get("people") == People(visits="all")
    rows = {
        (held, reward, row, late): move(bandit, reward, held, late, row)
        for held in groups
        for reward in (low, high, low + 0.38 * (high - low), low + 0.62 * (high - low))
        for row in (0, 1)
        for late in (False, True)
    }
    for (_, _, _, late), one in rows.items():
        for (_, _, _, later), other in rows.items():
            # Rounds too: a limiter may let in another round of a person who did something else.
            if shares or not (late or later):
                found.append(np.linalg.norm(one - other))  # in the same window
            if not shares:
                found.append(math.hypot(np.linalg.norm(one), np.linalg.norm(other)))  # moved
        if shares:
            found.append(np.linalg.norm(one))
    return max(found)


@pytest.mark.parametrize("visits", [None, "first", "all"])
@pytest.mark.parametrize("reward_range", [(-1.0, 1.0), (0.0, 1.0), (2.0, 3.0)])
def test_sensitivity__a_row_replaced_or_moved_goes_no_farther_and_nearly_as_far(
    visits, reward_range
):
    person = {} if visits is None else {"people": People(visits=visits), "horizon": 900}
    people = person.get("people", People(rounds=1))
    bound = sensitivity(Holdout(0.3), people)
    assert 0.9 * bound < moved(person, reward_range) <= bound * (1 + 1e-12)
    (release, *_) = opened(person).guarantee.releases
    assert release.sensitivity == pytest.approx(bound)


def opened(person):
    bandit = make(**person)
    bandit.turn()
    return bandit


@pytest.mark.parametrize(
    ("people", "squared"),
    [
        (People(rounds=1), 9.125), (People(rounds=3), 9 * 9.125), (People(visits="first"), 9.125),
        (People(visits="all"), 8.890625),
    ],
)  # fmt: skip
def test_sensitivity__of_a_hold_out_in_numbers(people, squared):
    assert sensitivity(Holdout(0.1), people) ** 2 == pytest.approx(squared)


def test_sensitivity__a_hold_out_costs_next_to_nothing():
    with_one, without = (sensitivity(h, People(rounds=1)) for h in (Holdout(0.1), None))
    assert with_one == pytest.approx(math.sqrt(2 * (ROW + EARNED**2)))
    assert 1 < with_one / without < 1.022
    assert HELD > 2.5 * EARNED  # few rows, and each weighs more


# -- intervals -------------------------------------------------------------------------------------


def windows_of(chances, rng, windows=9, fraction=0.05, noise=(40.0, 25.0, 9.0)):
    """Releases of windows that grow by half, with coins of these chances for rewards."""
    found, rounds = [], 0
    for _ in range(windows):
        n = max(400, rounds // 2)
        held = int(rng.binomial(n, fraction))
        z = rng.normal(0, noise)
        sums = rng.binomial([n - held, held], chances) + z[1:]
        variances = tuple(each**2 for each in noise)
        found.append(Totals(n, held, n + z[0], *sums.tolist(), variances))
        rounds += n
    return found


@pytest.mark.parametrize("chances", [(0.7, 0.6), (0.02, 0.02), (0.5, 0.5)])
@pytest.mark.parametrize("horizon", [None, 10_000])
def test_interval__holds_for_all_windows_at_once(chances, horizon):
    """Wrong at most 5% of the time: of 120 runs more than 15 with probability below .001."""
    wrong, narrow = 0, 0
    for seed in range(120):
        windows = windows_of(chances, np.random.default_rng(seed))
        misses, close = False, False
        for each in values(windows, (0.0, 1.0), held_out=0.05, horizon=horizon):
            if each.mean is None:
                continue
            truths = (*chances, chances[0] - chances[1])
            for found, truth in zip((each.mean, each.holdout, each.uplift), truths, strict=True):
                misses |= not found.low <= truth <= found.high
                close |= abs(found.estimate - truth) > found.half_width / 3
        wrong += misses
        narrow += close
    assert wrong <= 15
    assert narrow > 24, "a third of the width is not enough"


def test_interval__is_narrow_where_rewards_are_no_coins():
    # Rewards of 5, 6 or 7 from 0 to 10, in the user's units; coins of the same means.
    rng = np.random.default_rng(1)
    calm, coins = [], []
    for n in (2000, 4000, 8000):
        held = n // 10
        z = rng.normal(0, 20.0, 4)
        variances = (0.0, 400.0, 400.0)
        parts = [rng.choice([5.0, 6.0, 7.0], size, p=p)
                 for size, p in ((n - held, (0.2, 0.4, 0.4)), (held, (0.4, 0.4, 0.2)))]  # fmt: skip
        sums = [part.sum() + z[i] for i, part in enumerate(parts)]
        spreads = tuple((part * (10 - part)).sum() + 3 * z[2 + i] for i, part in enumerate(parts))
        coins.append(Totals(n, held, n, *sums, variances))
        calm.append(replace(coins[-1], spreads=spreads))
    narrow, wide = (values(w, (0.0, 10.0), held_out=0.1)[-1].uplift for w in (calm, coins))
    assert narrow.low < 0.4 < narrow.high
    assert narrow.low > 0 > wide.low
    assert narrow.half_width < 0.6 * wide.half_width


def test_interval__is_below_zero_and_above_where_it_should_be():
    for chances, sign in (((0.7, 0.4), 1), ((0.4, 0.7), -1)):
        found = values(windows_of(chances, np.random.default_rng(0)), (0.0, 1.0), held_out=0.05)
        uplift = found[-1].uplift
        assert sign * uplift.low > 0 or sign * uplift.high > 0
        assert np.sign(uplift.low) == np.sign(uplift.high) == sign
        assert (found[-1].proved is not None) == (sign > 0)
    scaled = values(
        [replace(w, sum=4 * w.sum, held_sum=4 * w.held_sum,
                 variances=(w.variances[0], *(16 * v for v in w.variances[1:])), zero=2.0)
         for w in windows_of((0.7, 0.4), np.random.default_rng(0))], (2.0, 6.0), held_out=0.05,
    )  # fmt: skip
    plain = values(windows_of((0.7, 0.4), np.random.default_rng(0)), (0.0, 1.0), held_out=0.05)
    assert scaled[-1].mean.low == pytest.approx(2 + 4 * plain[-1].mean.low)
    assert scaled[-1].uplift.high == pytest.approx(4 * plain[-1].uplift.high)


def test_needed__forecasts_when_a_gain_is_proved():
    rng = np.random.default_rng(4)
    windows = windows_of((0.62, 0.58), rng, windows=7)
    found = values(windows, (0.0, 1.0), held_out=0.05)[-1]
    assert found.proved is None
    rounds = sum(each.rounds for each in windows)
    forecast = needed(windows, (0.0, 1.0), held_out=0.05)
    if found.uplift.estimate <= 0:
        assert forecast is None
    else:
        assert rounds < forecast < 10**8
    worse = windows_of((0.4, 0.7), rng)
    assert needed(worse, (0.0, 1.0), held_out=0.05) is None


def test_interval__covers_the_truth_of_a_learner_at_work():
    """Sphere, greedy against blind choice: all windows of 8 runs."""
    for seed in range(8):
        world = linear_world("sphere", DIM, seed=seed)
        rng = np.random.default_rng(seed)
        bandit = make(seed=seed, noise=SeededNoise(seed), reward_range=(-1.0, 1.0))
        means, held, counted = [], [], []
        before = 0
        for _ in range(12):
            people = world.people(bandit.rounds_until_release, rng)
            chosen = bandit.decide_many(people.features)
            bandit.learn_many(chosen, people.rewards(chosen.action, rng))
            apart = bandit.held_out(chosen.round)
            expected = people.means[np.arange(len(chosen)), chosen.action]
            bandit.turn()
            found = bandit.values()[-1]
            if found.rounds == before:
                continue
            before = found.rounds
            means.append(expected[~apart])
            held.append(expected[apart])
            assert found.mean.low <= np.concatenate(means).mean() <= found.mean.high
            assert found.holdout.low <= np.concatenate(held).mean() <= found.holdout.high
            counted.append((np.mean(means[-1]) - np.mean(held[-1]), len(apart)))
            weights = [
                n * f * (1 - f)
                for (_, n), f in ((c, len(h) / c[1]) for c, h in zip(counted, held, strict=True))
            ]
            uplift = np.average([u for u, _ in counted], weights=weights)
            assert found.uplift.low <= uplift <= found.uplift.high
        assert found.uplift.low > 0, "and it tells that the policy is better"
        assert found.proved <= bandit.rounds


def test_value__is_none_before_the_first_release_and_while_noise_hides_the_count():
    bandit = make(epsilon=0.1)
    assert bandit.value is None
    chosen = bandit.decide_many(contexts(20))
    bandit.learn_many(chosen, np.full(20, 0.5))
    bandit.advance(bandit.rounds_until_release)
    bandit.turn()
    assert bandit.value.mean is None
    assert "too few" in str(bandit.value)


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


def test_values__refuses_a_confidence_that_is_none():
    with pytest.raises(ValueError, match="confidence"):
        values([], (0.0, 1.0), confidence=1.5)


def test_holdout__coins_of_either_part_are_uniform_again():
    held, coins = np.array([True, False]), np.array([[0.0], [0.5], [1 - 2**-53]])
    found = Holdout(0.25).coins(held, np.repeat(coins, 2, axis=1))
    np.testing.assert_allclose(found, [[0.0, 0.25], [0.125, 0.625], [0.25, 1.0]], rtol=1e-12)
    assert found[2, 0] < 0.25
