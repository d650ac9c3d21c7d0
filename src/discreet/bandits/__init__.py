"""Contextual bandits that nobody can read a person's feedback from."""

from discreet.bandits.decisions import Decision, Decisions
from discreet.bandits.linear import LinearBandit

__all__ = ["Decision", "Decisions", "LinearBandit"]
