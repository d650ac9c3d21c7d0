"""Worlds to act in, and logs of what others did; they know no learner."""

from discreet.environments.linear import LinearWorld, linear_world
from discreet.environments.logs import Log, logged_table
from discreet.environments.off_policy import Estimate, Overlap, evaluate, overlap
from discreet.environments.people import People, World
from discreet.environments.playing import Played, generators, play, play_losses
from discreet.environments.registry import LOGS, WORLDS, About, logged, world
from discreet.environments.regression_data import regression_data
from discreet.environments.replay import Replay, replay
from discreet.environments.tables import FeatureTable, TableWorld, table_world

__all__ = [
    "LOGS",
    "WORLDS",
    "About",
    "Estimate",
    "FeatureTable",
    "LinearWorld",
    "Log",
    "Overlap",
    "People",
    "Played",
    "Replay",
    "TableWorld",
    "World",
    "evaluate",
    "generators",
    "linear_world",
    "logged",
    "logged_table",
    "overlap",
    "play",
    "play_losses",
    "regression_data",
    "replay",
    "table_world",
    "world",
]
