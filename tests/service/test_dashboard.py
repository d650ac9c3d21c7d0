"""The dashboard: who may look and change, and that nothing on it comes from one person's data."""

import html
import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from discreet.service import demo, metrics
from discreet.service import store as tables
from discreet.service.dashboard import examples
from discreet.service.definitions import parsed
from discreet.service.restoring import restore
from tests.service import test_batches as batches
from tests.service import test_reports as reports
from tests.service.conftest import ADMIN, Running

DECLARED = demo.DEFINITION
HOST = "discreet.test"  # the same for every server, so that pages can be compared


class Visitor:
    """A browser without a screen: keeps its cookie and follows no redirect."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.cookie = ""

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        status, _, body = self._send("GET", path, None, headers)
        return status, body.decode()

    def post(self, path: str, form: dict[str, str], **headers: str) -> tuple[int, dict, str]:
        body = urllib.parse.urlencode(form).encode()
        status, found, reply = self._send("POST", path, body, headers)
        return status, found, reply.decode()

    def _send(self, method, path, body, headers):
        sent = {"Authorization": "", "Host": HOST, "Cookie": self.cookie} | headers
        status, found, reply = self.running.request(method, path, body, **sent)
        if "set-cookie" in found:
            self.cookie = found["set-cookie"].partition(";")[0]
        return status, found, reply

    def log_in(self, key: str = ADMIN) -> "Visitor":
        status, _, _ = self.post("/login", {"key": key, "after": "/"})
        assert status == 303
        return self

    @property
    def form_token(self) -> str:
        found = re.search(r'name="form_token" value="([0-9a-f]{64})"', self.get("/")[1])
        assert found
        return found[1]

    def send(self, path: str, **form: str) -> tuple[int, dict, str]:
        """A form as a page of this session sends it."""
        return self.post(path, {**form, "form_token": self.form_token})


@pytest.fixture
def server(tmp_path):
    made = Running(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def admin(server):
    return Visitor(server).log_in()


def key(server: Running, *scopes: str, **more: object) -> tuple[str, str]:
    made = server.client().call("POST", "/v1/keys", {"name": "k", "scopes": scopes, **more})
    return made["id"], made["secret"]


def play(server: Running, bandit: str, people: int, seed: int = 0) -> None:
    client, rng = server.client(), np.random.default_rng(seed)
    for _ in range(0, people, 500):
        contexts, found = demo.visitors(500, rng)
        decisions = client.decide_many(bandit, contexts)
        actions = [DECLARED["actions"].index(each.action) for each in decisions]
        client.learn_many(bandit, zip(decisions, found.rewards(actions, rng).tolist(), strict=True))


# -- logging in ------------------------------------------------------------------------------------


def test_session__the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(server):
    visitor = Visitor(server)
    _, headers, _ = visitor.post("/login", {"key": ADMIN})
    parts = {part.strip().lower() for part in headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert "secure" not in parts
    assert ADMIN not in headers["set-cookie"]
    _, headers, _ = visitor.post("/login", {"key": ADMIN}, X_Forwarded_Proto="https")
    assert headers["set-cookie"].startswith("__Host-discreet=")
    assert "; secure" in headers["set-cookie"].lower()


def test_session__without_one_every_page_asks_to_log_in(server):
    server.client().create("b", DECLARED)
    for path in ("/", "/bandits/b", "/keys", "/log"):
        status, text = Visitor(server).get(path)
        assert status == 200
        assert 'action="/login"' in text
        assert "form_token" not in text


def test_session__a_cookie_that_was_changed_or_is_old_does_not_count(server, admin, monkeypatch):
    name, _, value = admin.cookie.partition("=")
    key_id, expiry, nonce, mac = value.split("~")
    for forged in (
        f"{key_id}~{int(expiry) + 1}~{nonce}~{mac}",
        f"{key_id}~{expiry}~{nonce}x~{mac}",
        f"{key_id}~{expiry}~{nonce}~{'0' * 64}",
        f"{key_id}~{expiry}~{nonce}",
        "admin",
        "",
    ):
        visitor = Visitor(server)
        visitor.cookie = f"{name}={forged}"
        assert 'action="/login"' in visitor.get("/")[1], forged
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 3600 + 2)
    assert 'action="/login"' in admin.get("/")[1]


def test_session__ends_when_its_key_is_revoked(server):
    key_id, secret = key(server, "read")
    visitor = Visitor(server).log_in(secret)
    assert "form_token" in visitor.get("/")[1]
    server.client().call("DELETE", f"/v1/keys/{key_id}")
    assert 'action="/login"' in visitor.get("/")[1]


def copied(visitor: Visitor, server: Running) -> Visitor:
    """Somebody who has a copy of the cookie."""
    other = Visitor(server)
    other.cookie = visitor.cookie
    return other


def test_log_out__ends_the_session_for_every_copy_of_its_cookie(running, tmp_path):
    visitor, other = Visitor(running).log_in(), Visitor(running).log_in()
    thief = copied(visitor, running)
    assert "form_token" in thief.get("/")[1]
    visitor.send("/logout")
    token = other.form_token
    assert 'action="/login"' in thief.get("/")[1]
    assert thief.post("/keys", {"form_token": token})[1]["location"] == "/login"
    assert "form_token" in other.get("/")[1]  # another session of the same key goes on
    running.stop()
    again = Running(tmp_path, store=running.settings.store)
    try:
        assert 'action="/login"' in copied(thief, again).get("/")[1]
        assert "form_token" in copied(other, again).get("/")[1]
    finally:
        again.stop()


def test_log_out__counts_on_every_replica_at_once(postgresql, tmp_path):
    name = postgresql.new()
    one, two = (Running(tmp_path, store=postgresql.url(name)) for _ in range(2))
    try:
        visitor = Visitor(one).log_in()
        there = copied(visitor, two)
        assert "form_token" in there.get("/")[1]
        visitor.send("/logout")
        assert 'action="/login"' in there.get("/")[1]
    finally:
        one.stop()
        two.stop()
        postgresql.drop(name)


def test_log_out__stores_a_hash_until_the_cookie_would_expire_and_nothing_else(
    server, admin, monkeypatch
):
    def stored():
        with server.server.store.transaction() as connection:
            return connection.execute(sa.select(tables.logouts)).all()

    _, expiry, nonce, _ = admin.cookie.split("~")
    assert stored() == []  # a live session is nowhere
    admin.send("/logout")
    ((session, until),) = stored()
    assert len(session) == 32
    assert nonce.encode() not in session
    assert until == int(expiry)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 3600 + 2)
    Visitor(server).log_in().send("/logout")
    assert session not in [each.session for each in stored()]


def test_session__ends_when_the_store_is_restored(tmp_path):
    """A restored store has forgotten who logged out since."""
    server = Running(tmp_path)
    visitor = Visitor(server).log_in()
    server.stop()
    restore(server.settings)
    again = Running(tmp_path)
    try:
        assert 'action="/login"' in copied(visitor, again).get("/")[1]
    finally:
        again.stop()


def test_log_in__wrong_keys_and_keys_that_may_not_read_are_refused(server):
    _, decides = key(server, "decide", "learn")
    for secret, expected in (("", 401), ("wrong", 401), ("dk_admin_x", 401), (decides, 403)):
        visitor = Visitor(server)
        status, headers, _ = visitor.post("/login", {"key": secret})
        assert status == expected
        assert "set-cookie" not in headers


def test_log_in__goes_on_to_pages_of_this_server_only(server):
    after = {"/keys": "/keys", "//evil.test/": "/", "/\\evil.test": "/", "https://evil.test": "/"}
    for wanted, expected in after.items():
        _, headers, _ = Visitor(server).post("/login", {"key": ADMIN, "after": wanted})
        assert headers["location"] == expected


def test_link__logs_in_once(server):
    token = server.app.state.dashboard.sessions.link("admin")
    visitor = Visitor(server)
    assert visitor.get(f"/enter/{token}")[0] == 303
    assert "Log out" in visitor.get("/")[1]
    assert Visitor(server).get(f"/enter/{token}")[0] == 401
    assert Visitor(server).get("/enter/made-up")[0] == 401


# -- forms -----------------------------------------------------------------------------------------


def test_forms__need_the_token_of_this_session_and_this_origin(server, admin):
    server.client().create("b", DECLARED)
    other = Visitor(server).log_in()
    token = admin.form_token
    assert token != other.form_token
    form = {"name": "b"}
    for sent, headers in (
        ({}, {}),
        ({"form_token": ""}, {}),
        ({"form_token": other.form_token}, {}),
        ({"form_token": token}, {"Origin": "https://evil.test"}),
        ({"form_token": token}, {"Origin": "null"}),
        ({"form_token": token}, {"Sec_Fetch_Site": "cross-site"}),
        ({"form_token": token}, {"Sec_Fetch_Site": "same-site"}),
    ):
        status, _, _ = admin.post("/bandits/b/retire", {**form, **sent}, **headers)
        assert status == 403
        assert admin.post("/keys", {"name": "x", "scope-read": "on", **sent}, **headers)[0] == 403
    assert Visitor(server).post("/bandits/b/retire", {**form, "form_token": token})[0] == 303
    assert not server.client().bandit("b")["retired"]
    assert len(server.client().call("GET", "/v1/keys")["keys"]) == 1
    status, _, _ = admin.post(
        "/bandits/b/retire", {**form, "form_token": token}, Origin=f"http://{HOST}"
    )
    assert status == 303
    assert server.client().bandit("b")["retired"]


def test_log_in__another_site_cannot_send_the_form(server):
    status, headers, _ = Visitor(server).post("/login", {"key": ADMIN}, Origin="https://evil.test")
    assert status == 403
    assert "set-cookie" not in headers


def test_retire__needs_the_name_and_is_logged(server, admin):
    server.client().create("b", DECLARED)
    assert admin.send("/bandits/b/retire", name="B")[0] == 422
    assert not server.client().bandit("b")["retired"]
    assert admin.send("/bandits/b/retire", name="b")[0] == 303
    assert "Retired" in admin.get("/bandits/b")[1]
    assert re.search(r"<td>retire</td>\s*<td>b<", admin.get("/log")[1])


def test_keys__are_created_rotated_and_revoked(server, admin):
    server.client().create("b", DECLARED)
    form = {"name": "shop", "scope-decide": "on", "scope-learn": "on", "bandits": "b", "rate": "50"}
    status, _, page = admin.send("/keys", **form)
    assert status == 200
    first = html.unescape(re.search(r'<code id="secret">(.*?)</code>', page)[1])
    assert server.client(first).decide("b", {"age": 40, "plan": "gold"}).action
    old = first.split("_")[1]
    status, _, page = admin.send(f"/keys/{old}/rotate")
    second = html.unescape(re.search(r'<code id="secret">(.*?)</code>', page)[1])
    listed = {each["id"]: each for each in server.client().call("GET", "/v1/keys")["keys"]}
    new = listed[second.split("_")[1]]
    same = ("name", "scopes", "bandits", "rate")
    assert [new[each] for each in same] == [listed[old][each] for each in same]
    assert server.client(first).decide("b", {"age": 40, "plan": "gold"}).action  # until revoked
    assert admin.send(f"/keys/{old}/revoke")[0] == 303
    status, _, _ = server.request(
        "POST", "/v1/bandits/b/decide", b"{}", Authorization=f"Bearer {first}"
    )
    assert status == 401
    page = admin.get("/keys")[1]
    assert first not in page
    assert second not in page
    assert admin.send("/keys", name="none")[0] == 422
    assert admin.send("/keys", **form | {"rate": "fast"})[0] == 422
    assert admin.send("/keys/admin/rotate")[0] == 404
    log = admin.get("/log")[1]
    assert log.count("create key") == 2
    assert log.count("revoke key") == 1


# -- who sees what ---------------------------------------------------------------------------------


def test_scopes__a_reader_sees_and_changes_no_keys(server):
    server.client().create("b", DECLARED)
    key_id, secret = key(server, "read")
    reader = Visitor(server).log_in(secret)
    page = reader.get("/bandits/b")[1]
    assert "Retire" not in page
    assert 'href="/keys"' not in page
    for path in ("/keys", "/log"):
        assert reader.get(path)[0] == 403
    assert reader.send("/bandits/b/retire", name="b")[0] == 403
    assert reader.send("/keys", name="x", **{"scope-admin": "on"})[0] == 403
    assert reader.send(f"/keys/{key_id}/rotate")[0] == 403
    assert reader.send(f"/keys/{key_id}/revoke")[0] == 403
    assert not server.client().bandit("b")["retired"]


def test_scopes__a_key_for_one_bandit_sees_that_one_alone(server):
    for name in ("mine", "theirs"):
        server.client().create(name, DECLARED)
    _, secret = key(server, "read", bandits=["mine"])
    visitor = Visitor(server).log_in(secret)
    page = visitor.get("/")[1]
    assert "mine" in page
    assert "theirs" not in page
    assert "Populations" not in page
    assert visitor.get("/bandits/mine")[0] == 200
    assert visitor.get("/bandits/theirs")[0] == 403
    assert visitor.send("/bandits/theirs/try")[0] == 403


# -- what pages hold -------------------------------------------------------------------------------


def test_pages__run_no_code_but_their_own_and_ask_nobody_else(server, admin):
    play_names = '"><script>alert(1)</script>'
    server.client().create(
        "b",
        {
            "context": {play_names: {"category": [play_names, "x"]}},
            "actions": [play_names, "y"],
            "privacy": {"epsilon": 1.0},
        },
    )
    for path in ("/", "/bandits/b", "/keys", "/log", "/login", "/bandits/none"):
        _, headers, body = server.request("GET", path, Authorization="", Cookie=admin.cookie)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        page = body.decode()
        assert play_names not in page
        assert re.findall(r"<script(?! src=\"/static/)", page) == []
        assert not re.search(r"\sstyle=|\son\w+=|https?://(?!127\.0\.0\.1)", page)
    script = server.request("GET", "/static/dashboard.js")[2].decode()
    assert "fetch(" not in script
    assert server.request("GET", "/static/../pages.py")[0] == 404
    assert server.request("GET", "/static/uPlot.LICENSE")[0] == 404


def run(command: list[str]) -> str:
    """What a command prints; it finds a key in the environment."""
    given = {**os.environ, "KEY": ADMIN}
    return subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout


def run_script(text: str) -> None:
    """Run an example in Node, with the client of this repository."""
    client = (Path(__file__).parents[2] / "clients" / "js" / "discreet-client.js").as_uri()
    script = text.replace('"discreet-client"', json.dumps(client))
    script = script.replace("key);", "process.env.KEY);")
    run(["node", "--input-type=module", "-e", script])


@pytest.mark.parametrize(
    "definition",
    [
        DECLARED,
        {"dim": 3, "privacy": {"epsilon": None}},
        {"features": {"hashed": 16}, "privacy": {"epsilon": 1.0}},
        {"features": {"hashed": 16}, "actions": ["a", "b"], "privacy": {"epsilon": 1.0}},
        {
            "context": {"x": {"number": [0, 1]}},
            "actions": {"a": {"price": 1}, "b": {"price": 2}},
            "action_features": {"price": {"number": [0, 2]}},
            "privacy": {"epsilon": 1.0, "unit": "person"},
        },
    ],
)
def test_examples__run_as_the_page_shows_them(server, admin, definition):
    server.client().create("b", definition)
    status, page = admin.get("/bandits/b")
    assert status == 200
    stored = parsed(json.dumps(definition).encode())
    calls = examples.calls("b", stored, server.url)
    for text in examples.calls("b", stored, f"http://{HOST}")["text"].values():
        assert html.escape(text, quote=False) in html.escape(html.unescape(page), quote=False)
    names: dict = {"key": ADMIN}
    exec(calls["text"]["Python"], names)
    names["client"].close()
    if shutil.which("curl"):
        decide = calls["text"]["curl"].split("\ncurl")[0]
        assert "decision" in json.loads(run(["sh", "-c", decide]))
    if shutil.which("node"):
        run_script(calls["text"]["JavaScript"])
    token = admin.form_token
    form = {"form_token": token}
    body = calls["example"]
    if "features" in body:
        form["features"] = json.dumps(body["features"])
    elif "hashed" in str(definition):
        form["context"] = json.dumps(body["context"])
        form["actions"] = json.dumps(body["actions"]) if "actions" in body else ""
    else:
        form |= {f"column-{n}": str(x) for n, x in body["context"].items()}
        form |= {"column-plan": "0"} if "plan" in body["context"] else {}
    status, _, page = admin.post("/bandits/b/try", form)
    assert status == 200
    shown = re.search(r'id="tried".*?</table>', page, re.DOTALL)[0]
    probabilities = [float(x) for x in re.findall(r">(\d+(?:\.\d+)?)%</td>", shown)]
    assert sum(probabilities) == pytest.approx(100, abs=2)


def test_local_trust__pages_speak_of_reports_and_learn_from_them(server, admin):
    server.client().create("ads", reports.DEFINITION)
    page = admin.get("/bandits/ads")[1]
    assert "new Device(" in page
    assert "Nothing yet" in page
    size = server.client().bandit("ads")["window"]["rounds"]
    document, _ = reports.policy(server)
    sent = [reports.report(document, seed) for seed in range(size)]
    assert set(reports.send(server, {"reports": sent})) == {"counted"}
    page = admin.get("/bandits/ads")[1]
    assert re.search(r"<dt>Reports</dt><dd>" + str(size), page)
    assert "<caption>email</caption>" in page
    assert "Sum of rewards" not in page
    status, _, page = admin.send("/bandits/ads/try", **{"column-age": "40"})
    assert status == 200
    assert 'id="tried"' in page


def test_shuffled_trust__pages_show_batches_and_how_to_send_through_a_relay(server, admin):
    server.client().create("crowd", batches.SHUFFLED)
    page = admin.get("/bandits/crowd")[1]
    assert "relay.example" in page
    terms = batches.terms_of(server, "crowd")
    terms, sealed = batches.shuffled_reports(server, range(terms.minimum))
    assert batches.put(server, terms, sealed)[1] == {"status": "counted"}
    status, page = admin.get("/bandits/crowd")
    assert status == 200
    assert re.search(r"<dt>Reports</dt><dd>" + str(terms.minimum), page)
    assert "Sum of rewards" not in page


def test_try__what_does_not_fit_is_explained_and_uses_no_round(server, admin):
    server.client().create("b", DECLARED)
    rounds = server.client().bandit("b")["rounds"]
    status, _, page = admin.send("/bandits/b/try", **{"column-age": "old", "column-plan": "0"})
    assert status == 422
    assert "age must be a number" in page
    assert admin.send("/bandits/b/try", **{"column-age": "40", "column-plan": "9"})[0] == 422
    assert admin.send("/bandits/b/try", **{"column-age": "40", "column-plan": "0"})[0] == 200
    assert server.client().bandit("b")["rounds"] == rounds


# -- privacy ---------------------------------------------------------------------------------------


def everything(server: Running, cookie: str) -> dict[str, str]:
    """Every page and every metric; the same cookie gives the same tokens of forms."""
    visitor = Visitor(server)
    visitor.cookie = cookie
    found = {}
    for path in ("/", "/bandits/b", "/bandits/b?all", "/keys", "/log", "/readyz"):
        status, found[path] = visitor.get(path)
        assert status == 200
        assert 'action="/login"' not in found[path]
    found["/value"] = server.request("GET", "/v1/bandits/b/value")[2].decode()
    found["/metrics"] = server.request("GET", "/metrics")[2].decode()
    token = re.search(r'name="form_token" value="([0-9a-f]{64})"', found["/"])[1]
    form = {"form_token": token, "column-age": "30", "column-plan": "1"}
    status, _, found["try"] = visitor.post("/bandits/b/try", form)
    assert status == 200, found["try"]
    return found


def test_privacy__pages_and_metrics_are_the_same_bytes_whatever_one_person_does(
    tmp_path, monkeypatch
):
    """Two copies of one server: the next person has another context, action and reward in each."""
    monkeypatch.setattr(metrics, "FRESH", 0.0)  # not those of before
    first = tmp_path / "first"
    first.mkdir()
    server = Running(first)
    server.client().create("b", DECLARED)
    play(server, "b", 1000)
    cookie = Visitor(server).log_in().cookie
    window = server.client().bandit("b")["window"]["rounds"]
    server.stop()
    shown, released = [], []
    for copy, age, plan, reward in (("one", 18, "basic", 0.0), ("two", 90, "gold", 1.0)):
        folder = tmp_path / copy
        shutil.copytree(first, folder)
        server = Running(folder, admin_key=None)  # the stored one, as old as it was
        client = server.client()
        decided = client.decide("b", {"age": age, "plan": plan})
        after_decision = everything(server, cookie)
        assert client.learn("b", decided, reward) == "counted"
        assert client.learn("b", decided, reward) == "duplicate"
        status, _, _ = server.request(
            "POST", "/v1/bandits/b/learn", b'{"decision": "dt1.forged", "reward": 1}'
        )
        assert status == 200
        shown.append(everything(server, cookie))
        assert shown[-1] == after_decision  # a reward changes nothing
        client.decide_many("b", [{"age": 50, "plan": "gold"}] * window)
        released.append(everything(server, cookie))
        server.stop()
    assert shown[0] == shown[1]
    for path in ("/bandits/b", "/value", "try"):  # and the test can tell: a release does differ
        assert released[0][path] != shown[0][path]
        assert released[0][path] != released[1][path]
