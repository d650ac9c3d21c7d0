"""The fence keeps its marks, and refuses what is damaged or another instance's."""

import pytest

from discreet.service.fence import Fence, Mark, RolledBack


def fence(folder, instance="one") -> Fence:
    made = Fence(folder, instance)
    made.begin()
    return made


def add(made: Fence, *sequences: int) -> None:
    for sequence in sequences:
        with made.held() as grip:
            grip.append(Mark(sequence, "e", "turn", {"bandit": "b"}))


def test_marks_come_back_in_order(tmp_path):
    made = fence(tmp_path)
    add(made, 1, 2, 3)
    assert [mark.sequence for mark in Fence(tmp_path, "one").marks()] == [1, 2, 3]


def test_two_replicas_see_each_others_marks(tmp_path):
    made = fence(tmp_path)
    other = Fence(tmp_path, "one")
    add(made, 1)
    add(other, 2)
    add(made, 3)
    with other.held() as grip:
        assert grip.last == 3


def test_a_missing_fence_is_refused(tmp_path):
    with pytest.raises(RolledBack, match="no fence"), Fence(tmp_path, "one").held():
        pass


def test_the_fence_of_another_instance_is_refused(tmp_path):
    fence(tmp_path, "one")
    with pytest.raises(RolledBack, match="another instance"):
        Fence(tmp_path, "two").marks()


def test_a_line_that_was_changed_or_left_out_is_noticed(tmp_path):
    made = fence(tmp_path)
    add(made, 1, 2, 3)
    lines = made.path.read_bytes().splitlines(keepends=True)
    for damaged in (
        [lines[0], lines[2], lines[3]],
        [lines[0], lines[1].replace(b'"b"', b'"c"'), *lines[2:]],
        [b"not json\n", *lines[1:]],
    ):
        made.path.write_bytes(b"".join(damaged))
        with pytest.raises(RolledBack, match="damaged"):
            Fence(tmp_path, "one").marks()


def test_a_mark_that_was_half_written_was_never_relied_on(tmp_path):
    made = fence(tmp_path)
    add(made, 1, 2)
    whole = made.path.read_bytes()
    made.path.write_bytes(whole[:-10])
    again = Fence(tmp_path, "one")
    assert [mark.sequence for mark in again.marks()] == [1]
    add(again, 2)
    assert made.path.read_bytes() == whole
