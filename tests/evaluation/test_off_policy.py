"""evaluate: what one row moves, coverage, the logs it reads, and what it refuses."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from scipy import stats

from discreet.environments.logs import Log
from discreet.environments.off_policy import policy_value
from discreet.evaluation import evaluate
from discreet.evaluation.off_policy import SQUARE
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.privacy.ledger import BudgetSpent
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.release import observed


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


def test_pilot__no_row_moves_its_mean_and_count_farther_than_was_booked():
    log = {"action": np.zeros(41), "reward": np.full(41, 0.5)}
    values = []
    for action, y in ((0, 0.0), (0, 1.0), (0, np.nan), (7, 1.0), (np.nan, 0.3)):
        log["action"][10], log["reward"][10] = action, y
        with observed("release") as seen:
            run(log)
        values.append(np.ravel(seen[0].value))
        assert seen[0].release.sensitivity == pytest.approx(1.0)
    apart = max(np.linalg.norm(a - b) for a in values for b in values)
    assert 0.99 < apart <= 1 + 1e-9


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
    assert {r.scope for r in fine.guarantee.releases} == {"evaluated", "predicting"}
    assert [(r.what, r.scope) for r in budget.releases] == [("the value of a policy", None)]
    assert budget.spent() == pytest.approx(1.0)
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


@pytest.mark.parametrize("model", ["none", "mean"])
def test_ledger__that_others_have_spent_refuses_before_anything_is_read(model):
    ledger = Ledger(Budget(1.0, 1e-6))
    with ledger.part(Budget(0.7, 1e-6), what="a fit") as part:
        Mechanisms(SeededNoise(0), part).gaussian([0.0], sensitivity=1.0, mu=part.budget.mu,
                                                  what="all of it", scope="others")  # fmt: skip
    before = ledger.spent()
    with pytest.raises(BudgetSpent), observed("release") as seen:
        run({}, epsilon=1.0, model=model, ledger=ledger)
    assert not seen
    assert ledger.spent() == before
    run(epsilon=0.6, model=model, ledger=ledger)
    assert before < ledger.spent() <= 1


def test_policies__have_the_same_actions():
    with pytest.raises(ValueError, match="same number of actions"):
        run(policy={"two": second, "three": lambda _: np.array([0.0, 1.0, 0.0])})


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
    feather.write_feather(frame, tmp_path / "log.arrow")
    for log in (frame, pa.table(frame), str(tmp_path / "log.csv"), tmp_path / "log.parquet",
                tmp_path / "log.arrow", pa.table(frame).to_reader(), tmp_path / "vw.dsjson",
                shop):  # fmt: skip
        assert run(log, propensity=None).estimate == pytest.approx(want.estimate)
    found = run(named, propensity=None, actions=["no", "yes"])
    assert found.estimate == pytest.approx(want.estimate)


def test_logs__json_lines_of_ones_own_are_read_by_the_names_of_their_fields(tmp_path):
    columns, path = coins(600), tmp_path / "log.jsonl"
    lines = [
        json.dumps({"offer": ["no", "yes"][a], "bought": float(r), "chance": 0.5, "age": 40})
        for a, r in zip(columns["action"], columns["reward"], strict=True)
    ]
    path.write_text("\n".join(lines))
    seen = []

    def policy(contexts):
        seen.extend(contexts)
        return np.array([0.0, 1.0])

    names = {"action": "offer", "reward": "bought", "actions": ["no", "yes"]}
    want = run(columns, propensity=0.5).estimate
    for propensity in ("chance", 0.5):
        found = run(path, policy=policy, propensity=propensity, **names)
        assert found.estimate == pytest.approx(want)
    assert seen[0] == {"age": 40}
    for wrong in ({"action": "offr"}, {"propensity": "p"}):
        with pytest.raises(ValueError, match="no column"):
            run(path, **{"propensity": 0.5, **names, **wrong})
    with pytest.raises(ValueError, match="name the field of the reward"):
        run(path, **names | {"reward": None})
    with pytest.raises(ValueError, match="no propensities"):
        run(path, **names, propensity=None)


def test_logs__one_propensity_for_all_holds_for_json_too(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"_label_Action": 2, "_label_cost": -1}\n' * 60)
    assert run(path, propensity=0.5, model="none").decisions == 60


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


ODD = ["x", b"x", np.str_("x"), None, [1.0], np.array([1.0, 2.0]), {}, 10**400, 1j, np.inf, "n.a.!",
       "10" * 300, np.datetime64("2020-01-01"), pd.NA]  # fmt: skip


def told(log, tmp_path, kind):
    """The log as it is kept; text where the file has nothing else."""
    if kind == "columns":
        return log
    if kind == "frame":
        return pd.DataFrame(log)
    if kind == "csv":
        pd.DataFrame(log).to_csv(tmp_path / "log.csv")
        return tmp_path / "log.csv"
    if kind in ("arrow", "parquet"):
        table = pa.table({name: [str(each) for each in column] for name, column in log.items()})
        if kind == "arrow":
            return table
        pq.write_table(table, tmp_path / "log.parquet")
        return tmp_path / "log.parquet"
    keys = {"action": "_label_Action", "reward": "reward", "propensity": "_label_probability"}
    lines = []
    for row in zip(*log.values(), strict=True):
        event = dict(zip(map(keys.get, log), row, strict=True))
        event["_label_Action"] = (
            event["_label_Action"] + 1 if type(event["_label_Action"]) is int else "x"
        )
        lines.append(json.dumps(event, default=str))
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    return tmp_path / "log.jsonl"


@pytest.mark.parametrize("column", ["action", "reward", "age"])
@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize("encoded", [False, True])
def test_logs__text_that_is_no_utf_8_is_one_row(column, in_batches, encoded):
    """Arrow quoted the cell, and nobody's row was read."""
    log = {**coins(60), "age": np.arange(60)}
    cells = [str(each).encode() for each in log[column][1:]]
    seen = []
    for first in (b"\xff1", b"01"):
        buffers = pa.array([first, *cells], pa.binary()).buffers()
        text = pa.Array.from_buffers(pa.string(), 60, buffers)
        table = pa.table({**log, column: text.dictionary_encode() if encoded else text})

        def policy(contexts):
            seen.append(contexts["age"])
            return np.tile([0.0, 1.0], (len(contexts), 1))

        source = iter(table.to_batches()) if in_batches else table
        assert run(source, policy, model="none", propensity=0.5).decisions == 60
    assert seen[0].dtype == seen[1].dtype
    assert list(seen[0])[1:] == list(seen[1])[1:]
    assert seen[0][0] == ("\ufffd1" if column == "age" else 0)


