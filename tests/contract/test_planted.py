"""Contracts over parameters that planted bugs once survived: each fails if its line is wrong.

contributions above 1, norm bounds other than 1, hold-outs one by one, extreme labels, people who
come again after a restore, parts of a ledger that overlap.
"""

import math
from typing import Any

import numpy as np
import pytest

from discreet.bandits import Holdout, LinearBandit, People, SparseBandit
from discreet.bandits.baselines import ContinualLinUCB
from discreet.bandits.window import sensitivity
from discreet.decisions import Decision, Decisions
from discreet.domains import Ball, Simplex
from discreet.online import FTRL, AdversarialBandit
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import Budget, Ledger, PrefixSum, SeededNoise
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.release import observed
from discreet.regression import PrivateGLM, PrivateLinearRegression, PrivateSearchCV

SENSITIVITY = sensitivity(None, People(rounds=1))

BOUNDS = [0.1, 0.9, 1.0, 3.0, 1e3]
RANGES = [(-1.0, 1.0), (0.0, 50.0), (-50.0, 0.0), (10.0, 11.0)]


def bandit(**more: Any) -> Any:
    return LinearBandit(2, 400, 4.0, seed=0, noise=SeededNoise(0), **more)


def contexts(n: int, norm_bound: float = 1.0) -> Any:
    return norm_bound * np.random.default_rng(0).uniform(-0.7, 0.7, (n, 3, 2))


# -- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["ucb", "descent"])
@pytest.mark.parametrize("reward_range", RANGES)
@pytest.mark.parametrize("norm_bound", BOUNDS)
def test_fold__extreme_rows_and_rewards_move_the_sum_by_no_more_than_is_booked(
    policy, reward_range, norm_bound
):
    values = []
    for sign, reward in ((1, reward_range[0]), (1, reward_range[1]), (-1, reward_range[1])):
        one = bandit(policy=policy, reward_range=reward_range, norm_bound=norm_bound)
        one.turn()
        one.window.fold([[sign * norm_bound, 0.0]], [reward])
        window = one._window
        values.append(window.average if policy == "descent" else window.total._value)
    booked = window.total.release.sensitivity
    moved = max(np.linalg.norm(a - b) for a in values for b in values)
    assert 0 < moved <= booked * (1 + 1e-9)


@pytest.mark.parametrize("reward_range", RANGES)
@pytest.mark.parametrize("norm_bound", BOUNDS)
def test_fold__is_learn_in_the_users_units(reward_range, norm_bound):
    one, apart = (bandit(reward_range=reward_range, norm_bound=norm_bound) for _ in range(2))
    n = one.rounds_until_release
    X = contexts(n, norm_bound)
    chosen = one.decide_many(X)
    y = np.random.default_rng(1).uniform(*reward_range, n)
    one.learn_many(chosen, y)
    apart.turn()
    apart.window.fold(X[np.arange(n), chosen.action], y)
    assert np.allclose(one._window.total._value, apart._window.total._value, atol=1e-9)


@pytest.mark.parametrize("make", [bandit, lambda: ContinualLinUCB(2, 99, 1.0, seed=0)])
@pytest.mark.parametrize(
    ("rows", "rewards", "rounds"),
    [
        ([[2.0, 0.0]], [0.5], None),
        ([[math.nan, 0.0]], [0.5], None),
        ([[0.5, 0.0]], [1.5], None),
        ([[0.5, 0.0]], [math.nan], None),
        ([[0.5, 0.0, 0.0]], [0.5], None),
        ([0.5, 0.0], [0.5], None),
        ([[0.5, 0.0]], [0.5, 0.5], None),
        ([[0.5, 0.0]], 0.5, None),
        ([[0.5, 0.0]], [0.5], [0]),
        ([["0.5", "0"]], [0.5], None),
        ([[0.5j, 0.0]], [0.5], None),
        (np.array([[16, 0]], dtype=np.int8), [0.5], None),
        (np.array([[2**32, 0]]), [0.5], None),
    ],
)
def test_fold__refuses_what_no_person_may_bring_and_changes_nothing(make, rows, rewards, rounds):
    one = make()
    one.turn()
    before = str(one.state_dict()["state"])
    with pytest.raises(ValueError, match=r"must|expected|where there is"):
        one.window.fold(rows, rewards, rounds)
    assert str(one.state_dict()["state"]) == before


