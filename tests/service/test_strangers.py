"""Callers without a key, and bodies of every kind: nobody stops the others."""

import asyncio
import http.client
import json
import socket
import time
from dataclasses import replace
from typing import Any

import pytest

from discreet.service import api, limits
from discreet.service.bodies import MOST_VALUES
from discreet.service.client import ServiceError
from discreet.service.errors import Problem
from discreet.service.limits import STRANGERS_BYTES, STRANGERS_ITEMS, Addresses, Bodies
from tests.service.conftest import ADMIN, Running, free_port

ROWS = [[0.5, 0.0], [0.0, 0.5]]
RAW: dict[str, Any] = {
    "dim": 2,
    "reward": {"range": [0, 1], "wait": "1h"},
    "privacy": {"epsilon": None},
}
LOCAL = {"dim": 2, "privacy": {"epsilon": 8.0, "trust": "local"}}
HASHED = {"features": {"hashed": 8}, "actions": ["a", "b"], "privacy": {"epsilon": None}}
FORGED = "dt1." + "A" * 120


@pytest.fixture
def patient(tmp_path):
    """A server that lets an address call as often as it likes."""
    server = Running(tmp_path, public_rate=1e6, personalizer="hashed")
    server.client().create("b", RAW)
    server.client().create("local", LOCAL)
    server.client().create("hashed", HASHED)
    yield server
    server.stop()


