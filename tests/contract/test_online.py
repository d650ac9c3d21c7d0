"""What every online learner must do. To hold another one to it, add a line to a list.

A learner of `LEADERS` sees whole losses: decide(), learn(loss), run(losses). One of `BANDITS` sees
one number: decide(), learn(decision, loss); `value` makes that number from a decision.
"""

import json
import math

import numpy as np
import pytest
from registry import REGISTRY, Leader, Losses

from discreet.domains import Ball, Cube, LpBall, MatroidPolytope, Polytope, Simplex
from discreet.environments.losses import expert_losses, linear_losses
from discreet.online import (
    FTPL,
    FTRL,
    AdversarialBandit,
    BarrierBandit,
    Doubling,
    PrivateReduction,
    ProjectionFreeBandit,
)
from discreet.online.adversarial import Exp2
from discreet.privacy import SecureNoise, SeededNoise, Tree

T, N = 60, 4
TREES = MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0), (2, 3)], bases=True)
BOX = Polytope(np.vstack([np.eye(N), -np.eye(N)]), np.ones(2 * N))


def leader(kind, domain, **fixed):
    def make(horizon=T, epsilon=1.0, **more):
        common = {"delta": 1e-6, "seed": 1, "noise": SeededNoise(2)}
        return kind(domain, horizon, epsilon, **{**common, **fixed, **more})

    return make


LEADERS = {
    "FTRL simplex": leader(FTRL, Simplex(N)),
    "FTRL fixed rate, pure": leader(FTRL, Simplex(N), rate="fixed", delta=0.0),
    "FTRL ball": leader(FTRL, Ball(N)),
    "FTRL cube, pure": leader(FTRL, Cube(N), delta=0.0),
    "FTRL polytope": leader(FTRL, BOX),
    "FTRL on the paper's tree": leader(
        FTRL, Simplex(N), mechanism=Tree(branching=2, balanced=False, padded=True)
    ),
    "FTRL, 3 contributions": leader(FTRL, Simplex(N), contributions=3),
    "FTPL simplex": leader(FTPL, Simplex(N)),
    "FTPL cube": leader(FTPL, Cube(N)),
    "FTPL polytope, pure": leader(FTPL, BOX, delta=0.0),
}


def bandit(kind, *fixed_args, **fixed):
    def make(horizon=T, epsilon=1.0, **more):
        return kind(
            *fixed_args, horizon, epsilon, **{"seed": 1, "noise": SeededNoise(2), **fixed, **more}
        )

    return make


BANDITS = {
    "arms, local": bandit(AdversarialBandit, N),
    "arms, central": bandit(AdversarialBandit, N, trust="central"),
    "arms, local, 2 contributions": bandit(AdversarialBandit, N, contributions=2),
    "ball, local": bandit(BarrierBandit, Ball(N)),
    "ball, central": bandit(BarrierBandit, Ball(N), trust="central"),
    "cube, local": bandit(BarrierBandit, Cube(N)),
    "simplex, central": bandit(BarrierBandit, Simplex(N), trust="central"),
    "polytope, local": bandit(BarrierBandit, BOX, loss_bound=4.0),
    "trees": bandit(ProjectionFreeBandit, TREES, delta=1e-6, loss_range=(-1.0, 1.0)),
    "trees, frames": bandit(
        ProjectionFreeBandit, TREES, delta=1e-6, loss_range=(-1.0, 1.0), directions="frames"
    ),
    "trees, pure": bandit(ProjectionFreeBandit, TREES, loss_range=(-1.0, 1.0)),
}

leaders = pytest.mark.parametrize("make", LEADERS.values(), ids=LEADERS)
bandits = pytest.mark.parametrize("make", BANDITS.values(), ids=BANDITS)


def losses(learner, rounds=T):
    if learner.domain.loss_set == "box":
        return expert_losses("walk", rounds, N, seed=0)
    return linear_losses(learner.domain.loss_set, rounds, N, seed=0)


def value(decision):
    if hasattr(decision, "action"):
        return 0.2 if decision.action == 1 else 0.7
    return float(decision.point[0]) / 2


def played(decision):
    return decision.action if hasattr(decision, "action") else decision.point.tolist()


def play(learner, rounds):
    out = []
    for _ in range(rounds):
        decision = learner.decide()
        out.append(played(decision))
        learner.learn(decision, value(decision))
    return out


