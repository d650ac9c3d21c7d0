"""Planted bugs in what keeps one copy of a live object: two of them would share their noise."""

import contextlib
import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from discreet.domains import Simplex
from discreet.online import FTRL
from discreet.privacy import Budget, PrefixSum, SeededNoise
from discreet.state import SecondCopy, StateInUse
from mutants.kit import DELTA, Edit, Mutant


def made() -> PrefixSum:
    return PrefixSum(8, 1, Budget(1.0, DELTA), sensitivity=2.0, noise=SeededNoise(0))


def acts(sums: PrefixSum) -> int:
    """1 if it publishes a sum, 0 if it is refused."""
    try:
        sums.add([0.5])
    except (SecondCopy, StateInUse):
        return 0
    return 1


def heir_acts(state: dict[str, Any]) -> int:
    """The same for a new object that is given a state first."""
    heir = made()
    try:
        heir.load_state_dict(state)
    except StateInUse:
        return 0
    return acts(heir)


def beside_an_heir() -> float:
    """A state is resumed by another object, then both act."""
    sums, heir = made(), made()
    heir.load_state_dict(sums.state_dict())
    return float(acts(heir) + acts(sums))


def from_a_void_state() -> float:
    """An object acts after its state was taken, then the state is resumed."""
    sums = made()
    state = sums.state_dict()
    return float(acts(sums) + heir_acts(state))


def from_a_state_of_one_that_is_gone() -> float:
    """The same, but nobody has the object any more."""
    sums = made()
    state = sums.state_dict()
    first = acts(sums)
    del sums
    gc.collect()
    return float(first + heir_acts(state))


def from_one_file() -> float:
    """A process resumes a file, acts, and ends without saving; then this one resumes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sums.npz"
        made().save(path)
        gc.collect()
        child = os.fork()
        if child == 0:
            acted = 99
            try:
                acted = acts(PrefixSum.load(path))
            finally:
                os._exit(acted)
        first = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert first == 1
        try:
            return float(first + acts(PrefixSum.load(path)))
        except StateInUse:
            return float(first)


def inside_a_call() -> float:
    """How many losses are learned in the middle of a call, by a loss that calls the learner."""
    learner, inside = FTRL(Simplex(2), 8, 1.0, noise=SeededNoise(0)), 0

    class Row:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            nonlocal inside
            with contextlib.suppress(SecondCopy):
                inside += learner.learn([0.5, 0.5])
            return np.array([0.5, 0.5])

    with contextlib.suppress(RuntimeError):  # the planted bug gives the lock of this call away
        learner.learn(Row())
    return float(inside)


COPIES = "copies that act"

MUTANTS = [
    Mutant(
        "whoever was resumed goes on",
        "PrefixSum",
        "A state is resumed, and the object that it was taken from acts, too.",
        "state",
        1.0,
        beside_an_heir,
        (Edit("state.claims:refuse", "item._live.refusal = why", "pass"),),
        unit=COPIES,
    ),
    Mutant(
        "a void state is resumed",
        "PrefixSum",
        "The object acted after its state was taken, and the state is resumed all the same.",
        "state",
        1.0,
        from_a_void_state,
        (
            Edit(
                "state.claims:_assert_ends_here",
                "elif fingerprint(item._encoded()) != name:",
                "elif False:",
            ),
        ),
        unit=COPIES,
    ),
    Mutant(
        "the dead are forgotten",
        "PrefixSum",
        "An object acted after its state was taken and is gone: the state is resumed.",
        "state",
        1.0,
        from_a_state_of_one_that_is_gone,
        (
            Edit(
                "state.claims:_assert_ends_here",
                "if (before.begun or before.known) and",
                "if False and",
            ),
        ),
        unit=COPIES,
    ),
    Mutant(
        "a file that is not marked",
        "PrefixSum",
        "Whoever resumed a file acts and ends; the file still passes for the newest state.",
        "state",
        1.0,
        from_one_file,
        (Edit("state.files:ClaimedFile.mark", "if found.acted < acted:", "if False:"),),
        unit=COPIES,
    ),
    Mutant(
        "a call inside a call",
        "FTRL",
        "An object that is in the middle of a call acts on the state that the call will change.",
        "state",
        0.0,
        inside_a_call,
        (Edit("state.claims:Live._assert_not_nested", "if calls > entering:", "if False:"),),
        unit="nested acts",
    ),
]