def sent(server: Running, path: str, body: bytes, method: str = "POST", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        reply.read()
        return reply.status
    finally:
        connection.close()


# -- how much --------------------------------------------------------------------------------------


def test_without_a_key_a_body_is_small_and_has_few_items(patient):
    large = b'{"rewards": [' + b"1," * STRANGERS_BYTES + b"1]}"
    assert sent(patient, "/v1/bandits/b/learn", large) == 413
    for name, items, item in (
        ("b/learn", "rewards", {"decision": FORGED}),
        ("local/reports", "reports", {"id": FORGED}),
    ):
        many = json.dumps({items: [item] * (STRANGERS_ITEMS + 1)}).encode()
        assert sent(patient, f"/v1/bandits/{name}", many) == 422
        few = json.dumps({items: [item] * STRANGERS_ITEMS}).encode()
        assert sent(patient, f"/v1/bandits/{name}", few) == 200


def test_a_key_is_asked_for_before_the_body(patient):
    """...which is never read: the answer comes although the body does not."""
    calls = [call for call in api.CALLS if call.scope and not call.keyless and call.method != "GET"]
    assert len(calls) > 5
    for call in calls:
        path = call.path.replace("{name}", "b").replace("{id}", "0" * 32)
        with socket.create_connection(("127.0.0.1", patient.port), timeout=10) as connection:
            head = f"{call.method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
            connection.sendall(head.encode())
            assert b" 401 " in connection.recv(4096).split(b"\r\n")[0]


@pytest.fixture
def impatient(monkeypatch):
    """Who is refused is told so nearly at once."""
    monkeypatch.setattr(limits, "REFUSED_SECONDS", 0.02)


def test_an_address_has_a_rate_and_others_have_theirs(tmp_path, impatient):
    server = Running(tmp_path, public_rate=5.0)
    server.client().create("b", RAW)
    body = b'{"decision": "%s", "reward": 1}' % FORGED.encode()
    try:
        found = [sent(server, "/v1/bandits/b/learn", body) for _ in range(30)]
        assert found[:5] == [200] * 5
        assert 429 in found
        for path in ("/login", "/v1/bandits/b/policy", "/openapi.json", "/", "/keys"):
            began = time.monotonic()
            assert server.request("GET", path, Authorization="")[0] == 429
            assert time.monotonic() - began > limits.REFUSED_SECONDS  # or it is all that we do
        # Through a proxy on this machine every visitor is an address; with a key there is no limit.
        other = sent(server, "/v1/bandits/b/learn", body, X_Forwarded_For="x")
        assert other in (200, 429)
        key = f"Bearer {ADMIN}"
        assert [sent(server, "/v1/bandits/b/learn", body, Authorization=key) for _ in range(9)] == [
            200
        ] * 9
        assert server.request("GET", "/healthz", Authorization="")[0] == 200
    finally:
        server.stop()


def test_each_reward_and_report_of_a_stranger_counts_as_a_call(tmp_path, impatient):
    """...or one call of a hundred would be worth a hundred."""
    server = Running(tmp_path, public_rate=50.0)  # a hundred at once
    server.client().create("b", RAW)
    server.client().create("local", LOCAL)
    try:
        for path, field in (("b/learn", "rewards"), ("local/reports", "reports")):
            item = {"decision": FORGED} if field == "rewards" else {"id": "0" * 32}
            many = json.dumps({field: [item] * 90}).encode()
            found = [sent(server, f"/v1/bandits/{path}", many) for _ in range(4)]
            assert found[0] == 200
            assert found[2:] == [429, 429]
            server.server.strangers._spent.clear()
    finally:
        server.stop()


def test_a_rate_is_shared_by_the_servers_that_live(postgresql, tmp_path):
    name = postgresql.new()
    servers = [Running(tmp_path, store=postgresql.url(name)) for _ in range(2)]

    def share(number: int) -> float:
        ends = time.monotonic() + 20
        while True:
            keys = [each.server.keys.get("admin") for each in servers]
            if {key.servers for key in keys} == {number}:
                key = replace(keys[0], rate=10.0, tokens=0.0, at=0.0)
                key.spend(1.0)  # a second later
                return key.tokens + 1
            assert time.monotonic() < ends
            time.sleep(0.05)

    try:
        assert share(2) == 5.0
        servers.pop().stop()
        assert share(1) == 10.0
    finally:
        for server in servers:
            server.stop()
        postgresql.drop(name)


def test_wrong_keys_count_against_their_address_and_right_ones_do_not(tmp_path, impatient):
    server = Running(tmp_path, public_rate=5.0)
    try:
        for path in ("/v1/bandits", "/metrics"):
            found = [
                server.request("GET", path, Authorization=f"Bearer wrong-{i}")[0] for i in range(30)
            ]
            assert set(found) <= {401, 429}
            assert 429 in found
        assert server.request("GET", "/v1/bandits")[0] == 200
    finally:
        server.stop()


def test_what_a_proxy_says_counts_if_it_is_an_address():
    def of(host: str) -> str:
        return limits.address_of({"client": (host, 0)})

    assert of("x" * 60_000) == of("unknown") == of("") == limits.address_of({})
    assert len(of("x" * 60_000)) < 50
    assert of("192.0.2.1") != of("192.0.2.2")
    assert of("192.0.2.1") == of("::ffff:192.0.2.1")
    assert of("2001:db8::1%eth0") == of("2001:db8::2") != of("2001:db8:1::")


def test_a_table_of_addresses_is_not_looked_through_at_each_call(monkeypatch):
    """...of a crowd that has all just called."""
    monkeypatch.setattr(limits, "_MOST_ADDRESSES", 100)
    found = Addresses(1e-3, 10.0)
    looked = []
    forget = found._forget
    monkeypatch.setattr(found, "_forget", lambda: looked.append(forget()))
    for i in range(1000):
        found.spend(f"x{i}")
        if i % 2:
            found._spent[f"x{i}"] = (0.0, 0.0)
    assert len(looked) < 30


def test_addresses__forget_in_time_and_stay_few(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(limits, "_MOST_ADDRESSES", 10)
    found = Addresses(2.0, 4.0)
    for _ in range(4):
        found.spend("a")
    with pytest.raises(Problem):
        found.spend("a")
    found.spend("b")
    now[0] = 0.5
    found.spend("a")
    with pytest.raises(Problem) as caught:
        found.spend("a")
    assert caught.value.headers == {"Retry-After": "1"}
    now[0] = 100.0
    for i in range(100):
        found.spend(f"x{i}")
    assert len(found._spent) <= 12
    home = limits.address_of({"client": ("2001:db8::1", 1)})
    assert home == limits.address_of({"client": ("2001:db8::2", 1)})


def test_bodies_that_are_not_finished_share_a_memory(tmp_path):
    """Each is small, and all of them together are: the next is told to come again."""

    async def piece(size: int, more: bool = True) -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(size), "more_body": more}

    async def unfinished(bodies: Bodies, size: int) -> None:
        came = iter([piece(size)])

        async def receive() -> Any:
            found = next(came, None)
            if found is None:
                await asyncio.sleep(3600)
            return await found

        await bodies.read([], receive, 10_000)

    async def main() -> None:
        bodies = Bodies(5000)
        waiting = [asyncio.create_task(unfinished(bodies, 1000)) for _ in range(60)]
        await asyncio.sleep(0.05)
        assert bodies.held == 5000
        refused = [task for task in waiting if task.done()]
        assert len(refused) == 55
        assert {task.exception().kind for task in refused} == {"busy"}  # type: ignore[union-attr]
        bodies._until = dict.fromkeys(bodies._until, 0.0)
        bodies.give_up_slow_clients()
        await asyncio.sleep(0.05)
        kinds = {task.exception().kind for task in waiting}  # type: ignore[union-attr]
        assert kinds == {"busy", "too-slow"}
        assert bodies.held == 0

    asyncio.run(main())


def test_after_any_answer_no_body_is_held(patient):
    client = patient.client()
    for body in (b"{", b'{"decision": "x", "reward": 1}', b"[" * 10_000, b'{"reward": 7}'):
        sent(patient, "/v1/bandits/b/learn", body)
        sent(patient, "/v1/bandits/b/learn", body, Authorization=f"Bearer {ADMIN}")
        sent(patient, "/login", body)
    client.learn("b", client.decide("b", features=ROWS), 1.0)
    assert (patient.server.bodies.held, patient.server.strangers_bodies.held) == (0, 0)


# -- names -----------------------------------------------------------------------------------------


def test_without_a_key_known_and_unknown_names_answer_alike(patient):
    """Every call with a name in its path: status, headers that matter, body."""
    bodies = (
        b"",
        b"{",
        b"{}",
        b'{"decision": "x", "reward": 1}',
        b'{"decision": "%s", "reward": 1}' % FORGED.encode(),
        b'{"decision": "%s", "reward": 99}' % FORGED.encode(),
        b'{"rewards": [{"decision": "%s", "reward": "no"}, {"decision": "dt1."}]}'
        % FORGED.encode(),
        b'{"rewards": [1]}',
        b'{"reports": [{}]}',
    )
    named = [call for call in api.CALLS if "{name}" in call.path]
    assert len(named) > 10
    for call in named:
        for body in bodies:
            answers = []
            for name in ("b", "nothing"):
                path = call.path.replace("{name}", name).replace("{id}", "0" * 32)
                status, headers, found = patient.request(call.method, path, body, Authorization="")
                answers.append((status, headers.get("content-type"), found))
            assert answers[0] == answers[1], (call.method, call.path, body)


def test_metrics__need_a_key_or_their_own_port(tmp_path):
    port = free_port()
    server = Running(tmp_path, metrics_port=port)
    try:
        admin = server.client()
        for i in range(3):
            admin.create(f"b{i}", RAW)
        assert server.request("GET", "/metrics", Authorization="")[0] == 401
        few = admin.call("POST", "/v1/keys", {"name": "f", "scopes": ["read"], "bandits": ["b1"]})
        secret = f"Bearer {few['secret']}"
        assert server.request("GET", "/metrics", Authorization=secret)[0] == 403
        status, _, text = server.request("GET", "/metrics")
        assert status == 200
        assert b'discreet_rounds{bandit="b2"}' in text
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/metrics")
        assert connection.getresponse().read().startswith(text)  # and how the server runs
        connection.close()
        # However often it is scraped, the store is asked once in a while.
        asked = []
        real = server.server.transact

        async def counted(work: Any) -> Any:
            asked.append(work)
            return await real(work)

        server.server.transact = counted  # type: ignore[method-assign]
        for _ in range(20):
            server.request("GET", "/metrics")
        assert len(asked) <= 1
    finally:
        server.stop()


# -- rates and horizons ----------------------------------------------------------------------------


def test_a_rate_counts_decisions_and_one_call_spends_no_horizon(patient):
    admin = patient.client()
    made = admin.call("POST", "/v1/keys", {"name": "slow", "scopes": ["decide"], "rate": 4})
    slow = patient.client(made["secret"])

    def decide(client: Any, bandit: str, number: int) -> int:
        body = {"requests": [{"features": ROWS}] * number}
        try:
            found = client.call("POST", f"/v1/bandits/{bandit}/decide", body)["decisions"]
        except ServiceError as error:
            return int(error.status)
        return len(found)

    assert decide(slow, "b", 5) == 422
    assert decide(slow, "b", 3) in (3, 429)
    key = replace(patient.server.keys.get(made["id"]), tokens=4.0, at=0.0)
    key.spend(0.0, 3)
    for now, left in ((0.0, 1.0), (0.25, 2.0)):
        with pytest.raises(Problem) as caught:
            key.spend(now, 3)
        assert (caught.value.status, key.tokens) == (429, left)
    for rate in (1e-310, 1e-6, 0.0, -1.0):
        with pytest.raises(ServiceError, match="rate"):
            admin.call("POST", "/v1/keys", {"name": "s", "scopes": ["decide"], "rate": rate})
    never = replace(key, rate=1e-310, tokens=0.0)
    with pytest.raises(Problem) as caught:
        never.spend(0.0)
    assert (caught.value.status, caught.value.headers) == (429, {"Retry-After": "86400"})
    key.spend(0.5, 3)
    key.spend(9.0, 4, counted=1)
    assert key.tokens == 1.0
    admin.create("ends", RAW | {"horizon": 5000})
    assert decide(admin, "ends", 5000) == 422
    assert decide(admin, "ends", 500) == 500


def test_logins_that_fail_are_limited(patient):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    found = [sent(patient, "/login", b"key=wrong", **form) for _ in range(limits.LOGINS + 5)]
    assert found[: limits.LOGINS] == [401] * limits.LOGINS
    assert set(found[limits.LOGINS :]) == {429}
    assert sent(patient, "/login", b"key=" + ADMIN.encode(), **form) == 429


def test_documents_have_the_headers_of_the_dashboard(patient):
    for path in ("/docs", "/openapi.json"):
        _, headers, _ = patient.request("GET", path)
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"


# -- nobody stops the others -----------------------------------------------------------------------

STALL = 0.020  # seconds


class Heart:
    """Beats on the server's event loop; the longest pause between two beats, and its own work."""

    def __init__(self, server: Running) -> None:
        self._loop = server.server.writer._loop
        self.longest = self.busiest = 0.0
        self._task: Any = None

    async def _beat(self) -> None:
        last, worked = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now, work = time.perf_counter(), time.thread_time()
            self.longest = max(self.longest, now - last)
            self.busiest = max(self.busiest, work - worked)
            last, worked = now, work

    def __enter__(self) -> "Heart":
        assert self._loop is not None
        self._task = asyncio.run_coroutine_threadsafe(self._beat(), self._loop)
        return self

    def __exit__(self, *_: object) -> None:
        self._task.cancel()


def largest(path: str, limit: int) -> dict[str, bytes]:
    """Bodies that are as large as they may be, of each kind that is hard to read."""
    n = min(limit // 2 - 50, MOST_VALUES)
    found = {"values": b"1," * n + b"1", "objects": b"{}," * min(n, limit // 3 - 50) + b"{}"}
    found = {
        f"{field} of {kind}": b'{"%s": [%s]}' % (field.encode(), items)
        for field in ("rewards", "requests", "contexts", "reports", "actions")
        for kind, items in found.items()
    }
    found["deep"] = b"[" * (limit - 1)
    found["text"] = b'{"decision": "' + b"x" * (limit - 50) + b'", "reward": 1}'
    reward = b'{"decision": "%s", "reward": 1},' % FORGED.encode()
    number = min(limit // len(reward) - 1, 10_000)
    found["rewards"] = b'{"rewards": [' + reward * (number - 1) + reward[:-1] + b"]}"
    request = b'{"features": [[0.1, 0.2], [0.3, 0.4]]},'
    number = min(limit // len(request) - 1, 10_000)
    found["requests"] = b'{"requests": [' + request * (number - 1) + request[:-1] + b"]}"
    return {kind: body for kind, body in found.items() if len(body) <= limit}


def stalls(server: Running, path: str, body: bytes, method: str, key: bool) -> bool:
    """Whether a call held the loop: by its own work, or (others work here too) by far in time."""
    headers = {"Authorization": f"Bearer {ADMIN}", "Ocp-Apim-Subscription-Key": ADMIN}
    with Heart(server) as heart:
        sent(server, path, body, method, **(headers if key else {}))
    return heart.busiest > STALL or heart.longest > 4 * STALL


@pytest.mark.parametrize("key", [True, False], ids=["key", "stranger"])
def test_no_body_holds_the_event_loop(patient, key):
    """Every call that takes a body, with bodies as large as they may be."""
    calls = [call for call in api.CALLS + api.PERSONALIZER if call.body is not None]
    calls = [call for call in calls if key or call.keyless]
    assert len(calls) >= (2 if not key else 6)
    for call in calls:
        limit = call.most or patient.settings.body_limit
        if not key:
            limit = call.strangers
        name = "local" if call.path.endswith("reports") else "b"
        path = call.path.replace("{name}", name).replace("{id}", "event")
        for kind, body in largest(path, limit).items():
            # The machine is busy with other things: one of some tries shows the call's own.
            held = all(stalls(patient, path, body, call.method, key) for _ in range(6))
            assert not held, (call.path, kind, len(body))


def heavy() -> dict[str, tuple[str, Any]]:
    """Requests of few items that are much work: features of contexts meet those of actions."""
    wide = {f"c{i}": 1 for i in range(90)}
    rich = [{"id": str(i), **{f"f{j}": j for j in range(90)}} for i in range(1000)]
    many = [{"features": [[0.1, 0.2]] * 150}] * 300
    few = {f"{i}": i for i in range(100)}
    brief = [{"id": "a", **few}, {"id": "b"}]
    ranked = [{"id": str(i), "features": [few]} for i in range(50)]
    rank = {"contextFeatures": [{f"c{i}": 1 for i in range(1000)}], "actions": ranked}
    return {
        "rich actions": ("/v1/bandits/hashed/decide", {"context": wide, "actions": rich}),
        "many rows": ("/v1/bandits/b/decide", {"requests": many}),
        "just on the loop": ("/v1/bandits/hashed/decide", {"context": few, "actions": brief}),
        "declared": ("/v1/bandits/declared/decide", {"context": {f"c{i}": 1 for i in range(220)}}),
        "rank": ("/personalizer/v1.0/rank", rank),
    }


@pytest.mark.parametrize("kind", heavy())
def test_no_decision_holds_the_event_loop(patient, kind):
    declared = HASHED | {"actions": [f"a{i}" for i in range(8000)]}
    patient.client().create("declared", declared)
    path, body = heavy()[kind]
    raw = json.dumps(body, separators=(",", ":")).encode()
    assert raw.count(b",") < MOST_VALUES
    headers = {"Authorization": f"Bearer {ADMIN}", "Ocp-Apim-Subscription-Key": ADMIN}
    assert sent(patient, path, raw, **headers) in (200, 201)
    assert not all(stalls(patient, path, raw, "POST", True) for _ in range(4))


def test_the_heart_notices_a_stall(patient):
    def hold() -> None:
        ends = time.thread_time() + 0.1
        while time.thread_time() < ends:
            pass

    with Heart(patient) as heart:
        time.sleep(0.05)
        patient.server.writer._loop.call_soon_threadsafe(hold)
        time.sleep(1.0)
    assert heart.longest > 0.09
    assert heart.busiest > 0.09
