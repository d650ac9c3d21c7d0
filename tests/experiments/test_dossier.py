"""The dossier: complete, escaped, from nowhere else, and never written over."""

import json
import re
import runpy
import threading
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from discreet.audit import ATTACKS
from discreet.audit.entries import Session
from discreet.audit.registry import REGISTRY
from discreet.audit.run import audit_sides
from discreet.bandits import LinearBandit, LocalServer, People
from discreet.cli import main
from discreet.experiments.dossier import Dossier, html
from discreet.experiments.writing import write_atomically
from discreet.privacy import Budget, Guarantee, Ledger, PrefixSum, SeededNoise
from discreet.regression import PrivateLinearRegression

CHECK = Path(__file__).parents[2] / "benchmarks" / "check_dossier.py"


def page_of(text):
    """What a reader sees."""
    body = text[text.index("<body>") :]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


@pytest.fixture
def state(tmp_path):
    bandit = LinearBandit(
        2, 500, epsilon=2.0, seed=0, noise=SeededNoise(7), people=People(rounds=2)
    )
    while bandit.learning:
        people = np.full((bandit.rounds_until_release, 2, 2), 0.5)
        bandit.learn_many(bandit.decide_many(people), np.zeros(len(people)))
        bandit.decide(people[0])
    bandit.save(tmp_path / "bandit.state")
    return bandit, tmp_path / "bandit.state"


def test_guarantee__that_promises_less_than_its_releases_cost_is_not_read(state):
    record = state[0].guarantee.to_dict()
    assert Guarantee.from_dict(record) == state[0].guarantee
    record.pop("statement", None)
    with pytest.raises(ValueError, match="cost more than it promises"):
        Guarantee.from_dict(record | {"epsilon": 0.2})


def test_dossier__says_what_whoever_signs_must_know(state, tmp_path, capsys):
    bandit, path = state
    before = path.read_bytes()
    out = tmp_path / "dossier.html"
    assert main(["dossier", str(path), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"Dossier: {out}\n"
    text = out.read_text(encoding="utf-8")
    words = page_of(text)
    promise = bandit.guarantee
    assert "epsilon = 2, delta = 1e-06" in words
    assert "everything they did in up to 2 rounds" in words
    assert "SIMULATION ONLY" in words
    for each in promise.unprotected:
        assert each in unescape(words)
    for argument in (
        "dim 2",
        "horizon 500",
        "people People (visits: not set; rounds: 2)",
        "reward_range -1, 1",
    ):
        assert argument in words
    assert "None were asked for" in words
    for line in ("Data protection officer", "name, date, signature", "approved with conditions"):
        assert line in words
    assert f"window 1 ... window {len(promise.releases)}" in words
    assert not re.search(r"(src|href)=|@import|url\(", text)
    assert "seed" not in words.split("Definition")[1].split("Every release")[0]
    assert path.read_bytes() == before


def test_dossier__with_audit_attacks_this_configuration(state, tmp_path):
    _, path = state
    out = tmp_path / "dossier.html"
    assert main(["dossier", str(path), "-o", str(out), "--audit", "--runs", "200", "--workers", "1"]
                ) == 0  # fmt: skip
    words = page_of(out.read_text(encoding="utf-8"))
    assert "linear bandit, three rounds of one user 2 " in words  # its claim
    assert "epsilon = 2, delta = 1e-06, joint trust and contributions = 2" in words
    assert "Not taken from this configuration: dim, horizon, norm_bound" in words


def test_dossier__a_refuted_promise_is_told_and_ends_in_failure(
    state, tmp_path, monkeypatch, capsys
):
    import discreet.cli.dossier as command

    def broken(chosen, *rest):
        return [audit_sides(each, (np.zeros(2000), np.ones(2000))) for each in chosen]

    monkeypatch.setattr(command, "attacked", broken)
    out = tmp_path / "dossier.html"
    with pytest.raises(SystemExit) as stop:
        main(["dossier", str(state[1]), "-o", str(out), "--audit"])
    assert stop.value.code == 1
    assert "the promise is REFUTED by linear bandit" in capsys.readouterr().err
    assert "BROKEN" in page_of(out.read_text(encoding="utf-8"))


def test_dossier__where_nothing_fits_it_says_so():
    sums = PrefixSum(4, 2, Budget(1.0), sensitivity=1.0, norm="l2")
    page = page_of(html(Dossier("PrefixSum", "s", sums.guarantee, {}, audits=[])))
    assert "NOT ATTACKED" in page


def test_dossier__without_privacy_it_says_so_on_top():
    bandit = LinearBandit(2, epsilon=np.inf)
    words = page_of(html(Dossier("LinearBandit", "s", bandit.guarantee, {})))
    assert words.index("NO PRIVACY") < words.index("The promise")
    assert "What is not protected" not in words
    assert "right nearly always" not in words


def test_dossier__whatever_stands_in_a_definition_is_escaped():
    evil = "<script>alert(1)</script>"
    bandit = LinearBandit(2)
    dossier = Dossier(evil, evil, bandit.guarantee, {evil: {evil: [evil, None, True]}})
    assert "<script" not in html(dossier)
    assert "&lt;script&gt;" in html(dossier)


def test_dossier__of_a_definition_of_the_service(tmp_path):
    pytest.importorskip("msgspec")
    definition = {"context": {"age": {"number": [18, 100]}}, "actions": ["email", "<b>"],
                  "privacy": {"epsilon": 0.5}}  # fmt: skip
    path = tmp_path / "welcome.json"
    path.write_text(json.dumps(definition))
    for trust in ("joint", "local"):
        definition["privacy"]["trust"] = trust
        path.write_text(json.dumps(definition))
        out = tmp_path / f"{trust}.html"
        assert main(["dossier", str(path), "-o", str(out)]) == 0
        words = page_of(out.read_text(encoding="utf-8"))
        assert "epsilon = 0.5" in words
        assert "Nothing has been released yet" in words
        assert "age: number: 18, 100" in words
        assert "&lt;b&gt;" in words
    assert "whoever steals store and secrets together" in page_of(
        (tmp_path / "joint.html").read_text(encoding="utf-8")
    )


def test_dossier__of_a_server_under_local_trust(tmp_path, capsys):
    LocalServer(2, epsilon=2.0, seed=0).save(tmp_path / "server")
    assert main(["dossier", str(tmp_path / "server"), "-o", str(tmp_path / "page.html")]) == 0
    assert main(["statement", str(tmp_path / "server")]) == 0
    assert "Every report that leaves a device" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"privacy": {}}', "is not a definition of the service"),
        (b"{", "is not a definition of the service"),
        (b"PK damaged", "damaged"),
        (b"", "damaged"),
    ],
)
def test_dossier__what_it_cannot_read_is_one_sentence(text, message, tmp_path, capsys):
    (tmp_path / "file").write_bytes(text)
    with pytest.raises(SystemExit) as stop:
        main(["dossier", str(tmp_path / "file"), "-o", str(tmp_path / "page.html")])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_dossier__a_page_is_never_written_over(state, tmp_path, capsys):
    out = tmp_path / "signed.html"
    out.write_text("signed")
    with pytest.raises(SystemExit) as stop:
        main(["dossier", str(state[1]), "-o", str(out), "--audit", "--runs", "1000000"])  # at once
    assert stop.value.code == 2
    assert "never overwritten" in capsys.readouterr().err
    assert out.read_text() == "signed"


