"""ABTest: who counts, what a person moves, and what a look shows."""

import hashlib
import itertools
import json
import math
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from discreet.evaluation import ABTest
from discreet.evaluation.assignment import position
from discreet.evaluation.columns import tables
from discreet.evaluation.intervals import SPREAD
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import SENSITIVITY, BatchTotals, RunningTotals
from discreet.privacy import Budget, SecureNoise, SeededNoise, gaussian_mu
from discreet.state import StateInUse

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"
RANGES = {"bought": (0.0, 1.0), "spent": (-20.0, 80.0), "rating": (1.0, 5.0)}


def made(mechanism="batches", epsilon=np.inf, metrics=None, **more):
    more = {"noise": SeededNoise(0), "salt": "here", **more}
    metrics = {"bought": (0, 1)} if metrics is None else metrics
    return ABTest(("A", "B"), metrics, epsilon, mechanism=mechanism, **more)


def given(test, person, values):
    """The sums of a look at one more person beside three, one of them in the other arm."""
    for other in ("b0", "b1", "b2", "b3", "b4", "b5"):
        test.add(other, dict.fromkeys(test.metrics, 0.0))
    test.add(person, values)
    test.look()
    found = test.released[-1]
    return np.stack([found.sums * test.weights, found.spreads * test.weights * SPREAD])


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_sensitivity__no_replaced_person_moves_a_look_farther_and_one_goes_so_far(mechanism):
    # Worst cases: both ends of every range, between them, no value at all, beyond the bounds.
    ends = [(low, high, 0.62 * low + 0.38 * high, np.nan, 1e300) for low, high in RANGES.values()]
    rows = [dict(zip(RANGES, each, strict=True)) for each in itertools.product(*ends)]
    seen = [given(made(mechanism, metrics=RANGES), "ada", row) for row in rows[::3]]
    apart = max(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert 0.9 * SENSITIVITY < apart <= SENSITIVITY * (1 + 1e-9)


@pytest.mark.parametrize("kind", [BatchTotals, RunningTotals])
def test_noise__has_the_std_that_the_budget_asks_for(kind, assert_distribution):
    looks = (4,) if kind is RunningTotals else ()
    totals = kind(6000, Budget(1.0, 1e-6), *looks, SeededNoise(5))
    # One release of sensitivity 1: by hand, not by the formula under test.
    alone = 4.224678889 * SENSITIVITY
    growth = (
        1.0 if kind is BatchTotals else math.sqrt(1 + 1 / 4 + 9 / 64 + 25 / 256)
    )  # (1 - x)^-1/2
    assert totals.std == pytest.approx(alone * growth, rel=0.03)
    for _ in range(2):
        totals.add(np.ones(6000))
        std = totals.std
        value, totals = totals.closed()
    assert_distribution(value - (2 if looks else 1), stats.norm(0, std).cdf)


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_guarantee__agrees_with_dp_accounting(mechanism):
    test = made(mechanism, 1.0, looks=3)
    for start in (0, 100, 200):
        test.add_many(range(start, start + 100), {"bought": np.ones(100)})
        test.look()
    promise = test.guarantee
    assert (promise.epsilon, promise.delta, promise.unit) == (1.0, 1e-6, "person")
    worst = max(release.mu for release in promise.releases)
    scopes = {release.scope for release in promise.releases}
    assert len(scopes) == len(promise.releases)  # disjoint people: the worst counts
    found = pld.from_gaussian_mechanism(1 / worst).get_epsilon_for_delta(1e-6)
    assert found == pytest.approx(1.0, rel=1e-3)
    assert "one person" in promise.statement()


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_without_privacy__means_are_means_of_everybody(mechanism):
    test = made(mechanism, metrics=RANGES)
    rng = np.random.default_rng(0)
    people = np.arange(900)
    values = {
        "bought": rng.integers(0, 2, 900).astype(float),
        "spent": rng.normal(10, 40, 900),
        "rating": np.where(rng.random(900) < 0.3, np.nan, rng.integers(1, 6, 900)),
    }
    for some in np.split(people, 3):
        test.add_many(some, {n: v[some] for n, v in values.items()})
        look = test.look()
    arms = test.assign(people)
    missing = {"bought": 0.0, "spent": 0.0, "rating": 1.0}
    released = test.released[-1:] if test.running else test.released
    spreads = sum(each.spreads for each in released)
    for m, (name, (low, high)) in enumerate(RANGES.items()):
        column = np.clip(np.where(np.isnan(values[name]), missing[name], values[name]), low, high)
        for arm in "AB":
            assert look[name][arm].estimate == pytest.approx(column[arms == arm].mean())
        x = (column - low) / (high - low)
        calm = [(x * (1 - x))[arms == arm].sum() for arm in "AB"]
        assert spreads[:, m] == pytest.approx(calm)
    assert look.people == {arm: int((arms == arm).sum()) for arm in "AB"}
    assert look.number == 3 == len(test.history)


def test_repeats__rows_of_one_call_are_averaged_and_later_calls_do_not_count():
    test = made("running")
    rows = {"bought": [1.0, 0.0, 0.0, 1.0]}
    assert test.add_many(["ada", "ada", "ada", "bob"], rows).tolist() == [True] * 4
    assert not test.add("ada", {"bought": 1.0})
    assert test.add_many(["bob", "eve", 7, "7"], {"bought": np.ones(4)}).tolist() == [
        False, True, True, True
    ]  # fmt: skip
    test.look()
    total = test.released[-1].sums.sum()
    assert total == pytest.approx(1 / 3 + 1 + 1 + 1)  # ada, bob, eve, 7 who is "7"
    assert sum(test.released[-1].sizes) == 4


@pytest.mark.parametrize("value", [0.3, 9.9, -5.0, np.nan, np.inf, None, "a"])
def test_add__answers_the_same_whatever_the_value_is(value):
    test = made()
    assert test.add("ada", {"bought": value}) is True
    assert test.add("ada", {"bought": value}) is False


def test_add_many__takes_frames_arrow_and_files(tmp_path):
    frame = pd.DataFrame({"person": ["a", "b", "c"], "bought": [1, 0, 1]})
    frame.to_csv(tmp_path / "people.csv")
    feather.write_feather(frame, tmp_path / "people.arrow")
    tables = [frame, pa.table(frame), pa.table(frame).to_batches()[0], pa.table(frame).to_reader(),
              {"person": ["a", "b", "c"], "bought": [1, 0, 1]}, tmp_path / "people.csv",
              tmp_path / "people.arrow"]  # fmt: skip
    for table in tables:
        test = made()
        assert test.add_many(table).all()
        assert test.add_many(frame["person"], frame).sum() == 0


@pytest.mark.parametrize("kind", ["csv", "pattern", "batches"])
def test_add_many__takes_rows_some_at_a_time_and_means_over_all_of_them(
    kind, tmp_path, monkeypatch
):
    frame = pd.DataFrame({"person": [*range(50), *range(25)], "bought": [1.0] * 50 + [0.0] * 25})
    monkeypatch.setattr("discreet.evaluation.columns.BATCH", 20)
    frame.to_csv(tmp_path / "people.csv")
    table = pa.table(frame)
    for at in (0, 40):
        pq.write_table(table.slice(at, 40), tmp_path / f"{at}.parquet")
    source = {"csv": tmp_path / "people.csv", "pattern": str(tmp_path / "*.parquet"),
              "batches": iter(table.to_batches(max_chunksize=20))}[kind]  # fmt: skip
    test = made("running")
    assert test.add_many(source).tolist() == [True] * 75
    test.look()
    assert test.released[-1].sums.sum() == pytest.approx(25 + 25 / 2)


ODD = ["x", b"x", np.str_("x"), None, [1.0], np.array([1.0, 2.0]), {}, 10**400, 1j, np.inf, "n.a.!",
       "10" * 300, np.datetime64("2020-01-01"), pd.NA]  # fmt: skip


@pytest.mark.parametrize("kind", ["list", "frame", "csv", "text", "arrow"])
@pytest.mark.parametrize("first", [1.0, 1, True])
def test_odd_cell__of_one_person_moves_the_sum_as_far_as_a_person_may(kind, first, tmp_path):
    people = [f"p{i}" for i in range(200)]
    sums = []
    for odd in (first, *ODD):
        table = {"person": people, "bought": [first] * 100 + [odd] + [first] * 99}
        if kind == "frame":
            table = pd.DataFrame(table)
        elif kind == "csv":  # as pandas reads it: text, because of one cell
            pd.DataFrame(table).to_csv(tmp_path / "people.csv")
            table = pd.read_csv(tmp_path / "people.csv")
        elif kind == "text":
            table["bought"] = np.array([str(each) for each in table["bought"]])
        elif kind == "arrow":
            table = pa.table({name: [str(each) for each in table[name]] for name in table})
        test = made()
        assert test.add_many(table).all()
        test.look()
        sums.append(test.released[-1].sums)
    assert max(np.linalg.norm(each - sums[0]) for each in sums) <= SENSITIVITY * (1 + 1e-9)
    assert sums[0].sum() == pytest.approx(200)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_tables__a_cell_of_a_csv_file_that_was_quoted_is_nobody_elses(ending, place, tmp_path):
    for odd in ("a\rb", "\r", "\n", "a\r\nb", '"', 'a"b', ",", "", "\x00", "\u2028", "NA", " "):
        rows = [["p1", "1", "x"], ["p2", "0", "x"], ["p3", "1", "x"]]
        rows[1][place] = odd
        frame = pd.DataFrame(rows, columns=["person", "bought", "said"])
        frame.to_csv(tmp_path / "people.csv", index=False, lineterminator=ending)
        (read,) = tables(tmp_path / "people.csv")
        assert list(read) == list(frame)
        assert read.to_numpy().tolist() == rows


def test_add__interrupted_counts_people_and_nobody_twice(monkeypatch):
    test = made("running")

    def interrupted(totals, term):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunningTotals, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        test.add_many(range(40), {"bought": np.ones(40)})
    monkeypatch.undo()
    assert not test.add_many(range(40), {"bought": np.ones(40)}).any()
    assert test.look().people == {arm: test.assign(range(40)).tolist().count(arm) for arm in "AB"}


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_room__is_for_people_not_for_rows(mechanism, monkeypatch):
    monkeypatch.setattr("discreet.evaluation.abtest.MOST", 100)
    test = made(mechanism)
    for _ in range(3):  # the same people again, and looks between
        test.add_many([*range(60), *range(60)], {"bought": np.ones(120)})
        test.look()
    test.add_many(range(60, 100), {"bought": np.ones(40)})
    test.look()
    with pytest.raises(ValueError, match="at most 100 people"):
        test.add("one more", {"bought": 1.0})


def test_refusals__change_nothing_and_quote_no_data():
    test = made()
    before = json.dumps(test.state_dict()["state"], default=str)
    for people, values in (
        (["a"], {"paid": [1]}), (["a"], {"bought": [1, 2]}), ([1.5], {"bought": [3.25]}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"column|value|id") as refused:
            test.add_many(people, values)
        assert "3.25" not in str(refused.value)
    assert json.dumps(test.state_dict()["state"], default=str) == before


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"arms": ("A",)}, "arms"), ({"arms": ("A", "A")}, "arms"), ({"metrics": {}}, "metrics"),
        ({"metrics": {"x": (1, 0)}}, "range"), ({"delta": 0.0}, "delta"),
        ({"split": (0.5, 0.6)}, "split"), ({"split": (1.0,)}, "split"), ({"looks": 0}, "looks"),
        ({"mechanism": "tree"}, "mechanism"), ({"confidence": 1.0}, "confidence"),
        ({"lower_is_better": ("y",)}, "lower_is_better"),
    ],
)  # fmt: skip
def test_arguments__are_checked(change, word):
    with pytest.raises(ValueError, match=word):
        ABTest(**{"arms": ("A", "B"), "metrics": {"x": (0, 1)}, "epsilon": 1.0, **change})