@pytest.mark.parametrize("rounds", [None, [1.0], [-1], [10**6], [[0]], [True], [0, 1]])
def test_fold__a_holdout_is_told_which_rounds_by_their_numbers(rounds):
    one = bandit(holdout=Holdout(0.2))
    one.turn()
    with pytest.raises(ValueError, match="rounds"):
        one.window.fold([[0.5, 0.0]], [0.5], rounds)


@pytest.mark.parametrize("policy", ["ucb", "descent"])
def test_window__shows_nothing_but_fold(policy):
    one = bandit(policy=policy)
    one.turn()
    # The transform follows from what was released before the window opened.
    assert [name for name in dir(one.window) if not name.startswith("_")] == ["fold", "transform"]


def test_noisy_sum__ends_when_it_is_published():
    total = NoisySum(2, sensitivity=1.0, mu=1.0, noise=SeededNoise(0))
    total.add(np.array([1.0, 0.0]))
    first = total.publish()
    total.publish()[:] = 0.0  # a copy, the caller's
    with pytest.raises(ValueError, match="published"):
        total.add(np.array([1.0, 0.0]))
    again = total.publish(np.array([5.0, 5.0]))
    assert np.array_equal(again, first)
    resumed = NoisySum(2, sensitivity=1.0, mu=1.0, noise=SeededNoise(0))
    resumed.load_state_dict(total.state_dict())
    with pytest.raises(ValueError, match="published"):
        resumed.add(np.array([1.0, 0.0]))


@pytest.mark.parametrize("policy", ["ucb", "descent"])
@pytest.mark.parametrize("visits", ["first", "all"])
def test_discard__keeps_what_was_booked_and_who_was_there(policy, visits):
    one = bandit(policy=policy, people=People(visits=visits))
    one.turn()
    opened = one.guarantee.releases
    assert len(opened) == 1, "booked when it opens"
    first, second = one.decide(contexts(1)[0]), one.decide(contexts(1)[0])
    assert one.learn(first, 0.5, "ada")
    spent = one._ledger.spent()
    one.discard()
    if visits == "all":
        assert one.guarantee.releases[:1] == opened
        assert one._ledger.spent() > spent
    else:
        assert len(one.guarantee.releases) == 1
    assert one.learn(second, 0.5, "ada") is (visits == "all")


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_holdout__one_by_one_counts_as_many_at_once(fraction):
    """Held-out rounds are the hold-out's, whichever way their rewards come."""
    found = []
    for way in ("one", "many", "fold"):
        one = LinearBandit(2, 300, math.inf, seed=0, holdout=Holdout(fraction))
        n = one.rounds_until_release
        X = np.tile(np.eye(2), (n, 1, 1))
        chosen = one.decide_many(X)
        held = one.held_out(chosen.round)
        y = np.where(held, 1.0, -1.0)
        if way == "one":
            assert all(one.learn(d, reward) for d, reward in zip(chosen, y, strict=True))
        elif way == "many":
            one.learn_many(chosen, y)
        else:
            one.window.fold(chosen.rows, y, chosen.round)
        one.turn()
        found.append(one.totals[0])
        assert found[-1].held == held.sum()
        assert found[-1].held_sum == pytest.approx(held.sum())
        assert found[-1].sum == pytest.approx(-(~held).sum())


@pytest.mark.parametrize("norm_bound", BOUNDS)
def test_edge__rows_within_the_bound_stay_and_longer_ones_are_shortened(norm_bound):
    for length in (0.3, 0.999, 1.0, 1.001, 1.4, 5.0):
        offered = np.array([[0.6, 0.8]]) * length * norm_bound
        one = bandit(norm_bound=norm_bound)
        rows = [one.decide(offered).row, one.decide_many(offered[None]).rows[0]]
        for row in rows:
            assert np.linalg.norm(row) == pytest.approx(min(length, 1.0), rel=1e-12)


def test_learn_many__a_decision_that_comes_twice_counts_once_wherever_it_stands():
    for order in ([0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0]):
        one = LinearBandit(2, 300, math.inf, seed=0)
        made = [one.decide(each) for each in contexts(2)]
        assert one.learn_many([made[i] for i in order], np.full(3, 0.5)) == 3 - len(set(order))
        one.advance(one.rounds_until_release)
        one.turn()
        assert one.totals[0].count == pytest.approx(len(set(order)))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_window__contributions_multiply_what_is_booked(k):
    one = bandit(people=People(rounds=k))
    one.turn()
    assert one._window.total.release.sensitivity == pytest.approx(k * SENSITIVITY)


# -- ledgers and votes ----------------------------------------------------------------------------


