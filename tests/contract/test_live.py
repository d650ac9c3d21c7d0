"""One live copy: every class that holds noise or an account, through every way to a second one.

The walk reads the registry: a new class is in it by being registered.
"""

import copy
import gc
import multiprocessing
import os
import pickle
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.entries import Session
from discreet.audit.registry import REGISTRY
from discreet.bandits import Device, LocalServer, Promise
from discreet.bandits.local_protocol import PublicPolicy
from discreet.bandits.visitors import Visitors
from discreet.online.adversarial import Exp2
from discreet.privacy import (
    Budget,
    ContributionLimiter,
    Ledger,
    PrefixSum,
    SecureNoise,
    SeededNoise,
)
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.release import Release
from discreet.saved import read_saved
from discreet.state import SecondCopy, Stateful, StateInUse, claims, files
from discreet.state.values import PARTS, fingerprint

LIBRARY = str(Path(discreet.__file__).parent)
GIVEN: dict[str, Callable[[Any], dict[str, Any]]] = {  # arguments that no file can hold
    "Doubling FTRL": lambda made: {"make_learner": REGISTRY["Doubling FTRL"].make().make_learner},
    "PrivateReduction": lambda made: {"bandit": Exp2(3, rate=0.1, explore=0.2, seed=1)},
}


@dataclass(frozen=True)
class Life:
    """A live object, and its acts one after the other."""

    name: str
    make: Callable[[], Any]
    acts: Callable[[], list[tuple[str, Callable[[Session], None]]]]

    @property
    def half(self) -> int:
        """Of its acts: decisions and rewards in pairs."""
        return len(self.acts()) // 4 * 2

    def begun(self, count: int | None = None) -> Session:
        """A session after half of its acts, or so many."""
        session = Session(self.make())
        for _, act in self.acts()[: self.half if count is None else count]:
            act(session)
        return session

    def goes_on(self, session: Session) -> None:
        """The next two acts."""
        for _, act in self.acts()[self.half :][:2]:
            act(session)

    def like(self, session: Session, subject: Any) -> Session:
        """The same session with another copy of its object."""
        other = Session(subject)
        other.decisions = dict(session.decisions)
        return other

    def loaded(self, session: Session, path: Path) -> Any:
        """What `load` makes of a file."""
        given = GIVEN.get(self.name, lambda made: {})(session.subject)
        return type(session.subject).load(path, **given)


def _registered() -> Iterator[Life]:
    for entry in REGISTRY.values():
        if issubclass(entry.of, Stateful) and entry.of is not LocalServer:  # see below

            def acts(entry: Any = entry) -> list[Any]:
                steps = entry.steps(entry.data(0))
                return [(kind, step) for kind, _, step in steps if kind != "read"]

            yield Life(entry.name, entry.make, acts)


def _release(name: str) -> Release:
    return Release.gaussian(sensitivity=0.01, scale=1.0, what=name, sampler="float, test")


def _reported(server: LocalServer, t: int) -> None:
    device = Device(server.policy, Promise(epsilon=1.0), seed=t, noise=SeededNoise(t))
    server.take(device.report(device.decide(np.eye(2)), 0.5))


def _acted(act: Callable[[Any, int], Any], t: int, session: Session) -> None:
    act(session.subject, t)


def _others() -> Iterator[Life]:
    def each(act: Callable[[Any, int], Any]) -> Callable[[], list[Any]]:
        return lambda: [("act", partial(_acted, act, t)) for t in range(8)]

    yield Life(
        "Ledger",
        lambda: Ledger(Budget(1.0, 1e-6)),
        each(lambda ledger, t: ledger.spend(_release(f"{t}"))),
    )
    yield Life(
        "ContributionLimiter",
        lambda: ContributionLimiter(1, salt=b"salt"),
        each(lambda limiter, t: limiter.admit(f"person {t}")),
    )
    yield Life("LocalServer", lambda: LocalServer(2, 1.0, seed=0), each(_reported))
    yield Life(
        "PrefixSum exact",
        lambda: PrefixSum(
            60, 2, Budget(1.0, 1e-6), sensitivity=1.0, mechanism="blt", noise=SecureNoise()
        ),
        each(lambda sums, t: sums.add([0.1, 0.2])),
    )
    yield Life("Visitors", Visitors, each(lambda visitors, t: visitors.admit(f"person {t}")))
    yield Life(
        "NoisySum",
        lambda: NoisySum(2, sensitivity=1.0, mu=1.0, noise=SeededNoise(0)),
        each(lambda total, t: total.add(np.array([0.5, -0.5]))),
    )