def same(one, other):
    """Whether two states are the same, array by array."""
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_lists__hold_every_learner_of_the_registry():
    """`Doubling` and `PrivateReduction` wrap others and have tests of their own below."""
    wrappers = {Doubling, PrivateReduction}
    for family, makers in ((Leader, LEADERS), (Losses, BANDITS)):
        known = {e.of for e in REGISTRY.values() if isinstance(e.family, family)}
        assert known - wrappers == {type(make()) for make in makers.values()}


@leaders
def test_leader__stepping_and_running_are_the_same(make):
    stepping, running = make(), make()
    L, X = losses(stepping), []
    for loss in L:
        X.append(stepping.decide())
        stepping.learn(loss)
    assert np.allclose(running.run(L), X, atol=1e-9)
    assert all(stepping.domain.contains(x) for x in X)


@leaders
def test_leader__goes_on_from_a_file_as_if_never_stopped(make, tmp_path):
    whole, half = make(), make()
    L = losses(whole)
    X = whole.run(L)
    half.run(L[:23])
    half.save(tmp_path / "learner.npz")
    loaded = type(half).load(tmp_path / "learner.npz")
    assert np.allclose(loaded.run(L[23:]), X[23:], atol=1e-9)
    assert loaded.guarantee == whole.guarantee


@leaders
def test_leader__bad_losses_raise_and_change_nothing(make):
    learner = make()
    L = losses(learner)
    learner.run(L[:5])
    before = learner.state_dict()
    for bad in (np.full(N, math.nan), np.full(N, 1e6), np.zeros(N + 1), "no", np.full(N, -1e6)):
        with pytest.raises(ValueError, match="loss"):
            learner.learn(bad)
        with pytest.raises(ValueError, match="loss"):
            learner.run(np.vstack([L[5:7], np.full((1, N), math.inf)]))
    with pytest.raises(ValueError, match="horizon"):
        learner.run(L)
    assert same(before, learner.state_dict())


@leaders
def test_leader__an_older_or_another_state_is_refused(make):
    learner = make()
    L = losses(learner)
    learner.run(L[:5])
    old = learner.state_dict()
    learner.run(L[5:10])
    with pytest.raises(ValueError, match="round"):
        learner.load_state_dict(old)
    with pytest.raises(ValueError, match="config"):
        make(horizon=T + 1).load_state_dict(old)
    assert learner.rounds == 10


@leaders
def test_leader__spends_its_budget_and_no_more(make):
    learner = make()
    learner.run(losses(learner))
    promise = learner.guarantee
    assert promise.trust == "central"
    assert promise.epsilon_at(promise.delta) <= 1.0 + 1e-9
    assert promise.epsilon_at(promise.delta) >= 0.99


@leaders
def test_leader__decisions_belong_to_the_caller(make):
    """Writing into what decide() returned changes no later decision."""
    learner, twin = make(), make()
    for loss in losses(learner)[:10]:
        learner.decide()[:] = 7.0
        assert np.array_equal(learner.decide(), twin.decide())
        kept = loss.copy()
        learner.learn(kept)
        kept[:] = 9.0
        twin.learn(loss)


@leaders
def test_leader__doubling_has_no_horizon(make):
    noise = SeededNoise(3)
    if make().budget.contributions > 1:
        with pytest.raises(ValueError, match="contributions=1"):
            Doubling(lambda horizon: make(horizon, noise=noise), first=8)
        return
    learner = Doubling(lambda horizon: make(horizon, noise=noise), first=8)
    learner.run(losses(learner.learner))
    assert learner.rounds == T
    assert learner.guarantee.epsilon == 1.0


@bandits
def test_bandit__goes_on_from_a_file_as_if_never_stopped(make, tmp_path):
    whole, half = make(), make()
    actions = play(whole, T)
    assert play(half, 23) == actions[:23]
    half.save(tmp_path / "bandit.npz")
    loaded = type(half).load(tmp_path / "bandit.npz")
    assert np.allclose(play(loaded, T - 23), actions[23:], atol=1e-12)
    assert loaded.guarantee == whole.guarantee


@bandits
def test_bandit__a_decision_travels_as_json_and_counts_once(make, tmp_path):
    learner, twin = make(), make()
    for _ in range(T):
        decision, same_one = learner.decide(), twin.decide()
        record = json.loads(json.dumps(learner.record(decision)))
        learner.learn(learner.recall(record), value(decision))
        twin.learn(same_one, value(same_one))
        with pytest.raises(ValueError, match="once"):
            learner.learn(learner.recall(record), value(decision))
        assert played(decision) == played(same_one)
    for damaged in (
        {},
        {**record, "choice": record["choice"][1:]},
        {**record, "choice": [math.nan] * len(record["choice"])},
        {**record, "round": "3"},
    ):
        with pytest.raises(ValueError, match="record"):
            learner.recall(damaged)