# -- the split -------------------------------------------------------------------------------------


def test_assign__is_the_public_hash_that_is_written_down():
    test = made(split=(0.2, 0.8), salt="colours")
    for person in ("ada", "Zoë", 17):
        digest = hashlib.sha256(f"colours:{person}".encode()).hexdigest()
        u = int(digest[:8], 16) / 2**32
        assert test.arm(person) == ("A" if u < 0.2 else "B")
    assert test.assign(range(20_000)).tolist().count("A") == pytest.approx(4000, abs=250)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_assign__is_the_same_in_a_browser():
    lines = PAGE.read_text().split("```js")[1].split("```")[0]
    code = f"(async (id) => {{ {lines}; console.log(u); }})('Zoë')"
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == position("checkout-1", "Zoë")


def test_sample_ratio__notices_who_gets_lost():
    fair, lost = made(), made()
    people = np.arange(6000)
    fair.add_many(people, {"bought": np.zeros(6000)})
    stays = (lost.assign(people) == "A") | (people % 5 > 0)
    lost.add_many(people[stays], {"bought": np.zeros(int(stays.sum()))})
    assert fair.look().sample_ratio_p_value > 0.05
    found = lost.look()
    assert found.sample_ratio_p_value < 0.001
    assert "not filled as declared" in " ".join(found.verdicts)


