"""What every bandit must do. To hold another learner to it, add a line to `LEARNERS`; one that the
registry has and this list has not fails.

A factory takes keyword arguments of the constructor that all share (horizon, seed, ...); rewards
lie in [0, 1], features have DIM entries.
"""

import copy
import json
import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.audit.families import Contextual
from discreet.audit.registry import REGISTRY
from discreet.bandits import Decision, Holdout, LinearBandit, Model, People
from discreet.bandits.baselines import ContinualLinUCB, LinUCB, LocalLinUCB, LocalSGDBandit
from discreet.bandits.policies import POLICIES
from discreet.privacy import SeededNoise

DIM, T = 3, 400
THETA = np.array([0.5, -0.4, 0.3])


def linear(**fixed):
    def make(**more):
        common = {"dim": DIM, "epsilon": 3.0, "seed": 1, "noise": SeededNoise(2)}
        return LinearBandit(**{**common, "reward_range": (0.0, 1.0), **fixed, **more})

    return make


class PersonalBandit(LinearBandit):
    """Protects people, every round another one: so it must do all that the others do."""

    def learn(self, decision, reward, person=None):
        return super().learn(decision, reward, getattr(decision, "round", 0))

    def learn_many(self, decisions, rewards, people=None):
        numbers = getattr(decisions, "round", None)
        if numbers is None:
            numbers = [each.round for each in decisions]
        return super().learn_many(decisions, rewards, [int(t) for t in numbers])


def personal(visits):
    def make(**more):
        common = {"dim": DIM, "epsilon": 3.0, "seed": 1, "noise": SeededNoise(2)}
        common |= {"people": People(visits=visits), "reward_range": (0.0, 1.0)}
        return PersonalBandit(**{**common, **more})

    return make


def linucb(**more):
    return LinUCB(**{"dim": DIM, "seed": 1, "reward_range": (0.0, 1.0), **more})


def baseline(learner):
    def make(**more):
        common = {"dim": DIM, "horizon": T, "epsilon": 3.0, "seed": 1, "noise": SeededNoise(2)}
        return learner(**{**common, "reward_range": (0.0, 1.0), **more})

    return make


LEARNERS = {
    **{f"LinearBandit {policy}": linear(policy=policy) for policy in POLICIES},
    "LinearBandit descent": linear(policy="descent"),
    "LinearBandit logistic": linear(model=Model(link="logistic")),
    "LinearBandit probit": linear(model=Model(link="probit")),
    "LinearBandit poisson": linear(model=Model(link="poisson")),
    "LinearBandit without privacy": linear(epsilon=math.inf),
    "LinearBandit, 3 contributions": linear(people=People(rounds=3)),
    "LinearBandit, holdout": linear(holdout=Holdout(0.2, 0)),
    "LinearBandit, first visits": personal("first"),
    "LinearBandit, all visits": personal("all"),
    "LinUCB": linucb,
    "ContinualLinUCB": baseline(ContinualLinUCB),
    "LinearBandit local": linear(trust="local"),
    "LinearBandit local ucb": linear(trust="local", policy="ucb"),
    "LinearBandit shuffled": linear(trust="shuffled"),
    "LocalLinUCB": baseline(LocalLinUCB),
    "LocalSGDBandit": baseline(LocalSGDBandit),
}

every = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
# Turns inside the protocol of local and shuffled trust are its own affair: reports are private
# already.
APART = ("LinearBandit local", "LinearBandit shuffled")
HERE = {name: make for name, make in LEARNERS.items() if not name.startswith(APART)}
here = pytest.mark.parametrize("make", HERE.values(), ids=HERE)

ROUNDS = {name: make for name, make in HERE.items() if "visits" not in name}  # nobody is named
rounds = pytest.mark.parametrize("make", ROUNDS.values(), ids=ROUNDS)


def contexts(n=T, actions=4, seed=0):
    z = np.random.default_rng(seed).standard_normal((n, actions, DIM))
    return z / np.linalg.norm(z, axis=2, keepdims=True)


def rewards(rows, seed=0):
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, len(rows))
    return np.clip(0.5 + rows @ THETA / 2 + noise, 0, 1)


