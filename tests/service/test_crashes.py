"""Crashes between any two statements, and at the commit: what a fresh server finds on the files.

A hypothesis machine drives a server without HTTP. Any step may crash at its k-th SQL statement, at
its commit (before it, or after it with the answer lost) or at a sync of the secrets folder; then
the server is dropped as it is and another one starts on the same files.
"""

import asyncio
import contextlib
import json
import math
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

pytest.importorskip("starlette")

from discreet.bandits.window import VALUE
from discreet.privacy.noise import SystemNoise
from discreet.service import deciding, definitions, learning, sweeping
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.fence import RolledBack
from discreet.service.messages import DecideRequest, RewardItem
from discreet.service.pending import Pending
from discreet.service.restoring import backup, restore
from discreet.service.server import Server
from discreet.service.settings import Settings
from discreet.service.writer import Writer
from tests.service.conftest import PostgreSQL

ROWS = [[0.5, 0.1], [0.1, -0.5]]
REWARDS = (-1.0, -0.25, 0.5, 1.0)


REAL = time.time


def inside(held: Any) -> dict[str, float]:
    """Number and sum of rewards in the open sum, which nobody but a test reads."""
    window = held.learner._window
    return dict(window._totals(window.total._value, window.total.release.scale).published())


class Crash(BaseException):
    """The process dies here."""


