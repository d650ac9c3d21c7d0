"""Online learning with experts: regret against the best one in hindsight."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array
from discreet.domains import Simplex
from discreet.environments.losses import NAMES, expert_losses
from discreet.environments.playing import play_losses
from discreet.experiments.experiment import Cell, Choice
from discreet.experiments.task import Clock, Curve, Learner, Task, marks
from discreet.online import FTPL, FTRL, AdversarialBandit


class Online(Task):
    """Losses are fixed in advance; the options of an environment are n and gap."""

    name = "online"
    measure = "regret"
    axis = "rounds"
    gains = ("gains", "gained", "of what there was to gain over spreading evenly")
    blind = "spreading evenly"
    meaning = (
        "Regret is what was lost beyond the expert who turns out best in hindsight, added up over "
        "all rounds."
    )
    given = ("n_arms", "domain", "horizon", "epsilon", "delta", "loss_bound", "seed", "noise")
    learners: ClassVar[Mapping[str, Learner]] = {
        "FTRL": Learner(
            FTRL, "central", "follow the regularised leader on private running sums",
            "Agarwal and Singh (2017), Algorithm 1",
        ),
        "FTPL": Learner(
            FTPL, "central", "follow the perturbed leader on private running sums",
            "Agarwal and Singh (2017), Algorithm 3",
        ),
        "AdversarialBandit": Learner(
            AdversarialBandit, "local",
            'sees the loss of its own choice only, privately reported; trust = "central" too',
            "Agarwal and Singh (2017), Algorithms 4 and 5; Asi, Raman and Talwar (2025)",
        ),
        "Hedge": Learner(
            FTRL, "none", "FTRL without privacy: the yardstick",
            "Freund and Schapire (1997)",
        ),
    }  # fmt: skip

    def about(self, choice: Choice) -> str:
        return "in every round one of several experts is followed, then the losses of all are seen."

    def environment(self, choice: Choice, rounds: int, seed: int) -> Array:  # (rounds, n)
        """A loss sequence by name; one of your own takes rounds and seed."""
        if choice.name in NAMES:
            return expert_losses(choice.name, rounds, **{"seed": seed, **choice.options})
        make = self.own_world(choice, NAMES)
        losses = np.asarray(make(rounds=rounds, seed=seed, **choice.options), dtype=np.float64)
        if losses.shape[:1] != (rounds,) or losses.ndim != 2:
            raise ValueError(f"{choice.name} must return losses of shape ({rounds}, n)")
        if losses.min() < 0 or losses.max() > 1:
            raise ValueError(f"{choice.name} must return losses in [0, 1]")
        return losses

    def offers(self, cell: Cell, environment: Array) -> dict[str, Any]:
        n = environment.shape[1]
        return {"n_arms": n, "domain": Simplex(n), "horizon": cell.rounds, "loss_bound": 1.0}

    def play(self, cell: Cell, environment: Array, learner: Any, clock: Clock) -> Curve:
        clock.to("learner")
        suffered = _suffered(learner, environment)
        clock.to("environment")
        n = marks(cell.rounds, cell.points)
        best = np.cumsum(environment, axis=0)[n - 1].min(axis=1)
        even = np.cumsum(environment.mean(axis=1))[n - 1]
        return n, np.cumsum(suffered)[n - 1] - best, even - best


def _suffered(learner: Any, losses: Array) -> Array:  # (T, n) -> (T,)
    if not hasattr(learner, "run"):  # sees the loss of its own choice only
        return play_losses(learner, lambda t, d: losses.item(t, d.action), len(losses))
    return np.asarray(np.einsum("ij,ij->i", learner.run(losses), losses))
