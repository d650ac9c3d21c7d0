"""Every public configuration has an attack on its promise."""

import pytest

from discreet.audit.attacks import ATTACKS
from discreet.audit.entries import Session
from discreet.audit.registry import PRIVATE

GAUSSIAN = {"gaussian", "generalized gaussian"}  # the latter: l_2 noise up to seven dimensions


def attacks(entry):
    """The attacks on the promise of an entry, after its first data set."""
    session = Session(entry.make())
    for _, _, step in entry.steps(entry.data(0)):
        step(session)
    promise = entry.promise(session)
    found = [each for each in ATTACKS.values() if each.concerns(entry.of, session.subject, promise)]
    return found, promise


@pytest.mark.parametrize("name", PRIVATE)
def test_attacks__fit_every_public_configuration(name):
    found, promise = attacks(PRIVATE[name])
    assert found
    # Gaussian privacy is claimed only where every release is Gaussian.
    drawn = {release.mechanism for release in promise.releases}
    assert drawn <= GAUSSIAN or not any(each.claim.kind == "gaussian" for each in found)


def test_attacks__every_class_that_is_attacked_is_in_the_registry():
    known = {entry.of for entry in PRIVATE.values()}
    assert {kind for each in ATTACKS.values() for kind in each.of} <= known
