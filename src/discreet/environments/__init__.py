"""Worlds to act in, and logs of what others did; they know no learner."""

from discreet.environments.people import World
from discreet.environments.playing import play
from discreet.environments.registry import WORLDS, logged, world

__all__ = ["WORLDS", "World", "logged", "play", "world"]
