"""Off-policy estimates: the worst row moves each release by what is booked, whatever it holds."""

import itertools
import math

import numpy as np
import pytest

from discreet.environments.logs import Log
from discreet.evaluation import evaluate
from discreet.privacy import Budget, SeededNoise
from discreet.privacy.mechanisms import Mechanisms

N, PILOT, OTHER = 21, 10, 1  # rows: one from which rewards are predicted, and one that is evaluated
ROWS = [
    *itertools.product((0, 1, 99), (0.0, 1.0, 50.0), (1.0, 0.25, 1e-9), (0.0,)),
    (1, math.nan, 1.0, 0.0), (1, 1.0, math.nan, 0.0), (1, 1.0, 1.0, 1.0), (0, -9.0, 7.0, 1.0),
]  # fmt: skip


def second(table):
    """The second action; nothing that is a distribution where `odd` says so."""
    odd = np.asarray(table["odd"], dtype=float)[:, None]
    return np.where(odd == 1.0, [[2.0, math.nan]], [[0.0, 1.0]])


def told(monkeypatch, place, row, model, policies):
    """The values of all releases, none of which says anything of the log."""
    columns = {"action": [0, 1] * N, "reward": [0.3, 0.9] * N, "propensity": [0.5] * 2 * N,
               "odd": [0.0] * 2 * N}  # fmt: skip
    log = {name: np.array(each[:N]) for name, each in columns.items()}
    for name, value in zip(log, row, strict=True):
        log[name][place] = value
    seen, gaussian = [], Mechanisms.gaussian

    def deaf(self, value, **about):
        assert np.isfinite(value).all()  # an exception would tell of a row
        seen.append((np.array(value, dtype=float), about["sensitivity"], about["scope"]))
        return gaussian(self, np.zeros(np.shape(value)), **about)

    with monkeypatch.context() as patch:
        patch.setattr(Mechanisms, "gaussian", deaf)
        evaluate(
            log,
            {f"{k}": second for k in range(policies)},
            1.0,
            least_propensity=0.25,
            model=model,
            noise=SeededNoise(0),
        )
    return seen


@pytest.mark.parametrize("policies", [1, 2])
@pytest.mark.parametrize("model", ["none", "mean"])
@pytest.mark.parametrize("place", [PILOT, OTHER])
def test_evaluate__a_replaced_row_moves_its_release_by_what_is_booked(
    place, model, policies, monkeypatch
):
    runs = [told(monkeypatch, place, row, model, policies) for row in ROWS]
    most: dict[str | None, float] = {}
    for one, other in itertools.combinations(runs, 2):
        for (a, booked, scope), (b, _, _) in zip(one, other, strict=True):
            most[scope] = max(most.get(scope, 0.0), float(np.linalg.norm(a - b)) / booked)
    own = {"none": None, "mean": "predicting" if place == PILOT else "evaluated"}[model]
    assert 0.95 < most.pop(own) <= 1 + 1e-9
    assert all(moved == 0 for moved in most.values())  # scopes are disjoint


def linear(rewards, seen):
    """An evaluation with a linear model of rewards; what its releases were given."""
    rng = np.random.default_rng(0)
    n = len(rewards)
    features, actions = rng.uniform(-0.5, 0.5, (n, 2, 2)), rng.integers(2, size=n)
    gaussian = Mechanisms.gaussian

    def spied(self, value, **about):
        seen.append((about.get("scope"), np.array(value, dtype=float)))
        return gaussian(self, value, **about)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mechanisms, "gaussian", spied)
        return evaluate(
            Log("a log", features, actions, rewards, np.full(n, 0.5), 2),
            lambda features: np.tile([0.5, 0.5], (len(features), 1)),
            1.0,
            least_propensity=0.5,
            model="linear",
            noise=SeededNoise(0),
        )


def test_evaluate__a_linear_model_is_booked_at_all_that_its_promise_costs():
    first, last = linear(np.full(400, 0.5), []).guarantee.releases
    assert (first.scope, last.scope) == ("predicting", "evaluated")
    assert first.mu == pytest.approx(Budget(1.0, 1e-6).mu)
    assert last.mu == pytest.approx(first.mu)


@pytest.mark.parametrize("place", [PILOT, OTHER])
def test_evaluate__a_linear_model_sees_no_row_that_is_evaluated(place):
    sides = []
    for reward in (0.0, 1.0):
        seen, rewards = [], np.full(400, 0.5)
        rewards[place] = reward
        linear(rewards, seen)
        sides.append([value for scope, value in seen if scope != "evaluated"])
    same = all(map(np.array_equal, *sides))
    assert same == (place == OTHER)
