"""What every online learner must do. To hold another one to it, add a line to a list.

A learner of `LEADERS` sees whole losses: decide(), learn(loss), run(losses). One of `BANDITS` sees
one number: decide(), learn(decision, loss); `value` makes that number from a decision. One of
`ROWS` sees rows and labels: learn(x, y), theta. `SPARSE` sees contexts: decide(x),
learn(decision, reward).
"""

import copy
import inspect
import json
import math
import pickle
import sys

import numpy as np
import pytest

from discreet.audit.families import Leader, Losses
from discreet.audit.registry import REGISTRY
from discreet.bandits import SparseBandit
from discreet.domains import Ball, Cube, LpBall, MatroidPolytope, Polytope, Simplex
from discreet.environments.losses import expert_losses
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
from discreet.online.feedback import Reports
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import SecureNoise, SeededNoise, Tree
from papers.linear_losses import linear_losses

T, N = 60, 4
TREES = MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0), (2, 3)], bases=True)
BOX = Polytope(np.vstack([np.eye(N), -np.eye(N)]), np.ones(2 * N))


def maker(kind, *fixed_args, **fixed):
    def make(horizon=T, epsilon=1.0, **more):
        common = {"seed": 1, "noise": SeededNoise(2)}
        known = inspect.signature(kind).parameters
        given = {name: value for name, value in common.items() if name in known}
        return kind(*fixed_args, horizon, epsilon, **{**given, **fixed, **more})

    return make


LEADERS = {
    "FTRL simplex": maker(FTRL, Simplex(N), delta=1e-6),
    "FTRL fixed rate, pure": maker(FTRL, Simplex(N), rate="fixed"),
    "FTRL ball": maker(FTRL, Ball(N), delta=1e-6),
    "FTRL cube, pure": maker(FTRL, Cube(N)),
    "FTRL polytope": maker(FTRL, BOX, delta=1e-6),
    "FTRL on the paper's tree": maker(
        FTRL, Simplex(N), delta=1e-6, mechanism=Tree(branching=2, balanced=False, padded=True)
    ),
    "FTRL, 3 contributions": maker(FTRL, Simplex(N), delta=1e-6, contributions=3),
    "FTPL simplex": maker(FTPL, Simplex(N), delta=1e-6),
    "FTPL cube": maker(FTPL, Cube(N), delta=1e-6),
    "FTPL polytope, pure": maker(FTPL, BOX),
}
TREE_LOSSES = {"loss_range": (-1.0, 1.0)}
BANDITS = {
    "arms, local": maker(AdversarialBandit, N),
    "arms, central": maker(AdversarialBandit, N, trust="central"),
    "arms, central, in batches": maker(AdversarialBandit, N, trust="central", contributions=3),
    "arms, local, 2 contributions": maker(AdversarialBandit, N, contributions=2),
    "ball, local": maker(BarrierBandit, Ball(N)),
    "ball, central": maker(BarrierBandit, Ball(N), trust="central"),
    "cube, local": maker(BarrierBandit, Cube(N)),
    "simplex, central": maker(BarrierBandit, Simplex(N), trust="central"),
    "polytope, local": maker(BarrierBandit, BOX, loss_bound=4.0),
    "trees": maker(ProjectionFreeBandit, TREES, delta=1e-6, **TREE_LOSSES),
    "trees, pure": maker(ProjectionFreeBandit, TREES, **TREE_LOSSES),
}
ROWS = {
    "frank-wolfe p=2": maker(StreamingFrankWolfe, LpBall(2, N)),
    "frank-wolfe p=2, sums": maker(StreamingFrankWolfe, LpBall(2, N), mechanism="blt"),
    "frank-wolfe p=1": maker(StreamingFrankWolfe, LpBall(1, N)),
    "frank-wolfe p=1, vertices": maker(StreamingFrankWolfe, LpBall(1, N), mechanism="vertices"),
    "frank-wolfe simplex, every round": maker(
        StreamingFrankWolfe, Simplex(N), mechanism="every-round"
    ),
    "frank-wolfe tree": maker(StreamingFrankWolfe, Ball(N), mechanism=Tree(2)),
    "frank-wolfe generalised": maker(
        StreamingFrankWolfe, LpBall(1.5, N), mechanism="generalized-gaussian"
    ),
}
SPARSE = {"sparse": maker(SparseBandit, 2, N, forced=5)}
EVERY = {**LEADERS, **BANDITS, **ROWS, **SPARSE}

