"""What do people like, when each rating is private and there are only a few kinds of taste?

    python examples/low_rank.py [ratings]

Groups of people rate kinds of films from -1 to 1. The table of mean ratings has rank one: a taste,
and how much each film has of it. One person gives one rating of one entry. The learner keeps the
table in a trace-norm ball, whose corners are the tables of rank one, and publishes it after every
rating; the whole sequence of tables is private.
"""

import sys

import numpy as np

from discreet.domains import TraceNormBall
from discreet.optimization.frank_wolfe import StreamingFrankWolfe
from discreet.privacy import SeededNoise

GROUPS = 8
FILMS = 10
DELTA = 1e-6


def main(ratings: int) -> None:
    """Learn from so many ratings, at several levels of privacy."""
    rng = np.random.default_rng(0)
    taste = rng.choice([-0.8, 0.8], GROUPS)
    table = np.outer(taste, rng.choice([-1.0, 1.0], FILMS))  # nobody knows this
    size = float(np.linalg.norm(table, "nuc"))
    who, what = rng.integers(GROUPS, size=ratings), rng.integers(FILMS, size=ratings)
    given = np.clip(table[who, what] + 0.3 * rng.standard_normal(ratings), -1.0, 1.0)

    print(f"{ratings:,} ratings of {GROUPS} x {FILMS} entries, delta = {DELTA:g}")
    print(f"{'':26}{'squared error':>14}{'right signs':>14}")
    print(f"{'no guess at all':26}{np.mean(table**2):14.3f}{'-':>14}")
    for epsilon in (1.0, 4.0, 16.0, float("inf")):
        learner = StreamingFrankWolfe(
            TraceNormBall(GROUPS, FILMS, size), ratings, epsilon, DELTA, noise=SeededNoise(1)
        )
        for i, j, rating in zip(who, what, given, strict=True):
            seen = np.zeros((GROUPS, FILMS))
            seen[i, j] = 1.0  # which entry was rated: a row of length one
            learner.learn(seen.ravel(), rating)
        guess = learner.theta.reshape(GROUPS, FILMS)
        right = np.mean(np.sign(guess) == np.sign(table))
        name = "not private" if np.isinf(epsilon) else f"private, epsilon = {epsilon:g}"
        print(f"{name:26}{np.mean((guess - table) ** 2):14.3f}{right:14.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
