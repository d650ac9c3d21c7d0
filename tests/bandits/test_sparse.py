"""SparseBandit: the plain algorithm, its sensitivity, its price, rewards that come as they like."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

from discreet.bandits.sparse import SparseBandit
from discreet.domains import LpBall
from discreet.links import link as link_named
from discreet.optimization.sparse_windows import CURVATURE, SELECTING, WindowArms
from discreet.privacy import Budget, SecureNoise, SeededNoise
from discreet.privacy.gaussian import zcdp_epsilon
from papers.sparse_arms import sparse_arms

LINKS = ("identity", "logistic")


def people(rounds, dim=12, arms=3, link="identity", seed=0):
    world = sparse_arms(arms, dim, nonzero=2, contexts="uniform", link=link, seed=seed)
    rng = np.random.default_rng([seed, 9])
    X = world.contexts(rounds, rng)
    return X, np.array([world.rewards(m, rng) for m in world.means(X)])  # (n, dim), (n, arms)


def run(bandit, X, Y):
    actions = []
    for x, y in zip(X, Y, strict=True):
        d = bandit.decide(x)
        bandit.learn(d, y[d.action])
        actions.append(d.action)
    return actions


def window_arms(k=3, dim=6, horizon=400, epsilon=1.0, clip=0.2, contributions=1, noise=None):
    return WindowArms(
        k,
        dim,
        horizon,
        Budget(epsilon, 1e-6, contributions),
        forced=20,
        link=link_named("identity"),
        bound=clip,
        radius=1.0,
        noise=noise or SeededNoise(0),
    )


# -- the plain algorithm --------------------------------------------------------------------------


@pytest.mark.parametrize("link", LINKS)
def test_windows__without_privacy_is_the_plain_algorithm(link):
    """Newton steps on the greatest entries, taken back where too long; written out."""
    K, d, T, t0 = 3, 40, 900, 20
    X, Y = people(T, d, K, link)
    X[:, 1:20] = 0.9 * X[:, :1] + 0.1 * X[:, 1:20]  # correlated: some steps are too long
    bandit = SparseBandit(K, d, T, math.inf, link=link, forced=t0, seed=0)
    nu = (lambda z: z) if link == "identity" else (lambda z: 1 / (1 + np.exp(-z)))
    slope = (lambda z: 1.0) if link == "identity" else (lambda z: nu(z) * (1 - nu(z)))
    top = 1.0 if link == "identity" else 0.25
    theta, ball = np.zeros((K, d)), LpBall(1, d)
    S, Q, ends, length, begun = np.zeros((K, d)), np.zeros((K, d)), [K * t0], K * t0, 0
    last, slopes, pace, turned = np.zeros((K, d)), np.zeros(K), np.ones(K), 0
    while ends[-1] + math.ceil(1.5 * length) <= T:
        length *= 1.5
        ends.append(ends[-1] + math.ceil(length))
    assert len(ends) >= 4
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        if t in ends:
            n = (t - begun) / K
            k = min(32, max(1, round(n / (5 * math.log(d)))))
            for i in range(K):
                J = np.argsort(-np.abs(S[i]), kind="stable")[:k]
                q = np.maximum(Q[i, J], 0.25 * top * n)
                far = 1 - (S[i] @ last[i] / q.mean()) / slopes[i] if slopes[i] > 0 else 1.0
                if far > 2:
                    theta[i] -= (1 - 1 / far) * last[i]
                    pace[i], last[i], slopes[i], turned = pace[i] / far, 0, 0, turned + 1
                    continue
                new = theta[i].copy()
                new[J] += pace[i] * S[i, J] / q
                new = ball.project(new)
                last[i], theta[i] = new - theta[i], new
                slopes[i], pace[i] = S[i, J] @ last[i, J] / q.mean(), min(1, 1.5 * pace[i])
            S, Q, begun = 0 * S, 0 * Q, t
        a = t % K if t < K * t0 else int(np.argmax(theta @ x))
        decision = bandit.decide(x)
        assert decision.action == a
        assert bandit.theta == pytest.approx(theta, abs=1e-9)
        S[a] += (y[a] - nu(x @ theta[a])) * x
        Q[a] += slope(x @ theta[a]) * x**2
        bandit.learn(decision, y[a])
    assert turned > 0 or link == "logistic"
    assert math.isinf(bandit.guarantee.epsilon)


def test_decide__ties_are_broken_by_coins_with_the_true_probability():
    bandit = SparseBandit(4, 2, 100, 1.0, forced=1, seed=0)
    bandit._commit(rounds=100, _advanced=100)
    bandit._arms._theta = np.array([[0.5, 0.0], [0.5, 0.0], [0.1, 0.0], [0.5, 0.0]])
    seen = [bandit.decide(np.array([1.0, 0.0])) for _ in range(3000)]
    assert {d.probability for d in seen} == {1 / 3}
    counts = np.bincount([d.action for d in seen], minlength=4)
    assert counts[2] == 0
    assert stats.chisquare(counts[[0, 1, 3]]).pvalue > 1e-6


# -- sensitivity ----------------------------------------------------------------------------------

ROWS = [np.array(v) for v in itertools.product((-1.0, 0.0, 0.4, 1.0), repeat=2)]
TERMS = [(a, x, y) for a in range(2) for x in ROWS for y in (-1.0, 0.1, 1.0)]


def moved(arms, one, other):
    """How far moments, curvatures (arms, dim) and slopes along the step (arms,) move."""
    sums = []
    for term in (one, other):
        arms._moment[:], arms._curvature[:], arms._along[:] = 0.0, 0.0, 0.0
        arms.take(*term)
        sums.append((arms._moment.copy(), arms._curvature.copy(), arms._along.copy()))
    return [second - first for first, second in zip(*sums, strict=True)]


@pytest.mark.parametrize("clip", [0.2, 2.0])
def test_windows__a_replaced_row_costs_at_most_the_budget_whichever_arms_it_is_in(clip):
    """Every pair of extreme rows, also with another arm: price of selections and measurements."""
    arms, worst = window_arms(k=2, dim=2, clip=clip), {"same": 0.0, "other": 0.0}
    arms.theta[:], arms._step[:] = [[0.7, -0.3], [0.0, 1.0]], [[0.3, 0.1], [-0.5, 0.0]]
    most = 0.0
    for one, other in itertools.product(TERMS, TERMS):
        moment, curvature, along = moved(arms, one, other)
        # Selections: rho is in the square of the move of |S_j|, summed over arms.
        price = float((np.abs(moment).max(axis=1) ** 2).sum()) / (2 * clip) ** 2
        kind = "same" if one[0] == other[0] else "other"
        worst[kind] = max(worst[kind], price)
        both = np.sum(moment**2) + np.sum((CURVATURE * clip * curvature) ** 2) + np.sum(along**2)
        most = max(most, float(both) / (clip**2 * (4 * 3 + 2 * CURVATURE**2)))  # k = 2 entries
    assert worst["same"] == pytest.approx(1.0, abs=0.6 if clip == 2 else 1e-9)
    assert worst["other"] <= 0.5 + 1e-9
    assert worst["same"] <= 1 + 1e-9
    assert 0.2 < most <= 1 + 1e-9


def test_windows__several_rows_of_one_person_are_covered_by_the_square():
    """k rows spread over arms in any way cost at most k^2 times one."""
    rng, k = np.random.default_rng(0), 3
    for _ in range(300):
        a, b = rng.integers(0, 3, (2, k))
        n, m = np.bincount(a, minlength=3), np.bincount(b, minlength=3)
        assert ((n + m) ** 2).sum() <= (2 * k) ** 2
        for entries in (1, 5):
            slopes = (entries + 1) * (n + m) ** 2
            both = (slopes + entries * CURVATURE**2 * np.maximum(n, m) ** 2).sum()
            assert both <= (4 * (entries + 1) + entries * CURVATURE**2) * k**2


# -- the price ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2])
def test_guarantee__each_window_costs_the_budget_and_no_more(k):
    X, Y = people(900)
    bandit = SparseBandit(3, 12, 900, 1.0, 1e-5, forced=30, contributions=k, noise=SeededNoise(0))
    run(bandit, X, Y)
    promise, rho = bandit.guarantee, bandit.budget.rho
    windows = {release.scope for release in promise.releases}
    assert len(windows) == bandit._arms.window >= 4
    for j, scope in enumerate(sorted(windows, key=lambda s: int(s.split()[1]))):
        choice, measure = (r for r in promise.releases if r.scope == scope)
        n = bandit._arms.entries(j)
        # k choices, Gumbel scale 2 D/epsilon, rho = epsilon^2/8 each, D = 2 clip contributions.
        each = 2 * (2 * bandit.bound * k) / choice.scale
        assert n * each**2 / 8 == pytest.approx(rho * SELECTING)
        wide = bandit.bound * math.sqrt(4 * (n + 1) + n * CURVATURE**2) * k
        assert measure.sensitivity == pytest.approx(wide)
        assert choice.rho + measure.rho == pytest.approx(rho)
    assert promise.epsilon_at(1e-5) <= 1.0 + 1e-6
    assert zcdp_epsilon(rho, 1e-5) == pytest.approx(1.0, rel=1e-3)
    assert promise.trust == "joint"
    assert "context" in promise.statement()
    assert ("more than 2 rounds" in promise.statement()) == (k == 2)


def test_guarantee__dp_accounting_agrees_on_a_window():
    from dp_accounting import dp_event, rdp

    bandit = SparseBandit(3, 12, 300, 1.0, 1e-5, forced=30, noise=SeededNoise(0))
    run(bandit, *people(100))
    choice, measure = (r for r in bandit.guarantee.releases if r.scope == "window 1")
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_event.ZCDpEvent(choice.rho))
    accountant.compose(dp_event.GaussianDpEvent(measure.scale / measure.sensitivity))
    assert 0.9 <= accountant.get_epsilon(1e-5) <= 1.09  # its orders are coarser: 1.078 is known


def test_peel__is_distributed_as_choices_without_replacement():
    """Ordered pairs of 4 entries; false alarm 1e-6, and 1.25 times the scale is refused."""
    arms, runs, scale = window_arms(noise=SeededNoise(4)), 30_000, 1.0
    scores = np.array([0.0, 1.0, 0.5, 2.0])
    seen = [tuple(arms._peel(scores, 2, scale)) for _ in range(runs)]
    pairs = list(itertools.permutations(range(4), 2))
    counts = [seen.count(pair) for pair in pairs]

    def p_value(scale):
        w = np.exp(scores / scale)
        probabilities = [w[i] / w.sum() * w[j] / (w.sum() - w[i]) for i, j in pairs]
        return stats.chisquare(counts, runs * np.array(probabilities)).pvalue

    assert p_value(scale) > 1e-6
    assert p_value(1.25 * scale) < 1e-6
    assert p_value(scale / 1.25) < 1e-6


def test_peel__secure_noise_draws_from_the_same_distribution():
    pytest.importorskip("opendp")
    arms, scores = window_arms(noise=SecureNoise()), np.array([0.0, 1.0, 2.0])
    seen = [tuple(arms._peel(scores, 2, 1.0)) for _ in range(1500)]
    pairs, w = list(itertools.permutations(range(3), 2)), np.exp(scores)
    probabilities = [w[i] / w.sum() * w[j] / (w.sum() - w[i]) for i, j in pairs]
    counts = [seen.count(pair) for pair in pairs]
    assert stats.chisquare(counts, 1500 * np.array(probabilities)).pvalue > 1e-6


def test_measurements__noise_has_the_calibrated_deviation(assert_distribution):
    drawn = []

    class Watched(SeededNoise):
        def gaussian(self, std, size, spacing=0.0):
            noise = super().gaussian(std, size, spacing)
            drawn.append((std, noise))
            return noise

    for seed in range(24):
        arms = window_arms(k=4, dim=40, noise=Watched(seed))
        arms.entries = lambda window: 16
        arms.advance(80)
    std = 0.2 * math.sqrt(4 * 17 + 16 / 4) / math.sqrt(2 * Budget(1.0, 1e-6).rho * (1 - SELECTING))
    assert {round(s, 9) for s, _ in drawn} == {round(std, 9)}
    assert_distribution(np.concatenate([noise.ravel() for _, noise in drawn]) / std, stats.norm.cdf)


def test_schedule__releases_at_the_same_rounds_whatever_is_chosen_and_rewarded():
    """Other contexts, other rewards, none at all: the same number of draws after every round."""
    draws = []
    for case in range(3):
        bandit = SparseBandit(3, 12, 300, 1.0, forced=20, noise=SeededNoise(0))
        X, Y = people(300, seed=case)
        states = []
        for x, y in zip(X, Y, strict=True):
            d = bandit.decide(x if case else 0 * x)
            if case != 1:
                bandit.learn(d, y[d.action])
            states.append(json.loads(bandit._arms._noise.state())["generator"])
        draws.append(states)
    assert draws[0] == draws[1] == draws[2]
    assert draws[0][0] != draws[0][-1]


# -- it learns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("link", "epsilon"), [("identity", 2.0), ("logistic", 8.0)])
def test_bandit__finds_the_good_arms_in_private(link, epsilon):
    """Regret of the last third, 200 features, against uniform play. Measured 0 to .004, 3 seeds."""
    K, d, T = 3, 200, 9000
    radius = 1.0 if link == "identity" else 4.0
    world = sparse_arms(K, d, nonzero=2, link=link, radius=radius, seed=0)
    rng, left, uniform = np.random.default_rng(1), 0.0, 0.0
    bandit = SparseBandit(K, d, T, epsilon, link=link, radius=radius, seed=0, noise=SeededNoise(0))
    X = world.contexts(T, rng)
    for t, (x, means) in enumerate(zip(X, world.means(X), strict=True)):
        decision = bandit.decide(x)
        bandit.learn(decision, float(world.rewards(means[decision.action], rng)))
        assert decision.action == t % K or t >= K * bandit.forced_rounds
        if t >= 2 * T // 3:
            left += means.max() - means[decision.action]
            uniform += means.max() - means.mean()
    assert left < 0.1 * uniform
    assert (np.abs(bandit.theta).sum(axis=1) <= radius + 1e-9).all()


# -- rewards that come as they like ---------------------------------------------------------------


def test_learn__refuses_what_is_wrong_and_changes_nothing():
    make = {"forced": 5, "seed": 0}
    pair = [SparseBandit(2, 3, 50, 1.0, **make, noise=SeededNoise(0)) for _ in range(2)]
    other = SparseBandit(2, 3, 50, 1.0, **make, noise=SeededNoise(0))
    foreign = other.decide(np.ones(3))
    for t in range(50):
        x = np.array([0.3, -0.5, 1.0]) * (-1) ** t
        for bandit in pair:
            d = bandit.decide(x)
            if bandit is pair[0]:
                for wrong in (1.5, -2.0, math.nan, "a", None):
                    with pytest.raises(ValueError, match="reward must"):
                        bandit.learn(d, wrong)
                with pytest.raises(ValueError, match="this learner made"):
                    bandit.learn(foreign, 0.0)
                with pytest.raises(ValueError, match="never made"):
                    bandit.learn(dataclasses.replace(d, round=t + 1), 0.0)
                with pytest.raises(ValueError, match="damaged"):
                    bandit.learn(dataclasses.replace(d, row=2 * d.row), 0.0)
                with pytest.raises(ValueError, match="shape"):
                    bandit.decide(np.ones(4))
                with pytest.raises(ValueError, match="NaN"):
                    bandit.decide([math.nan, 0.0, 0.0])
            bandit.learn(d, 0.5)
            with pytest.raises(ValueError, match="each counts once"):
                bandit.learn(d, 0.5)
        assert np.array_equal(pair[0].theta, pair[1].theta)


def test_learn__late_rewards_enter_the_open_window_and_missing_ones_add_nothing():
    arms = SparseBandit(2, 3, 400, 1.0, forced=10, noise=SeededNoise(0))
    kept = [arms.decide(np.ones(3)) for _ in range(20)]
    assert (arms._arms._moment == 0).all()
    arms.decide(np.ones(3))  # the window of the forced rounds is over
    assert arms._arms.window == 1
    arms.learn(kept[3], 1.0)
    assert (arms._arms._moment[1] != 0).all()
    assert (arms._arms._moment[0] == 0).all()


def test_horizon__past_it_the_policy_stays_and_rewards_no_longer_count():
    bandit = SparseBandit(2, 3, 40, 5.0, forced=10, noise=SeededNoise(0))
    rng = np.random.default_rng(0)
    for t in range(200):
        d = bandit.decide(rng.uniform(-1, 1, 3))
        bandit.learn(d, float(rng.uniform(-1, 1)))
        if t == 41:
            theta, releases = bandit.theta, len(bandit.guarantee.releases)
    assert np.array_equal(theta, bandit.theta)
    assert len(bandit.guarantee.releases) == releases


def test_contexts__beyond_the_bounds_are_clipped():
    bandit = SparseBandit(2, 3, 40, 1.0, noise=SeededNoise(0))
    x = np.array([5.0, -0.5, -math.inf])
    assert np.array_equal(bandit.decide(x).row, [1.0, -0.5, -1.0])
    assert x[0] == 5.0


def test_decision__travels_as_json():
    bandit = SparseBandit(2, 3, 40, 1.0, noise=SeededNoise(0))
    d = bandit.decide([0.1, 0.2, 0.3])
    back = bandit.decision(json.loads(json.dumps(d.to_dict())))
    bandit.learn(back, 1.0)
    with pytest.raises(ValueError, match="each counts once"):
        bandit.learn(d, 1.0)
    for damage in ({"round": -1}, {"features": ["a"]}, {"learner": None, "action": 1.5}):
        with pytest.raises(ValueError, match="record"):
            bandit.decision({**d.to_dict(), **damage})


# -- state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", LINKS)
def test_state__goes_on_to_the_same_future(link, tmp_path):
    X, Y = people(300, link=link)
    make = {"link": link, "forced": 20, "seed": 3}
    bandit, stopped, moved = (
        SparseBandit(3, 12, 300, 3.0, noise=SeededNoise(4), **make) for _ in range(3)
    )
    for each in (bandit, stopped, moved):
        run(each, X[:130], Y[:130])
    stopped.save(tmp_path / "state.npz")
    loaded = SparseBandit.load(tmp_path / "state.npz")
    other = SparseBandit(3, 12, 300, 3.0, noise=SeededNoise(9), **make)
    old = moved.state_dict()
    other.load_state_dict(old)
    futures = [run(each, X[130:], Y[130:]) for each in (bandit, loaded, other)]
    assert futures[0] == futures[1] == futures[2]
    assert np.array_equal(bandit.theta, loaded.theta)
    assert np.array_equal(bandit.theta, other.theta)
    assert bandit.guarantee.releases == loaded.guarantee.releases
    with pytest.raises(ValueError, match="older"):
        other.load_state_dict(old)
    wrong = SparseBandit(3, 12, 301, 3.0, noise=SeededNoise(9), **make)
    with pytest.raises(ValueError, match="other arguments of SparseBandit: horizon"):
        wrong.load_state_dict(old)
    fresh = SparseBandit(3, 12, 300, 3.0, noise=SeededNoise(9), **make)
    del old["state"]["_arms"]["of"]["_theta"]
    with pytest.raises(ValueError, match="damaged"):
        fresh.load_state_dict(old)
    assert fresh.rounds == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, "delta must be above 0"),
        ({"link": "probit"}, "link must be one of"),
        ({"forced": 60}, "do not fit"),
        ({"n_arms": 0}, "n_arms"),
        ({"radius": 0.0}, "radius"),
        ({"seed": -1}, "seed"),
    ],
)
def test_constructor__says_what_is_wrong(arguments, message):
    base = {"n_arms": 2, "dim": 5, "horizon": 100, "epsilon": 1.0}
    with pytest.raises(ValueError, match=message):
        SparseBandit(**{**base, **arguments})
