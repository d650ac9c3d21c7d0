"""Real data. RandHIE and flights need the packages of the extra `datasets`."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from discreet.environments import logged, world
from discreet.environments.datasets import DATA, FLIGHT_REWARDS
from discreet.environments.off_policy import policy_value
from discreet.environments.randhie import PLANS, randhie_columns
from discreet.environments.registry import LOGS


def best_linear(each, n=4000):
    """Value of the greedy policy of a least squares fit to one draw, on another one."""
    people, others = (each.people(n, np.random.default_rng(s)) for s in (0, 1))
    X, y = people.features.reshape(-1, each.dim), people.means.ravel()
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    chosen = (others.features @ theta).argmax(axis=1)
    return float((others.best - others.regret(chosen)).mean()), float(others.means.mean())


def test_digits__a_linear_policy_names_most_of_them():
    each = world("digits")
    value, chance = best_linear(each)
    assert chance == pytest.approx(0.1)
    assert value > 0.75
    assert (each.means.sum(axis=1) == 1).all()


def test_flights__the_departure_tells_what_to_do():
    each = world("flights")
    value, _ = best_linear(each)
    always = each.means.mean(axis=0)
    assert len(each.means) == 327_346
    assert (each.means.max(axis=1) == 1).all()
    assert value > always.max() + 0.05
    assert {tuple(row) for row in np.unique(each.means, axis=0)} == set(map(tuple, FLIGHT_REWARDS))


def test_randhie__the_log_has_the_plans_and_their_frequencies():
    log = logged("randhie")
    counts = np.bincount(log.actions)
    assert dict(zip(PLANS, counts.tolist(), strict=True)) == {
        "free": 6822, "25%": 4065, "50%": 1401, "95%": 2653, "deductible": 5249,
    }  # fmt: skip
    assert np.allclose(log.propensities, (counts / 20_190)[log.actions])
    assert set(log.rewards) == {0.0, 1.0}


def test_randhie__no_plan_is_the_best_for_everybody():
    each, log = world("randhie"), logged("randhie")
    problem = each.features[:][:, 0, 1] > 0
    best = [PLANS[each.means[problem == ill].mean(axis=0).argmax()] for ill in (True, False)]
    assert best == ["free", "95%"]
    # The model agrees with the experiment: free for those with a problem, 95% for the others.
    rule = np.where(problem[:, None], np.eye(5)[0], np.eye(5)[3])
    model = float(np.mean((rule * each.means).sum(axis=1)))
    for method in ("ips", "snips", "dr"):
        found = policy_value(log, rule, method=method)
        assert found.low < model < found.high
        assert found.low > log.mean_reward + 0.05, "better than drawing lots"
        assert found.concerns == ()


def test_randhie__the_model_is_calibrated_on_every_plan():
    each, log = world("randhie"), logged("randhie")
    for plan in range(5):
        on = log.actions == plan
        fitted, seen = each.means[on, plan].mean(), log.rewards[on].mean()
        assert fitted == pytest.approx(seen, abs=0.01), PLANS[plan]


def test_randhie__the_model_that_is_kept_is_the_one_that_a_fit_finds():
    each, log = world("randhie"), logged("randhie")
    columns = randhie_columns()
    problem = each.features[:][:, 0, 1] > 0
    diseases = columns["disea"] / 60
    own = [columns[name] for name in ("physlm", "hlthg", "hlthf", "hlthp")]
    X = np.column_stack([problem, diseases, problem * diseases, *own])
    for plan in range(5):
        on = log.actions == plan
        model = LogisticRegression(max_iter=1000, tol=1e-8).fit(X[on], log.rewards[on])
        gap = np.abs(model.predict_proba(X)[:, 1] - each.means[:, plan])
        assert gap.max() < 0.01, PLANS[plan]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("diabetes", (442, 10)),
        ("fair", (6366, 8)),
        ("randhie", (20_190, 9)),
        ("flights", (327_346, 8)),
    ],
)
def test_regression_data__lies_within_the_public_bounds(name, shape):
    X, y = DATA[name]()
    assert X.shape == shape
    assert np.abs(X).max() <= 1
    assert np.abs(y).max() <= 1
    assert (X.std(axis=0) > 0).all()


def test_registry__logs_are_named_and_described():
    assert set(LOGS) == {"randhie", "open-bandit", "table"}
    assert all(about.licence and about.extra == "datasets" for about in LOGS.values())
    with pytest.raises(ValueError, match="randhie, open-bandit, table"):
        logged("sphere")
    with pytest.raises(ValueError, match="it has policy, campaign, archive"):
        logged("open-bandit", colour=1)
