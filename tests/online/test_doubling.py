"""Doubling: restarts on fresh rounds with twice the horizon, for the promise of one learner."""

import math
from collections import Counter

import numpy as np
import pytest

from discreet.domains import Simplex
from discreet.environments.losses import expert_losses, regret
from discreet.online import FTPL, FTRL, AdversarialBandit, Doubling
from discreet.privacy import SeededNoise, Tree, gaussian_mu

N = 4


def factory(kind=FTRL, epsilon=1.0, delta=1e-6, seed=5, **more):
    noise = SeededNoise(seed)
    coins = {"seed": 1} if kind is FTPL else {}
    return lambda horizon: kind(Simplex(N), horizon, epsilon, delta, noise=noise, **coins, **more)


def stepped(learner, L):
    decisions = []
    for loss in L:
        decisions.append(learner.decide())
        learner.learn(loss)
    return np.array(decisions)


@pytest.mark.parametrize("kind", [FTRL, FTPL])
def test_doubling__is_its_learners_one_after_another(kind):
    L = expert_losses("coins", 1000, N, seed=0)
    make = factory(kind)
    parts = [make(h).run(L[a : a + h]) for a, h in ((0, 64), (64, 128), (192, 256), (448, 512))]
    parts.append(make(1024).run(L[960:]))
    expected = np.concatenate(parts)
    assert np.allclose(Doubling(factory(kind), first=64).run(L), expected, atol=1e-9)
    learner = Doubling(factory(kind), first=64)
    assert np.allclose(stepped(learner, L), expected, atol=1e-9)
    assert (learner.rounds, learner.horizon, learner.learner.horizon) == (1000, 1984, 1024)


def test_run__in_pieces_and_of_nothing():
    L = expert_losses("coins", 500, N, seed=0)
    whole = Doubling(factory(), first=50).run(L)
    learner = Doubling(factory(), first=50)
    assert learner.run(np.empty((0, N))).shape == (0, N)
    pieces = [learner.run(L[:50]), learner.run(L[50:51]), learner.run(L[51:])]
    assert np.allclose(np.concatenate(pieces), whole, atol=1e-9)


def test_learning_without_deciding__restarts_too():
    learner = Doubling(factory(), first=10)
    for loss in expert_losses("coins", 31, N, seed=0):
        learner.learn(loss)
    assert (learner.rounds, learner.learner.rounds, learner.learner.horizon) == (31, 1, 40)


def test_guarantee__restarts_do_not_add_up():
    learner = Doubling(factory(epsilon=0.7), first=1000)
    learner.run(expert_losses("coins", 8000, N, seed=0))
    promise = learner.guarantee
    assert (promise.epsilon, promise.delta) == (0.7, 1e-6)
    assert [release.scope for release in promise.releases] == [f"restart {i}" for i in range(4)]
    assert promise.epsilon_at(1e-6) == pytest.approx(0.7, rel=1e-6)
    noise = [release.sensitivity / release.scale for release in promise.releases]
    assert noise == pytest.approx([noise[0]] * 4)


def test_noise__is_fresh_in_every_restart():
    """The first white draws of two restarts: equal if a restart made its noise anew."""

    def first_draws(make):
        learner, drawn = Doubling(make, first=20), []
        for horizon in (20, 40):
            drawn.append(learner.learner.run(np.full((1, N), 0.5)))
            drawn[-1] = learner.learner._sums.estimate / learner.learner.std(1)
            learner.run(np.full((horizon - 1, N), 0.5))
            learner._turn()
        return drawn

    def remade(T):
        return FTRL(Simplex(N), T, 1.0, 1e-6, mechanism="toeplitz", noise=SeededNoise(5))

    shared = SeededNoise(5)
    fresh = first_draws(
        lambda T: FTRL(Simplex(N), T, 1.0, 1e-6, mechanism="toeplitz", noise=shared)
    )
    assert np.abs(fresh[0] - fresh[1]).min() > 1e-6
    stale = first_draws(remade)
    assert np.allclose(stale[0], stale[1]), "the test must see noise that is made anew"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_contributions__of_several_rounds_keep_the_budget(delta):
    learner = Doubling(factory(delta=delta, contributions=2), first=4096)
    learner.run(expert_losses("coins", 5000, N, seed=0))
    promise = learner.guarantee
    assert (promise.contributions, promise.epsilon, promise.delta) == (2, 1.0, delta)