class Bomb:
    """Goes off at the k-th event; events are statements, commits and syncs."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.gone = False  # once it went off nothing may reach the disk

    def tick(self) -> None:
        if self.gone:
            raise Crash
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.gone = True
                raise Crash


class Machine(RuleBasedStateMachine):
    """One bandit, one server after another."""

    epsilon: float | None = None
    default: float | None = None
    people: int = 0  # who come again and again; 0: rounds are protected

    def __init__(self, postgresql: PostgreSQL | None = None) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.postgresql = postgresql
        self.store = f"sqlite:///{self.folder}/store.db"
        if postgresql is not None:
            self.database = postgresql.new()
            self.store = postgresql.url(self.database)
        self.bomb = Bomb()
        self.fsync = os.fsync
        os.fsync = self._synced  # type: ignore[assignment]
        self.drawn: list[Any] = []  # every draw of noise: one for each window that was ever opened
        self.gaussian = SystemNoise.gaussian
        drawn, gaussian = self.drawn, self.gaussian

        def recorded(noise: SystemNoise, std: float, size: Any, spacing: float = 0.0) -> Any:
            drawn.append(gaussian(noise, std, size, spacing))
            return drawn[-1]

        SystemNoise.gaussian = recorded  # type: ignore[method-assign]
        self.tokens: list[str] = []
        self.acknowledged: dict[str, float] = {}
        self.unknown: dict[str, float] = {}  # sent, no answer
        self.shown: list[dict[str, Any]] = []
        self.policies: dict[int, Any] = {}
        self.server: Server | None = None
        self.crashes = 0
        self.shift = 0.0  # of the clock, while waits are over

    def _synced(self, handle: int) -> None:
        self.bomb.tick()
        self.fsync(handle)
        self.bomb.tick()

    def teardown(self) -> None:
        os.fsync = self.fsync
        SystemNoise.gaussian = self.gaussian  # type: ignore[method-assign]
        if self.server is not None:
            self.server.store.close()
        if self.postgresql is not None:
            self.postgresql.drop(self.database)
        shutil.rmtree(self.folder)

    # -- one server after another ------------------------------------------------------------------

    def _start(self) -> Server:
        made = Server(
            Settings(
                store=self.store,
                secrets=self.folder / "secrets",
                admin_key="k" * 40,
                noise=SystemNoise(),
            )
        )
        engine = made.store.engine
        sa.event.listen(engine, "before_cursor_execute", lambda *_: self.bomb.tick())
        dialect = engine.dialect
        commit = dialect.do_commit

        def committed(connection: Any) -> None:
            self.bomb.tick()
            commit(connection)
            self.bomb.tick()  # the answer is lost

        dialect.do_commit = committed  # type: ignore[method-assign]
        return made

    def _crashed(self) -> None:
        """Drop the server as it is, without a rollback or a farewell, and start another one."""
        assert self.server is not None
        self.crashes += 1
        self.bomb.left, self.bomb.gone = None, False
        self.server.store.close()
        self.server = self._start()

    def _do(self, work: Any, bomb: int | None) -> Any:
        """The result of an async call that may crash; None if it did."""
        assert self.server is not None
        server = self.server

        class Now(Writer):
            """A writer that does each job at once, so that a crash is the caller's."""

            async def do(self, group: Any, handler: Any, payload: Any) -> Any:
                (result,) = handler([payload])
                if isinstance(result, BaseException):
                    raise result
                return result

        server.writer = Now()
        self.bomb.left = bomb
        try:
            result = asyncio.run(work(server))
            if self.bomb.gone:  # in work that went on after the answer
                self._crashed()
            return result
        except Crash:
            self._crashed()
            return None
        finally:
            self.bomb.left = None

    # -- rules -------------------------------------------------------------------------------------

    @initialize()
    def create(self) -> None:
        self.server = self._start()
        body: dict[str, Any] = {
            "dim": 2,
            "reward": {"range": [-1, 1]},
            "privacy": {"epsilon": self.epsilon, "delta": 1e-6},
        }
        if self.people:
            body["privacy"] |= {"unit": "person", "visits": "all"}
        if self.default is not None:
            body["reward"] |= {"wait": "1h", "default": self.default}
        self.server.create("b", definitions.parsed(msgspec.json.encode(body)), "test")

    @rule(number=st.integers(1, 9), bomb=st.none() | st.integers(0, 60))
    def decide(self, number: int, bomb: int | None) -> None:
        async def work(server: Server) -> list[Any]:
            live = await deciding.live_bandit(server, "b")
            requests = [
                DecideRequest(features=ROWS, person=f"person {i % self.people}")
                if self.people
                else DecideRequest(features=ROWS)
                for i in range(number)
            ]
            return await deciding.decide(server, live, requests, "test", large=False)

        made = self._do(work, bomb)
        for each in made or ():
            self.tokens.append(each.decision)
            self.policies.setdefault(each.policy, None)  # somebody has seen it at work

    @rule(
        data=st.data(),
        bomb=st.none() | st.integers(0, 25),
        others=st.integers(1, 4),
        reward=st.sampled_from(REWARDS),
    )
    def learn(self, data: Any, bomb: int | None, others: int, reward: float) -> None:
        if not self.tokens:
            return
        sent = [data.draw(st.sampled_from(self.tokens)) for _ in range(others)]

        async def work(server: Server) -> list[str]:
            live = await deciding.live_bandit(server, "b")
            rewards = [RewardItem(token, reward) for token in sent]
            items = learning.prepared(server, live, rewards, "test")
            return await learning.learn(server, "b", items)

        statuses = self._do(work, bomb)
        for token, status in zip(sent, statuses or [None] * len(sent), strict=True):
            if status is None:
                if token not in self.acknowledged:
                    self.unknown.setdefault(token, reward)
                continue
            if status == "accepted":
                assert self.people
            elif status == "counted":
                assert token not in self.acknowledged
                self.acknowledged[token] = reward
                self.unknown.pop(token, None)
            elif status == "late":
                assert self.default is not None
            else:
                assert status == "duplicate"
                if token in self.unknown:  # its answer was lost, and it counted then
                    self.acknowledged[token] = self.unknown.pop(token)

    @rule(bomb=st.none() | st.integers(0, 20))
    def sweep(self, bomb: int | None) -> None:
        self._do(lambda server: sweeping.sweep(server), bomb)

    @precondition(lambda self: self.default is not None)
    @rule(bomb=st.none() | st.integers(0, 40))
    def the_wait_is_over(self, bomb: int | None) -> None:
        """What came counts, and the default of all others; each once, whatever crashes."""
        self.shift += 7200.0
        with patch("time.time", lambda: REAL() + self.shift):
            self._do(lambda server: sweeping.sweep(server), bomb)
        with patch("time.time", lambda: REAL() + self.shift):
            self._do(lambda server: sweeping.sweep(server), None)
        assert self.server is not None
        with self.server.store.transaction() as connection:
            assert connection.execute(sa.select(tables.pending)).first() is None
            assert connection.execute(sa.select(tables.waiting)).first() is None

    @rule()
    def restart(self) -> None:
        self._crashed()

    # -- what must be true -------------------------------------------------------------------------

    @invariant()
    def releases_stay_as_they_were_shown(self) -> None:
        if self.server is None:
            return
        table = tables.windows
        with self.server.store.transaction() as connection:
            found = connection.execute(
                sa.select(table.c.release).where(table.c.release.is_not(None)).order_by("number")
            )
            now = [json.loads(text) for text in found.scalars()]
            stored = dict(
                connection.execute(
                    sa.select(tables.policies.c.version, tables.policies.c.policy)
                ).all()
            )
        assert now[: len(self.shown)] == self.shown
        self.shown = now
        for version, policy in self.policies.items():
            assert policy is None or policy == stored[version]
            self.policies[version] = stored[version]

    @invariant()
    def every_acknowledged_reward_is_in_the_sums_once(self) -> None:
        """Released windows and the open one together; lost answers count zero or one times."""
        if self.server is None or self.epsilon is not None or self.people:
            return
        self.releases_stay_as_they_were_shown()
        with self.server.store.transaction() as connection:
            row = self.server.store.lock_bandit(connection, "b")
            tenant = self.server.tenant_of(connection, row)
            waiting = self._waiting(connection, row)
        open_sum = inside(tenant)
        count = round(open_sum["count"] + sum(each["count"] for each in self.shown)) + len(waiting)
        total = open_sum["sum"] + math.fsum([*(each["sum"] for each in self.shown), *waiting])
        lost = list(self.unknown.values())
        known = len(self.acknowledged)
        rest = total - math.fsum(self.acknowledged.values())
        reachable = {(0, 0.0)}  # how many of the lost ones counted, and their sum
        for each in lost:
            reachable |= {(number + 1, value + each) for number, value in reachable}
        if self.default is None:
            defaults = {0}
        else:  # everything that has been settled, but for what came
            defaults = {
                count - known - number for number, _ in reachable if number <= count - known
            }
        assert any(
            known + number + more == count
            and abs(rest - value - more * (self.default or 0.0)) < 1e-9
            for number, value in reachable
            for more in defaults
        )

    def _waiting(self, connection: Any, row: Any) -> list[float]:
        """Rewards of decisions whose wait is not over."""
        assert self.server is not None
        server = self.server
        pending = Pending(connection, server.buckets, server.sealer, row.name, row.epoch)
        kept = connection.execute(sa.select(tables.pending)).all()
        return [each for each in pending.rewards(kept).values() if each is not None]

    @invariant()
    def each_person_counts_once_in_a_window_and_is_forgotten_with_it(self) -> None:
        """The store knows as many people as the open window has rewards, and no others."""
        if self.server is None or not self.people:
            return
        with self.server.store.transaction() as connection:
            row = self.server.store.lock_bandit(connection, "b")
            tenant = self.server.tenant_of(connection, row)
            known = connection.execute(sa.select(sa.func.count()).select_from(tables.people))
            assert known.scalar_one() == round(inside(tenant)["count"])
        assert all(round(each["count"]) <= self.people for each in self.shown)

    @invariant()
    def no_noise_is_drawn_twice_for_a_window(self) -> None:
        """The sum is one draw and its rows: the draw that was stored when the window opened."""
        if self.server is None or self.epsilon is None:
            return
        with self.server.store.transaction() as connection:
            row = self.server.store.lock_bandit(connection, "b")
            tenant = self.server.tenant_of(connection, row)
        rows = inside(tenant)["count"]
        stored = self.opened.setdefault(row.window, self._draws(tenant))
        # A plain count moves by whole rewards from the draw that this window began with.
        moved = rows - stored
        assert abs(moved - round(moved)) < 1e-3
        assert 0 <= round(moved) <= len(self.tokens)

    @property
    def opened(self) -> dict[int, Any]:
        return self.__dict__.setdefault("_opened", {})

    def _draws(self, tenant: Any) -> float:
        """The count's noise among all draws that explains this sum by a whole number of rows."""
        rows = inside(tenant)["count"]
        found = []
        for drawn in self.drawn:
            noise = float(drawn[-2] / VALUE)
            moved = rows - noise
            whole = round(moved)
            if abs(moved - whole) < 1e-6 and 0 <= whole <= len(self.tokens):
                found.append(noise)
        assert len(found) == 1, "the sum does not hold exactly one draw"
        return found[0]