def test_write__of_two_at_once_one_is_refused_and_nothing_is_left(tmp_path):
    path = tmp_path / "folder" / "page.html"
    done, refused = [], []

    def write(text):
        try:
            write_atomically(path, text, new=True)
            done.append(text)
        except ValueError:
            refused.append(text)

    threads = [threading.Thread(target=write, args=(str(i) * 1000,)) for i in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(done) == 1
    assert len(refused) == 7
    assert path.read_text() == done[0]
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]


def test_statement__an_argument_that_no_file_holds_is_given_by_name(tmp_path, monkeypatch, capsys):
    from discreet.online import Doubling

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_making.py").write_text(
        "from discreet.domains import Simplex\nfrom discreet.online import FTRL\n"
        "def make(rounds):\n    return FTRL(Simplex(2), rounds, 1.0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from my_making import make

    Doubling(make, first=4).save("doubling")
    with pytest.raises(SystemExit):
        main(["statement", "doubling"])
    assert "--given NAME=MODULE:OBJECT" in capsys.readouterr().err
    assert main(["statement", "doubling", "--given", "make_learner=my_making:make"]) == 0
    assert "epsilon = 1, delta = 0" in capsys.readouterr().out


def test_attacks__of_the_library_all_describe_themselves():
    assert all(attack.description for attack in ATTACKS.values())