def play(learner, X, by=37):
    """Actions, with rewards for each `by` rounds at once: windows end anywhere."""
    actions = []
    for start in range(0, len(X), by):
        chosen = learner.decide_many(X[start : start + by])
        assert learner.learn_many(chosen, rewards(chosen.rows, learner.rounds)) == 0
        actions.extend(chosen.action.tolist())
    return actions


def plain(item):
    """A state to compare: without the random names of objects, and the keys of people's hashes."""
    if isinstance(item, dict):
        random = ("run", "visitors")
        return {name: plain(each) for name, each in item.items() if name not in random}
    if isinstance(item, list):
        return [plain(each) for each in item]
    return item.tolist() if isinstance(item, np.ndarray) else item


def assert_same(one, other):
    """The same state, but for the random names of learners and of their streams."""
    assert plain(one.state_dict()) == plain(other.state_dict())


def test_learners__hold_every_bandit_of_the_registry():
    known = {e.of for e in REGISTRY.values() if isinstance(e.family, Contextual)}
    tested = {type(make()) for make in LEARNERS.values()} - {PersonalBandit}
    assert known == tested


@every
def test_bandit__the_same_seeds_give_the_same_run(make):
    X = contexts()
    one, other = make(), make()
    assert play(one, X) == play(other, X)
    assert_same(one, other)
    assert one.rounds == T


@every
@pytest.mark.parametrize("ragged", [False, True])
def test_bandit__many_decisions_equal_single_ones(make, ragged):
    X = contexts()
    offered = [x[: 1 + t % 4] for t, x in enumerate(X)] if ragged else X
    one, many = make(), make()
    for learner in (one, many):
        play(learner, X[:100])
    singles = [one.decide(x) for x in offered[100:350]]
    chosen = many.decide_many(offered[100:350])
    assert chosen.action.tolist() == [each.action for each in singles]
    assert chosen.round.tolist() == [each.round for each in singles]
    assert np.array_equal(chosen.rows, [each.row for each in singles])
    assert np.array_equal(chosen.probability, [each.probability for each in singles])
    assert_same(one, many)


@every
def test_bandit__every_decision_carries_its_true_probabilities(make):
    learner = make()
    play(learner, contexts(200))
    for decision in learner.decide_many(contexts(20, seed=5)):
        probabilities = decision.probabilities
        assert probabilities.shape == (4,)
        assert probabilities.min() >= 0
        assert probabilities.sum() == pytest.approx(1)
        assert decision.probability == probabilities[decision.action] > 0
        steps = 256
        coins = (np.arange(steps) + 0.5) / steps
        again = decision.policy.choose(np.broadcast_to(decision.offered, (steps, 4, DIM)), coins)
        seen = np.bincount(again, minlength=4) / steps
        assert np.abs(seen - probabilities).max() <= 10 / steps


@every
def test_bandit__rounds_until_release_is_how_long_the_policy_stays(make):
    learner, X = make(), contexts()
    t = 0
    while t < 300:
        n = learner.rounds_until_release
        assert n >= 1
        n = min(n, 300 - t)
        chosen = learner.decide_many(X[t : t + n])
        assert len(chosen.policies) == 1
        learner.learn_many(chosen, rewards(chosen.rows, t))
        t += n


@every
def test_bandit__rewards_in_an_open_window_do_not_reach_its_policy(make):
    X, one, other = contexts(), make(), make()
    for learner in (one, other):
        play(learner, X[:150])
    n = min(one.rounds_until_release, 100)
    for x in X[150 : 150 + n]:
        a, b = one.decide(x), other.decide(x)
        assert a.action == b.action
        assert np.array_equal(a.probabilities, b.probabilities)
        one.learn(a, 1.0)
        other.learn(b, 0.0)


@every
def test_bandit__learns_late_out_of_order_or_not_at_all(make):
    learner, X = make(), contexts()
    waiting = [learner.decide(x) for x in X[:300]]
    for i in np.random.default_rng(0).permutation(300)[:200]:
        learner.learn(waiting[i], 0.5)
    play(learner, X[300:])
    missing = next(i for i in range(300) if i not in learner._rewarded)
    learner.learn(waiting[missing], 1.0)
    with pytest.raises(ValueError, match="reward"):
        learner.learn(waiting[missing], 1.0)