class Exact(Machine):
    """Without noise: counts and sums must be exact."""


class Private(Machine):
    """With noise: each window keeps the draw it was opened with."""

    epsilon = 1.0


class Kept(Machine):
    """Decisions are written down first, because of a default reward."""

    default = -1.0


class EachWindow(Machine):
    """Some people come again and again, and count once in each window."""

    people = 3


class Restored(Private):
    """Old copies of the store come back, and the bandit is retired at some time.

    A released window shows noise that no other release has, whatever was put back in between.
    """

    def __init__(self, postgresql: PostgreSQL | None = None) -> None:
        super().__init__(postgresql)
        self.copies: list[Path] = []
        self.published: dict[int, str] = {}  # draw of noise -> the release that showed it
        self.retired = False

    @rule(bomb=st.none() | st.integers(0, 60))
    def turn(self, bomb: int | None) -> None:
        """Decisions until a window closes."""
        left = self._do(_left, None)
        for many in [50] * (left // 50) + [left % 50, 1]:
            self.decide(max(many, 1), bomb)

    @precondition(lambda self: len(self.copies) < 3)
    @rule()
    def back_up(self) -> None:
        assert self.server is not None
        self.copies.append(self.folder / f"copy {len(self.copies)}.db")
        backup(self.server.settings, self.copies[-1])

    @precondition(lambda self: self.copies)
    @rule(data=st.data())
    def put_back(self, data: Any) -> None:
        """A server refuses the old copy until it is restored; open windows and tokens are gone."""
        assert self.server is not None
        given = self.server.settings
        self.releases_stay_as_they_were_shown()
        self.server.store.close()
        shutil.copy(data.draw(st.sampled_from(self.copies)), self.folder / "store.db")
        for extra in ("-wal", "-shm"):
            (self.folder / f"store.db{extra}").unlink(missing_ok=True)
        with contextlib.suppress(RolledBack):  # nothing may have happened since the copy
            Server(given).store.close()
        restore(given)
        self.tokens, self.shown, self.policies = [], [], {}
        self.opened.clear()
        self.server = self._start()
        assert self._is_retired() >= self.retired

    @precondition(lambda self: len(self.published) > 3)
    @rule()
    def retire(self) -> None:
        assert self.server is not None
        self.server.retire("b", "test")
        self.retired = True

    def _is_retired(self) -> bool:
        assert self.server is not None
        with self.server.store.transaction() as connection:
            return bool(self.server.store.lock_bandit(connection, "b").retired)

    @invariant()
    def no_noise_is_in_two_releases(self) -> None:
        for text in map(json.dumps, self.shown):
            if text in self.published.values():
                continue
            count = json.loads(text)["count"]
            (place,) = [
                at
                for at, drawn in enumerate(self.drawn)
                if abs((moved := count - float(drawn[-2] / VALUE)) - round(moved)) < 1e-6
            ]
            assert place not in self.published
            self.published[place] = text


def profile(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # a failure names its steps; to shorten them takes minutes
        derandomize=True,
    )


TestExact = Exact.TestCase
TestExact.settings = profile(8)
TestPrivate = Private.TestCase
TestPrivate.settings = profile(8)
TestKept = Kept.TestCase
TestKept.settings = profile(4)
TestEachWindow = EachWindow.TestCase
TestEachWindow.settings = profile(6)
TestRestored = Restored.TestCase
TestRestored.settings = profile(6)


@pytest.mark.parametrize("machine", [Exact, Private, Kept, EachWindow])
def test_the_same_on_postgresql(postgresql: PostgreSQL, machine: type[Machine]) -> None:
    run_state_machine_as_test(lambda: machine(postgresql), settings=profile(2))


def test_a_crash_at_each_event_of_a_turn_leaves_one_release(tmp_path: Path) -> None:
    """Every place of the step that closes a window, one after the other: the same release."""
    machine = Private()
    try:
        machine.create()
        machine.decide(8, None)
        machine.restart()
        windows = 0
        for k in range(60):
            size = machine._do(_left, None)
            while size > 1:
                machine.decide(min(size - 1, 50), None)
                size = machine._do(_left, None)
            if size == 1:
                machine.decide(1, None)
            before = len(machine.shown)
            machine.releases_stay_as_they_were_shown()
            machine.decide(1, k)
            machine.decide(1, None)
            machine.releases_stay_as_they_were_shown()
            machine.no_noise_is_drawn_twice_for_a_window()
            windows += len(machine.shown) - before
            if windows > 9:
                break
        assert machine.crashes >= 8
        assert windows > 5
    finally:
        machine.teardown()


async def _left(server: Server) -> int:
    with server.store.transaction() as connection:
        row = server.store.lock_bandit(connection, "b")
    live = server.live.get("b")
    mine = 0 if live is None else live.end - live.first
    return int(row.window_end - row.next_round + mine)


def test_the_machine_notices_a_reward_that_is_acknowledged_before_its_commit() -> None:
    """The invariants can fail: a server that answers and then loses the transaction is caught."""
    machine = Exact()
    try:
        machine.create()
        machine.decide(2, None)
        machine.acknowledged[machine.tokens[0]] = 0.5
        with pytest.raises(AssertionError):
            machine.every_acknowledged_reward_is_in_the_sums_once()
    finally:
        machine.teardown()


def test_the_machine_notices_noise_that_is_in_two_releases() -> None:
    machine = Restored()
    try:
        machine.create()
        while len(machine.shown) < 2:
            machine.decide(9, None)
            machine.releases_stay_as_they_were_shown()
            machine.no_noise_is_in_two_releases()
        machine.shown[-1] = {**machine.shown[-1], "count": machine.shown[-1]["count"] + 1}
        with pytest.raises(AssertionError):
            machine.no_noise_is_in_two_releases()
    finally:
        machine.teardown()


def test_problems_are_not_crashes() -> None:
    machine = Exact()
    try:
        machine.create()
        with pytest.raises(Problem):
            machine._do(lambda server: deciding.live_bandit(server, "none"), None)
    finally:
        machine.teardown()