# -- looks -----------------------------------------------------------------------------------------


def test_look__says_who_wins_and_which_guardrail_breaks():
    test = made("running", 3.0, metrics={"bought": (0, 1), "left": (0, 1)},
                lower_is_better=("left",))  # fmt: skip
    rng = np.random.default_rng(1)
    people = np.arange(12_000)
    b = test.assign(people) == "B"
    test.add_many(people, {"bought": rng.random(12_000) < 0.2 + 0.1 * b,
                           "left": rng.random(12_000) < 0.1 + 0.1 * b})  # fmt: skip
    look = test.look()
    assert look.winners == (("B", "A"),)
    assert look.broken == (("left", "B", "A"),)
    assert look.verdicts == ("B beats A", "left is worse in B than in A")
    gain, loss = (look["bought"].difference(*pair) for pair in (("B", "A"), ("A", "B")))
    assert (gain.low, gain.high) == (-loss.high, -loss.low)
    assert gain.low > 0
    assert look["bought"].p_value("A", "B") == look["bought"].p_value("B", "A") < 0.05
    record = json.loads(json.dumps(look.to_dict()))
    assert record["metrics"]["bought"]["arms"]["A"]["low"] == look["bought"]["A"].low


def test_look__before_anybody_came_says_nothing_and_costs_nothing():
    for mechanism in ("batches", "running"):
        test = made(mechanism, 1.0)
        look = test.look()
        assert (look.number, look.verdicts) == (0, ("no difference is proved",))
        assert test.released == ()


