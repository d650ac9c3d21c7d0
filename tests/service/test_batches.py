"""Sealed reports on the server: each batch counts once, whole, or not at all."""

import json
import secrets
import threading

import msgspec
import numpy as np
import pytest

from discreet.bandits import Device, Promise, PublicPolicy
from discreet.privacy import SeededNoise
from discreet.service import sealing
from discreet.service.sealing import Terms
from tests.service.conftest import Running
from tests.service.test_reports import ROWS, policy, report


def terms_of(server, name="ads"):
    """What anybody reads: no key."""
    status, headers, body = server.request("GET", f"/v1/bandits/{name}/terms", Authorization="")
    assert status == 200
    assert headers["access-control-allow-origin"] == "*"
    return msgspec.json.decode(body, type=Terms)


def sealed_reports(server, seeds, name="ads"):
    """The terms, and what devices would send through a relay."""
    terms, (document, _) = terms_of(server, name), policy(server, name)
    made = [msgspec.json.encode(report(document, seed)) for seed in seeds]
    return terms, [sealing.seal(terms, each) for each in made]


def put(server, terms, sealed, batch=None, **headers):
    batch = batch or secrets.token_hex(16)
    path = f"/v1/bandits/{terms.bandit}/batches/{batch}?policy={terms.policy}"
    status, _, body = server.request("PUT", path, b"".join(sealed), **headers)
    return status, json.loads(body)


def taken(server, name="ads"):
    return server.client().bandit(name)["reports"]["taken"]


@pytest.fixture
def both(running):
    """On SQLite and on PostgreSQL."""
    running.client().create("ads", ROWS)
    return running


@pytest.fixture
def made(tmp_path):
    server = Running(tmp_path)
    server.client().create("ads", ROWS)
    yield server
    server.stop()


def test_terms__name_the_policy_that_is_served_and_what_a_batch_is(made):
    terms = terms_of(made)
    status, headers, body = made.request("GET", "/v1/bandits/ads/policy", Authorization="")
    assert status == 200
    assert f'"{terms.policy}"' == headers["etag"]
    assert terms.digest == sealing.digest(body)
    shown = made.client().bandit("ads")
    assert (terms.batch, terms.minimum) == (shown["window"]["rounds"], 10)
    assert (terms.bandit, terms.epsilon) == ("ads", 8.0)
    assert terms_of(made) == terms


def test_terms__of_joint_trust_and_of_retired_bandits_are_not_there(made):
    made.client().create("joint", {**ROWS, "privacy": {"epsilon": 1.0}})
    for name in ("joint", "nothing"):
        assert made.request("GET", f"/v1/bandits/{name}/terms", Authorization="")[0] == 404
    made.client().call("DELETE", "/v1/bandits/ads")
    made.server.public.clear()
    assert made.request("GET", "/v1/bandits/ads/terms", Authorization="")[0] == 404


def test_size__every_question_fits_and_is_padded_to_the_same_length(made):
    terms, sealed = sealed_reports(made, range(40))
    (document, _) = policy(made)
    asked = {report(document, seed)["question"] for seed in range(40)}
    assert asked == {"gram", "scale", "moment"}
    assert {len(each) for each in sealed} == {terms.sealed_size}
    longest = {"id": "f" * 32, "policy": terms.policy, "question": "moment", "values": [-1048577]}
    longest |= {"question": "gram", "values": [-1048577] * 3}
    sealing.seal(terms, msgspec.json.encode(longest))


def test_batch__counts_once_however_often_it_is_sent(both):
    terms, sealed = sealed_reports(both, range(12))
    batch = secrets.token_hex(16)
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(put(both, terms, sealed, batch)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["status"] for _, answer in answers) == ["counted", *["duplicate"] * 3]
    assert put(both, terms, sealed, batch) == (200, {"status": "duplicate"})
    assert taken(both) == 12


def test_batch__a_report_counts_once_in_whichever_batches_it_is(made):
    terms, sealed = sealed_reports(made, range(12))
    assert put(made, terms, [*sealed, *sealed])[1] == {"status": "counted"}
    assert taken(made) == 12
    none = {"status": "small", "bad": list(range(12))}
    assert put(made, terms, sealed)[1] == none  # none of them is new
    assert taken(made) == 12


def test_batch__with_too_few_sound_reports_is_not_counted(made):
    terms, sealed = sealed_reports(made, range(9))
    junk = [secrets.token_bytes(terms.sealed_size) for _ in range(20)]
    batch = secrets.token_hex(16)
    small = {"status": "small", "bad": list(range(5, 25))}
    for _ in range(2):
        assert put(made, terms, sealed[:5] + junk + sealed[5:], batch) == (200, small)
    assert taken(made) == 0
    _, more = sealed_reports(made, range(9, 14))
    assert put(made, terms, sealed + more, batch) == (200, {"status": "counted"})
    assert put(made, terms, sealed + more, batch) == (200, {"status": "duplicate"})
    assert taken(made) == 14


def test_batch__what_was_changed_on_the_way_is_left_out_and_nothing_fails(made):
    """Mutated, foreign and malformed reports: no 5xx, and the others count."""
    made.client().create("other", ROWS)
    terms, sealed = sealed_reports(made, range(11))
    _, foreign = sealed_reports(made, range(11, 14), "other")
    bad = []
    for place in (0, 1, 40, 64, 65, 100, terms.sealed_size - 1):
        changed = bytearray(sealed[0])
        changed[place] ^= 1
        bad.append(bytes(changed))
    for content in (
        b"",
        b"{}",
        b"[" * terms.size,
        b"\xff" * terms.size,
        b'{"id": 1}',
        b"null",
        b'{"values": [1e999]}',
        b'{"id": "' + b"a" * 32 + b'", "values": true}',
    ):
        bad.append(sealing.seal(terms, content))  # fmt: skip
    bad += foreign if len(foreign[0]) == terms.sealed_size else []
    bad.append(bytes(terms.sealed_size))
    assert put(made, terms, [*bad, *sealed]) == (200, {"status": "counted"})
    shown = made.client().bandit("ads")["reports"]
    assert shown == {"taken": 11, "refused": len(bad)}