@every
def test_bandit__refuses_bad_rewards_alone_and_says_nothing_about_them(make):
    learner, twin = make(), make()
    chosen, same = learner.decide_many(contexts(6)), twin.decide_many(contexts(6))
    for reward in (math.nan, math.inf, 1.625, -0.375):
        with pytest.raises(ValueError, match="reward") as caught:
            learner.learn(chosen[0], reward)
        assert str(reward) not in str(caught.value)
    assert learner.learn_many(chosen, [math.nan, 0.5, 1.625, 0.25, -0.375, 0.75]) == 3
    twin.learn_many([same[1], same[3], same[5]], [0.5, 0.25, 0.75])
    assert_same(learner, twin)
    assert learner.learn_many(chosen, [0.1, 0.5, 0.2, 0.25, 0.3, 0.75]) == 3


@every
def test_bandit__refuses_decisions_it_did_not_make(make):
    learner, other = make(), make()
    mine, foreign = learner.decide(contexts(1)[0]), other.decide(contexts(1)[0])
    before = plain(learner.state_dict())
    for wrong in (foreign, None, mine.to_dict()):
        with pytest.raises(ValueError, match="this learner"):
            learner.learn(wrong, 0.5)
    future = Decision.from_dict({**mine.to_dict(), "round": 1})
    with pytest.raises(ValueError, match="never made"):
        learner.learn(future, 0.5)
    with pytest.raises(ValueError, match="this learner"):
        learner.decision(foreign.to_dict())
    assert plain(learner.state_dict()) == before


@every
@pytest.mark.parametrize(
    "features",
    [np.zeros(DIM), np.zeros((2, DIM + 1)), np.zeros((0, DIM)), np.full((2, DIM), np.nan)],
    ids=["flat", "wide", "nobody", "nan"],
)
def test_bandit__refuses_bad_features_and_changes_nothing(make, features):
    learner, fresh = make(), make()
    with pytest.raises(ValueError, match="features"):
        learner.decide(features)
    with pytest.raises(ValueError, match="features"):
        learner.decide_many(np.asarray([features]) if np.isfinite(features).all() else np.zeros(3))
    assert_same(learner, fresh)


@every
@pytest.mark.parametrize("array", [True, False])
def test_bandit__refuses_the_bad_features_of_one_person_alone(make, array):
    """The others' actions, rounds and coins, and all later ones, are as if nothing had been."""
    one, other = make(), make()
    for learner in (one, other):
        play(learner, contexts(100))
    X = contexts(60, seed=3)
    broken = X.copy()
    broken[7, 2, 1] = math.nan
    broken[50] = math.inf
    people = broken if array else [*broken[:20], np.zeros((2, DIM + 1)), *broken[21:]]
    refused = [7, 50] if array else [7, 20, 50]
    fine = np.setdiff1d(np.arange(60), refused)
    chosen, same = one.decide_many(people), other.decide_many(X)
    assert chosen.action[refused].tolist() == [-1] * len(refused)
    assert np.array_equal(chosen.action[fine], same.action[fine])
    assert np.array_equal(chosen.round, same.round)
    assert np.isnan(chosen.probability[refused]).all()
    assert np.array_equal(chosen.probability[fine], same.probability[fine])
    with pytest.raises(ValueError, match="refused"):
        one.learn(chosen[7], 0.5)
    assert math.isnan(chosen[7].probability)
    assert one.learn_many(chosen, np.full(60, 0.5)) == len(refused)
    rewards = np.full(60, 0.5)
    rewards[refused] = math.nan
    assert other.learn_many(same, rewards) == len(refused)
    assert_same(one, other)
    assert play(one, contexts(80)) == play(other, contexts(80))


