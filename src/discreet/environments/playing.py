"""The one loop in which a learner plays: against people of a world, or against losses.

Any learner will do: it decides and learns. Where its policy is fixed for more than one round it has
`decide_many`, `learn_many` and `rounds_until_release`, and plays window by window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from discreet.arrays import Array
from discreet.environments.people import People, World

NUMBERS = 1 << 20  # feature values drawn at a time: who comes does not depend on the learner
Who = Callable[[int], Sequence[Any]]  # how many -> the names of the next so many people


class Learner(Protocol):
    """Decides for one person after the other; a decision has an `action`."""

    def decide(self, features: Array, /) -> Any: ...  # (actions, dim), or one context (dim,)

    def learn(self, decision: Any, reward: float, /) -> object: ...


class LossLearner(Protocol):
    """Decides without a context, and sees the loss of its own decision only."""

    def decide(self) -> Any: ...

    def learn(self, decision: Any, loss: float, /) -> object: ...


@dataclass(frozen=True)
class Played:
    """The expected regret of every round, and that of an action drawn uniformly."""

    regret: Array  # (rounds,), mean reward of the best action minus that of the chosen one
    uniform: Array  # (rounds,), the same minus the average over all actions


def _ignore(_: object) -> None:
    pass


def play(
    learner: Learner,
    world: World,
    rounds: int,
    *,
    seed: int | np.random.Generator,
    clock: Callable[[str], object] = _ignore,
    progress: Callable[[int], object] = _ignore,
    pool: People | None = None,
    who: Who | None = None,
) -> Played:
    """Play so many rounds of a world.

    The seed, or a generator, decides who comes and the noise of their rewards. People are drawn in
    blocks of fixed size: learners with the same seed meet the same people with the same reward
    noise. `clock` is told whose turn it is ("environment", "learner" or "runner"), `progress` how
    many rounds were played since it was told last. With `pool`, these people come again and again
    in place of new ones, which takes less time. With `who`, the learner is told who gives a reward:
    `who(n)` names the next n.

    >>> from discreet.environments import world
    >>> class First:
    ...     action = 0
    ...     def decide(self, features):
    ...         return self
    ...     def learn(self, decision, reward):
    ...         pass
    >>> played = play(First(), world("fixed", seed=0), 100, seed=0)
    >>> played.regret.shape, bool(np.ptp(played.regret) == 0)
    ((100,), True)
    """
    context_rng, reward_rng = _streams(seed)
    regret = np.empty(rounds)
    uniform = np.empty(rounds)
    block = max(1, NUMBERS // (world.n_actions * world.dim))
    for start in range(0, rounds, block):
        clock("environment")
        places = np.arange(start, min(start + block, rounds))
        if pool is None:
            people = world.people(len(places), context_rng, start=start)
        else:
            people = pool[places % len(pool)]
        uniform[places] = people.best - people.means.mean(axis=1)
        done = 0
        while done < len(people):
            missed = _step(learner, people, done, reward_rng, clock, who)
            regret[places[done : done + len(missed)]] = missed
            done += len(missed)
            progress(len(missed))
    return Played(regret, uniform)


def _streams(
    seed: int | np.random.Generator,
) -> tuple[np.random.Generator, np.random.Generator]:
    """Of who comes, and of rewards; apart, so that what a learner does cannot change who comes."""
    if isinstance(seed, np.random.Generator):
        return seed, seed
    return np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])


def _step(
    learner: Any,
    people: People,
    first: int,
    rng: np.random.Generator,
    clock: Callable[[str], object],
    who: Who | None,
) -> Array:
    """Those from `first` on who come before the next release, or one person; their regret."""
    clock("environment")
    windowed = hasattr(learner, "decide_many")
    some = people[first : first + (learner.rounds_until_release if windowed else 1)]
    clock("learner")
    decided = learner.decide_many(some.features) if windowed else learner.decide(some.features[0])
    clock("environment")
    actions = np.atleast_1d(decided.action)
    missed = some.regret(actions)
    rewards = some.rewards(actions, rng)
    clock("learner")
    named = () if who is None else (who(len(some)),)
    if windowed:
        learner.learn_many(decided, rewards, *named)
    else:
        learner.learn(decided, float(rewards[0]), *(each[0] for each in named))
    clock("runner")
    return missed


def play_losses(
    learner: LossLearner, loss: Callable[[int, Any], float], rounds: int
) -> Array:  # -> (rounds,)
    """Play so many rounds against `loss(t, decision)`, t = 0, 1, ...; the loss of every decision.

    >>> class First:
    ...     action = 0
    ...     def decide(self):
    ...         return self
    ...     def learn(self, decision, loss):
    ...         pass
    >>> losses = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> play_losses(First(), lambda t, decision: losses.item(t, decision.action), 2)
    array([0., 1.])
    """
    suffered = np.empty(rounds)
    for t in range(rounds):
        decision = learner.decide()
        value = loss(t, decision)
        learner.learn(decision, value)
        suffered[t] = value
    return suffered