def test_batch__of_another_length_id_or_size_is_refused(made):
    terms, sealed = sealed_reports(made, range(12))
    assert put(made, terms, [*sealed, b"x"])[0] == 422
    assert put(made, terms, [])[0] == 422
    assert put(made, terms, sealed, "A" * 32)[0] == 422
    assert put(made, terms, sealed, Authorization="")[0] == 401
    assert taken(made) == 0


def test_batch__that_fills_the_window_turns_it_once_and_destroys_its_key(made):
    """All of a batch enters the window that it answers, also beyond what the window wants."""
    terms, sealed = sealed_reports(made, range(23))
    assert terms.batch < 23
    folder = made.settings.secrets / "reports"
    (key,) = folder.iterdir()
    batch = secrets.token_hex(16)
    assert put(made, terms, sealed, batch)[1] == {"status": "counted"}
    assert not key.exists()
    (release,) = made.client().releases("ads")
    assert release["count"] == 23
    later = terms_of(made)
    assert (later.policy, later.key) != (terms.policy, terms.key)
    assert later.key != terms.key
    assert put(made, terms, sealed, batch)[1] == {"status": "duplicate"}
    assert put(made, terms, sealed)[1] == {"status": "closed"}
    assert taken(made) == 23


def test_batch__needs_a_bandit_of_local_trust(made):
    made.client().create("joint", {**ROWS, "privacy": {"epsilon": 1.0}})
    terms, sealed = sealed_reports(made, range(2))
    moved = msgspec.structs.replace(terms, bandit="joint")
    assert put(made, moved, sealed)[0] == 409
    moved = msgspec.structs.replace(terms, bandit="nothing")
    assert put(made, moved, sealed)[0] == 409


SHUFFLED = {
    "dim": 2,
    "reward": {"range": [0, 1]},
    "privacy": {"epsilon": 3.0, "delta": 1e-4, "trust": "shuffled"},
}


@pytest.fixture
def shuffled(made):
    made.client().create("crowd", SHUFFLED)
    return made


def shuffled_reports(server, seeds):
    """What devices with limits of their own would send through a relay."""
    terms, (document, _) = terms_of(server, "crowd"), policy(server, "crowd")
    public = PublicPolicy.from_dict(document)
    rng = np.random.default_rng(3)
    sealed = []
    for seed in seeds:
        device = Device(
            public, Promise(epsilon=3.0, delta=1e-4), seed=seed, noise=SeededNoise(seed)
        )
        made = device.report(device.decide(rng.standard_normal((3, 2))), 1.0)
        values = public.channels[made.question].encode(made.values).ravel().tolist()
        body = {"id": f"{seed:032x}", "policy": terms.policy}
        body |= {"question": made.question, "values": values}
        sealed.append(sealing.seal(terms, msgspec.json.encode(body)))
    return terms, sealed


def test_shuffled__a_batch_is_the_window_and_the_promise_counts_it(shuffled):
    terms, (document, _) = terms_of(shuffled, "crowd"), policy(shuffled, "crowd")
    assert (terms.batch, terms.minimum) == (document["batch"]["size"], document["batch"]["minimum"])
    assert terms.epsilon == document["epsilon"] > 1
    terms, sealed = shuffled_reports(shuffled, range(terms.minimum))
    assert put(shuffled, terms, sealed)[1] == {"status": "counted"}
    shown = shuffled.client().bandit("crowd")
    assert (shown["policy"], shown["reports"]["taken"]) == (2, terms.minimum)
    promise = shuffled.client().guarantee("crowd")
    assert (promise["trust"], promise["epsilon"], promise["delta"]) == ("shuffled", 3.0, 1e-4)
    assert len(promise["releases"]) == 1
    (release,) = shuffled.client().releases("crowd")
    assert release["count"] == terms.minimum


def test_shuffled__of_a_smaller_batch_nothing_counts_and_the_window_stays_open(shuffled):
    terms = terms_of(shuffled, "crowd")
    terms, sealed = shuffled_reports(shuffled, range(terms.minimum))
    assert put(shuffled, terms, sealed[:-1])[1] == {"status": "small", "bad": []}
    assert taken(shuffled, "crowd") == 0
    assert put(shuffled, terms, sealed)[1] == {"status": "counted"}


def test_shuffled__a_report_that_comes_alone_is_refused(shuffled):
    (document, _) = policy(shuffled, "crowd")
    body = {"id": "0" * 32, "policy": f"{document['epoch']}-1", "question": "joint", "values": [0]}
    status, _, raw = shuffled.request(
        "POST", "/v1/bandits/crowd/reports", json.dumps(body).encode(), Authorization=""
    )
    assert (status, json.loads(raw)["type"]) == (409, "urn:discreet:problem:relay-only")
    assert taken(shuffled, "crowd") == 0


@pytest.mark.parametrize(
    "change",
    [{"epsilon": None}, {"unit": "person"}, {"population": "p"}, {"crowd": {"minimum": 2.0}},
     {"trust": "local"}, {"trust": "joint", "crowd": {}}],
)  # fmt: skip
def test_shuffled__what_cannot_be_promised_is_refused(made, change):
    definition = {**SHUFFLED, "privacy": {**SHUFFLED["privacy"], **change}}
    status, _, raw = made.request("PUT", "/v1/bandits/wrong", json.dumps(definition).encode())
    assert status == 422, raw