leaders = pytest.mark.parametrize("make", LEADERS.values(), ids=LEADERS)
bandits = pytest.mark.parametrize("make", BANDITS.values(), ids=BANDITS)
rows = pytest.mark.parametrize("make", ROWS.values(), ids=ROWS)
every = pytest.mark.parametrize("name", EVERY)


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


def person(t, other=False):
    """The context and the label of round t, of one stream of people or of another."""
    rng = np.random.default_rng([t, int(other)])
    return rng.uniform(-1, 1, N) / 2, float(rng.uniform(-1, 1))


def asked(name, learner, t, other=False):
    """decide() as this learner wants it, for round t."""
    if name in SPARSE:
        return learner.decide(person(t, other)[0])
    return learner.decide() if name not in ROWS else learner.theta


def told(name, learner, decision, t, other=False):
    """learn(...) as this learner wants it, for round t."""
    x, y = person(t, other)
    if name in LEADERS:
        L = losses(learner)
        return learner.learn(L[(t + 7 * other) % T])
    if name in ROWS:
        return learner.learn(x, y)
    return learner.learn(decision, abs(y) if name in BANDITS else y)


def same(one, other):
    """Whether two states are the same, array by array."""
    return str(one) == str(other)


# -- leaders --------------------------------------------------------------------------------------


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
        assert stepping.learn(loss)
    assert np.allclose(running.run(L), X, atol=1e-9)
    assert all(stepping.domain.contains(x) for x in X)


@leaders
def test_leader__resumes_from_a_file_as_if_never_stopped(make, tmp_path):
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
    assert same(before, learner.state_dict())


@leaders
def test_leader__one_persons_bad_loss_touches_nobody_elses(make):
    """It refused the whole batch, which told everybody of it."""
    learner, twin = make(), make()
    L = losses(learner)
    said = [row.tolist() for row in L[:20]]
    nothing = np.full(N, learner._centre)
    kept = L[:20].copy()
    for place, wrong in ((1, math.nan), (4, 10**400), (5, 1j), (9, "x"), (13, None), (19, 1e6)):
        said[place][0] = wrong
        kept[place] = nothing
    assert np.array_equal(learner.run(said), twin.run(kept))
    swung = L[20:25].astype(complex)
    swung[2, 0] += 1j
    kept = L[20:25].copy()
    kept[2] = nothing
    assert np.array_equal(learner.run(swung), twin.run(kept))


@leaders
def test_leader__an_older_or_another_state_is_refused(make):
    learner = make()
    L = losses(learner)
    learner.run(L[:5])
    old = learner.state_dict()
    learner.run(L[5:10])
    with pytest.raises(ValueError, match="round"):
        learner.load_state_dict(old)
    with pytest.raises(ValueError, match="other arguments"):
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


@rows
def test_rows__doubling_takes_rows_and_labels_too(make):
    noise = SeededNoise(3)
    learner = Doubling(lambda horizon: make(horizon, noise=noise), first=8)
    for t in range(T):
        assert learner.learn(*person(t))
    assert (learner.rounds, learner.learner.horizon) == (T, 64)
    assert learner.guarantee.epsilon == 1.0