def test_ledger__parts_of_equal_budgets_that_overlap_are_each_set_aside():
    for open_parts in (2, 3):
        whole = Ledger(Budget(4.0, 1e-6))
        each = Budget(1.0, 1e-6)
        cost = each.mu**2 / whole.budget.mu**2
        contexts_ = [whole.part(each, what="a fit") for _ in range(open_parts)]
        parts = [context.__enter__() for context in contexts_]
        assert whole.spent() == pytest.approx(open_parts * cost)
        contexts_[0].__exit__(None, None, None)
        assert whole.spent() == pytest.approx((open_parts - 1) * cost)
        with parts[1].part(each, what="a fit"):
            assert parts[1].spent() == pytest.approx(1.0)
        for context in contexts_[1:]:
            context.__exit__(None, None, None)
        assert whole.spent() == 0.0


@pytest.mark.parametrize("selection", [0.01, 0.15, 0.5, 0.99])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-6), (1.0, 1e-12), (8.0, 1e-3)])
@pytest.mark.parametrize("k", [1, 3])
def test_search__votes_count_contributions_and_the_split_is_never_refused(
    selection, epsilon, delta, k
):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (80, 2))
    model = PrivateLinearRegression(
        epsilon, delta, norm_bound=1.0, label_bound=1.0, fit_intercept=False,
        contributions=k, method="single-pass", random_state=0,
    )  # fmt: skip
    search = PrivateSearchCV(model, {"label_bound": [0.5, 1.0]}, selection=selection, blocks=2)
    ledger = Ledger(Budget(epsilon, delta, k))
    search.fit(X, X[:, 0], ledger=ledger)
    votes = search.guarantee_.releases[0]
    assert votes.sensitivity == pytest.approx(k * math.sqrt(2))
    assert ledger.spent() <= 1 + 1e-12
    assert votes.mu**2 == pytest.approx(selection * Budget(epsilon, delta).mu ** 2, rel=1e-3)


# -- a fit never fails after it has booked --------------------------------------------------------

PLAIN = np.random.default_rng(0).uniform(-0.5, 0.5, (120, 2))
DEGENERATE = {
    "zero rows": (np.zeros((120, 2)), PLAIN[:, 0]),
    "one row": (np.tile([0.5, 0.1], (120, 1)), PLAIN[:, 0]),
    "equal columns": (PLAIN[:, [0, 0]], PLAIN[:, 0]),
    "constant labels": (PLAIN, np.full(120, 0.5)),
    "largest labels": (PLAIN, np.full(120, 1e300)),
    "huge rows": (1e200 * PLAIN, PLAIN[:, 0]),
    "tiny rows": (1e-200 * PLAIN, PLAIN[:, 0]),
    "one person": (PLAIN[:1], PLAIN[:1, 0]),
}
PUBLIC = {
    "none": None,
    "rank 1": np.tile([0.5, 0.1], (30, 1)),
    "zeros": np.zeros((10, 2)),
    "one": np.array([[0.1, 0.2]]),
    "tiny": 1e-200 * PLAIN,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("public", PUBLIC.values(), ids=PUBLIC)
@pytest.mark.parametrize("data", DEGENERATE.values(), ids=DEGENERATE)
def test_fit__of_degenerate_data_gives_a_model_or_is_refused_before_it_spends(data, public):
    X, y = data
    shared = {"norm_bound": 1.0, "fit_intercept": False, "public_X": public, "random_state": 0}
    models = [PrivateLinearRegression(1.0, label_bound=1.0, trust=trust, **shared)
              for trust in ("central", "local")]  # fmt: skip
    models += [PrivateGLM(1.0, link=link, **shared) for link in ("logistic", "poisson")]
    for model in models:
        ledger = Ledger(Budget(8.0, 1e-6))
        labels = y if isinstance(model, PrivateLinearRegression) else np.clip(np.abs(y), 0, 1)
        try:
            model.fit(X, labels, ledger=ledger)
        except ValueError:
            assert not ledger.releases, f"{model}: spent, and no model"
        else:
            assert np.isfinite(model.coef_).all()


# -- floats first, then bounds --------------------------------------------------------------------

REAL = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "longdouble", "object")  # fmt: skip
NEVER = ("complex64", "complex128", "U4", "S4", "m8[s]", [("a", "f8")])
SIZES = (0, 1, 16, 127, 255, 2**16, 2**32, 2**63)


