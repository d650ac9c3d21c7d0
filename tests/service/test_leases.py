"""Leases of rounds: the next block comes before the last number is used, and none is lost."""

import asyncio
import math
import threading
import time

from discreet.service import leasing
from discreet.service.live import Live

ROWS = [[0.5, 0.0], [0.0, 0.5]]
FREE = {"dim": 2, "privacy": {"epsilon": None}}


def test_lease__a_block_that_has_just_arrived_is_used_and_not_waited_for():
    """A lease is over before its callback has run: whoever asks in between must not spin."""

    async def ask() -> Live:
        live = Live("b", None, None, math.inf, b"")
        live.waiting = asyncio.get_running_loop().create_future()
        live.waiting.set_result(None)
        live.spare = (8, 12, math.inf)
        await leasing.lease(None, live, 1)
        return live

    live = asyncio.run(ask())
    assert (live.first, live.end, live.spare) == (8, 12, None)


def test_lease__many_callers_at_once_are_all_answered(running):
    client = running.client()
    client.create("b", FREE)
    clients = [running.client() for _ in range(8)]
    made = []

    def ask(one):
        made.extend(one.decide("b", features=ROWS).decision for _ in range(40))

    threads = [threading.Thread(target=ask, args=(one,), daemon=True) for one in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(set(made)) == 8 * 40


def test_lease__an_idle_server_gives_both_blocks_back(running):
    client = running.client()
    client.create("b", FREE)
    for _ in range(30):
        client.decide("b", features=ROWS)
    live = running.app.state.server.live["b"]
    until = time.monotonic() + 20
    while (live.first < live.end or live.spare is not None) and time.monotonic() < until:
        time.sleep(0.05)
    assert live.first >= live.end
    assert live.spare is None


def test_lease__repeating_a_request_spends_no_round(running):
    client = running.client()
    client.create("b", FREE)
    made = client.decide("b", features=ROWS, id="same")
    time.sleep(1.2)  # the rest of the lease is given back
    spent = client.bandit("b")["rounds"]
    assert {client.decide("b", features=ROWS, id="same").decision for _ in range(40)} == {
        made.decision
    }
    both = [{"features": ROWS, "id": "same"}, {"features": ROWS, "id": "new"}, {"features": ROWS}]
    found = client.call("POST", "/v1/bandits/b/decide", {"requests": both})["decisions"]
    assert found[0]["decision"] == made.decision
    assert len({each["decision"] for each in found}) == 3
    time.sleep(1.2)
    assert client.bandit("b")["rounds"] == spent + 2