@rounds
@pytest.mark.parametrize("wrong", [10**400, 1j, "x", None], ids=["huge", "complex", "text", "none"])
def test_bandit__what_one_person_brings_fails_nobody_else(make, wrong):
    """One object that was no decision, or one row of other numbers, refused everybody's rewards."""
    learner, twin = make(), make()
    X = contexts(12).tolist()
    X[5][0][0] = wrong
    decided, without = learner.decide_many(X), twin.decide_many(X)
    assert (decided.action < 0).tolist() == [place == 5 for place in range(12)]
    told = [decided[place] for place in range(12) if place != 5]
    odd = [
        wrong,
        Decision(told[0].round, 0, np.full(learner.dim, wrong, dtype=object), told[0].learner),
        Decision(told[0].round, 0, np.full(learner.dim, 0.5j), told[0].learner),
        Decision(told[0].round, 0, np.full(learner.dim, 16, dtype=np.int8), told[0].learner),
        Decision(wrong, 0, told[0].row, told[0].learner),
        Decision(10**400, 0, told[0].row, told[0].learner),
        Decision(told[0].round, "first", told[0].row, told[0].learner),
    ]
    given = [0.5] * len(odd) + [0.25] * len(told)
    assert learner.learn_many([*odd, *told], given) == len(odd)
    fine = [without[place] for place in range(12) if place != 5]
    assert twin.learn_many(fine, given[len(odd) :]) == 0
    assert same_actions(learner, twin)


@rounds
def test_bandit__one_complex_number_refuses_its_person_alone(make):
    """In an array it makes everybody's numbers complex."""
    learner = make()
    X = contexts(6).astype(complex)
    X[2, 0, 0] += 1j
    decided = learner.decide_many(X)
    assert (decided.action < 0).tolist() == [False, False, True, False, False, False]
    given = np.array([0.5, 0.5, 0.5, 0.5j, 0.5, 0.5])
    assert learner.learn_many(decided, given) == 2


def same_actions(one, other):
    X = contexts()
    return np.array_equal(one.decide_many(X).action, other.decide_many(X).action)


@every
def test_bandit__long_rows_count_as_rows_on_the_bound(make):
    learner, X = make(), contexts(200)
    for start in (0, 100):
        long = X[start : start + 100] * np.random.default_rng(0).uniform(1, 1e6, (100, 4, 1))
        chosen = learner.decide_many(long)
        assert np.allclose(chosen.rows, X[start + np.arange(100), chosen.action])
        learner.learn_many(chosen, rewards(chosen.rows))
    short = learner.decide(0.5 * X[0])
    assert np.allclose(short.row, 0.5 * X[0, short.action])


@every
def test_bandit__a_record_through_json_counts_once(make):
    learner, twin, X = make(), make(), contexts(10)
    decision, same = learner.decide(X[0]), twin.decide(X[0])
    record = json.loads(json.dumps(decision.to_dict()))
    back = learner.decision(record)
    assert back.probability == decision.probability
    assert learner.learn(back, 0.5) is True
    assert twin.learn(same, 0.5) is True
    assert_same(learner, twin)
    with pytest.raises(ValueError, match="reward"):
        learner.learn(decision, 0.5)


@every
@pytest.mark.parametrize("stop", [0, 1, 150])
def test_bandit__resumes_to_the_same_future(make, stop, tmp_path):
    X, whole, stopped = contexts(), make(), make()
    for learner in (whole, stopped):
        play(learner, X[:stop])
        waiting = learner.decide(X[stop])
        if learner is whole:
            learner.learn(waiting, 0.5)
    stopped.save(tmp_path / "state.npz")
    resumed = type(whole).load(tmp_path / "state.npz")
    resumed.learn(waiting, 0.5)
    assert play(resumed, X[stop + 1 :]) == play(whole, X[stop + 1 :])
    assert resumed.guarantee == whole.guarantee
    assert_same(resumed, whole)
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


@every
def test_bandit__refuses_an_old_state(make):
    learner = make()
    play(learner, contexts(50))
    old = learner.state_dict()
    play(learner, contexts(50))
    now = plain(learner.state_dict())
    with pytest.raises(ValueError, match="twice"):
        learner.load_state_dict(old)
    assert plain(learner.state_dict()) == now


@every
def test_bandit__refuses_a_state_from_before_a_turn(make):
    learner = make()
    play(learner, contexts(learner.rounds_until_release))
    old = learner.state_dict()
    learner.turn()
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(old)


