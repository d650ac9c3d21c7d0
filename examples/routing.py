"""Which way to send a parcel, when travel times come from people's own trips?

    python examples/routing.py [rounds]

A small town as a grid of one-way streets, from the north-west corner to the south-east one. Each
round one person drives a route and reports how long the whole trip took: one number. The learner
never sees single streets, and the routes it proposes do not tell how long anyone was on the road.
"""

import sys

import numpy as np

from discreet.domains import FlowPolytope
from discreet.online.projection_free import ProjectionFreeBandit
from discreet.privacy import SeededNoise

SIDE = 3
DELTA = 1e-6


def streets(side: int) -> list[tuple[str, str]]:
    """East and south between neighbouring corners."""
    east = [(f"{r},{c}", f"{r},{c + 1}") for r in range(side) for c in range(side - 1)]
    south = [(f"{r},{c}", f"{r + 1},{c}") for r in range(side - 1) for c in range(side)]
    return east + south


def main(rounds: int) -> None:
    """Learn from so many trips, at several levels of privacy."""
    edges = streets(SIDE)
    routes = FlowPolytope(edges, "0,0", f"{SIDE - 1},{SIDE - 1}")
    rng = np.random.default_rng(3)
    usual = rng.uniform(0.05, 0.95, len(edges))  # nobody knows these
    times = np.clip(usual + 0.1 * rng.standard_normal((rounds, len(edges))), 0.0, 1.0)
    length = 2 * (SIDE - 1)  # streets on a route
    best = routes.linear_minimizer(times.sum(axis=0))
    late = slice(3 * rounds // 4, None)

    def minutes(points: np.ndarray) -> float:
        return float((times[late] * points[late]).sum(axis=1).mean()) / length

    print(f"{rounds:,} trips over {len(edges)} streets, delta = {DELTA:g}")
    print(f"{'':26}mean time per street, last quarter")
    print(f"{'any route, at random':26}{minutes(np.tile(routes.interior_point, (rounds, 1))):.3f}")
    for epsilon in (0.5, 2.0, float("inf")):
        # A point says which share of drivers takes each street; it may lie a little outside.
        bandit = ProjectionFreeBandit(
            routes, rounds, epsilon, DELTA, loss_range=(-0.5, 1.5), seed=1, noise=SeededNoise(1)
        )
        played = np.empty((rounds, len(edges)))
        for t in range(rounds):
            decision = bandit.decide()
            loss = float(times[t] @ decision.point) / length
            bandit.learn(decision, min(max(loss, -0.5), 1.5))
            played[t] = decision.point
        name = "not private" if np.isinf(epsilon) else f"private, epsilon = {epsilon:g}"
        print(f"{name:26}{minutes(played):.3f}")
    print(f"{'the best route':26}{minutes(np.tile(best, (rounds, 1))):.3f}")
    way = [edge for edge, on in zip(edges, best, strict=True) if on]
    print("the best route:", " ".join(["0,0", *(v for _, v in sorted(way))]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
