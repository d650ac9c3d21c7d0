"""Which links should a network switch on, when every latency measured is somebody's traffic?

    python examples/spanning_tree.py [rounds]

Five offices, ten possible links. Each hour four links that connect all offices are switched on: a
spanning tree. Then somebody uses the network, and how slow each link was shows what they did.
Two learners: one sees the latency of every link, one only the total over the links in use.
Both are private: the trees they choose do not tell what any one hour looked like.
"""

import sys
from itertools import combinations

import numpy as np

from discreet.domains import MatroidPolytope
from discreet.online.ftpl import FTPL
from discreet.online.projection_free import ProjectionFreeBandit
from discreet.privacy import SeededNoise

OFFICES = 5
EPSILON = 1.0
DELTA = 1e-6


def main(rounds: int) -> None:
    """Learn for so many hours; print what the last ones cost."""
    links = list(combinations(range(OFFICES), 2))
    trees = MatroidPolytope.graphic(links, bases=True)
    rng = np.random.default_rng(0)
    usual = rng.uniform(0.1, 0.9, len(links))  # nobody knows these
    noise = 0.1 * rng.standard_normal((rounds, len(links)))
    latencies = np.clip(usual + noise, 0.0, 1.0)
    best = trees.linear_minimizer(latencies.sum(axis=0))
    late = slice(3 * rounds // 4, None)

    # All latencies are seen: follow the perturbed leader. |latencies|_2 <= sqrt(links).
    bound = float(np.sqrt(len(links)))
    seen = FTPL(trees, rounds, EPSILON, DELTA, loss_bound=bound, seed=1, noise=SeededNoise(1)).run(
        latencies
    )

    # Only the total is seen, divided by 4 links. Points lie in the hull of all trees, or up to
    # 1/2 beyond: read an entry as how often to use a link.
    bandit = ProjectionFreeBandit(
        trees, rounds, EPSILON, DELTA, loss_range=(-0.5, 1.5), seed=1, noise=SeededNoise(1)
    )
    played = np.empty((rounds, len(links)))
    for t in range(rounds):
        decision = bandit.decide()
        loss = float(latencies[t] @ decision.point) / (OFFICES - 1)
        bandit.learn(decision, min(max(loss, -0.5), 1.5))
        played[t] = decision.point

    print(f"{rounds:,} hours, epsilon = {EPSILON:g}, delta = {DELTA:g}")
    print(f"{'':34}latency per link, last quarter")
    rows = {
        "any tree, at random": np.tile(trees.interior_point, (rounds, 1)),
        "private, sees the total only": played,
        "private, sees every link": seen,
        "the best tree in hindsight": np.tile(best, (rounds, 1)),
    }
    for name, points in rows.items():
        mean = (latencies[late] * points[late]).sum(axis=1).mean() / (OFFICES - 1)
        print(f"{name:34}{mean:.3f}")
    print(
        "best links:", ", ".join(f"{u}-{v}" for (u, v), on in zip(links, best, strict=True) if on)
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