def test_doubling__restarts_where_rounds_would_not_add_up_are_refused_at_once():
    for make in (BANDITS["trees"], ROWS["frank-wolfe p=2"], LEADERS["FTRL simplex"]):
        with pytest.raises(ValueError, match="contributions"):
            Doubling(lambda T, make=make: make(T, contributions=2), first=4)


# -- bandits --------------------------------------------------------------------------------------


@bandits
def test_bandit__resumes_from_a_file_as_if_never_stopped(make, tmp_path):
    whole, half = make(), make()
    actions = play(whole, T)
    assert play(half, 23) == actions[:23]
    half.save(tmp_path / "bandit.npz")
    loaded = type(half).load(tmp_path / "bandit.npz")
    assert np.allclose(play(loaded, T - 23), actions[23:], atol=1e-12)
    assert loaded.guarantee == whole.guarantee


@pytest.fixture(autouse=True)
def one_key(monkeypatch):
    """States of the same rounds are the same: only their keys are drawn by the system."""
    monkeypatch.setattr("discreet.online.reduction.token_hex", lambda n: "ab" * n)


@bandits
def test_bandit__a_record_that_was_changed_or_made_elsewhere_is_refused(make, monkeypatch):
    """Estimates divide by what a record says: one forged record moved an arm from .957 to .0074."""
    monkeypatch.undo()
    learner, other = make(), make()
    play(learner, 5)
    play(other, 5)
    decision = learner.decide()
    record = json.loads(json.dumps(decision.to_dict()))
    before = plain_state(learner)

    def changes():
        for name, told in record.items():
            if isinstance(told, list):
                yield {name: [0.5 * x for x in told]}
                yield {name: told[::-1]}
                yield {name: [1.0, *told[1:]]}
                yield {name: np.array(told, dtype=complex) * 1j}
            elif isinstance(told, (int, float)):
                yield from ({name: told + 1}, {name: -told - 1}, {name: 10**400})
            else:
                yield from ({name: ""}, {name: None}, {name: told[::-1]}, {name: 7})

    tried = 0
    for change in [*changes(), *({name: None} for name in record)]:
        forged = {**record, **change}
        if json.dumps(forged, default=str) == json.dumps(record):
            continue  # a list of equal numbers, turned
        tried += 1
        with pytest.raises(ValueError, match="record"):
            learner.decision(forged)
        with pytest.raises(ValueError, match="record"):
            learner.decision({name: told for name, told in record.items() if name not in change})
    assert tried > 8
    with pytest.raises(ValueError, match="record"):
        other.decision(record)
    with pytest.raises(ValueError, match="record"):
        other.decision({**record, "learner": other._run})
    handmade = type(decision)(decision.round, decision.learner, decision.choice)
    with pytest.raises(ValueError, match="this learner made"):
        learner.learn(handmade, value(decision))
    assert plain_state(learner) == before
    learner.learn(learner.decision(record), value(decision))


@bandits
def test_bandit__a_record_outlives_the_process(make, tmp_path):
    learner = make()
    play(learner, 5)
    decision = learner.decide()
    record = json.loads(json.dumps(decision.to_dict()))
    learner.save(tmp_path / "bandit.npz")
    loaded = type(learner).load(tmp_path / "bandit.npz")
    loaded.learn(loaded.decision(record), value(decision))
    with pytest.raises(ValueError, match="once"):
        loaded.learn(loaded.decision(record), value(decision))


def plain_state(learner):
    return str(learner.state_dict()["state"])


