"""Contextual bandits: regret against the best action for each person."""

import inspect
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet.bandits import Holdout, LinearBandit, Model, People, baselines
from discreet.environments import WORLDS, World, play, world
from discreet.experiments.experiment import Cell, Choice, suggestion
from discreet.experiments.own import made, needs, offered, own, promise
from discreet.experiments.source import data_digest
from discreet.experiments.task import Clock, Learner, Outcome, Task, marks
from discreet.privacy import SeededNoise

_GIVEN = ("dim", "horizon", "epsilon", "delta", "norm_bound", "reward_range", "seed", "noise",
          "n_actions")  # fmt: skip

_WORLD = ("dim", "n_actions", "reward_range", "people")
PARTS: dict[str, Any] = {"model": Model, "people": People, "holdout": Holdout}  # as tables


def _entry(make: Any, trust: str, about: str, reference: str) -> Learner:
    return Learner(make, trust, about, reference, _GIVEN)


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
    given = _GIVEN
    learners: ClassVar[Mapping[str, Learner]] = {
        "LinearBandit": _entry(
            LinearBandit, "joint",
            'windows, one private regression each; trust = "local" for devices that report '
            "privately; policy, model and people are options",
            "Chen, Li, Rakhlin and Simchi-Levi (2025), Algorithms 6, 15 and 17",
        ),
        "ContinualLinUCB": _entry(
            baselines.ContinualLinUCB, "joint",
            'LinUCB on private running sums; mechanism = "blt", "tree", "toeplitz"',
            "Shariff and Sheffet (2018), Algorithm 1",
        ),
        "LocalLinUCB": _entry(
            baselines.LocalLinUCB, "local", "LinUCB on privately reported Gram matrices",
            "Zheng et al. (2020)",
        ),
        "LocalSGDBandit": _entry(
            baselines.LocalSGDBandit, "local", "greedy on privately reported gradients",
            "Han et al. (2021)",
        ),
        "LinUCB": _entry(
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
            make = own("world", choice.name)
            if make is None:
                known = suggestion(choice.name, (*WORLDS, *offered("world")))
                raise ValueError(
                    f"no environment {choice.name!r}{known} See: discreet datasets. One of your "
                    "own: 'module:function'"
                )
            seeds = {"seed": seed} if "seed" in inspect.signature(make).parameters else {}
            found: World = needs(make(**{**seeds, **choice.options}), "a world", _WORLD)
            return found
        seed = seed if WORLDS[choice.name].synthetic else 0
        data = data_digest(choice.options)
        return _world(choice.name, json.dumps(choice.options), seed, data)

    def learner(self, cell: Cell, environment: World) -> Any:
        """A bandit for the world's features and rewards."""
        entry = self.learner_entry(cell.learner)
        options = dict(cell.learner.options)
        given: dict[str, Any] = {"reward_range": environment.reward_range, "seed": cell.seed}
        if entry.private:
            given |= {"epsilon": cell.epsilon, "noise": SeededNoise(cell.seed)}
            if entry.trust == "own":
                given["delta"] = cell.delta
            if entry.trust == "joint" and options.get("trust") != "local":
                given["delta"] = cell.delta
        if cell.learner.name not in self.learners:
            given |= {"dim": environment.dim, "n_actions": environment.n_actions}
            given |= {"horizon": cell.rounds, "norm_bound": 1.0}
            return needs(made(entry, given, options), "a learner", ("decide", "learn"))
        dim: Any = environment.dim
        if cell.learner.name == "LinearBandit":
            # A table's feature map tells which features occur together.
            dim = getattr(getattr(environment, "features", None), "phi", dim)
            parts = {name: make for name, make in PARTS.items() if name in options}
            options |= {name: make(**options[name]) for name, make in parts.items()}
        return entry.make(dim, cell.rounds, **given, **options)

    def play(self, cell: Cell, environment: World, learner: Any, clock: Clock) -> Outcome:
        """Every learner meets the same people and reward noise."""
        played = play(learner, environment, cell.rounds, seed=cell.seed, clock=clock.to)
        n = marks(cell.rounds, cell.points)
        value = np.cumsum(played.regret)[n - 1]
        blind = np.cumsum(played.uniform)[n - 1]
        return Outcome(n, value, blind, promise(learner, self.learner_entry(cell.learner)))


@lru_cache(maxsize=8)
def _world(name: str, options: str, seed: int, data: str) -> World:
    """Kept from cell to cell while its data stay the same: reading takes longer than running."""
    return world(name, **{"seed": seed, **json.loads(options)})
