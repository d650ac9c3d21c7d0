"""A template for a world of your own: two kinds of people, who like different things.

    python examples/own_world.py [rounds]

A world says who comes and what each action would bring on average; rewards and regret follow. It
has no memory, so that many learners can meet the same people. In an experiment its name is
"own_world:two_kinds" (examples/own_experiment.toml): a function of its options, and of `seed` if it
takes one. Say in its first line who comes and what is decided: the report prints it.
"""

import sys
from dataclasses import dataclass

import numpy as np

from discreet.bandits import LinearBandit
from discreet.environments.people import People
from discreet.experiments import expected_regret
from discreet.privacy import SeededNoise


@dataclass(frozen=True)
class TwoKinds:
    """Everybody is of the first or of the second kind, and that is all that is known of them."""

    taste: np.ndarray  # (2, actions): the mean reward of each action, for each kind
    name: str = "two kinds"
    reward_range: tuple[float, float] = (0.0, 1.0)  # public

    @property
    def n_actions(self):
        """How many actions each person is offered."""
        return self.taste.shape[1]

    @property
    def dim(self):
        """A weight for each kind and action."""
        return self.taste.size

    def people(self, n, rng, start=0):
        """The people of rounds start, ..., start + n - 1; only a world that drifts needs them."""
        kind = rng.integers(2, size=n)
        rows = np.eye(self.dim).reshape(2, self.n_actions, self.dim)  # unit vectors
        return People(rows[kind], self.taste[kind], "zero-one", reward_range=self.reward_range)


def two_kinds(actions: int = 4, seed: int = 0):
    """Visitors of a shop, of two kinds; one of a few greetings is chosen; 1 if they come back."""
    rng = np.random.default_rng([seed, 0x6B696E64])
    return TwoKinds(rng.uniform(0.2, 0.8, (2, actions)))


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"{'':26}{'regret':>10}")
    for epsilon in (0.3, 3.0):

        def private(seed, epsilon=epsilon):
            """A private bandit for this world."""
            return LinearBandit(8, rounds, epsilon, reward_range=(0.0, 1.0), seed=seed,
                                noise=SeededNoise(seed))  # fmt: skip

        found = expected_regret(private, lambda seed: two_kinds(seed=seed), rounds, seeds=5)
        print(f"{f'private, epsilon = {epsilon:g}':26}{found.mean:10.1f} ± {found.half:.1f}")
    print(f"{'choosing blindly':26}{found.blind.mean():10.1f}")
