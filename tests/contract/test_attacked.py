"""Which public configurations have an attack on their promise, and which have none."""

import pytest

from discreet.audit.attacks import ATTACKS
from discreet.audit.entries import Session
from discreet.audit.registry import PRIVATE

# The configurations of the registry that no attack of the library fits. An attack that is added
# strikes its name off: a name that is attacked fails the test as one that is missing does.
UNATTACKED = {
    "LinearBandit all visits, descent",
    "LinearBandit shuffled, 2 contributions",
    "ContinualLinUCB toeplitz",
    "ContinualLinUCB tree",
    "FTRL ball",
    "FTRL cube, pure",
    "FTPL simplex",
    "FTPL cube, pure",
    "Doubling FTRL",
    "BarrierBandit polytope",
    "StreamingFrankWolfe p = 2 tree",
    "StreamingFrankWolfe p = inf",
    "StreamingFrankWolfe p = 1",
    "StreamingFrankWolfe p = 1 vertices",
    "StreamingFrankWolfe p = 1 every-round",
    "StreamingFrankWolfe simplex",
    "PrefixSum tree",
    "PrefixSum tree pure l2",
    "PrefixSum tree binary",
    "PrefixSum tree padded",
    "PrefixSum generalized gaussian",
    "PrivateLinearRegression shuffled information-weighted",
    "PrivateLinearRegression shuffled known-covariates",
    "PrivateGLM identity central newton public",
    "PrivateGLM identity central erm",
    "PrivateGLM identity central erm public",
    "PrivateGLM identity central sgd",
    "PrivateGLM identity central sgd public",
    "PrivateGLM identity local sgd",
    "PrivateGLM logistic central newton public",
    "PrivateGLM logistic central sgd public",
    "PrivateGLM probit central newton",
    "PrivateGLM probit central newton public",
    "PrivateGLM probit central erm",
    "PrivateGLM probit central erm public",
    "PrivateGLM probit central sgd",
    "PrivateGLM probit central sgd public",
    "PrivateGLM probit local sgd",
    "PrivateGLM poisson central newton public",
    "PrivateGLM poisson central erm",
    "PrivateGLM poisson central erm public",
    "PrivateGLM poisson central sgd",
    "PrivateGLM poisson central sgd public",
    "PrivateGLM poisson local sgd",
    "PrivateLogisticRegression 3 classes",
}


def attacks(entry):
    """The attacks on the promise of an entry, after its first data set."""
    session = Session(entry.make())
    for _, _, step in entry.steps(entry.data(0)):
        step(session)
    promise = entry.promise(session)
    found = [each for each in ATTACKS.values() if each.concerns(entry.of, session.subject, promise)]
    return found, promise


@pytest.mark.parametrize("name", PRIVATE)
def test_attacks__fit_every_public_configuration_but_those_that_are_listed(name):
    found, _ = attacks(PRIVATE[name])
    assert bool(found) == (name not in UNATTACKED)


def test_attacks__the_list_of_those_without_names_real_configurations():
    assert set(PRIVATE) > UNATTACKED


def test_attacks__every_class_that_is_attacked_is_in_the_registry():
    known = {entry.of for entry in PRIVATE.values()}
    assert {kind for each in ATTACKS.values() for kind in each.of} <= known


GAUSSIAN = {"gaussian", "generalized gaussian"}  # the latter: l_2 noise up to seven dimensions


@pytest.mark.parametrize("name", sorted(set(PRIVATE) - UNATTACKED))
def test_attacks__claim_gaussian_privacy_only_where_every_release_is_gaussian(name):
    found, promise = attacks(PRIVATE[name])
    drawn = {release.mechanism for release in promise.releases}
    for each in found:
        if each.claim.kind == "gaussian":
            assert drawn <= GAUSSIAN
