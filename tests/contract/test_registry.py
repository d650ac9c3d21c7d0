"""The table of everything public is complete, so that a new learner cannot forget the contract."""

import importlib
import inspect
import pkgutil

import pytest

import discreet
from discreet.audit.entries import Session
from discreet.audit.registry import PRIVATE, REGISTRY

ROOMS = ("bandits", "online", "optimization", "regression", "privacy", "local", "evaluation")
TAKES = ("learn", "fit", "add", "privatize", "take", "report")  # ways to give it data

# Public classes with a promise that are parts of the learners above and are checked inside them.
PARTS = {
    "Channel": "BallChannel and IntervalChannel are the mechanisms themselves",
    "BallChannel": "a mechanism",
    "IntervalChannel": "a mechanism",
    "BinaryChannel": "a mechanism",
    "Ledger": "keeps accounts",
    "SmoothedDirection": "inside StreamingFrankWolfe",
    "DenseWindows": "inside StreamingFrankWolfe",
    "SparseWindows": "inside StreamingFrankWolfe",
    "VertexDirection": "inside StreamingFrankWolfe",
    "WindowArms": "inside SparseBandit",
    "PrivateBandit": "the base of AdversarialBandit, BarrierBandit and ProjectionFreeBandit",
    "PrivateEstimator": "the base of the estimators",
    "PrivatePipeline": "promises what its last step does; steps before read no data to fit",
    "DeclaredEncoder": "reads no data to fit: columns are declared",
    "PrivateRegressor": "the base of those that predict numbers",
    "Reports": "inside AdversarialBandit, local",
    "Batches": "inside AdversarialBandit, central",
    "ShuffledReports": "inside AdversarialBandit, shuffled",
    "GradientSums": "inside ProjectionFreeBandit",
    "Device": "in the entry of LocalServer",
    "PublicPolicy": "public values",
}


def public_classes():
    """Classes of the rooms of learners that take data and promise something."""
    found = {}
    for info in pkgutil.walk_packages(discreet.__path__, "discreet."):
        if info.name.split(".")[1] not in ROOMS:
            continue
        for name, kind in vars(importlib.import_module(info.name)).items():
            if (
                inspect.isclass(kind)
                and not name.startswith("_")
                and kind.__module__.startswith("discreet.")
                and not inspect.isabstract(kind)
                and not getattr(kind, "_is_protocol", False)
                and any(callable(getattr(kind, way, None)) for way in TAKES)
                and (hasattr(kind, "guarantee") or hasattr(kind, "fit") or hasattr(kind, "report"))
            ):
                found[kind.__name__] = kind
    return found


def test_registry__every_public_class_that_takes_data_is_in_it():
    known = {entry.of.__name__ for entry in REGISTRY.values()} | set(PARTS)
    missing = set(public_classes()) - known
    assert not missing, f"add a line to audit/registry.py for {sorted(missing)}"


def test_registry__names_of_parts_are_real():
    assert set(PARTS) <= set(public_classes()) | {"Channel", "Ledger", "PublicPolicy"}


def test_registry__has_every_method_link_and_trust():
    names = " ".join(REGISTRY)
    trusts = ("local", "central", "shuffled")
    for word in (*trusts, "logistic", "probit", "poisson", "identity", "newton", "erm"):
        assert word in names
    assert len(PRIVATE) > 90


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - set(PRIVATE)))
def test_registry__what_is_not_private_says_so(name):
    entry = REGISTRY[name]

    session = Session(entry.make())
    for _, _, step in entry.steps(entry.data(0)):
        step(session)
    assert entry.promise(session).epsilon == float("inf")