LIVES = {life.name: life for life in (*_registered(), *_others())}
every = pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)


def content(subject: Any) -> bytes:
    """All that a state holds; taking it is no act."""
    return fingerprint(subject._encoded())


def assert_refused(life: Life, session: Session, tmp_path: Path) -> None:
    """It cannot act, nor be saved, nor be copied, and nothing changes."""
    before = content(session.subject)
    for act in (
        lambda: life.goes_on(session),
        session.subject.state_dict,
        lambda: session.subject.save(tmp_path / "refused"),
    ):
        with pytest.raises(SecondCopy):
            act()
    assert content(session.subject) == before
    assert not (tmp_path / "refused").exists()


def test_walk__has_every_live_class():
    """Those that are not in it are parts, and live inside an object that is."""
    found: set[str] = set()

    def walk(item: Any) -> None:
        if isinstance(item, Stateful):
            found.update(cls.__name__ for cls in type(item).__mro__ if issubclass(cls, Stateful))
            for name in item._state:
                walk(getattr(item, name, None))
        elif isinstance(item, (tuple, list)):
            for each in item:
                walk(each)

    for life in LIVES.values():
        walk(life.begun().subject)
    ours = {
        name
        for name, cls in PARTS.items()
        if cls.__module__.startswith("discreet.")
        and not cls.__module__.startswith("discreet.audit.")  # stand-ins of attacks
    }
    assert ours <= found


# -- another process -------------------------------------------------------------------------------