@pytest.mark.parametrize("kind", ["columns", "frame", "csv", "arrow", "parquet", "json"])
@pytest.mark.parametrize("column", ["action", "reward", "propensity"])
def test_logs__one_odd_cell_moves_the_release_as_far_as_a_row_may(column, kind, tmp_path):
    n = 60
    plain = {"action": [0, 1] * (n // 2), "reward": [1.0] * n, "propensity": [0.5] * n}
    values = []
    for odd in (plain[column][1], *ODD):
        log = {name: list(each) for name, each in plain.items()}
        log[column][1] = odd
        with observed("release") as seen:
            run(told(log, tmp_path, kind), propensity=None, model="none")
        values.append(np.ravel(seen[-1].value))
    assert max(np.linalg.norm(each - values[0]) for each in values) <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("at", [0, 1, 30, 59])
def test_logs__a_row_of_too_many_or_too_few_cells_is_odd_alone(at, tmp_path, monkeypatch):
    """The first one would move everybody's columns, and any other would refuse the file."""
    monkeypatch.setattr("discreet.evaluation.columns.BATCH", 25)
    values = []
    for odd in ("1,1.0,0.5", "1,1.0,0.5,", "1,1.0,0.5,7,8", "1", "1,,,,,,,"):
        lines = ["0,1.0,0.5", "1,1.0,0.5"] * 30
        lines[at] = odd
        (tmp_path / "log.csv").write_text("\n".join(["action,reward,propensity", *lines]))
        with observed("release") as seen:
            assert run(tmp_path / "log.csv", propensity=None, model="none").decisions == 60
        values.append(np.ravel(seen[-1].value))
    assert max(np.linalg.norm(each - values[0]) for each in values) <= 2 * (1 + 1e-9)


def test_logs__actions_are_found_by_name_whatever_stands_in_other_rows(tmp_path):
    want = run({**coins(60)}, model="none", propensity=0.5)
    for names, actions in ((np.array(["00", "0"]), ["00", "0"]), (np.array([7, 9]), [7, 9])):
        for odd in ("x", [1], {"a": 1}, None):
            log = {**coins(60)}
            log["action"] = [*names[log["action"]].tolist(), odd]
            log["reward"] = [*log["reward"], 0.0]
            for kind in ("columns", "frame", "csv"):
                found = run(told(log, tmp_path, kind), model="none", actions=actions)
                assert abs(61 * found.estimate - 60 * want.estimate) <= 1


@pytest.mark.parametrize("model", ["none", "mean"])
def test_unread__rows_may_have_earned_anything_and_the_interval_says_so(model, tmp_path):
    log = pd.DataFrame({**coins(20_000), "p": np.full(20_000, 0.5)})
    names = np.array(["call", "mail"])[log["action"]]
    log.assign(action=names).to_csv(tmp_path / "log.csv")
    given = {"epsilon": 1.0, "propensity": "p", "model": model}
    lost = run(tmp_path / "log.csv", **given)  # nobody said which actions there are
    assert lost.unread > 0.97
    assert "of the rows name no action" in str(lost)
    assert lost.high - lost.low > 0.97
    found = run(tmp_path / "log.csv", **given, actions=["call", "mail"])
    assert found.unread == 0
    assert found.low < 0.7 < found.high < found.low + 0.05
    half = log.assign(action=np.where(np.arange(len(log)) % 20 < 10, names, None))
    assert run(half, **given, actions=["call", "mail"]).unread == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("kind", ["csv", "folder", "pattern", "batches", "data set", "jsonl"])
def test_logs__are_read_some_rows_at_a_time(kind, tmp_path, monkeypatch):
    log = pd.DataFrame({**coins(700), "propensity": np.full(700, 0.5), "age": np.arange(700)})
    want = run(log, propensity=None)
    for module in ("columns", "records"):
        monkeypatch.setattr(f"discreet.evaluation.{module}.BATCH", 300)
    table = pa.table(log)
    for at in (0, 300, 600):
        pq.write_table(table.slice(at, 300), tmp_path / f"{at}.parquet")
    log.to_csv(tmp_path / "log.csv")
    fields = log.rename(columns={"propensity": "p"}).to_json(orient="records", lines=True)
    (tmp_path / "log.jsonl").write_text(fields)
    source = {
        "csv": tmp_path / "log.csv", "folder": tmp_path, "pattern": str(tmp_path / "*.parquet"),
        "batches": iter(table.to_batches(max_chunksize=300)), "jsonl": tmp_path / "log.jsonl",
        "data set": pa.dataset.dataset(sorted(map(str, tmp_path.glob("*.parquet")))),
    }[kind]  # fmt: skip
    sizes = []

    def policy(contexts):
        sizes.append(len(contexts))
        return np.tile([0.0, 1.0], (len(contexts), 1))

    named = {"propensity": "p", "action": "action", "reward": "reward"}
    found = run(source, policy, **(named if kind == "jsonl" else {"propensity": None}))
    assert found.estimate == pytest.approx(want.estimate)
    assert sizes == [300, 300, 100]


def test_logs__half_a_character_in_json_is_one_row(tmp_path):
    path = tmp_path / "log.jsonl"
    good = json.dumps({"_label_Action": 2, "_label_cost": -1, "_label_probability": 0.5})
    path.write_bytes(b"\n".join([good.encode()] * 30 + [b'{"c": "\xff"}']))
    assert run(path, propensity=None, model="none").decisions == 31


def test_policy__sees_no_outcome_and_a_row_it_cannot_decide_tells_nothing():
    seen = []

    def policy(table):
        seen.append(sorted(table))
        chances = np.tile([0.0, 1.0], (4000, 1))
        chances[:4] = [[np.nan, np.nan], [-1.0, 2.0], [0.4, 0.4], [np.inf, 0.0]]
        return chances

    log = {**coins(), "age": np.ones(4000), "p": np.full(4000, 0.5)}
    for each in (log, pd.DataFrame(log), pa.table(log)):
        with observed("release") as released:
            run(each, policy, propensity="p", model="none")
        with observed("release") as plain:
            run(each, propensity="p", model="none")
        moved = np.ravel(released[-1].value) - np.ravel(plain[-1].value)
        assert 0 < np.linalg.norm(moved) <= 4 * 2
    assert seen == [["age"]] * 3


def test_model__a_linear_one_predicts_nothing_from_features_that_are_none():
    n = 400
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2, 2)) / 3
    values = []
    for odd in (0.1, np.nan, np.inf, -1e308):
        X[[10, 21], 0, 0] = odd  # a row that predicts, one that is evaluated
        log = Log("ours", X.copy(), np.arange(n) % 2, np.full(n, 0.75), np.full(n, 0.5), 2)
        values.append(run(log, model="linear", propensity=None).estimate)
    assert np.isfinite(values).all()
    assert np.ptp(values) < 0.1


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
