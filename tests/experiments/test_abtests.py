"""`discreet abtest run`: a file, tables that grow, a look each time, a report."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from discreet.cli import main
from discreet.evaluation import ABTest
from discreet.experiments import abtests
from discreet.experiments.abtests import Plan

FILE = """
name = "Button <new>"
people = "people.csv"
person = "id"
arms = ["old", "new"]
salt = "button"
epsilon = 8.0
lower_is_better = ["left"]
[metrics]
bought = [0, 1]
left = [0, 1]
"""


def people(path, n):
    test = ABTest(("old", "new"), {"bought": (0, 1)}, 1.0, salt="button")
    rng = np.random.default_rng(0)
    ids = np.arange(n)
    better = test.assign(ids) == "new"
    bought = (rng.random(n) < 0.2 + 0.2 * better).astype(int)
    pd.DataFrame({"id": ids, "bought": bought, "left": 0}).to_csv(path)


def run(folder):
    return main(["abtest", "run", str(folder / "test.toml"), "--out", str(folder / "out"),
                 "--no-open"])  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "test.toml").write_text(FILE)
    return tmp_path


def test_run__each_time_is_a_look_and_nobody_counts_twice(folder, capsys):
    people(folder / "people.csv", 1500)
    assert run(folder) == 0
    people(folder / "people.csv", 4000)
    assert run(folder) == 0
    assert "Look 2: new beats old; no guardrail broken." in capsys.readouterr().out
    record = json.loads((folder / "out" / "looks.json").read_text())
    assert [sum(each["people"].values()) for each in record["looks"]] == [1500, 4000]
    assert record["guarantee"]["epsilon"] == 8.0
    assert "exact lattice" in record["guarantee"]["sampler"]
    page = (folder / "out" / "report.html").read_text()
    for words in ("Button &lt;new&gt;", "new beats old", "<svg", "one person", "p-value"):
        assert words in page


def test_run__too_early_says_so(folder, capsys):
    people(folder / "people.csv", 1)
    assert run(folder) == 0
    assert "Too few people" in capsys.readouterr().out
    assert not (folder / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('salt = "button"', "", "salt must be given"), ("arms", "arm", "unknown arm"),
        ("epsilon = 8.0", "epsilon = 8.0\nlook = 3", "unknown look"),
        ("epsilon = 8.0", "epsilon = ", "not valid TOML"), ('"id"', '"name"', "no column 'name'"),
    ],
)  # fmt: skip
def test_run__mistakes_are_one_sentence(folder, capsys, old, new, word):
    people(folder / "people.csv", 10)
    (folder / "test.toml").write_text(FILE.replace(old, new))
    with pytest.raises(SystemExit):
        run(folder)
    assert word in capsys.readouterr().err


def test_run__another_test_in_the_same_folder_is_refused(folder, capsys):
    people(folder / "people.csv", 500)
    assert run(folder) == 0
    (folder / "test.toml").write_text(FILE.replace("8.0", "9.0"))
    with pytest.raises(SystemExit):
        run(folder)
    assert "another test" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_run__an_id_is_the_text_that_stands_there_whatever_other_rows_hold(folder, kind, capsys):
    (folder / "test.toml").write_text(FILE.replace("people.csv", f"people.{kind}"))

    def write(ids):
        frame = pd.DataFrame({"id": ids, "bought": 1, "left": 0})
        if kind == "csv":
            frame.to_csv(folder / "people.csv")
        else:
            frame.to_parquet(folder / "people.parquet")

    def counted():
        assert run(folder) == 0
        record = json.loads((folder / "out" / "looks.json").read_text())
        return sum(record["looks"][-1]["people"].values())

    many = [f"{i:04}" for i in range(900)]
    write([*many, *[str(i) for i in range(900)]] if kind == "csv" else many)
    assert counted() == (1800 if kind == "csv" else 900)  # "0007" is not 7
    write([*many, "x1", "NA", "1e3"])
    assert counted() == (1803 if kind == "csv" else 903)  # and who was there is known
    write([*many, "" if kind == "csv" else None])
    with pytest.raises(SystemExit):
        run(folder)
    assert "rows without an id" in capsys.readouterr().err


def test_run__one_odd_cell_of_a_file_is_one_person(folder):
    sums = []
    for odd in ("1", "x", "n.a.!", "", "1e999"):
        table = pd.DataFrame({"id": range(900), "bought": ["1"] * 899 + [odd], "left": 0})
        table.to_csv(folder / "people.csv")
        plan = Plan.read(folder / "test.toml")
        plan = replace(plan, arguments={**plan.arguments, "epsilon": float("inf")})
        found = abtests.run(plan, folder / str(len(sums)))
        sums.append(sum(each.estimate * found.look.people[arm]
                        for arm, each in found.look["bought"].arms.items()))  # fmt: skip
    assert max(abs(each - sums[0]) for each in sums) <= 1 + 1e-6
