"""evaluate: what one row moves, coverage, the logs it reads, and what it refuses."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from discreet.environments.logs import Log
from discreet.environments.off_policy import policy_value
from discreet.evaluation import evaluate
from discreet.evaluation.off_policy import SQUARE
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.privacy.observation import observed


def second(_):
    return np.array([0.0, 1.0])


def coins(n=4000, seed=0, chances=(0.4, 0.7)):
    rng = np.random.default_rng(seed)
    sent = rng.integers(2, size=n)
    return {"action": sent, "reward": (rng.random(n) < np.array(chances)[sent]).astype(float)}


def run(log=None, policy=second, epsilon=math.inf, **more):
    more = {"least_propensity": 0.5, "propensity": 0.5, "noise": SeededNoise(0), **more}
    return evaluate(coins() if log is None else log, policy, epsilon, **more)


def test_squares__the_curve_of_a_row_is_no_longer_than_its_ends_are_apart():
    u = np.linspace(-1, 1, 401)
    a, b = np.meshgrid(u, u)
    moved = np.hypot(a - b, SQUARE * (a**2 - b**2))
    assert moved.max() <= 2
    d = math.sqrt(5) - 1  # where the bound is reached besides the ends
    assert math.hypot(d, SQUARE * (1 - (1 - d) ** 2)) == pytest.approx(2, abs=1e-9)


@pytest.mark.parametrize("model", ["none", "mean"])
@pytest.mark.parametrize("policies", [1, 3])
def test_sensitivity__no_row_moves_the_release_farther_and_one_nearly_as_far(model, policies):
    log = {"action": np.zeros(41), "reward": np.full(41, 0.5), "p": np.full(41, 0.5)}
    known = {f"{i}": lambda _: np.array([1.0, 0.0]) for i in range(policies)}
    values = []
    rows = [(a, y, p) for a in (0, 1, 7, np.nan) for y in (0, 0.5, 1, np.nan, 9e9, -9e9)
            for p in (0.2, 0.0, 1.0, np.nan)]  # fmt: skip
    for action, y, p in rows:
        changed = {name: np.array(each, dtype=float) for name, each in log.items()}
        for name, value in zip(changed, (action, y, p), strict=True):
            changed[name][1] = value  # an evaluated row
        with observed("release") as seen:
            run(changed, known, propensity="p", least_propensity=0.2, model=model)
        values.append(np.ravel(seen[-1].value))
    apart = max(np.linalg.norm(a - b) for a in values for b in values)
    assert 0.9 * 2 * math.sqrt(policies) < apart <= 2 * math.sqrt(policies) * (1 + 1e-9)


def test_without_privacy__it_is_the_plain_estimate():
    log = coins()
    plain = Log("coins", np.ones((4000, 2, 1)), log["action"], log["reward"],
                np.full(4000, 0.5), 2)  # fmt: skip
    want = policy_value(plain, [0.0, 1.0], predictions=np.full((4000, 2), 0.5))
    found = run(model="none")
    assert found.estimate == pytest.approx(want.value)
    assert found.high - found.low == pytest.approx(want.high - want.low, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_interval__covers_and_its_noise_is_what_was_asked_for(epsilon, assert_distribution):
    log = coins(400)
    exact = run(log, model="none").estimate
    found = [run(log, epsilon=epsilon, model="none", noise=SeededNoise(s)) for s in range(3000)]
    std = found[0].noise_std
    # u = (z - c) / B, B = 1 for two actions drawn evenly: sensitivity 2 by hand.
    release = found[0].guarantee.releases[0]
    assert std == pytest.approx(release.scale / 400)
    assert release.sensitivity == pytest.approx(2.0)
    assert_distribution(np.array([each.estimate - exact for each in found]), stats.norm(0, std).cdf)
    held = 0
    for seed in range(300):
        value = run(coins(2000, seed), epsilon=epsilon, noise=SeededNoise(seed))
        held += value.low <= 0.7 <= value.high
    assert held >= 271  # .95 of 300; fewer with probability .001


def test_model__a_linear_one_narrows_the_interval_where_it_fits():
    rng = np.random.default_rng(0)
    n = 20_000
    theta = np.array([0.6, -0.5])
    X = rng.standard_normal((n, 2, 2))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    means = 0.5 + 0.6 * X @ theta
    taken = rng.integers(2, size=n)
    y = np.clip(means[np.arange(n), taken] + 0.02 * rng.standard_normal(n), 0, 1)
    log = Log("ours", X, taken, y, np.full(n, 0.5), 2)

    def best(features):
        return np.eye(2)[np.argmax(features @ theta, axis=1)]

    truth = np.clip(means, 0, 1).max(axis=1).mean()
    budget = Ledger(Budget(3.0, 1e-6))
    wide = evaluate(log, best, 3.0, least_propensity=0.5, noise=SeededNoise(0))
    fine = evaluate(log, best, 3.0, least_propensity=0.5, noise=SeededNoise(0), model="linear",
                    ledger=budget)  # fmt: skip
    assert fine.half_width < 0.8 * wide.half_width
    for each in (wide, fine):
        assert abs(each.estimate - truth) < 2 * each.half_width
    assert {r.scope for r in budget.releases} == {"evaluated", "predicting"}
    assert budget.spent("evaluated") == pytest.approx(1.0)
    assert fine.guarantee.epsilon_at(1e-6) == pytest.approx(3.0, rel=1e-3)


def test_several_policies__are_one_release():
    found = run(policy={"first": lambda _: np.array([1.0, 0.0]), "second": second}, epsilon=1.0)
    assert set(found) == {"first", "second"}
    assert found["first"].low < 0.4 < found["first"].high
    releases = found["first"].guarantee.releases
    assert [each.what for each in releases] == ["mean reward of some rows", "values of 2 policies"]
    assert found["first"].guarantee.epsilon_at(1e-6) == pytest.approx(1.0, rel=1e-3)


def test_ledger__refuses_a_second_release_of_the_same_rows():
    ledger = Ledger(Budget(1.0, 1e-6))
    run(epsilon=1.0, ledger=ledger)
    with pytest.raises(ValueError, match="budget"):
        run(epsilon=1.0, ledger=ledger)


# -- logs ------------------------------------------------------------------------------------------


def test_logs__of_every_kind_say_the_same(tmp_path):
    columns = {**coins(600), "propensity": np.full(600, 0.5)}
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "log.csv")
    frame.to_parquet(tmp_path / "log.parquet")
    lines = [
        json.dumps({"_label_cost": -r, "_label_probability": 0.5, "_label_Action": int(a) + 1,
                    "a": [int(a) + 1, 2 - int(a)], "p": [0.5, 0.5], "c": {"x": 1}})
        for a, r in zip(columns["action"], columns["reward"], strict=True)
    ]  # fmt: skip
    (tmp_path / "vw.dsjson").write_text("\n".join(lines) + "\n")
    shop = frame.rename(columns={"action": "item_id", "reward": "click",
                                 "propensity": "propensity_score"})  # fmt: skip
    named = frame.assign(action=np.array(["no", "yes"])[frame["action"]])
    want = run(columns, propensity=None)
    for log in (frame, pa.table(frame), str(tmp_path / "log.csv"), tmp_path / "log.parquet",
                tmp_path / "vw.dsjson", shop):  # fmt: skip
        assert run(log, propensity=None).estimate == pytest.approx(want.estimate)
    found = run(named, propensity=None, actions=["no", "yes"])
    assert found.estimate == pytest.approx(want.estimate)


@pytest.mark.parametrize("kind", ["table", "json"])
def test_logs__without_propensities_are_refused_and_it_says_why(kind, tmp_path):
    log = coins(50)
    if kind == "json":
        log = tmp_path / "log.jsonl"
        log.write_text('{"_label_Action": 1, "_label_cost": -1}\n')
    with pytest.raises(ValueError, match=r"no propensities.*nobody can tell"):
        run(log, propensity=None)


def test_logs__damaged_rows_say_nothing_and_raise_nothing(tmp_path):
    path = tmp_path / "log.jsonl"
    good = json.dumps({"_label_Action": 2, "_label_cost": -1, "_label_probability": 0.5})
    for bad in ("{", "[1]", "{}", '{"_label_Action": "x", "_label_probability": 0.5}', "7"):
        path.write_text("\n".join([good, bad] * 30))
        assert run(path, propensity=None, model="none").decisions == 60


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"least_propensity": 0.0}, "least_propensity"), ({"delta": 0.0, "epsilon": 1.0}, "delta"),
        ({"confidence": 1.0}, "confidence"), ({"model": "tree"}, "model"),
        ({"reward_range": (1.0, 0.0)}, "range"), ({"action": "what"}, "column"),
        ({"policy": lambda _: np.array([0.4, 0.4])}, "sum to 1"),
        ({"policy": lambda _: np.ones((3, 2))}, "shape"), ({"model": "linear"}, "features"),
        ({"log": {"action": np.zeros(3), "x": np.ones(3)}}, "reward"),
    ],
)  # fmt: skip
def test_arguments__are_checked(change, word):
    with pytest.raises(ValueError, match=word):
        run(**change)