@pytest.fixture
def study(tmp_path):
    """A ledger with two named fits."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (500, 2)), rng.uniform(-0.5, 0.5, 500)
    ledger = Ledger(Budget(2.0, 1e-6))
    ledger.save(tmp_path / "study.ledger")
    for epsilon, purpose in ((1.0, "dose response 2026"), (0.5, "side effects")):
        model = PrivateLinearRegression(epsilon, random_state=0)
        model.fit(X, y, ledger=ledger, purpose=purpose)
    return ledger, tmp_path / "study.ledger"


def test_ledger__is_a_document_with_what_is_spent_and_the_limit(study, tmp_path, capsys):
    ledger, path = study
    promise = ledger.guarantee(record="row")
    spent = f"{promise.epsilon_at(1e-6):.4g}"
    assert 1.0 < float(spent) < 1.5
    assert main(["statement", str(path)]) == 0
    words = capsys.readouterr().out
    assert f"Spent so far: epsilon = {spent} of 2 (delta = 1e-06)." in words
    assert "dose response 2026: a fit of PrivateLinearRegression: 27" in words
    assert "not booked in this ledger" in words
    out = tmp_path / "study.html"
    assert main(["dossier", str(path), "-o", str(out)]) == 0
    page = page_of(out.read_text(encoding="utf-8"))
    for each in ("side effects: a fit of", f"epsilon = {spent} of 2", "Data protection officer"):
        assert each in page


def test_purpose__belongs_to_a_ledger(study):
    X, y = np.zeros((20, 1)), np.zeros(20)
    with pytest.raises(ValueError, match="pass the ledger too"):
        PrivateLinearRegression(1.0).fit(X, y, purpose="alone")
    with pytest.raises(ValueError, match="name of an analysis"):
        PrivateLinearRegression(0.1).fit(X, y, ledger=study[0], purpose="")


def test_dossier__of_several_files_adds_up_their_limits(study, state, tmp_path):
    bandit, path = state
    record = bandit.guarantee.to_dict() | {"statement": bandit.guarantee.statement()}
    (tmp_path / "promise.json").write_text(json.dumps(record))
    out = tmp_path / "all.html"
    sources = [str(study[1]), str(path), str(tmp_path / "promise.json")]
    assert main(["dossier", *sources, "-o", str(out)]) == 0
    page = page_of(out.read_text(encoding="utf-8"))
    assert "in each: epsilon = 6 and delta = 3e-06 at most" in page
    assert page.count("What is not protected") == 3
    assert page.count("Signatures") == 1
    (tmp_path / "changed.json").write_text(json.dumps(record | {"epsilon": 0.1}))
    assert_refused(["dossier", str(tmp_path / "changed.json"), "-o", str(tmp_path / "no.html")])


def assert_refused(arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_dossier__an_address_that_is_no_bandit_is_refused(tmp_path):
    assert_refused(["dossier", "http://127.0.0.1:8360/", "-o", str(tmp_path / "none.html")])


def test_dossier__of_a_linear_fit_groups_its_steps(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (20_000, 3))
    model = PrivateLinearRegression(1.0, random_state=0).fit(X, X[:, 0])
    page = Dossier(kind="fit", source="here", promise=model.guarantee_, definition={})
    assert len(model.guarantee_.releases) > 15
    assert len(page.releases) == 4
    assert sum(int(line[1]) for line in page.releases) == len(model.guarantee_.releases)


def test_dossier__as_json_has_all_for_the_registry_and_an_independent_check(state, tmp_path):
    bandit, path = state
    out = tmp_path / "dossier.json"
    assert main(["dossier", str(path), "-o", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["promise"] == bandit.guarantee.to_dict()
    assert found["registry"]["tier_2"]["epsilon"] == 2.0
    assert found["registry"]["tier_1"]["data_curator"] is None
    assert "noise" not in found["definition"]
    assert "seed" not in found["definition"]
    assert len(found["sp_800_226"]) == 9
    check = runpy.run_path(str(CHECK))["main"]
    assert check(out) == 0
    # Power: half the noise of each release costs more than is promised.
    for each in found["promise"]["releases"]:
        each["scale"] /= 2
    out.write_text(json.dumps(found))
    assert check(out) == 1


def cheaper(release):
    """A release with half its noise; of a batch, with reports of twice their epsilon."""
    found = {**release, "scale": release["scale"] / 2, "rho": 4 * release.get("rho", 0.0)}
    return {**found, "epsilon": 2 * release["epsilon"]} if "crowd" in release else found


@pytest.mark.parametrize(
    "name",
    [
        "LinearBandit ucb",  # Gaussian, in scopes
        "FTRL simplex",  # pure
        "SparseBandit identity",  # rho
        "LinearBandit shuffled, 2 contributions",
        "PrivateLinearRegression shuffled information-weighted",
        "PrivateSearchCV",  # Gaussian, on the same rows
        "LocalLinUCB",
    ],
)
def test_check__confirms_every_kind_of_promise_and_notices_half_the_noise(name, tmp_path):
    entry = REGISTRY[name]
    session = Session(entry.make())
    for _, _, step in entry.steps(entry.data(0)):
        step(session)
    promise = entry.promise(session).to_dict()
    check = runpy.run_path(str(CHECK))["main"]
    path = tmp_path / "dossier.json"
    path.write_text(json.dumps({"promise": promise}))
    assert check(path) == 0
    path.write_text(
        json.dumps({"promise": {**promise, "releases": list(map(cheaper, promise["releases"]))}})
    )
    assert check(path) == 1


def test_check__is_short_and_needs_nothing_of_discreet():
    text = CHECK.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert "import discreet" not in text
    assert "from discreet" not in text
