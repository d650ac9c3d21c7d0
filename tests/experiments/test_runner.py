import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from discreet.experiments import runner
from discreet.experiments.experiment import Choice, Experiment
from discreet.experiments.results import COLUMNS
from discreet.experiments.runner import load, run, run_cell
from discreet.experiments.statistics import interval
from discreet.experiments.tasks import TASKS, cells_of
from discreet.experiments.writing import write_atomically

SMALL = Experiment(
    environments=(Choice("sphere", {"dim": 3, "actions": 4}),),
    learners=(Choice("LinearBandit"), Choice("LinUCB")),
    epsilons=(0.5, 2.0),
    rounds=600,
    seeds=(1, 2, 3),
    points=5,
)


def test_run__the_frame_is_tidy_and_saved(tmp_path):
    results = run(SMALL, tmp_path, workers=1)
    frame = results.frame
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 9 * 5
    assert not frame.isna().any().any()
    pd.testing.assert_frame_equal(frame, pd.read_parquet(tmp_path / "results.parquet"))
    pd.testing.assert_frame_equal(frame, load(tmp_path).frame)
    assert results.complete
    assert set(frame["trust"]) == {"joint", "none"}
    assert (frame.groupby(["seed", "n"])["blind"].nunique() == 1).all()  # the same people for all


def test_run__finished_cells_are_not_run_again_and_a_larger_experiment_adds_to_them(
    tmp_path, monkeypatch
):
    ran = []
    monkeypatch.setattr(
        runner, "run_cell", lambda cell, folder: ran.append(cell) or run_cell(cell, folder)
    )
    first = run(SMALL, tmp_path, workers=1).frame
    assert len(ran) == 9
    again = run(SMALL, tmp_path, workers=1).frame
    assert len(ran) == 9
    pd.testing.assert_frame_equal(first, again)
    larger = Experiment(**{**vars(SMALL), "seeds": (1, 2, 3, 4)})
    run(larger, tmp_path, workers=1)
    assert [cell.seed for cell in ran[9:]] == [4, 4, 4]


def test_run__a_damaged_cell_is_run_again(tmp_path):
    first = run(SMALL, tmp_path, workers=1).frame
    damaged = next((tmp_path / "cells").glob("*.json"))
    damaged.write_text(damaged.read_text()[:40])
    pd.testing.assert_frame_equal(first, run(SMALL, tmp_path, workers=1).frame)


def _own_table(path, slope, task):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 600)
    labels = slope * x + 0.01 * rng.standard_normal(600)
    if task == "bandits":
        labels = np.where((x > 0.5) == (slope > 0), "yes", "no")
    pd.DataFrame({"x": x, "y": labels}).to_csv(path, index=False)