@bandits
def test_bandit__a_decision_travels_as_json_and_counts_once(make):
    learner, twin = make(), make()
    for _ in range(T):
        decision, same_one = learner.decide(), twin.decide()
        record = json.loads(json.dumps(decision.to_dict()))
        learner.learn(learner.decision(record), value(decision))
        twin.learn(same_one, value(same_one))
        with pytest.raises(ValueError, match="once"):
            learner.learn(learner.decision(record), value(decision))
        assert played(decision) == played(same_one)
    lists = [name for name in record if isinstance(record[name], list)]
    short = {name: record[name][1:] for name in lists}
    broken = {name: [math.nan] * len(record[name]) for name in lists}
    for damaged in ({}, short, broken, {"round": "3"}, {"round": True}):
        with pytest.raises(ValueError, match="record"):
            learner.decision({**record, **damaged} if damaged else {})


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
        for name in type(decision.choice).__dataclass_fields__:
            shown = getattr(decision.choice, name)
            if isinstance(shown, np.ndarray) and not shown.flags.writeable:
                with pytest.raises(ValueError, match="read-only"):
                    shown[:] = 7.0
            elif isinstance(shown, np.ndarray):
                shown[:] = 7.0
        learner.learn(decision, value(same_one))
        twin.learn(same_one, value(same_one))
    assert played(learner.decide()) == played(twin.decide())


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
def test_bandit__doubling_has_no_horizon_and_resumes_from_a_file(make, tmp_path):
    def doubling():
        noise = SeededNoise(3)
        return lambda horizon: make(horizon, noise=noise)

    whole, half = (Doubling(doubling(), first=8) for _ in range(2))
    actions = play(whole, T)
    assert whole.rounds == T
    assert play(half, 11) == actions[:11]
    half.save(tmp_path / "doubling.npz")
    loaded = Doubling.load(tmp_path / "doubling.npz", make_learner=doubling())
    assert np.allclose(play(loaded, T - 11), actions[11:], atol=1e-12)


@bandits
def test_bandit__exact_noise_gives_decisions_too(make):
    learner = make(noise=SecureNoise(), horizon=20)
    play(learner, 20)
    assert learner.guarantee.releases


def test_reduction__a_wrapped_bandit_resumes_from_a_file(tmp_path):
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
    with pytest.raises(ValueError, match=r"Exp2 is not in the file.*by name"):
        PrivateReduction.load(tmp_path / "wrapped.npz")
    loaded = PrivateReduction.load(tmp_path / "wrapped.npz", bandit=plain())
    assert arms(loaded, 25) == actions[15:]


def test_learners__say_what_they_need_of_a_domain():
    trees = MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)], bases=True)
    with pytest.raises(ValueError, match="projection"):
        FTRL(trees, 10, 1.0)
    for domain in (trees, LpBall(1.5, 3)):
        with pytest.raises(ValueError, match="barrier"):
            BarrierBandit(domain, 10, 1.0)
    assert FTPL(trees, 10, 1.0).decide().sum() == 2
    assert FTRL(LpBall(1.5, 3), 10, 1.0).decide().tolist() == [0, 0, 0]


# -- every learner --------------------------------------------------------------------------------


@every
def test_horizon__past_it_the_policy_stays_and_feedback_does_not_count(name):
    learner = EVERY[name](horizon=20)
    assert learner.learning
    for t in range(20):
        told(name, learner, asked(name, learner, t), t)
    asked(name, learner, 20)
    assert not learner.learning
    releases = len(learner.guarantee.releases)
    for t in range(21, 45):
        decision = asked(name, learner, t)
        assert told(name, learner, decision, t) is False
    assert len(learner.guarantee.releases) == releases


@every
def test_copies__are_refused(name):
    learner = EVERY[name]()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="resumed only once"):
            copied(learner)


@every
def test_state__a_damaged_one_is_refused_whole(name):
    learner = EVERY[name]()
    for t in range(7):
        told(name, learner, asked(name, learner, t), t)
    for part in learner.state_dict()["state"]:
        state = learner.state_dict()
        del state["state"][part]
        fresh = EVERY[name]()
        before = str(fresh.state_dict())
        with pytest.raises(ValueError, match="damaged"):
            fresh.load_state_dict(state)
        assert str(fresh.state_dict()) == before


