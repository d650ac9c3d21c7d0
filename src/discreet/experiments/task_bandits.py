"""Contextual bandits: regret against the best action for each person."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet.bandits import Holdout, LinearBandit, Model, People, baselines
from discreet.environments import WORLDS, World, play, world
from discreet.experiments.experiment import Cell, Choice
from discreet.experiments.own import made, needs, own
from discreet.experiments.source import data_digest
from discreet.experiments.task import Clock, Curve, Learner, Task, marks

_WORLD = ("dim", "n_actions", "reward_range", "people")
PARTS: dict[str, Any] = {"model": Model, "people": People, "holdout": Holdout}  # as tables


class Bandits(Task):
    """Every learner meets the same people; regret is the mean reward that it misses, summed up."""

    name = "bandits"
    measure = "regret"
    axis = "rounds"
    gains = ("gains", "gained", "of what there was to gain over choosing blindly")
    blind = "blind choice"
    meaning = (
        "Regret is what was missed: how much more reward the best action for each person would "
        "have brought on average than the one that was chosen, added up over all rounds."
    )
    given = ("dim", "horizon", "epsilon", "delta", "norm_bound", "reward_range", "seed", "noise",
             "n_actions")  # fmt: skip
    learners: ClassVar[Mapping[str, Learner]] = {
        "LinearBandit": Learner(
            LinearBandit, "joint",
            'windows, one private regression each; trust = "local" for devices that report '
            "privately; policy, model and people are options",
            "Chen, Li, Rakhlin and Simchi-Levi (2025), Algorithms 6, 15 and 17",
        ),
        "ContinualLinUCB": Learner(
            baselines.ContinualLinUCB, "joint",
            'LinUCB on private running sums; mechanism = "blt", "tree", "toeplitz"',
            "Shariff and Sheffet (2018), Algorithm 1",
        ),
        "LocalLinUCB": Learner(
            baselines.LocalLinUCB, "local", "LinUCB on privately reported Gram matrices",
            "Zheng et al. (2020)",
        ),
        "LocalSGDBandit": Learner(
            baselines.LocalSGDBandit, "local", "greedy on privately reported gradients",
            "Han et al. (2021)",
        ),
        "LinUCB": Learner(
            baselines.LinUCB, "none", "the usual bandit without privacy: the yardstick",
            "Li et al. (2010), Algorithm 1; Abbasi-Yadkori, Pal and Szepesvari (2011)",
        ),
    }  # fmt: skip

    def about(self, choice: Choice) -> str:
        """From the registry of worlds; of one of your own, the first line of its docstring."""
        if choice.name not in WORLDS:
            words = (inspect.getdoc(own("world", choice.name)) or choice.name).splitlines()[0]
            return f"somebody comes in every round, and an action is chosen for them. {words}"
        world = WORLDS[choice.name]
        return (
            f"somebody comes in every round ({world.person}), one action is chosen for them "
            f"(of {world.actions}), and its reward is seen ({world.reward})."
        )

    def environment(self, choice: Choice, rounds: int, seed: int) -> World:
        """A world by name; one made from data is the same for all seeds."""
        if choice.name not in WORLDS:
            make = self.own_world(choice, WORLDS)
            found: World = needs(made(make, {"seed": seed}, choice.options), "a world", _WORLD)
            return found
        seed = seed if WORLDS[choice.name].synthetic else 0
        data = data_digest(choice.options)
        return _world(choice.name, json.dumps(choice.options), seed, data)

    def offers(self, cell: Cell, environment: World) -> dict[str, Any]:
        """The size and the bounds of the world; a table's feature map says what occurs together."""
        dim: Any = environment.dim
        if cell.learner.name == "LinearBandit":
            dim = getattr(getattr(environment, "features", None), "phi", dim)
        return {"dim": dim, "horizon": cell.rounds, "reward_range": environment.reward_range,
                "n_actions": environment.n_actions, "norm_bound": 1.0}  # fmt: skip

    def learner(self, cell: Cell, environment: World) -> Any:
        options = dict(cell.learner.options)
        if cell.learner.name == "LinearBandit":
            parts = {name: make for name, make in PARTS.items() if name in options}
            options |= {name: make(**options[name]) for name, make in parts.items()}
        choice = replace(cell.learner, options=options)
        return super().learner(replace(cell, learner=choice), environment)

    def play(self, cell: Cell, environment: World, learner: Any, clock: Clock) -> Curve:
        played = play(learner, environment, cell.rounds, seed=cell.seed, clock=clock.to)
        n = marks(cell.rounds, cell.points)
        return n, np.cumsum(played.regret)[n - 1], np.cumsum(played.uniform)[n - 1]


@lru_cache(maxsize=8)
def _world(name: str, options: str, seed: int, data: str) -> World:
    """Kept from cell to cell while its data stay the same: reading takes longer than running."""
    return world(name, **{"seed": seed, **json.loads(options)})
