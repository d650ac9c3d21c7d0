"""One way to save, to resume and to refuse."""

import copy
import gc
import os
import pickle
import re
import stat
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from discreet.privacy import Budget, PrefixSum, SecureNoise, SeededNoise
from discreet.privacy.noise import Noise, SystemNoise
from discreet.state import (
    Stateful,
    StateInUse,
    damaged,
    decode,
    encode,
    load_state,
    save_state,
    value,
)


@value
@dataclass(frozen=True)
class Place:
    x: float
    y: float


class Part(Stateful):
    _state = ("total",)

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.total = np.zeros(dim)


class Walk(Stateful):
    _state = ("rounds", "_part", "_rng", "_point", "_path", "_seen")
    _growing = frozenset({"_seen"})

    def __init__(self, dim: int, *, seed: int | None = None) -> None:
        self.dim = dim
        self.seed = seed
        self.rounds = 0
        self._part = Part(dim)
        self._rng = np.random.default_rng(seed)
        self._point = Place(0.0, 0.0)
        self._path: tuple[Place, ...] = ()
        self._seen = np.zeros(0, dtype=bool)

    def step(self) -> None:
        with self._live:
            move = self._rng.standard_normal(self.dim)
            self._part.total = self._part.total + move
            self._point = Place(float(move[0]), self.rounds)
            self._path = (*self._path, self._point)
            self._seen = np.append(self._seen, True)
            self.rounds += 1

    def _validate(self) -> None:
        if len(self._seen) != self.rounds:
            raise damaged("seen")


def walked(rounds: int, dim: int = 3) -> Walk:
    walk = Walk(dim, seed=1)
    for _ in range(rounds):
        walk.step()
    return walk


def test_a_state_resumes_to_the_same_future(tmp_path):
    walk = walked(5)
    walked(4).save(tmp_path / "walk")
    resumed = Walk.load(tmp_path / "walk")
    resumed.step()
    assert resumed.rounds == 5
    assert resumed._path == walk._path
    np.testing.assert_array_equal(resumed._part.total, walk._part.total)


def test_a_state_shares_no_array_with_the_object():
    walk = walked(2)
    state = walk.state_dict()
    state["state"]["_seen"][:] = False
    assert walk._seen.all()
    fresh = Walk(3, seed=1)
    state["state"]["_seen"][:] = True
    fresh.load_state_dict(state)
    state["state"]["_seen"][:] = False
    assert fresh._seen.all()


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_live_object_cannot_be_copied(copying):
    with pytest.raises(TypeError, match="state_dict"):
        copying(walked(1))


def test_an_older_state_is_refused():
    walk = walked(1)
    state = walk.state_dict()
    walk.step()
    with pytest.raises(ValueError, match="older"):
        walk.load_state_dict(state)


def test_a_state_of_another_run_is_refused_once_begun():
    with pytest.raises(ValueError, match="another Walk"):
        walked(1).load_state_dict(walked(5).state_dict())


def test_a_state_of_other_arguments_names_them():
    with pytest.raises(ValueError, match="dim; build"):
        Walk(2, seed=1).load_state_dict(walked(1).state_dict())


def test_a_state_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="'Part'"):
        Walk(3).load_state_dict(Part(3).state_dict())


def test_a_file_of_version_0_2_is_refused_with_what_to_do(tmp_path):
    np.savez(tmp_path / "old.npz", format=np.array(1), kind=np.array("Walk"))
    with pytest.raises(ValueError, match=r"0\.2 .* begin anew"):
        Walk.load(tmp_path / "old.npz")


@pytest.mark.parametrize(
    "harm",
    [
        lambda s: s.pop("rounds"),
        lambda s: s.update(more=1),
        lambda s: s.update(rounds="3"),
        lambda s: s.update(rounds=True),
        lambda s: s.update(rounds=2),
        lambda s: s["_part"]["of"].update(total=np.zeros(2)),
        lambda s: s["_part"]["of"].update(total=np.full(3, np.nan)),
        lambda s: s.update(_part={"@": "Part", "of": None}),
        lambda s: s["_point"]["of"].pop("x"),
        lambda s: s.update(_rng={"@": "Generator", "of": {}}),
        lambda s: s.update(_path={"@": "no such class", "of": []}),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(harm):
    state = walked(3).state_dict()
    harm(state["state"])
    target = Walk(3, seed=1)
    before = target.state_dict()
    with pytest.raises(ValueError, match="damaged"):
        target.load_state_dict(state)
    assert str(target.state_dict()) == str(before)


def test_a_damaged_file_is_refused(tmp_path):
    walked(1).save(tmp_path / "walk")
    whole = (tmp_path / "walk").read_bytes()
    for end in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:end])
        with pytest.raises(ValueError, match="damaged"):
            Walk.load(tmp_path / "cut")