@pytest.mark.parametrize("name", [*BANDITS, *SPARSE])
def test_guarantee__names_a_stolen_state_and_one_resumed_twice(name):
    learner = EVERY[name]()
    words = " ".join(learner.guarantee.unprotected)
    assert "resumed twice" in words
    if not isinstance(getattr(learner, "_feedback", None), Reports):  # reports may be seen
        assert "stolen state" in words


# -- coins ----------------------------------------------------------------------------------------


class CountedCoins(np.random.Generator):
    """Counts the numbers that it draws."""

    drawn = 0

    def random(self, size=None):
        self.drawn += int(np.prod(size)) if size is not None else 1
        return super().random(size)

    def standard_normal(self, size=None):
        self.drawn += int(np.prod(size)) if size is not None else 1
        return super().standard_normal(size)

    def integers(self, *bounds, **more):
        self.drawn += 1
        return super().integers(*bounds, **more)


def coins_of_each_round(name, other, monkeypatch):
    coins = CountedCoins(np.random.PCG64(0))
    # Directions are drawn from copies of a generator, so that a batch can be drawn again.
    monkeypatch.setattr("discreet.online.smoothed_descent._copied", lambda rng: rng)
    learner = EVERY[name](horizon=30)
    holder = learner if name in SPARSE else learner.bandit
    holder._rng = coins
    counts = []
    for t in range(40):
        told(name, learner, asked(name, learner, t, other), t, other)
        counts.append(coins.drawn)
    return counts


@pytest.mark.parametrize("name", [*BANDITS, *SPARSE])
def test_coins__as_many_in_every_round_whatever_the_data(name, monkeypatch):
    """Else one person's data would shift everybody's later coins."""
    counts = coins_of_each_round(name, False, monkeypatch)
    assert counts[-1] > 0
    assert coins_of_each_round(name, True, monkeypatch) == counts


def test_coins__a_context_that_ties_and_one_that_does_not_take_one_each():
    bandit = SparseBandit(2, N, 200, 1.0, forced=5, seed=0, noise=SeededNoise(0))
    bandit._rng = CountedCoins(np.random.PCG64(0))
    for t in range(40):
        bandit.decide(np.zeros(N) if t % 2 else person(t)[0])  # zeros: all arms tie
        assert bandit._rng.drawn == t + 1


# -- all or nothing -------------------------------------------------------------------------------


class NoiseError(Exception):
    pass


