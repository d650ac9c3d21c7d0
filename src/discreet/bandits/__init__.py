"""Contextual bandits: decide, learn, and let nobody tell from the decisions who did what."""

from discreet.bandits import baselines
from discreet.bandits.linear import LinearBandit
from discreet.bandits.local_protocol import BanditReport, Device, PublicPolicy
from discreet.bandits.local_server import LocalServer
from discreet.decisions import Decision, Decisions

__all__ = [
    "BanditReport",
    "Decision",
    "Decisions",
    "Device",
    "LinearBandit",
    "LocalServer",
    "PublicPolicy",
    "baselines",
]