@every
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_bandit__cannot_be_copied(make, way):
    learner = make()
    learner.decide(contexts(1)[0])
    for live in (learner, learner._window):
        with pytest.raises(TypeError, match="resumed only once"):
            way(live)


@every
def test_bandit__its_policy_is_public_immutable_and_plain(make):
    learner, X = make(), contexts()
    play(learner, X)
    shown = json.loads(json.dumps(learner.policy.to_dict()))
    assert shown.pop("kind") == type(learner.policy).__name__
    for name, item in shown.items():
        held = getattr(learner.policy, name)
        if isinstance(held, np.ndarray):
            assert item == held.tolist()
    for name, item in vars(learner.policy).items():
        with pytest.raises((AttributeError, TypeError)):
            setattr(learner.policy, name, item)
        if isinstance(item, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                item[:] = 0.0


@every
def test_bandit__the_steps_taken_apart_are_decide_and_learn(make):
    """policy, window.fold and turn, as a service takes them with a database in between."""
    X, one, apart = contexts(200), make(), make()
    done = 0
    while done < len(X):
        some = X[done : done + one.rounds_until_release]
        chosen = one.decide_many(some)
        one.learn_many(chosen, rewards(chosen.rows))

        apart.turn()
        numbers = apart.rounds + np.arange(len(some))
        coins = apart._rng.random(len(some))
        known = ()
        if apart.holdout is not None:
            known = (numbers,)
            coins = apart.holdout.coins(apart.held_out(numbers), coins)
        actions = apart.policy.choose(some, coins)
        rows = some[np.arange(len(some)), actions]
        assert np.array_equal(actions, chosen.action)
        apart.window.fold(rows, rewards(rows), *known)
        with pytest.raises(ValueError, match="to go"):
            apart.turn()
        apart.rounds += len(some)
        done += len(some)
    assert plain(apart.policy.to_dict()) == plain(one.policy.to_dict())
    assert sums_of(apart) == sums_of(one)


@every
def test_bandit__past_the_horizon_the_policy_stays(make):
    learner, X = make(horizon=60), contexts(160)
    play(learner, X[:60])
    first = learner.decide(X[60])
    assert not learner.learning
    promise = learner.guarantee
    assert learner.learn(first, 1.0) is False
    assert learner.window is None
    chosen = learner.decide_many(X[61:])
    assert learner.learn_many(chosen, np.ones(len(chosen))) == 0
    assert len(chosen.policies) == 1
    assert np.array_equal(chosen[0].policy.probabilities(X), first.policy.probabilities(X))
    assert learner.guarantee == promise


@every
def test_bandit__its_promise_is_computed_and_can_be_read(make):
    learner = make()
    play(learner, contexts())
    promise = learner.guarantee
    assert promise.trust in ("joint", "local", "shuffled")
    assert promise.releases
    assert promise.unprotected
    assert promise.reference
    if promise.private:
        spent = promise.epsilon_at(promise.delta)
        assert 0 < spent <= promise.epsilon * (1 + 1e-9)
        assert "SIMULATION ONLY" in promise.statement()
    else:
        assert promise.epsilon_at(1e-6) == math.inf
        assert "NO PRIVACY" in promise.statement()
    assert json.loads(json.dumps(promise.to_dict()))["trust"] == promise.trust


def size_of(item, but=()):
    """Numbers in a state."""
    if isinstance(item, dict):
        return sum(size_of(each, but) for name, each in item.items() if name not in but)
    if isinstance(item, list):
        return sum(size_of(each, but) for each in item)
    return np.size(item)


@every
def test_bandit__state_does_not_grow_with_rounds(make):
    # But for one bit a round, a hash of each person, a line of the ledger for each window.
    def numbers(learner):
        grows = ("_rewarded", "_ledger", "_totals", "intervals", "visitors")
        return size_of(learner.state_dict()["state"], grows)

    learner = make(horizon=20_000)
    play(learner, contexts(500), by=250)
    before = numbers(learner)
    play(learner, contexts(4000), by=1000)
    assert numbers(learner) <= before + 16 * DIM
    marks = learner.state_dict()["state"]["_rewarded"]["of"].values()
    assert sum(each.nbytes for each in marks) <= math.ceil(4500 / 8)


@every
def test_bandit__one_action_and_ties_are_fine(make):
    learner = make()
    assert set(play(learner, contexts(60, actions=1))) == {0}
    zero = learner.decide_many(np.zeros((60, 3, DIM)))
    assert (zero.probability > 0).all()
    assert learner.learn_many(zero, np.zeros(60)) == 0
    assert learner.decide(np.zeros((3, DIM))).probability > 0


@every
def test_state__from_before_a_reward_was_taken_is_refused(make):
    """Under local trust the reward would be reported a second time, with fresh noise."""
    learner = make(horizon=T)
    X = contexts(5)
    decision = learner.decide(X[0])
    before = learner.state_dict()
    learner.learn(decision, 0.5)
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(before)


# -- interrupts and threads ------------------------------------------------------------------------

LIBRARY = str(Path(discreet.__file__).parent)


class Interrupted(BaseException):
    """As Ctrl-C is: no handler of exceptions sees it."""


def lines_of(action, until=None):
    """How many lines of the library `action` runs, if it is not interrupted before one of them.

    Not those inside the room of mechanisms, which has such a test of its own.
    """
    count = 0

    def local(frame, event, _):
        nonlocal count
        if event == "line":
            count += 1
            if count == until:
                raise Interrupted
        return local

    def trace(frame, event, _):
        name = frame.f_code.co_filename
        inside = name.startswith(LIBRARY) and not name.startswith(f"{LIBRARY}/privacy/")
        return local if inside else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except Interrupted:
        pass
    finally:
        sys.settrace(before)
    return count


def interrupted_at(line, action):
    """Run `action`, interrupted before its n-th line; whether it came to that."""
    return lines_of(action, line) == line


def sums_of(learner):
    """All that was folded in; not the positions of generators, nor whether it is out."""

    def without(item):
        if not isinstance(item, dict):
            return [without(each) for each in item] if isinstance(item, list) else item
        generators = ("noise", "_noise", "_rng", "_published")
        return {name: without(each) for name, each in item.items() if name not in generators}

    state = plain(learner._encoded())
    held = {name: state[name] for name in ("_window", "_sums", "_reports") if name in state}
    if "average" in ((held.get("_window") or {}).get("of") or {}):
        del held["_window"]["of"]["total"]  # holds noise alone until it is published
    return json.dumps(without(held), sort_keys=True)


def full(make):
    """A learner whose first window is full, and its decisions."""
    learner = make()
    n = learner.rounds_until_release
    chosen = learner.decide_many(contexts(n, seed=1))
    assert learner.learn_many(list(chosen)[:-1], np.full(n - 1, 0.5)) == 0
    return learner, chosen


SHOWN = ("policy", "_window", "_end", "rounds")


@here
def test_bandit__an_interrupted_turn_leaves_the_full_window_or_the_next_one(make):
    """Nothing has changed and nothing was shown, or everything has: at every seventh line, and at
    each of the last ones, where a turn is committed."""
    last = lines_of(full(make)[0].turn)
    before_commit, after_commit = 0, 0
    for line in [*range(1, last - 50, 7), *range(max(1, last - 50), last + 2)]:
        learner, _ = full(make)
        before = {name: getattr(learner, name) for name in SHOWN}
        held, releases = sums_of(learner), learner.guarantee.releases
        hit = interrupted_at(line, learner.turn)
        if learner._end == before["_end"]:
            before_commit += 1
            assert hit
            assert all(getattr(learner, name) is before[name] for name in SHOWN)
            assert sums_of(learner) == held
            assert learner.guarantee.releases == releases
            learner.turn()
        else:
            after_commit += 1
        assert learner._end > before["_end"]
        if hasattr(before["_window"], "opening"):
            assert learner._window.total is not before["_window"].total, "a released sum is dropped"
        assert len(learner.guarantee.releases) >= len(releases)
        play(learner, contexts(5))
    assert before_commit > 5
    assert after_commit >= 1


@every
def test_bandit__a_turn_that_fails_is_finished_before_anything_else_counts(make, monkeypatch):
    """Fail after closing, let a person in, release: with the old sum that gave exact differences.

    What follows from the window is the same as without the failure: one release, without the
    person, who counts in the next window.
    """
    policies = []
    for fails in (False, True):
        learner, chosen = full(make)
        window = learner._window
        if fails:
            before = {name: getattr(learner, name) for name in SHOWN}
            with monkeypatch.context() as patch:
                kept = type(learner)._turned

                def broken(self, size, kept=kept):
                    kept(self, size)
                    raise MemoryError

                patch.setattr(type(learner), "_turned", broken)
                with pytest.raises(MemoryError):
                    learner.decide(contexts(1)[0])
            assert all(getattr(learner, name) is before[name] for name in SHOWN)
        else:
            learner.turn()
        assert learner.learn(chosen[len(chosen) - 1], 1.0) is True
        if getattr(window, "released", False):
            assert learner._window is not window
            with pytest.raises(ValueError, match="published"):
                window.total.add(np.zeros(window.total.dim))
        if learner.rounds == learner._end:
            learner.turn()
        policies.append(plain(learner.policy.to_dict()))
        scopes = [each.scope for each in learner.guarantee.releases]
        shared = getattr(getattr(learner, "people", None), "visits", None) == "all"
        if shared:
            assert set(scopes) == {None}
        else:
            assert len(set(scopes)) == len(scopes)
    if getattr(window, "released", False):
        assert policies[0] == policies[1]


@pytest.mark.parametrize(
    "make",
    [*HERE.values(), LEARNERS["LinearBandit shuffled"]],
    ids=[*HERE, "LinearBandit shuffled"],
)
def test_bandit__an_interrupted_reward_counts_at_most_once(make):
    """At every line of `learn`, then again: nothing is ever counted twice."""
    exact = {} if make is linucb else {"epsilon": math.inf}  # sums without noise can be compared

    def begun():
        learner = make(**exact)
        return learner, learner.decide(contexts(1, seed=2)[0])

    learner, decision = begun()
    nothing = sums_of(learner)
    learner.learn(decision, 0.25)
    once = sums_of(learner)
    line, outcomes, hit = 0, [], True
    while hit:
        line += 1
        learner, decision = begun()
        hit = interrupted_at(line, lambda one=learner, d=decision: one.learn(d, 0.25))
        held = sums_of(learner)
        assert held in (nothing, once)
        try:
            again = learner.learn(decision, 0.25)
        except ValueError:
            again = False
        assert sums_of(learner) == (once if again else held)
        outcomes.append((held == once, again))
    assert (False, True) in outcomes
    assert outcomes[-1] == (True, False)
    assert (True, True) not in outcomes


@every
def test_bandit__an_interrupted_decision_uses_one_round_or_none(make):
    X, line, hit = contexts(3, seed=2), 0, True
    while hit:
        line += 1
        learner = make()
        learner.decide(X[0])
        hit = interrupted_at(line, lambda one=learner: one.decide(X[1]))
        assert learner.rounds in (1, 2)
        decision = learner.decide(X[2])
        assert decision.round == learner.rounds - 1
        assert learner.learn(decision, 0.5) is True
    assert line > 5


@every
def test_bandit__many_threads_share_one_learner(make, in_threads):
    """Every round is decided once and every reward counts once, whoever calls and when."""
    learner, X = make(horizon=10_000), contexts(64)
    decisions = []
    counted = []

    def reward(decision):
        try:
            counted.append(learner.learn(decision, 0.5))
        except ValueError:
            counted.append(False)

    def work(k):
        for t in range(40):
            if t % 4:
                mine = [learner.decide(X[(k + t) % 64])]
                decisions.extend(mine)
                reward(mine[0])
            else:
                many = learner.decide_many(X[:5])
                decisions.extend(many)
                counted.extend([True] * (5 - learner.learn_many(many, np.full(5, 0.25))))
            reward(decisions[len(decisions) // 2])  # perhaps another thread's

    in_threads(work, 6)
    assert learner.rounds == len(decisions) == 6 * (30 + 10 * 5)
    assert sorted(each.round for each in decisions) == list(range(learner.rounds))
    assert sum(counted) == learner.rounds