class ConstantNoise(SeededNoise):
    """Draws constants, so that runs can be compared whatever was drawn in vain; fails once."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.trap = {"left": math.inf, "draws": 0}

    def _count(self):
        self.trap["draws"] += 1
        self.trap["left"] -= 1
        if self.trap["left"] == 0:
            raise NoiseError

    def uniform(self, size):
        self._count()
        return np.full(size, 0.525)  # such that channels that reject words take it

    def normal(self, size):
        self._count()
        return np.full(size, 0.7)

    def spawn(self, count):
        children = [ConstantNoise() for _ in range(count)]
        for child in children:
            child.trap = self.trap
        return children

    def state(self):
        return ""


class ConstantCoins(np.random.Generator):
    """Draws constants."""

    def random(self, size=None):
        return 0.3 if size is None else np.full(size, 0.3)

    def standard_normal(self, size=None):
        drawn = np.ones(size)
        drawn[..., 0] = 0.4
        return drawn


def constant(name, monkeypatch, left=math.inf):
    """A learner without chance, and its source of noise, which fails at the `left`-th draw."""
    monkeypatch.setattr("discreet.online.smoothed_descent._copied", lambda rng: rng)
    noise = ConstantNoise()
    learner = EVERY[name](horizon=24, epsilon=4.0, noise=noise)
    for holder in (learner, getattr(learner, "bandit", None)):
        if hasattr(holder, "_rng"):
            holder._rng = ConstantCoins(np.random.PCG64(0))
    noise.trap.update(left=left, draws=0)
    return learner, noise


def without_names(learner):
    return str(learner.state_dict()["state"])


@every
def test_noise_that_fails_once__leaves_no_trace_after_a_retry(name, monkeypatch):
    """At each draw in turn: the same state as if it had not failed, so nothing counted twice."""

    def run(left):
        learner, noise = constant(name, monkeypatch, left)
        failures, decision = 0, None
        for t in range(24):
            for step in ("decide", "learn"):
                try:
                    decision = act(step, learner, decision, t)
                except NoiseError:
                    failures += 1
                    decision = act(step, learner, decision, t)
        return without_names(learner), noise.trap["draws"], failures

    def act(step, learner, decision, t):
        if step == "decide":
            return asked(name, learner, t)
        told(name, learner, decision, t)
        return decision

    expected, draws, _ = run(math.inf)
    assert draws > 0
    for left in range(1, draws + 1, max(1, draws // 60)):
        state, _, failures = run(left)
        assert failures == 1
        assert state == expected


class Interrupt:
    """Raises KeyboardInterrupt before the n-th line that the library runs."""

    def __init__(self, n):
        self.left = n

    def __enter__(self):
        sys.settrace(self.called)
        return self

    def __exit__(self, *error):
        sys.settrace(None)

    def called(self, frame, event, argument):
        return self.line if "/discreet/" in frame.f_code.co_filename else None

    def line(self, frame, event, argument):
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.line


def busy(name):
    """A round at whose beginning this learner releases, if it releases when deciding."""
    return 10 if name in SPARSE else 16


def interrupted(name, step, n, monkeypatch):
    """A busy round, interrupted before line n of `step` and tried again: state, lines left."""
    learner, _ = constant(name, monkeypatch)
    for t in range(busy(name)):
        told(name, learner, asked(name, learner, t), t)
    decision = asked(name, learner, busy(name)) if step == "learn" else None
    rounds = learner.rounds
    trap = Interrupt(n)

    def act():
        if step == "decide":
            return asked(name, learner, busy(name))
        return told(name, learner, decision, busy(name))

    try:
        with trap:
            act()
    except KeyboardInterrupt:
        if step == "learn" and decision is not None and name not in (*LEADERS, *ROWS):
            try:
                act()
            except ValueError as error:
                assert "once" in str(error)  # noqa: PT017 - both endings are right
        elif learner.rounds == rounds:
            act()
    if name in ROWS:
        asked(name, learner, busy(name))  # theta follows the rows
    return without_names(learner), trap.left


def lost(name, monkeypatch):
    """The state after a busy round if its feedback was taken and reached nobody."""
    learner, _ = constant(name, monkeypatch)
    for t in range(busy(name)):
        told(name, learner, asked(name, learner, t), t)
    asked(name, learner, busy(name))
    learner._rewarded.add(busy(name))
    return without_names(learner)


@every
@pytest.mark.parametrize("step", ["decide", "learn"])
def test_interrupts__at_any_line_leave_a_round_that_counts_once_or_not_at_all(
    name, step, monkeypatch
):
    """After a retry the state is that of an undisturbed round; or its feedback is lost."""
    expected, left = interrupted(name, step, 10**9, monkeypatch)
    lines = 10**9 - left
    allowed = {expected}
    if step == "learn" and name not in (*LEADERS, *ROWS):
        allowed.add(lost(name, monkeypatch))
    apart = max(1, lines // 40)
    for n in range(1 + list(EVERY).index(name) % apart, lines + 1, apart):
        state, _ = interrupted(name, step, n, monkeypatch)
        assert state in allowed, f"line {n} of {lines}"


# -- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["FTRL simplex", "arms, central", "trees", "frank-wolfe p=2"])
def test_threads__each_round_is_taken_whole_in_some_order(name, in_threads):
    learner = EVERY[name](horizon=400)

    def work(_):
        for t in range(50):
            told(name, learner, asked(name, learner, t), t)

    in_threads(work, 4)
    assert learner.rounds == 200