def cast(values: Any, dtype: Any) -> Any:
    """The values in another type, or None if it cannot hold them."""
    with np.errstate(all="ignore"):
        try:
            array = np.asarray(values).astype(dtype)
            same = np.array_equal(np.asarray(array, dtype=object).astype(float), values)
        except (TypeError, ValueError, OverflowError):
            return None
    return array if same else None


def edges() -> dict[str, Any]:
    """How one row of two numbers, or one number, gets into each learner; what it moves."""

    def fold(row: Any) -> Any:
        one = LinearBandit(2, 400, math.inf, seed=0)
        one.turn()
        one.window.fold(row[None], [0.5])
        return one._window.total._value

    def features(row: Any) -> Any:
        return LinearBandit(2, 400, math.inf, seed=0).decide(row[None]).row

    def many(row: Any) -> Any:
        chosen = LinearBandit(2, 400, math.inf, seed=0).decide_many(row[None, None])
        if chosen.action[0] < 0:
            raise ValueError("refused")
        return chosen.rows

    def made(row: Any, whole: bool, policy: str) -> Any:
        one = LinearBandit(2, 400, math.inf, policy=policy, seed=0)
        fine = one.decide([[0.5, 0.0]])
        if whole:
            mine = Decisions(
                np.array([0]), np.array([0]), row[None], fine.learner, np.zeros((1, 1, 2)), ()
            )
            refused = one.learn_many(mine, [0.5])
        else:
            refused = not one.learn(Decision(0, 0, row, fine.learner), 0.5)
        if refused:
            raise ValueError("left out")
        return one._window.average if policy == "descent" else one._window.total._value

    def sparse(row: Any) -> Any:
        one = SparseBandit(2, 2, 40, 4.0, seed=0, noise=SeededNoise(0))
        fine = one.decide([0.5, 0.0])
        one.learn(Decision(0, fine.action, row, fine.learner), 0.5)
        return one._arms._sums

    def prefix(row: Any) -> Any:
        return PrefixSum(9, 2, Budget(math.inf), sensitivity=2.0, bound=1.0).add(row)

    def prefixes(row: Any) -> Any:
        sums = PrefixSum(9, 2, Budget(math.inf), sensitivity=2.0, bound=1.0)
        if not sums.accepts(row[None])[0]:
            raise ValueError("refused")
        return sums.add_many(row[None])

    def leader(row: Any) -> Any:
        one = FTRL(Simplex(2), 9, math.inf)
        one.learn(row)
        return one._sums.estimate

    def convex(row: Any) -> Any:
        one = StreamingFrankWolfe(Ball(2), 9, math.inf)
        one.learn(row, 0.5)
        return one.theta

    def reward(row: Any) -> Any:
        one = LinearBandit(2, 400, math.inf, seed=0)
        one.learn(one.decide([[0.5, 0.0]]), row[0])
        return one._window.total._value

    def loss(row: Any) -> Any:
        one = AdversarialBandit(2, 40, math.inf, seed=0)
        one.learn(one.decide(), row[0])
        return one.bandit._total

    ways: dict[str, Any] = {
        f"Decision, {policy}, {'many' if whole else 'one'}":
            lambda row, w=whole, e=policy: made(row, w, e)
        for policy in ("ucb", "descent") for whole in (False, True)
    }  # fmt: skip
    for each in (fold, features, many, sparse, prefix, prefixes, leader, convex, reward, loss):
        ways[each.__name__] = each
    return ways


@pytest.mark.parametrize("dtype", [*REAL, *NEVER], ids=str)
@pytest.mark.parametrize("way", edges().values(), ids=edges())
def test_edge__every_type_of_number_is_right_or_refused(way, dtype):
    for size in SIZES:
        row = np.array([float(size), 0.0])
        given = cast(row, dtype)
        if dtype in NEVER:
            given = np.zeros(2).astype(dtype) if given is None else given
            given = given + 1j if given.dtype.kind == "c" else given
            with pytest.raises(ValueError):  # noqa: PT011 - each edge has its own words
                way(given)
            continue
        if given is None:
            continue
        try:
            expected = way(row)
        except ValueError:
            expected = None
        try:
            found = way(given)
        except ValueError:
            continue  # refused
        assert expected is not None, f"{size} as {dtype} was let in"
        assert np.array_equal(found, expected)


def test_mechanisms__an_observed_release_is_the_one_that_is_booked():
    with observed("release") as seen:
        one = bandit(policy="descent")
        one.turn()
        one.advance(one.rounds_until_release)
        one.turn()
    assert [each.release for each in seen] == list(one.guarantee.releases[:1])