def test_a_file_is_for_its_owner_only_and_leaves_nothing_beside_it(tmp_path):
    (tmp_path / "walk").write_text("old")
    (tmp_path / "walk").chmod(0o644)
    walked(1).save(tmp_path / "walk")
    assert stat.S_IMODE((tmp_path / "walk").stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["walk"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    walk = walked(1)
    walk.save(tmp_path / "walk")
    walk.step()
    before = (tmp_path / "walk").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        walk.save(tmp_path / "walk")
    assert (tmp_path / "walk").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["walk"]


def test_what_cannot_stand_in_a_state_is_named():
    walk = walked(1)
    walk._point = object()  # type: ignore[assignment]
    with pytest.raises(TypeError, match="@value"):
        walk.state_dict()


def test_nested_arrays_survive_a_file(tmp_path):
    tree = {"a": [np.arange(3.0), {"b": np.eye(2)}], "c": float("inf"), "d": None}
    save_state(tmp_path / "tree", tree)
    back = load_state(tmp_path / "tree")
    np.testing.assert_array_equal(back["a"][1]["b"], np.eye(2))
    assert back["c"] == float("inf")
    assert back["d"] is None


def test_a_file_and_its_name_are_written_to_the_disk(tmp_path, monkeypatch):
    kinds, real = [], os.fsync

    def fsync(handle: int) -> None:
        kinds.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    walked(1).save(tmp_path / "walk")
    assert kinds == [False, True]  # the file, then its folder


def test_a_file_of_somebody_else_beside_it_is_not_reused(tmp_path):
    (tmp_path / "walk.partial").write_text("theirs")
    (tmp_path / "walk.partial").chmod(0o666)
    walked(1).save(tmp_path / "walk")
    assert (tmp_path / "walk.partial").read_text() == "theirs"
    assert stat.S_IMODE((tmp_path / "walk").stat().st_mode) == 0o600


def test_integers_of_any_size_survive_a_file(tmp_path):
    numbers = np.array([[2**200, -1], [0, -(3**99)]], dtype=object)
    save_state(tmp_path / "numbers", {"n": encode(numbers)})
    back = decode(load_state(tmp_path / "numbers")["n"])
    assert back.tolist() == numbers.tolist()
    with pytest.raises(TypeError, match="integers"):
        decode({"@": "integers", "of": [0.5]})


def test_a_dict_that_looks_like_a_class_is_refused():
    with pytest.raises(TypeError, match="cannot be part"):
        encode({"@": "Place"})


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(TypeError, match="already has a Ledger"):
        type("Ledger", (Stateful,), {"__module__": "elsewhere"})


class Roll(Stateful):
    _state = ("rounds", "_streams")

    def __init__(self, *, noise: Noise | None = None) -> None:
        self.noise = SystemNoise() if noise is None else noise
        self.rounds = 0
        self._streams = tuple(self.noise.spawn(2))

    def roll(self) -> list[float]:
        with self._live:
            self.rounds += 1
        return [float(stream.normal(1)[0]) for stream in self._streams]


class Own(SystemNoise):
    """A source that cannot be made again from its name."""

    def __init__(self, device: str) -> None:
        self.device = device


def test_seeded_noise_stands_in_a_state_with_its_position(tmp_path):
    roll = Roll(noise=SeededNoise(3))
    roll.roll()
    state = roll.state_dict()
    with pytest.raises(ValueError, match="Roll: noise"):
        Roll().load_state_dict(state)
    other = Roll(noise=SeededNoise(4))  # seeds are no part of the configuration: kinds are
    other.load_state_dict(state)
    assert other.rounds == 1
    whole = Roll(noise=SeededNoise(3))
    whole.roll()
    assert other.roll() == whole.roll()


def test_other_noise_stands_in_a_state_as_its_kind_only(tmp_path):
    for noise in (SystemNoise(), SecureNoise()):
        roll = Roll(noise=noise)
        roll.roll()
        assert roll.state_dict()["state"]["_streams"]["of"] == [
            {"@": "Noise", "of": {"kind": type(noise).__name__, "position": ""}}
        ] * 2  # fmt: skip
        roll.save(tmp_path / "roll")
        assert type(Roll.load(tmp_path / "roll").noise) is type(noise)


def test_noise_of_ones_own_stays_where_it_is():
    roll, noise = Roll(noise=Own("tape")), Own("disk")
    roll.roll()
    again = Roll(noise=noise)
    again.load_state_dict(roll.state_dict())
    assert again._streams == (noise, noise)
    assert again.rounds == 1


# -- one process at a time -------------------------------------------------------------------------

OTHER = """
import sys
from discreet.privacy import Budget, PrefixSum
sums = PrefixSum(10, 1, Budget(1.0), sensitivity=1.0)
try:
    if sys.argv[1] == "load":
        sums = PrefixSum.load(sys.argv[2])
    else:
        sums.save(sys.argv[2])
except ValueError as error:
    sys.exit(str(error))
print("owner", flush=True)
sys.stdin.read()
"""


def _other(verb, path):
    return subprocess.Popen(
        [sys.executable, "-c", OTHER, verb, str(path)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_files__a_second_process_is_refused_until_the_first_is_done_with_it(tmp_path):
    path = tmp_path / "sums"
    sums = PrefixSum(10, 1, Budget(1.0), sensitivity=1.0)
    sums.save(path)
    for verb in ("load", "save"):
        _, error = _other(verb, path).communicate("", timeout=60)
        assert re.search(rf"in use by (process {os.getpid()}|another process)\b", error)
        assert "resumed only once" in error
        sums.save(path)  # a new file, locked as the old one was
    del sums
    gc.collect()
    owner = _other("load", path)
    assert owner.stdout.readline() == "owner\n"
    with pytest.raises(StateInUse, match=f"in use by (process {owner.pid}|another process)"):
        PrefixSum.load(path)
    owner.kill()  # without a chance to clean up
    owner.communicate()
    assert PrefixSum.load(path).rounds == 0


def test_files__a_failed_load_owns_nothing(tmp_path):
    path = tmp_path / "sums"
    path.write_bytes(b"not a state")
    with pytest.raises(ValueError, match="damaged"):
        PrefixSum.load(path)
    gc.collect()
    _, error = _other("load", path).communicate("", timeout=60)
    assert "damaged" in error
    with pytest.raises(FileNotFoundError):
        PrefixSum.load(tmp_path / "absent")
    assert os.listdir(tmp_path) == ["sums"]