OWN = {
    "bandits": Experiment(
        environments=(Choice("table", {
            "table": "FILE", "context": {"x": {"low": 0, "high": 1}}, "label": "y",
            "actions": ["yes", "no"]}, "mine"),),
        learners=(Choice("LinUCB"),), rounds=300, seeds=(1,), points=3,
    ),
    "regression": Experiment(
        environments=(Choice("table", {
            "path": "FILE", "label": "y", "label_range": [-1, 1], "features": {"x": [0, 1]},
            "clip": True}, "mine"),),
        learners=(Choice("OLS"),), rounds=400, seeds=(1,), points=3, task="regression",
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", OWN)
def test_run__a_data_file_that_changed_is_run_again(task, tmp_path):
    path = tmp_path / "mine.csv"
    choice = OWN[task].environments[0]
    key = "table" if task == "bandits" else "path"
    options = {**choice.options, key: str(path)}
    mine = Experiment(**{**vars(OWN[task]), "environments": (Choice("table", options, "mine"),)})
    _own_table(path, 1.0, task)
    first = run(mine, tmp_path / "out", workers=1).frame
    pd.testing.assert_frame_equal(first, run(mine, tmp_path / "out", workers=1).frame)
    _own_table(path, -0.3, task)
    with pytest.raises(ValueError, match="today's data files"):
        load(tmp_path / "out")
    second = run(mine, tmp_path / "out", workers=1).frame
    assert not np.allclose(first["value"], second["value"])
    pd.testing.assert_frame_equal(second, run(mine, tmp_path / "new", workers=1).frame)


def test_run_cell__data_that_change_on_the_way_are_refused(tmp_path):
    path = tmp_path / "mine.csv"
    choice = OWN["regression"].environments[0]
    options = {**choice.options, "path": str(path)}
    _own_table(path, 1.0, "regression")
    (cell,) = cells_of(
        Experiment(
            **{**vars(OWN["regression"]), "environments": (Choice("table", options, "mine"),)}
        )
    )
    _own_table(path, -0.3, "regression")
    with pytest.raises(ValueError, match="has changed since the run began"):
        run_cell(cell, tmp_path)
    assert not list(tmp_path.glob("*.json"))


def test_run__does_not_depend_on_the_number_of_processes(tmp_path):
    watched = []
    alone = run(SMALL, tmp_path / "one", workers=1).frame
    two = run(SMALL, tmp_path / "two", workers=2, watch=lambda cell, _: watched.append(cell)).frame
    pd.testing.assert_frame_equal(alone, two)
    assert sorted(cell.key for cell in watched) == sorted(cell.key for cell in cells_of(SMALL))


MANY = Experiment(**{**vars(SMALL), "rounds": 2000, "seeds": tuple(range(25))})
SCRIPT = """
import json, sys
from pathlib import Path
from discreet.experiments.experiment import Experiment
from discreet.experiments.runner import run
if __name__ == "__main__":
    run(Experiment.from_dict(json.loads(sys.argv[1])), Path(sys.argv[2]), workers=2)
"""


@pytest.mark.thorough
def test_run__killed_three_times_ends_with_the_frame_of_an_undisturbed_run(tmp_path):
    script = tmp_path / "go.py"
    script.write_text(SCRIPT)
    killed = tmp_path / "killed"
    command = [sys.executable, script, json.dumps(MANY.to_dict()), killed]
    moments, finished = random.Random(5), []
    for _ in range(3):
        process = subprocess.Popen(command, start_new_session=True)
        target = len(finished) + moments.randrange(1, 20)  # at some moment after so many cells
        while len(list((killed / "cells").glob("[!.]*.json"))) < target:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.005)
        time.sleep(moments.random() * 0.02)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (killed / "results.parquet").exists()
        finished = list((killed / "cells").glob("[!.]*.json"))
    _wait_until_gone(process.pid)
    before = {path: path.stat().st_mtime_ns for path in (killed / "cells").glob("[!.]*.json")}
    assert 3 <= len(before) < 75
    subprocess.run(command, check=True)
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items())
    calm = run(MANY, tmp_path / "calm", workers=1).frame
    assert len(calm) == 25 * 3 * 5
    pd.testing.assert_frame_equal(
        pd.read_parquet(killed / "results.parquet"), calm, check_exact=True
    )


def _wait_until_gone(group: int) -> None:
    """Workers of a killed runner end by themselves."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("workers outlive a killed runner")


def test_write_atomically__leaves_the_old_file_when_it_fails(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_run__the_runner_takes_little_beside_the_learners():
    # Processor time, so that what else the machine does hardly counts. LinUCB is the worst case of
    # the bandit benchmark: little work in many windows.
    experiment = Experiment(
        (Choice("sphere", {"dim": 10}),), (Choice("LinUCB"),), rounds=100_000, seeds=(0,)
    )
    (cell,) = cells_of(experiment)
    fractions = []
    for _ in range(2):
        seconds = TASKS["bandits"].run(cell).seconds
        fractions.append(seconds["runner"] / seconds["learner"])
    assert min(fractions) < 0.05


def test_load__says_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="not the folder of a run"):
        load(tmp_path)
    run(SMALL, tmp_path, workers=1)
    for path in (tmp_path / "cells").glob("*.json"):
        path.unlink()
    with pytest.raises(ValueError, match="no finished cell"):
        load(tmp_path)


def test_summary__means_intervals_and_costs_are_those_of_the_frame(tmp_path):
    results = run(SMALL, tmp_path, workers=1)
    summary = results.summary()
    assert list(summary["epsilon"]) == [2.0, 0.5, np.inf]  # as in the experiment, budgets falling
    last = results.frame[results.frame["n"] == 600]
    private = last[last["epsilon"] == 0.5].sort_values("seed")["value"].to_numpy()
    plain = last[last["learner"] == "LinUCB"].sort_values("seed")["value"].to_numpy()
    line = summary[summary["epsilon"] == 0.5].iloc[0]
    assert line["mean"] == pytest.approx(private.mean())
    assert line["half"] == pytest.approx(4.302653 * private.std(ddof=1) / np.sqrt(3))
    assert line["cost"] == pytest.approx((private - plain).mean())
    assert line["cost_half"] == pytest.approx(interval(private - plain)[1])
    assert line["gained"] == pytest.approx(1 - private.mean() / last["blind"].unique().mean())
    assert summary[summary["learner"] == "LinUCB"]["cost"].iloc[0] == 0
