"""The dashboard in a real Chromium: tests/browser/dashboard.test.js, against servers made here."""

from pathlib import Path

from tests.browser.running import needs_browser, run_node
from tests.service.conftest import ADMIN, Running
from tests.service.test_dashboard import DECLARED, play

ODD = '"><img src=x onerror=alert(1)>'  # a name that would run where names are not escaped


def filled(folder: Path) -> Running:
    """Bandits of every kind, one of them with releases, one with an alarm."""
    server = Running(folder)
    client = server.client()
    client.call("PUT", "/v1/populations/customers", {"epsilon": 3.0})
    client.create("welcome", DECLARED)
    play(server, "welcome", 6000)
    client.create(
        "odd",
        {
            "context": {ODD: {"category": [ODD, "x"], "other": True}},
            "actions": [ODD, "y"],
            "privacy": {"epsilon": 0.5, "population": "customers"},
        },
    )
    client.create("rows", {"dim": 3, "privacy": {"epsilon": None}})
    client.create("devices", {"dim": 2, "privacy": {"epsilon": 4.0, "trust": "local"}})
    for i in range(12):
        client.create(f"campaign-{i}", {"features": {"hashed": 4}, "privacy": {"epsilon": 1.0}})
    client.create("broken", DECLARED)
    with server.server.store.transaction() as connection:
        server.server.store_alarm(connection, "broken", "an alarm for this test")
    return server


def test_dashboard_in_a_browser(tmp_path):
    needs_browser()
    (tmp_path / "full").mkdir()
    (tmp_path / "empty").mkdir()
    full, empty = filled(tmp_path / "full"), Running(tmp_path / "empty")
    try:
        test = Path(__file__).parents[1] / "browser" / "dashboard.test.js"
        run_node(test, FULL=full.url, EMPTY=empty.url, KEY=ADMIN)
    finally:
        full.stop()
        empty.stop()
