"""A file tells what its object promises, and a dossier can be made of it: every public class."""

import dataclasses
import subprocess
import sys

import pytest

from discreet.audit.attacks import attacks_on
from discreet.audit.entries import Session
from discreet.audit.registry import REGISTRY
from discreet.experiments.dossier import Dossier, html
from discreet.saved import read_saved

GIVEN = {  # arguments that no file can hold
    "Doubling FTRL": lambda made: {"make_learner": made.make_learner},
    "PrivateReduction": lambda made: {"bandit": REGISTRY["PrivateReduction"].make().bandit},
}
# Of two objects; LocalServer: tests/test_cli.py
UNSAVED = (
    "Device and LocalServer",
    "Device and LocalServer shuffled",
    "score_private line",
    "score_private signs",
)


@pytest.fixture(scope="module", params=sorted(set(REGISTRY) - set(UNSAVED)))
def session(request):
    entry = REGISTRY[request.param]
    session = Session(entry.make())
    for _, _, step in entry.steps(entry.data(0)):
        step(session)
    return entry, session


def test_saved__a_file_promises_what_its_object_does_and_has_a_dossier(session, tmp_path):
    entry, session = session
    path = tmp_path / "state"
    session.subject.save(path)
    saved = read_saved(path, **GIVEN.get(entry.name, lambda made: {})(session.subject))
    promise = entry.promise(session)
    assert saved.guarantee == promise
    assert saved.kind == entry.of.__name__
    page = html(Dossier(saved.kind, path.name, saved.guarantee, saved.config))
    assert f"Privacy dossier: {entry.of.__name__}" in page
    for release in promise.releases:
        assert f"{release.scale:.4g}" in page
        assert f"{release.sensitivity:.4g}" in page


def test_saved__a_new_process_knows_every_kind_of_file():
    script = (
        "from discreet.saved import *; from discreet.state.fitted import MODELS; "
        "from discreet.state.values import PARTS; print(*PARTS, *MODELS)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    kinds = {entry.of.__name__ for name, entry in REGISTRY.items() if name not in UNSAVED}
    assert kinds - set(done.stdout.split()) == set()


def test_attacks_on__are_made_at_the_promise_of_the_configuration(session):
    entry, session = session
    promise = entry.promise(session)
    for attack in attacks_on(session.subject, promise):
        claim = attack.claim
        assert (claim.epsilon, claim.delta) == (promise.epsilon, promise.delta)
        assert claim.contributions == promise.contributions
        larger = dataclasses.replace(promise, epsilon=2 * promise.epsilon)
        assert attack.name in [each.name for each in attacks_on(session.subject, larger)]
