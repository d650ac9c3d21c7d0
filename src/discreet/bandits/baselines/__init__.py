"""Learners to compare with: without privacy, and private ones from the literature."""

from discreet.bandits.baselines.continual import ContinualLinUCB
from discreet.bandits.baselines.linucb import LinUCB

__all__ = ["ContinualLinUCB", "LinUCB"]
