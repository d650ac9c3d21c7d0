"""Experiments on a cluster: the frame of a run on one machine, whoever dies on the way."""

import json
import os
import signal
import sys

import pandas as pd
import pytest
from distributed import Client, LocalCluster

from discreet.cli import main
from discreet.distributed import cluster as rooms
from discreet.experiments import runner
from discreet.experiments.experiment import Choice, Experiment
from discreet.experiments.measure import grid
from discreet.experiments.runner import run
from papers.exhibit import Paper
from papers.run import reproduce
from papers.streaming import suboptimality

EXPERIMENT = Experiment(
    environments=(Choice("sphere", {"dim": 3, "actions": 4}),),
    learners=(Choice("LinearBandit"), Choice("LinUCB")),
    epsilons=(1.0,),
    rounds=400,
    seeds=(1, 2, 3),
    points=4,
)
TOML = """
rounds = 300
seeds = [1]
points = 3
epsilons = [1.0]
[[environments]]
name = "sphere"
dim = 3
[[learners]]
name = "LinUCB"
"""


def same_records(first, second):
    names = sorted(os.listdir(first / "cells"))
    assert names == sorted(os.listdir(second / "cells"))
    assert names
    for name in names:
        one, other = (json.loads((each / "cells" / name).read_text()) for each in (first, second))
        one.pop("seconds"), other.pop("seconds")
        assert one == other


def test_run__on_a_cluster_finds_the_same_numbers_to_the_last_digit(cluster, tmp_path):
    far = run(EXPERIMENT, tmp_path / "far", cluster=cluster.scheduler_address)
    here = run(EXPERIMENT, tmp_path / "here", workers=1)
    pd.testing.assert_frame_equal(far.frame, here.frame, check_exact=True)
    same_records(tmp_path / "far", tmp_path / "here")


def test_reproduce__on_a_cluster_finds_the_same_numbers(cluster, tmp_path):
    toy = Paper("toy", "A toy", "Nobody (2000)", "About nothing.",
                lambda quick: grid(suboptimality, seeds=2, dim=(5,), how=("ours",), p=(1.5,),
                                   rounds=(200,), step=(0.1,)),
                lambda found, quick: [])  # fmt: skip
    far, here = tmp_path / "far", tmp_path / "here"
    reproduce([toy], far, cluster=cluster.scheduler_address)
    reproduce([toy], here, workers=1)
    same_records(far, here)


def test_run__a_killed_worker_changes_nothing(cluster, tmp_path):
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2)
        pids = list(client.run(os.getpid).values())
    seen = []

    def watch(cell, record):
        seen.append(cell.key)
        if len(seen) == 1:
            os.kill(pids[0], signal.SIGKILL)

    far = run(EXPERIMENT, tmp_path / "far", cluster=cluster.scheduler_address, watch=watch)
    assert len(set(seen)) == len(seen) == 6
    here = run(EXPERIMENT, tmp_path / "here", workers=1)
    pd.testing.assert_frame_equal(far.frame, here.frame, check_exact=True)
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2)
        assert pids[0] not in client.run(os.getpid).values()


def test_command__takes_a_cluster(cluster, tmp_path, capsys):
    (tmp_path / "experiment.toml").write_text(TOML)
    out = tmp_path / "out"
    arguments = ["run", str(tmp_path / "experiment.toml"), "--out", str(out), "--no-open"]
    assert main([*arguments, "--cluster", cluster.scheduler_address]) == 0
    assert (out / "results.parquet").exists()


def test_run__a_cluster_and_workers_are_one_too_many(tmp_path):
    with pytest.raises(ValueError, match="give one of them"):
        run(EXPERIMENT, tmp_path, workers=2, cluster="tcp://127.0.0.1:1")


def test_run__nobody_at_the_address_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(rooms, "PATIENCE", 0.3)
    with pytest.raises(ValueError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        run(EXPERIMENT, tmp_path, cluster="tcp://127.0.0.1:9")


def test_run__a_cluster_without_workers_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(rooms, "PATIENCE", 1)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(ValueError, match="no worker"),
    ):
        run(EXPERIMENT, tmp_path, cluster=empty.scheduler_address)


def test_run__a_worker_of_another_version_is_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "digest", lambda: f"source of process {os.getpid()}")
    with pytest.raises(ValueError, match="numbers need the same"):
        run(EXPERIMENT, tmp_path, cluster=cluster.scheduler_address)


def test_run__without_dask_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "discreet.distributed.cluster", None)
    with pytest.raises(ValueError, match=r"discreet\[distributed\]"):
        run(EXPERIMENT, tmp_path, cluster="tcp://127.0.0.1:9")
