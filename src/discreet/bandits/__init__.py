"""Contextual bandits: decide, learn, and let nobody tell from the decisions who did what."""

from typing import TYPE_CHECKING, Any

from discreet.bandits import baselines
from discreet.bandits.holdout import Holdout
from discreet.bandits.linear import LinearBandit
from discreet.bandits.local_protocol import PublicPolicy
from discreet.bandits.local_server import LocalServer
from discreet.bandits.parts import Model, People
from discreet.decisions import Decision, Decisions
from discreet.local.device import Device, Promise
from discreet.privacy import Shuffled

if TYPE_CHECKING:
    from discreet.bandits.sparse import SparseBandit

__all__ = [
    "Decision",
    "Decisions",
    "Device",
    "Holdout",
    "LinearBandit",
    "LocalServer",
    "Model",
    "People",
    "Promise",
    "PublicPolicy",
    "Shuffled",
    "SparseBandit",
    "baselines",
]


def __getattr__(name: str) -> Any:
    if name == "SparseBandit":  # when it is used: its domains take long to import
        from discreet.bandits.sparse import SparseBandit

        return SparseBandit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
