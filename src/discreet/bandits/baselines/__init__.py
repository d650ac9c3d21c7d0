"""Baselines with the same interface and the same guarantee object: to be compared with."""

from discreet.bandits.baselines.continual import ContinualLinUCB
from discreet.bandits.baselines.linucb import LinUCB
from discreet.bandits.baselines.local import LocalLinUCB, LocalSGDBandit

__all__ = ["ContinualLinUCB", "LinUCB", "LocalLinUCB", "LocalSGDBandit"]