def in_a_fork(work: Callable[[], None]) -> str:
    """What goes wrong in a child; empty if nothing does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # no test runner must go on here
        try:
            work()
            said = ""
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


@every
def test_fork__the_child_is_refused_and_the_parent_goes_on(life, tmp_path):
    session = life.begun()
    assert in_a_fork(lambda: assert_refused(life, session, tmp_path)) == ""
    state = session.subject.state_dict()

    def resumed_in_the_child() -> None:
        with pytest.raises(StateInUse, match="forked from"):
            life.make().load_state_dict(state)

    assert in_a_fork(resumed_in_the_child) == ""
    before = content(session.subject)
    life.goes_on(session)
    assert content(session.subject) != before


def test_fork__one_in_a_thread_that_holds_the_lock_does_not_hang():
    ledger = Ledger(Budget(1.0, 1e-6))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ledger._live:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    said = in_a_fork(lambda: ledger.spend(_release("a")))  # type: ignore[arg-type]
    done.set()
    thread.join()
    assert said.startswith("SecondCopy: this object belongs to the process")


def test_fork__a_child_may_load_what_its_parent_has_let_go(tmp_path):
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.save(tmp_path / "ledger")

    def load() -> None:
        with pytest.raises(StateInUse, match="in use by"):
            Ledger.load(tmp_path / "ledger")

    assert in_a_fork(load) == ""
    del ledger
    gc.collect()
    assert in_a_fork(lambda: Ledger.load(tmp_path / "ledger").spend(_release("a"))) == ""  # type: ignore[arg-type, return-value]


def test_fork__the_default_pool_is_refused_too():
    ledger = Ledger(Budget(1.0, 1e-6))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        _GLOBAL.append(ledger)
        try:
            assert pool.apply(_spend_global) == "nothing"  # forked before the ledger was there
            with multiprocessing.get_context("fork").Pool(1) as later:
                assert later.apply(_spend_global) == "SecondCopy"
        finally:
            _GLOBAL.clear()


_GLOBAL: list[Ledger] = []


def _spend_global() -> str:
    if not _GLOBAL:
        return "nothing"
    try:
        _GLOBAL[0].spend(_release("a"))
    except RuntimeError as error:
        return type(error).__name__
    return "spent"


@every
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_and_pickles__are_refused(life, way):
    """So is an argument of a process that is spawned: it is pickled."""
    with pytest.raises(TypeError, match=r"cannot be copied|would report twice"):
        way(life.make())


# -- one state, several lives ----------------------------------------------------------------------


@every
def test_state_dict__is_resumed_once_and_the_creator_retires(life, tmp_path):
    session = life.begun()
    state = session.subject.state_dict()
    heir = life.make()
    heir.load_state_dict(state)
    with pytest.raises(StateInUse):
        life.make().load_state_dict(state)
    assert_refused(life, session, tmp_path)
    resumed = life.like(session, heir)
    life.goes_on(resumed)
    with pytest.raises(ValueError, match=r"older|another"):
        heir.load_state_dict(state)
    with pytest.raises(StateInUse):
        life.make().load_state_dict(state)
    del heir, resumed  # also when nobody is left who could act
    gc.collect()
    with pytest.raises(StateInUse):
        life.make().load_state_dict(state)


@every
def test_state_dict__is_void_once_its_creator_has_gone_on(life):
    session = life.begun()
    state = session.subject.state_dict()
    life.goes_on(session)
    with pytest.raises(StateInUse, match="older"):
        life.make().load_state_dict(state)
    with pytest.raises(ValueError, match="older"):
        session.subject.load_state_dict(state)
    later = session.subject.state_dict()
    del session
    gc.collect()
    with pytest.raises(StateInUse, match="older"):
        life.make().load_state_dict(state)
    life.make().load_state_dict(later)


@every
def test_file__is_loaded_once_and_the_creator_retires(life, tmp_path):
    session = life.begun()
    path = tmp_path / "state"
    session.subject.save(path)
    resumed = life.like(session, life.loaded(session, path))
    assert_refused(life, session, tmp_path)
    with pytest.raises(SecondCopy):  # an older save
        session.subject.save(path)
    with pytest.raises(StateInUse):
        life.loaded(session, path)
    before = content(resumed.subject)
    life.goes_on(resumed)
    assert content(resumed.subject) != before
    if not isinstance(resumed.subject, Ledger):  # its file has every booking
        with pytest.raises(StateInUse):
            life.loaded(session, path)
    resumed.subject.save(path)
    newest = life.loaded(session, path)
    assert content(newest) == content(resumed.subject)


@every
def test_file__is_marked_before_its_owner_goes_on(life, tmp_path):
    """Two owners in sequence, with nothing saved between: the second finds no noise of the first.

    A ledger books in its file; a bandit discards its open window; others are refused.
    """
    session = life.begun()
    path = tmp_path / "state"
    session.subject.save(path)
    before = content(session.subject)
    life.goes_on(session)
    subject = session.subject
    if type(subject).__name__ == "LinearBandit" and subject.people.visits is None:
        noise = _sums(subject)
        del session, subject
        gc.collect()
        heir = type(life.make()).load(path)
        assert not noise & _sums(heir)
    elif isinstance(subject, Ledger):
        booked = subject.releases
        del session, subject
        gc.collect()
        assert Ledger.load(path).releases == booked
    else:
        kind = type(subject)
        given = GIVEN.get(life.name, lambda made: {})(subject)
        assert content(subject) != before
        del session, subject
        gc.collect()
        with pytest.raises(StateInUse, match="without saving"):
            kind.load(path, **given)


def _sums(bandit: Any) -> set[float]:
    """The numbers of an open noisy sum."""
    total = getattr(bandit.window, "total", None)
    return set() if total is None else set(total.value.tolist())


@every
def test_file__that_was_only_looked_at_can_be_resumed(life, tmp_path):
    session = life.begun()
    path = tmp_path / "state"
    session.subject.save(path)
    given = GIVEN.get(life.name, lambda made: {})(session.subject)
    seen = read_saved(path, **given).item
    assert_refused(life, life.like(session, seen), tmp_path)
    before = content(session.subject)
    life.goes_on(session)  # its owner does not mind
    assert content(session.subject) != before


@every
def test_file__a_second_name_leaves_one_that_may_be_resumed(life, tmp_path):
    session = life.begun()
    session.subject.save(tmp_path / "first")
    session.subject.save(tmp_path / "second")
    given = GIVEN.get(life.name, lambda made: {})(session.subject)
    kind = type(session.subject)
    del session
    gc.collect()
    with pytest.raises(StateInUse, match="another name"):
        kind.load(tmp_path / "first", **given)
    kind.load(tmp_path / "second", **given)


def test_file__an_older_copy_that_was_put_back_is_refused(tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.save(path)
    empty = path.read_bytes()
    ledger.spend(_release("a"))
    path.write_bytes(empty)
    with pytest.raises(StateInUse):  # it was written by a hand that the ledger does not know
        ledger.spend(_release("b"))
    del ledger
    gc.collect()
    with pytest.raises(StateInUse, match="older"):
        Ledger.load(path)


def test_state_dict__an_heir_takes_no_older_state_of_its_run():
    sums = LIVES["PrefixSum tree"].make()
    first = sums.state_dict()
    shown = sums.add([0.1, 0.1])
    second = sums.state_dict()
    heir = LIVES["PrefixSum tree"].make()
    heir.load_state_dict(second)
    with pytest.raises(StateInUse, match="older"):
        heir.load_state_dict(first)
    assert np.array_equal(heir.estimate, shown)


def test_state_dict__of_many_threads_one_resumes_it(in_threads):
    for _ in range(20):
        limiter = ContributionLimiter(1)
        limiter.admit("ada")
        state = limiter.state_dict()
        heirs: list[ContributionLimiter] = []

        def load(_: int, state: Any = state, heirs: list[Any] = heirs) -> None:
            heir = ContributionLimiter(1)
            with suppress(StateInUse, SecondCopy):
                heir.load_state_dict(state)
                heirs.append(heir)

        in_threads(load, 4)
        admitted = 0
        for heir in heirs:
            with suppress(SecondCopy):
                admitted += heir.admit("bob")
        assert admitted == 1


@pytest.mark.parametrize("way", ["moved", "linked"])
def test_file__one_that_was_moved_or_linked_is_marked_where_it_is(way, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    sums = LIVES["PrefixSum tree"].make()
    sums.add([0.1, 0.1])
    sums.save(first)
    if way == "moved":
        first.rename(second)
    else:
        second.symlink_to(first)
        sums.save(second)
        assert second.is_symlink()
    sums.add([0.1, 0.1])
    del sums
    gc.collect()
    with pytest.raises(StateInUse, match="without saving"):
        PrefixSum.load(second)


def _let_go_of_locks() -> None:
    """What a trace raises at the end of a `with` stands between it and `__exit__`."""
    for guard in (files._guard, claims._guard):
        with suppress(RuntimeError):  # no longer held
            while True:
                guard.release()


def test_file__an_interrupted_save_leaves_no_file_that_its_object_does_not_own(tmp_path):
    """At every line: once the file is there, going on marks it."""
    lines = 1
    for line in range(1, 400):
        path = tmp_path / str(line)
        sums = LIVES["PrefixSum tree"].make()

        def interrupt() -> None:
            raise KeyboardInterrupt

        with suppress(KeyboardInterrupt), injected(line, interrupt) as count:
            sums.save(path)
        lines = count[0]
        _let_go_of_locks()
        if path.exists():
            sums.add([0.1, 0.1])
            del sums
            gc.collect()
            with pytest.raises(StateInUse, match="without saving"):
                PrefixSum.load(path)
        if lines < line:
            break
    assert lines > 20


def test_file__a_refused_act_or_a_failed_save_leaves_it_as_it_is(tmp_path):
    path = tmp_path / "state"
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.save(path)
    with pytest.raises(ValueError, match="budget"):
        ledger.spend(Release.gaussian(sensitivity=9.0, scale=1.0, what="all", sampler="test"))
    with pytest.raises(OSError, match="missing"):
        ledger.save(tmp_path / "missing" / "state")
    del ledger
    gc.collect()
    with Ledger.load(path) as resumed:
        resumed.spend(_release("a"))
    del resumed
    gc.collect()
    closed = Ledger.load(path)
    with pytest.raises(ValueError, match="closed"):
        closed.spend(_release("b"))


def test_ledgers__three_of_one_file_are_one(tmp_path):
    path = tmp_path / "ledger"
    Ledger(Budget(1.0, 1e-6)).save(path)
    gc.collect()
    one = Ledger.load(path)
    for _ in range(2):
        with pytest.raises(StateInUse):
            Ledger.load(path)
    one.spend(_release("a"))
    del one
    gc.collect()
    assert [release.what for release in Ledger.load(path).releases] == ["a"]


# -- nested calls ----------------------------------------------------------------------------------


@contextmanager
def injected(line: int, work: Callable[[], None]) -> Iterator[list[int]]:
    """Run `work` before a line of the library, once, in the middle of a call; counts the lines."""
    count = [0]

    def local(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            count[0] += 1
            if count[0] == line:
                sys.settrace(None)
                work()
                sys.settrace(called)
        return local

    def called(frame: Any, event: str, _: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(LIBRARY) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield count
    finally:
        sys.settrace(before)


PAIRS = [
    (life, kind)
    for life in LIVES.values()
    for kind in sorted({kind for kind, _ in life.acts()})
    if len(life.acts()) > 3 and life.name != "PrefixSum exact"  # its noise is new every time
]


@pytest.mark.parametrize(("life", "kind"), PAIRS, ids=[f"{life.name}, {k}" for life, k in PAIRS])
def test_nested__a_call_inside_a_call_is_refused_or_comes_before_it(life, kind, monkeypatch):
    """At some ten lines, others for each pair: it leads to one of three undisturbed orders."""
    monkeypatch.setattr(secrets, "token_bytes", lambda n: bytes(range(n)))
    monkeypatch.setattr(secrets, "token_hex", lambda n: "0" * 2 * n)
    early = life.half // 4 * 2  # it begins anew for each line
    acts = life.acts()[early:]
    before_both = [act for each, act in acts[:4] if each != kind and kind == "learn"]
    outer, inner = [act for each, act in acts if each == kind][:2]

    def ready() -> Session:
        session = life.begun(early)
        for act in before_both:
            act(session)
        return session

    def order(*steps: Callable[[Session], None]) -> bytes:
        session = ready()
        for step in steps:
            step(session)
        return content(session.subject)

    alone = order(outer)
    both = {order(outer, inner), order(inner, outer)}
    session, refused = ready(), 0
    with injected(0, lambda: None) as lines:
        outer(session)
    apart = max(1, lines[0] // 10)
    for line in range(1 + PAIRS.index((life, kind)) % apart, lines[0] + 1, apart):
        session = ready()
        ran: list[str] = []

        def again(session: Session = session, ran: list[str] = ran) -> None:
            try:
                inner(session)
                ran.append("ran")
            except SecondCopy:
                ran.append("refused")

        with injected(line, again):
            outer(session)
        assert content(session.subject) in (both if ran == ["ran"] else {alone}), f"line {line}"
        refused += ran == ["refused"]
    assert refused > 0


# -- devices ---------------------------------------------------------------------------------------


def device(**more: Any) -> Device:
    policy = PublicPolicy.start(2, 1.0)
    return Device(policy, Promise(epsilon=1.0), seed=0, noise=SeededNoise(0), **more)


def test_device__a_fork_and_a_nested_call_send_nothing():
    one = device()
    decision = one.decide(np.eye(2))
    said = in_a_fork(lambda: one.report(decision, 0.5))  # type: ignore[arg-type, return-value]
    assert said.startswith("SecondCopy")
    sent = []
    for line in range(1, 40):
        one = device()
        decision = one.decide(np.eye(2))
        inner: list[Any] = []

        def nested(one: Device = one, decision: Any = decision, inner: list[Any] = inner) -> None:
            with suppress(SecondCopy, ValueError):
                inner.append(one.report(decision, 0.5))

        with suppress(ValueError), injected(line, nested):
            inner.append(one.report(decision, 0.5))
        sent.append(len(inner))
        assert one.sent == 1
    assert set(sent) == {1}


def test_device__a_memory_restarts_one_device():
    one = device()
    memory = one.memory()
    policy = PublicPolicy.start(2, 1.0)
    heir = Device.restarted(policy, memory, noise=SeededNoise(1))
    with pytest.raises(StateInUse):
        Device.restarted(policy, memory, noise=SeededNoise(1))
    with pytest.raises(SecondCopy):
        one.report(one.decide(np.eye(2)), 0.5)
    heir.report(heir.decide(np.eye(2)), 0.5)


def test_server__a_fork_is_refused():
    server = LocalServer(2, 1.0, seed=0)
    sender = device()
    report = sender.report(sender.decide(np.eye(2)), 0.5)
    assert in_a_fork(lambda: server.take(report)).startswith("SecondCopy")  # type: ignore[arg-type, return-value]
    assert in_a_fork(server.close).startswith("SecondCopy")  # type: ignore[arg-type]
    assert server.take(report)
