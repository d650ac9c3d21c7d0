"""Report files: the sums of reports in memory, from blocks, wherever they are read."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from discreet.bandits import LocalServer
from discreet.distributed.reports import add_up, report_blocks
from discreet.local.files import take_files
from discreet.local.report import Answers, report_many
from discreet.privacy import SeededNoise
from discreet.regression.local_server import Server

D = 3


def save(path, values):
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez(path, values=values, other=np.zeros(3))
    else:
        flat = values.reshape(len(values), -1)
        column = pa.array(values) if values.ndim == 1 else pa.array(list(flat))
        parquet.write_table(pa.table({"values": column, "when": np.arange(len(values))}), path)
    return path


def reports_of(server, number, n, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(-0.5, 0.5, (n, D)), rng.uniform(-1, 1, n)
    state = server.ask()
    before = sum(question.fraction for question in state.questions[:number])
    coins = np.full(n, before + 1e-9)
    reports = report_many(X, y, state, coins, SeededNoise(seed))
    return next(report.values for report in reports if len(report.values))


def name_of(server, number):
    return server.ask().questions[number].name


def take(server, number, paths, **more):
    window = more.pop("window", server.ask().window)
    return take_files(server, name_of(server, number), paths, window=window, **more)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 2)])
def test_blocks__hold_every_report_once_and_in_order(tmp_path, suffix, shape):
    values = np.random.default_rng(0).standard_normal((1001, *shape))
    path = save(tmp_path / f"reports{suffix}", values)
    blocks = list(report_blocks(path, shape, block=8 * 100 * max(1, int(np.prod(shape)))))
    assert max(map(len, blocks)) <= 100
    assert len(blocks) > 10
    np.testing.assert_array_equal(np.concatenate(blocks), values)


def test_blocks__damaged_files_are_told_by_name(tmp_path):
    path = save(tmp_path / "reports.npy", np.ones((100, 2)))
    with pytest.raises(ValueError, match=r"reports.npy: expected numbers of shape \(n, 3\)"):
        list(report_blocks(path, (3,)))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="ends before its reports do"):
        list(report_blocks(path, (2,)))
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"not an \.npy file"):
        list(report_blocks(path, (2,)))
    np.save(path, np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="expected numbers"):
        list(report_blocks(path, ()))
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(2))
    with pytest.raises(ValueError, match="named values"):
        list(report_blocks(tmp_path / "two.npz", ()))
    parquet.write_table(pa.table({"values": [[1.0, 2.0], [1.0]]}), tmp_path / "ragged.parquet")
    with pytest.raises(ValueError, match="in every report"):
        list(report_blocks(tmp_path / "ragged.parquet", (2,)))
    parquet.write_table(pa.table({"other": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="column named values"):
        list(report_blocks(tmp_path / "other.parquet", ()))
    with pytest.raises(ValueError, match="expected a report file"):
        list(report_blocks(tmp_path / "reports.csv", ()))


@pytest.mark.parametrize("number", [0, 1])
def test_server__takes_files_as_it_takes_reports(tmp_path, number):
    files, memory = Server(D, 5000, 1.0), Server(D, 5000, 1.0)
    paths = []
    for seed, suffix in enumerate((".npy", ".npz", ".parquet")):
        values = reports_of(memory, number, 400, seed)
        memory.take_answers([Answers(0, name_of(memory, number), values)])
        paths.append(save(tmp_path / f"{seed}{suffix}", values))
    assert take(files, number, paths) == 0
    assert files._sums[name_of(files, number)].count == 1200
    np.testing.assert_allclose(
        files._sums[name_of(files, number)].total, memory._sums[name_of(memory, number)].total
    )
    np.testing.assert_allclose(
        files._sums[name_of(files, number)].squares, memory._sums[name_of(memory, number)].squares
    )


def test_server__a_whole_round_from_files_gives_the_same_estimate(tmp_path):
    files, memory = Server(D, 4000, 1.0), Server(D, 4000, 1.0)
    for round_number in range(2):
        for number, question in enumerate(memory.ask().questions):
            people = round(question.fraction * memory.size)
            values = reports_of(memory, number, people, 30 + 10 * round_number + number)
            memory.take_answers([Answers(round_number, question.name, values)])
            path = save(tmp_path / f"{round_number}-{number}.npy", values)
            assert take(files, number, [path]) == 0
            assert question == files.ask().questions[number]
        files.close(), memory.close()
    np.testing.assert_allclose(files.estimate().theta, memory.estimate().theta, atol=1e-12)
    assert np.abs(files.estimate().theta).max() > 0


@pytest.mark.parametrize("number", [0, 1])
def test_server__leaves_out_what_no_device_sends(tmp_path, number):
    server = Server(D, 5000, 1.0)
    values = reports_of(server, number, 100, 0)
    values[3], values[50] = np.nan, np.inf
    values[60] *= 1.01  # beyond the channel's sphere
    values[61] *= 0.5  # a bare record is inside it
    path = save(tmp_path / "reports.npy", values)
    assert take(server, number, [path]) == 4
    assert server._sums[name_of(server, number)].count == 96
    assert np.isfinite(server._sums[name_of(server, number)].total).all()


def test_server__a_scale_report_beyond_reach_is_left_out(tmp_path):
    server = Server(D, 5000, 1.0)
    server.close()
    values = reports_of(server, 0, 50, 0)
    assert server.ask().questions[0].kind == "within"
    path = save(tmp_path / "reports.npy", np.append(values, [np.nan, 1e6]))
    assert take(server, 0, [path]) == 2


def test_server__a_closed_question_or_a_damaged_file_adds_nothing(tmp_path):
    server = Server(D, 5000, 1.0)
    good = save(tmp_path / "good.npy", reports_of(server, 1, 50, 0))
    bad = tmp_path / "bad.npy"
    bad.write_bytes(good.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"bad.npy"):
        take(server, 1, [good, bad])
    assert (server.taken, server._sums["moment"].count) == (0, 0)
    window, question = server.ask().window, name_of(server, 1)
    server.close()
    server.close()
    assert take_files(server, question, [good], window=window) == 50
    assert (server.taken, server.refused) == (0, 50)


def test_cluster__reads_files_into_the_same_sums_to_the_last_bit(client, tmp_path):
    here, there = Server(D, 5000, 1.0), Server(D, 5000, 1.0)
    paths = [save(tmp_path / f"{k}.npy", reports_of(here, 1, 300, k)) for k in range(4)]
    assert take(here, 1, paths) == 0
    assert take(there, 1, paths, client=client) == 0
    np.testing.assert_array_equal(here._sums["moment"].total, there._sums["moment"].total)
    np.testing.assert_array_equal(here._sums["moment"].squares, there._sums["moment"].squares)


@pytest.mark.parametrize("far", [False, True])
def test_bandit__takes_files_as_it_takes_reports(client, tmp_path, far):
    files, memory = (LocalServer(D, 1.0, seed=0) for _ in range(2))
    channels = memory.policy.channels
    rng = np.random.default_rng(0)
    shapes = {"gram": (D * (D + 1) // 2,), "scale": (), "moment": (D,)}
    for question, shape in shapes.items():
        raw = np.zeros((500, *shape)) + 0.3 / max(1, int(np.prod(shape)))
        values = channels[question].privatize(raw, SeededNoise(int(rng.integers(9))))
        values[7] = 99.0  # no device sends that
        memory.take_answers([Answers(0, question, values)])
        path = save(tmp_path / f"{question}.npy", values)
        left = take_files(files, question, [path], window=0, client=client if far else None)
        assert left == 1
    assert (files.taken, files.refused) == (memory.taken, memory.refused) == (1497, 3)
    np.testing.assert_allclose(files.close().theta, memory.close().theta, atol=1e-12)
    path = save(tmp_path / "late.npy", np.ones((10, D)))
    assert take_files(files, "moment", [path], window=0) == 10  # an earlier window's
    with pytest.raises(ValueError, match="question must be one of"):
        take_files(files, "guess", [path], window=0)


def test_memory__does_not_grow_with_the_number_of_reports(tmp_path):
    peaks = []
    for n in (400_000, 1_600_000):
        path = save(tmp_path / f"{n}.npy", np.zeros((n, 4)))  # 13 and 51 megabytes
        tracemalloc.start()
        (count,) = add_up([path], (4,), lambda: [0], lambda sums, some: sums.append(len(some)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert sum(count) == n
    assert peaks[1] < 1.1 * peaks[0]
    assert peaks[1] < 20e6