@bandits
def test_bandit__bad_losses_raise_and_change_nothing(make):
    learner, other = make(), make()
    play(learner, 5)
    decision, foreign = learner.decide(), other.decide()
    before = learner.state_dict()
    for bad in (math.nan, math.inf, 1e6, -1e6, "no", None):
        with pytest.raises(ValueError, match="loss must"):
            learner.learn(decision, bad)
    with pytest.raises(ValueError, match="this learner"):
        learner.learn(foreign, 0.5)
    assert same(before, learner.state_dict())
    learner.learn(decision, value(decision))


@bandits
def test_bandit__a_loss_cannot_be_reported_again_from_a_state_before_it(make):
    learner = make()
    play(learner, 5)
    decision = learner.decide()
    before = learner.state_dict()
    learner.learn(decision, value(decision))
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(before)
    with pytest.raises(ValueError, match="once"):
        learner.learn(decision, value(decision))


@bandits
def test_bandit__what_a_decision_shows_cannot_be_written(make):
    learner, twin = make(), make()
    for _ in range(5):
        decision, same_one = learner.decide(), twin.decide()
        for shown in decision.choice:
            if isinstance(shown, np.ndarray) and not shown.flags.writeable:
                with pytest.raises(ValueError, match="read-only"):
                    shown[:] = 7.0
            elif isinstance(shown, np.ndarray):
                shown[:] = 7.0
        learner.learn(decision, value(same_one))
        twin.learn(same_one, value(same_one))
    assert played(learner.decide()) == played(twin.decide())


@bandits
def test_bandit__past_the_horizon_it_says_so(make):
    learner = make()
    play(learner, T)
    before = learner.state_dict()
    with pytest.raises(ValueError, match="horizon"):
        learner.decide()
    assert same(before, learner.state_dict())


@bandits
def test_bandit__spends_its_budget_and_no_more(make):
    learner = make()
    play(learner, T)
    promise = learner.guarantee
    assert 0.99 <= promise.epsilon_at(promise.delta) <= 1.0 + 1e-9


@bandits
def test_bandit__losses_may_come_late_in_any_order_or_never(make):
    learner = make()
    waiting = [learner.decide() for _ in range(T - 10)]
    for decision in waiting[::-2]:
        assert learner.learn(decision, value(decision)) in (True, False)
    play(learner, 10)


@bandits
def test_bandit__doubling_has_no_horizon_and_goes_on_from_a_file(make, tmp_path):
    def doubling():
        noise = SeededNoise(3)
        return lambda horizon: make(horizon, noise=noise)

    whole, half = (Doubling(doubling(), first=8) for _ in range(2))
    actions = play(whole, T)
    assert whole.rounds == T
    assert play(half, 11) == actions[:11]
    half.save(tmp_path / "doubling.npz")
    loaded = Doubling.load(tmp_path / "doubling.npz", doubling())
    assert np.allclose(play(loaded, T - 11), actions[11:], atol=1e-12)


@bandits
def test_bandit__exact_noise_gives_decisions_too(make):
    learner = make(noise=SecureNoise(), horizon=20)
    play(learner, 20)
    assert learner.guarantee.releases


def test_reduction__a_wrapped_bandit_goes_on_from_a_file(tmp_path):
    def plain():
        return Exp2(N, rate=0.1, explore=0.1, seed=0)

    whole, half = (PrivateReduction(plain(), 1.0, noise=SeededNoise(0)) for _ in range(2))

    def arms(learner, rounds):
        return [
            learner.learn(d := learner.decide(), 0.3) and d.choice.action for _ in range(rounds)
        ]

    actions = arms(whole, 40)
    assert arms(half, 15) == actions[:15]
    half.save(tmp_path / "wrapped.npz")
    loaded = PrivateReduction.load(tmp_path / "wrapped.npz", plain())
    assert arms(loaded, 25) == actions[15:]


def test_learners__say_which_domain_they_need():
    trees = MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)], bases=True)
    with pytest.raises(ValueError, match="ProjectionDomain"):
        FTRL(trees, 10, 1.0)
    for domain in (trees, LpBall(1.5, 3)):
        with pytest.raises(ValueError, match="BarrierDomain"):
            BarrierBandit(domain, 10, 1.0)
    assert FTPL(trees, 10, 1.0).decide().sum() == 2
    assert FTRL(LpBall(1.5, 3), 10, 1.0).decide().tolist() == [0, 0, 0]
