"""Worlds to act in; they know no learner."""

from discreet.environments.linear import LinearWorld, linear_world

__all__ = ["LinearWorld", "linear_world"]