def test_look__again_without_new_people_is_the_same_look():
    test = made("running", 1.0, looks=1)
    test.add_many(range(50), {"bought": np.ones(50)})
    assert test.look() == test.look()
    test.add("late", {"bought": 1.0})
    with pytest.raises(ValueError, match="used up"):
        test.look()


def test_look__at_a_small_batch_waits():
    test = made("batches", 0.3)
    test.add_many(range(20), {"bought": np.ones(20)})
    assert test.look().number == 0
    test.add_many(range(20, 2000), {"bought": np.ones(1980)})
    assert test.look().people == test.history[-1].people
    assert sum(test.look().people.values()) == 2000


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_look__interrupted_after_the_release_counts_nobody_twice(mechanism, monkeypatch):
    test = made(mechanism, 1.0)
    test.add_many(range(100), {"bought": np.ones(100)})
    kept = type(test._totals).closed

    def interrupted(totals):
        kept(totals)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(test._totals), "closed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        test.look()
    monkeypatch.undo()
    test.add_many(range(100, 200), {"bought": np.ones(100)})  # finishes the look first
    assert len(test.released) == 1
    assert sum(test.released[0].sizes) == 100
    assert abs(test.released[0].sums.sum() - 100) < 60
    test.look()
    assert abs(test.released[1].sums.sum() - (200 if test.running else 100)) < 80


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_history__interrupted_or_read_by_two_threads_is_what_it_would_be(mechanism, monkeypatch):
    def looked_at():
        test = made(mechanism, 2.0, RANGES)
        for batch in range(2):
            people = range(4000 * batch, 4000 * (batch + 1))
            test.add_many(people, {name: np.ones(4000) for name in RANGES})
            with test._live:
                test._close()
        return test

    expected = looked_at().history
    assert len(expected) == 2
    takes = []
    take = Reader.take

    def interrupted(reader, *release):
        takes.append(release)
        if len(takes) == 2:
            raise KeyboardInterrupt
        take(reader, *release)

    test = looked_at()
    with monkeypatch.context() as broken:
        broken.setattr(Reader, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            test.history  # noqa: B018
    assert test.history == expected

    test = looked_at()
    meanwhile = []

    def crossed(reader, *release):
        take(reader, *release)
        if not meanwhile:
            meanwhile.append(None)
            other = threading.Thread(target=lambda: meanwhile.append(test.history))
            other.start()
            other.join()

    with monkeypatch.context() as broken:
        broken.setattr(Reader, "take", crossed)
        assert test.history == expected
    assert meanwhile[1] == expected == test.history


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_saved__it_goes_on_where_it_was(mechanism, tmp_path):
    one, other = made(mechanism, 1.0), made(mechanism, 1.0)
    for test in (one, other):
        test.add_many(range(300), {"bought": np.ones(300)})
        test.look()
        test.add_many(range(300, 400), {"bought": np.zeros(100)})
    one.save(tmp_path / "test")
    loaded = ABTest.load(tmp_path / "test")
    assert loaded.history == other.history
    assert not loaded.add("5", {"bought": 1.0})
    again = loaded.look()
    assert again.people == other.look().people
    with pytest.raises((StateInUse, RuntimeError)):
        one.look()


def test_salt__is_drawn_where_it_is_left_out_and_kept(tmp_path):
    test = ABTest(("A", "B"), {"bought": (0, 1)}, 1.0)
    arms = test.assign(range(100)).tolist()
    test.save(tmp_path / "test")
    assert ABTest.load(tmp_path / "test").assign(range(100)).tolist() == arms
    assert ABTest(("A", "B"), {"bought": (0, 1)}, 1.0).assign(range(100)).tolist() != arms


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_secure_noise__draws_exactly(mechanism):
    test = made(mechanism, 1.0, noise=SecureNoise(), looks=3)
    test.add_many(range(200), {"bought": np.ones(200)})
    assert abs(test.look()["bought"]["A"].estimate - 1) < 0.5
    assert "exact lattice" in test.guarantee.sampler
    release = test.guarantee.releases[0]
    assert release.mu <= gaussian_mu(1.0, 1e-6) * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", ["batches", "running"])
def test_released__the_noise_of_each_metric_is_what_its_std_says(mechanism):
    arms = tuple(f"arm {i}" for i in range(60))
    test = ABTest(arms, RANGES, 10.0, mechanism=mechanism, noise=SeededNoise(4), salt="here")
    nearest = np.array([0.0, 0.0, 1.0])  # to 0, of each range: their terms are 0
    test.add_many(
        range(300), {name: np.full(300, x) for name, x in zip(RANGES, nearest, strict=True)}
    )
    test.look()
    found = test.released[-1]
    shares = np.array([0.0, 0.2, 0.0])  # of the ranges
    noise = found.sums - np.array(found.sizes)[:, None] * shares
    scaled = noise / np.array(found.stds)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=0.35)