def squared_cost(design, columns):
    """|sum of these columns of C|^2, column by column."""
    if isinstance(design, Tree):
        nodes = Counter((level, t // design.base**level)
                        for level in range(design.depth) for t in columns)  # fmt: skip
        return float(sum(count**2 for count in nodes.values()))
    T = design.horizon
    first = np.zeros(T)
    first[0] = 1.0
    first[1:] = ((1 - design.q_gap) ** np.arange(T - 1)[:, None]) @ design.w
    total = np.zeros(T)
    for column in columns:
        total[column:] += first[: T - column]
    return float(total @ total)


@pytest.mark.parametrize("mechanism", ["blt", Tree(branching=2), Tree(branching=5)])
@pytest.mark.parametrize("k", [2, 3, 5, 17, 33])
def test_contributions__rounds_in_several_restarts_cost_no_more_than_in_one(mechanism, k):
    """mu^2 of a person's rounds, computed from the columns of each restart's own matrix."""
    noise = SeededNoise(0)
    first = max(3 * k, 256)
    restarts = [
        FTRL(
            Simplex(100), first * 2**i, 1.0, 1e-6, mechanism=mechanism, contributions=k, noise=noise
        )
        for i in range(3)
    ]
    Doubling(lambda T: next(each for each in restarts if each.horizon == T), first=first)
    rng = np.random.default_rng(k)
    worst = 0.0
    for trial in range(200):
        parts = rng.multinomial(k, rng.dirichlet(np.ones(3)))
        cost = 0.0
        for part, learner in zip(parts, restarts, strict=True):
            (release,) = learner.guarantee.releases
            design = learner._sums._calibration.design
            more = {"pure": False} if isinstance(design, Tree) else {}
            unit = release.sensitivity / design.sensitivity(k, **more)
            packed = range(part) if trial % 2 else sorted(
                rng.choice(learner.horizon, part, replace=False)
            )  # fmt: skip
            cost += squared_cost(design, packed) * (unit / release.scale) ** 2
        worst = max(worst, cost)
    mu = gaussian_mu(1.0, 1e-6)
    assert worst <= mu**2 * (1 + 1e-9)
    assert worst > 0.8 * mu**2, "the splits must come near the worst"


def test_bad_losses__count_alone_as_a_loss_that_says_nothing_also_beyond_a_restart():
    L = expert_losses("coins", 100, N, seed=0)
    learner, twin = Doubling(factory(), first=16), Doubling(factory(), first=16)
    bad, even = L[:60].tolist(), L[:60].copy()
    for place, wrong in ((3, 10**400), (20, 1j), (50, math.nan), (51, "x"), (59, 7.0)):
        bad[place][0] = wrong
        even[place] = 0.5
    assert np.array_equal(learner.run(bad), twin.run(even))
    with pytest.raises(ValueError, match="losses"):
        learner.learn(np.full(N, 2.0))
    assert np.array_equal(learner.run(L), twin.run(L))


@pytest.mark.parametrize("stop", [10, 64, 65, 450])
def test_state__a_resumed_learner_has_the_same_future_across_restarts(stop, tmp_path):
    L = expert_losses("coins", 1200, N, seed=0)
    whole, stopped = (Doubling(factory(), first=64) for _ in range(2))
    for each in (whole, stopped):
        each.run(L[:stop])
    stopped.save(tmp_path / "state.npz")
    loaded = Doubling.load(tmp_path / "state.npz", make_learner=factory())
    assert (loaded.rounds, loaded.horizon) == (whole.rounds, whole.horizon)
    assert np.array_equal(loaded.run(L[stop:]), whole.run(L[stop:]))
    assert loaded.guarantee == whole.guarantee


def test_state__old_and_foreign_ones_are_refused():
    L = expert_losses("coins", 300, N, seed=0)
    learner = Doubling(factory(), first=64)
    learner.run(L[:70])
    old = learner.state_dict()
    learner.run(L[70:80])
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(old)
    learner.run(L[80:300])
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(old)
    with pytest.raises(ValueError, match="first"):
        Doubling(factory(), first=32).load_state_dict(old)
    other = Doubling(factory(epsilon=2.0), first=64)
    before = other.decide()
    with pytest.raises(ValueError, match="learners of other arguments"):
        other.load_state_dict(old)
    assert np.array_equal(other.decide(), before)
    assert (other.rounds, other.horizon) == (0, 64)


@pytest.mark.parametrize("trust", ["local", "central"])
def test_bandits__are_doubled_too_and_old_decisions_no_longer_count(trust):
    noise = SeededNoise(5)
    learner = Doubling(
        lambda T: AdversarialBandit(3, T, 1.0, trust=trust, seed=1, noise=noise), first=8
    )
    first = learner.decide()
    for _ in range(30):
        learner.learn(learner.decide(), 0.5)
    assert (learner.rounds, learner.learner.horizon) == (31, 32)
    assert learner.guarantee.epsilon_at(0.0) <= 1.0 + 1e-9
    before = str(learner.state_dict())
    assert learner.learn(first, 0.5) is False
    assert str(learner.state_dict()) == before
    foreign = AdversarialBandit(3, 8, 1.0, trust=trust, seed=1, noise=noise).decide()
    with pytest.raises(ValueError, match="this learner made"):
        learner.learn(foreign, 0.5)


def test_make_learner__must_keep_to_the_horizon():
    with pytest.raises(ValueError, match="make_learner"):
        Doubling(lambda _: factory()(10), first=64)
    with pytest.raises(ValueError, match="first"):
        Doubling(factory(), first=0)


def test_regret__grows_like_the_root_of_an_unknown_horizon():
    """Restarts cost at most 1/(1 - 2^-1/2) < 3.5 times a known horizon's bound."""
    T = 6000
    L = expert_losses("killer", T, N, seed=0)
    make = factory(epsilon=math.inf)
    assert regret(L, Doubling(make, first=64).run(L)) <= 3.5 * math.sqrt(T * math.log(N))


def test_contributions__pure_and_gaussian_restarts_do_not_mix():
    noise = SeededNoise(0)

    def made(**more):
        return lambda T: FTRL(
            Simplex(N), T, 1.0, 1e-6, **{"contributions": 2, "noise": noise, **more}
        )

    assert made()(16).guarantee.delta == 0
    with pytest.raises(ValueError, match="mechanism='blt'"):
        Doubling(made(), first=16)
    with pytest.raises(ValueError, match="at least 3 contributions, that is 60"):
        Doubling(made(mechanism="blt", contributions=20), first=32)
    Doubling(made(mechanism="blt"), first=16).run(np.full((100, N), 0.5))


def test_guarantee__every_restart_must_have_the_same_budget():
    noise = SeededNoise(0)
    learner = Doubling(
        lambda T: FTRL(Simplex(N), T, 5.0 if T < 100 else 0.1, 1e-6, noise=noise), first=64
    )
    learner.run(np.full((64, N), 0.5))
    with pytest.raises(ValueError, match="same privacy budget"):
        learner.decide()
    assert learner.rounds == 64


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("deltas", [(0.0, 1e-6), (1e-6, 0.0), (1e-9, 1e-6)])
def test_guarantee__every_restart_must_ask_for_the_same_delta(deltas, k):
    """Else pure and Gaussian restarts mix, and a person with rounds in both pays too much."""
    noise = SeededNoise(0)

    def make(T):
        delta = deltas[T > 64]
        mechanism = "blt" if delta else "auto"
        return FTRL(Simplex(N), T, 1.0, delta, mechanism=mechanism, contributions=k, noise=noise)

    learner = Doubling(make, first=64)
    learner.run(np.full((64, N), 0.5))
    with pytest.raises(ValueError, match="same privacy budget"):
        learner.decide()
    assert learner.rounds == 64


def test_guarantee__short_restarts_may_need_none_of_the_delta_that_all_ask_for():
    noise = SeededNoise(0)
    learner = Doubling(lambda T: FTRL(Simplex(N), T, 1.0, 1e-6, noise=noise), first=16)
    assert learner.guarantee.delta == 0
    learner.run(np.full((3000, N), 0.5))
    assert learner.guarantee.delta == 1e-6


def test_guarantee__has_the_largest_delta_of_all_restarts(tmp_path):
    noise = SeededNoise(0)

    def make(T):
        mechanism = "blt" if T < 16 else "auto"
        return FTRL(Simplex(N), T, 1.0, 1e-6, mechanism=mechanism, noise=noise)

    learner = Doubling(make, first=8)
    learner.run(np.full((12, N), 0.5))
    assert learner.learner.guarantee.delta == 0
    assert learner.guarantee.delta == 1e-6
    learner.save(tmp_path / "doubling.npz")
    assert Doubling.load(tmp_path / "doubling.npz", make_learner=make).guarantee.delta == 1e-6


def test_state__of_another_stream_is_refused():
    noise = SeededNoise(0)
    one, other = (
        Doubling(lambda T: FTRL(Simplex(N), T, 1.0, 1e-6, noise=noise), first=8) for _ in range(2)
    )
    one.run(np.full((5, N), 0.5))
    other.run(np.full((30, N), 0.5))
    with pytest.raises(ValueError, match="of another Doubling"):
        one.load_state_dict(other.state_dict())
