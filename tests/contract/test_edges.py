"""Edges that a second review broke: each test is its demonstration."""

import threading

import numpy as np
import pytest

from discreet.bandits import LinearBandit, SparseBandit
from discreet.domains import Simplex
from discreet.online import FTRL, AdversarialBandit, Doubling
from discreet.privacy import Budget, PrefixSum, SeededNoise


def test_prefix_sum__zeros_stand_in_for_a_bad_row_only_within_the_sensitivity():
    def sums(bound):
        budget = Budget(1.0, 1e-6)
        return PrefixSum(
            4, 1, budget, sensitivity=1.0, norm="linf", bound=bound, noise=SeededNoise(0)
        )

    rows = np.full((4, 1), 9.5)
    bad = rows.copy()
    bad[0] = np.nan
    far = sums(10.0)
    with pytest.raises(ValueError, match="accepts"):
        far.add_many(bad)
    assert far.rounds == 0
    far.add_many(rows)
    near = np.full((4, 1), 0.9)
    moved = sums(1.0).add_many(np.where(np.arange(4)[:, None] == 0, np.nan, near))
    assert np.abs(moved - sums(1.0).add_many(near)).max() <= 1.0


class Stop(BaseException):
    pass


def test_sparse_bandit__refuses_a_state_from_before_a_release_in_an_interrupted_decide(monkeypatch):
    bandit = SparseBandit(2, 3, 60, 1.0, 1e-6, forced=4, seed=0, noise=SeededNoise(0))
    x = np.array([1.0, 0.0, 0.5])
    for _ in range(bandit._arms.ends[0]):  # the next decision is the first to see a release
        bandit.learn(bandit.decide(x), 0.5)
    before = bandit.state_dict()
    # Interrupted after the arms have published, before the round counts.
    fresh = SparseBandit(2, 3, 60, 1.0, 1e-6, forced=4, seed=0, noise=SeededNoise(0))
    fresh.load_state_dict(before)

    def interrupted(*_, **__):
        raise Stop

    monkeypatch.setattr(type(fresh), "_best", interrupted)
    monkeypatch.setattr(fresh, "_commit", interrupted, raising=False)
    window = fresh._arms.window
    with pytest.raises(Stop):
        fresh.decide(x)
    monkeypatch.undo()
    assert fresh.rounds == before["state"]["rounds"]
    assert fresh._arms.window > window
    with pytest.raises(ValueError, match="older"):
        fresh.load_state_dict(before)


def test_window__fold_from_several_threads_counts_every_row():
    bandit = LinearBandit(2, 10**6, float("inf"), seed=0)
    bandit.turn()
    rows = np.eye(2)

    def fold(row):
        for _ in range(3000):
            bandit.window.fold(row[None], [0.5])

    threads = [threading.Thread(target=fold, args=(row,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = LinearBandit(2, 10**6, float("inf"), seed=0)
    alone.turn()
    for row in rows:
        for _ in range(3000):
            alone.window.fold(row[None], [0.5])
    np.testing.assert_allclose(bandit._window.total._value, alone._window.total._value)


def test_doubling__a_resumed_learner_takes_feedback_of_decisions_from_before():
    def make(horizon):
        return AdversarialBandit(3, horizon, 1.0, seed=0, noise=SeededNoise(horizon))

    first = Doubling(make, first=4)
    waiting = [first.decide() for _ in range(3)]
    resumed = Doubling(make, first=4)
    resumed.load_state_dict(first.state_dict())
    assert resumed.learn(waiting[1], 0.5) is True
    with pytest.raises(ValueError, match=r"once|twice|had its"):
        resumed.learn(waiting[1], 0.5)


def test_doubling__an_absurd_number_of_restarts_is_damage():
    def make(horizon):
        return FTRL(Simplex(2), horizon, 1.0, noise=SeededNoise(horizon))

    state = Doubling(make, first=4).state_dict()
    state["state"]["_restarts"] = 200
    with pytest.raises(ValueError, match="damaged"):
        Doubling(make, first=4).load_state_dict(state)


def test_gradient_window__what_bounds_a_row_never_comes_from_a_state():
    def make():
        return LinearBandit(3, 500, 1.0, seed=0, noise=SeededNoise(0), policy="descent")

    bandit = make()
    bandit.learn(bandit.decide(np.eye(3)), 0.5)
    state = bandit.state_dict()
    assert not {"limits", "step", "budget"} & set(state["state"]["_window"]["of"])
    quiet = bandit.state_dict()
    quiet["state"]["_window"]["of"]["total"]["of"]["sensitivity"] /= 2
    with pytest.raises(ValueError, match="damaged"):
        make().load_state_dict(quiet)
    resumed = make()
    resumed.load_state_dict(state)
    assert (resumed._window.step, resumed._window.limits) == (
        bandit._window.step,
        bandit._window.limits,
    )


def test_learn_many__what_is_no_number_is_left_out_alone():
    bandit = LinearBandit(2, 100, 1.0, seed=0, noise=SeededNoise(0))
    decisions = bandit.decide_many(np.tile(np.eye(2), (3, 1, 1)))
    assert bandit.learn_many(decisions, ["a", 10**400, 0.5]) == 2
    assert bandit.learn_many(decisions, [0.5, 0.5, 0.5]) == 1


def test_decide_many__a_person_whose_features_are_no_numbers_is_refused_alone():
    bandit = LinearBandit(2, 100, 1.0, seed=0, noise=SeededNoise(0))
    offered = np.tile(np.eye(2), (3, 1, 1)).astype(object)
    offered[1, 0, 0] = "a"
    assert (bandit.decide_many(offered).action >= 0).tolist() == [True, False, True]
