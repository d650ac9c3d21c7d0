"""Ene, Nguyen and Vladu (2021): regret with a linear minimiser alone, and its two calibrations.

paper   T        n   zeta     eta    T_batch   Lemma 7 (Laplace), Lemma 10 (Gaussian)
here    rounds   n   radius   rate   size      LEMMAS: standard deviations of a node's noise
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.domains import (
    BasePolytope,
    Domain,
    FlowPolytope,
    MatroidPolytope,
    Simplex,
)
from discreet.domains.conditional_gradient import nearest_point
from discreet.environments.playing import play_losses
from discreet.experiments.measure import Found, Measurement, grid
from discreet.online import ProjectionFreeBandit
from discreet.privacy import SeededNoise
from papers.convex_losses import ConvexLosses, convex_losses
from papers.exhibit import (
    EQUAL,
    WRONG,
    Exhibit,
    Line,
    Panel,
    Paper,
    Row,
    compare,
    curve,
    digits,
    judge_slope,
    shown,
)
from papers.projection_free_constants import DELTA, LEMMAS, calibration
from papers.slopes import slope

GRID = [(f"{i},{j}", f"{i},{j + 1}") for i in range(4) for j in range(3)] + [
    (f"{i},{j}", f"{i + 1},{j}") for i in range(3) for j in range(4)
]


def _root_of_weights(S: frozenset[int]) -> float:
    """Submodular: the square root of the total weight, weights 1, 2, ..., 8."""
    return math.sqrt(sum(i + 1 for i in S))


DOMAINS: dict[str, Callable[[], Domain]] = {
    "simplex": lambda: Simplex(10),
    "spanning trees of K5": lambda: MatroidPolytope.graphic(
        [(i, j) for i in range(5) for j in range(i)], bases=True
    ),
    "flows of a 4 x 4 grid": lambda: FlowPolytope(GRID, "0,0", "3,3"),
    "base polytope": lambda: BasePolytope(8, _root_of_weights),
}
TREES = "spanning trees of K5"
EPSILONS = (0.1, 0.3, 1.0, 3.0)


def _rounds(quick: bool) -> tuple[int, ...]:
    return (10**4, 4 * 10**4) if quick else (10**4, 10**5, 10**6)


def _main(quick: bool) -> int:
    return 4 * 10**4 if quick else 10**5


@lru_cache
def _domain(name: str) -> Domain:
    return DOMAINS[name]()


def _world(name: str, rounds: int, seed: int) -> tuple[Domain, ConvexLosses, tuple[float, float]]:
    """Absolute losses, and bounds on them where the paper's radius, at most D/4, leads."""
    domain = _domain(name)
    n = domain.affine_hull.basis.shape[1]
    D = domain.diameter()
    world = convex_losses("absolute", domain, rounds, seed=seed)
    return domain, world, world.loss_range(min(D * math.sqrt(n) / rounds**0.25, D / 4))


# -- cells ----------------------------------------------------------------------------------------


def ours(*, domain: str, rounds: int, epsilon: float, delta: float, seed: int) -> Mapping[str, Any]:
    """Regret, and calls of the linear minimiser a round."""
    place, world, loss_range = _world(domain, rounds, seed)
    bandit = ProjectionFreeBandit(
        place, rounds, epsilon, delta, loss_range=loss_range, seed=seed, noise=SeededNoise(seed)
    )
    suffered = play_losses(bandit, lambda t, decision: world.loss(t, decision.point), rounds)
    best = float(world.losses(world.best).sum())
    return {"value": float(suffered.sum()) - best, "calls": bandit.oracle_calls / rounds}


def still(*, domain: str, rounds: int, seed: int) -> Mapping[str, float]:
    """Regret of the first point, played in every round."""
    place, world, _ = _world(domain, rounds, seed)
    return {"value": world.regret(place.interior_point)}


def paper(
    *, domain: str, rounds: int, epsilon: float, lemma: str, sign: int, seed: int
) -> Mapping[str, Any]:
    """Algorithm 1. sign = 1: line 14 minimises |x|^2/2 + eta <s, x>; sign = -1: as printed.

    Directions are in the affine hull. Every running sum carries the noise of ceil(log2) nodes
    (Theorem 4). lemma = "none" is without privacy.
    """
    place, world, _ = _world(domain, rounds, seed)
    rng = np.random.default_rng([seed, 7])
    basis = place.affine_hull.basis
    D = place.diameter()
    T = rounds
    n = int(basis.shape[1])
    size = math.isqrt(T)
    radius = D * math.sqrt(n) / T**0.25
    rate = D / (T**0.75 * math.sqrt(n))
    nodes = math.ceil(math.log2(math.ceil(T / size)))
    start = place.interior_point
    centre = start
    late = start
    total = np.zeros(n)
    suffered = 0.0
    calls = 0
    for first in range(0, T, size):
        last = min(T, first + size)
        units = rng.standard_normal((last - first, n))
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        points = late + radius * units @ basis.T
        rows = world.slopes[world.which[first:last]]
        values = np.abs(np.einsum("ij,ij->i", rows, points) - world.offsets[first:last])
        suffered += float(values.sum())
        noisy = total + _noise(lemma, T, n, epsilon, rng, nodes)
        found = nearest_point(
            place, start - sign * rate * (basis @ noisy), centre, gap=D**2 / size, max_calls=size
        )
        late = centre
        centre = found.point
        calls = calls + found.calls
        total = total + n / radius * values @ units
    return {"value": suffered - float(world.losses(world.best).sum()), "calls": calls / T}


def _noise(
    lemma: str, T: int, n: int, epsilon: float, rng: np.random.Generator, nodes: int
) -> Array:
    if lemma == "none":
        return np.zeros(n)
    std = LEMMAS[lemma](T, n, epsilon)
    if lemma == "lemma 7":
        return np.asarray(rng.laplace(scale=std / math.sqrt(2), size=(nodes, n)).sum(axis=0))
    return np.asarray(std * rng.standard_normal((nodes, n)).sum(axis=0))


# -- exhibits -------------------------------------------------------------------------------------


def cells(quick: bool) -> list[Measurement]:
    """All of them."""
    few = 3 if quick else 8
    T = _rounds(quick)
    main = _main(quick)
    names = tuple(DOMAINS)
    some = ("simplex", TREES)
    return [
        *grid(ours, seeds=few, domain=some, rounds=T, epsilon=(1.0, math.inf), delta=(DELTA, 0.0)),
        *grid(paper, seeds=few, domain=some, rounds=T, epsilon=(1.0,), lemma=tuple(LEMMAS),
              sign=(1,)),
        *grid(ours, seeds=few, domain=names, rounds=(main,), epsilon=(1.0, math.inf),
              delta=(DELTA, 0.0)),
        *grid(paper, seeds=few, domain=names, rounds=(main,), epsilon=(1.0,), lemma=tuple(LEMMAS),
              sign=(1,)),
        *grid(still, seeds=few, domain=names, rounds=(main,)),
        *grid(ours, seeds=few, domain=("simplex",), rounds=(main,), epsilon=EPSILONS,
              delta=(DELTA, 0.0)),
        *grid(paper, seeds=few, domain=("simplex",), rounds=(main,), epsilon=EPSILONS,
              lemma=tuple(LEMMAS), sign=(1,)),
        *grid(paper, seeds=few, domain=("simplex",), rounds=(main,), epsilon=(1.0,),
              lemma=("none",), sign=(1, -1)),
    ]  # fmt: skip


def exhibits(found: Found, quick: bool) -> list[Exhibit]:
    """Regret against T, epsilon and the set; calibration; the sign of line 14."""
    return [
        _growth(found, quick),
        _domains(found, _main(quick)),
        _budgets(found, _main(quick)),
        calibration(),
        _calls(found, _main(quick)),
        _sign(found, _main(quick)),
    ]


def _growth(found: Found, quick: bool) -> Exhibit:
    rows = []
    panels = []
    T = _rounds(quick)
    for name in ("simplex", TREES):
        theirs = {
            lemma: [found.over(paper, domain=name, rounds=t, epsilon=1.0, lemma=lemma, sign=1)
                    for t in T]
            for lemma in LEMMAS
        }  # fmt: skip
        mine = {
            delta: [found.over(ours, domain=name, rounds=t, epsilon=1.0, delta=delta) for t in T]
            for delta in (0.0, DELTA)
        }
        plain = [found.over(ours, domain=name, rounds=t, epsilon=math.inf, delta=0.0) for t in T]
        for delta, lemma, words in ((0.0, "lemma 7", "pure"), (DELTA, "lemma 10", "delta = 1e-6")):
            rows += [
                Row(f"{name}, {words}, T = {t:,}", shown(a), shown(b), compare(b, a))
                for t, a, b in zip(T, theirs[lemma], mine[delta], strict=True)
            ]
            grows = slope(T, mine[delta])
            rows.append(Row(f"{name}, {words}: exponent of T", "0.75", str(grows),
                            judge_slope(grows, 0.75)))  # fmt: skip
        panels.append(Panel(name, "rounds", "regret", (
            curve("Lemma 7 (pure)", T, theirs["lemma 7"], "theirs"),
            curve("Lemma 10 (delta = 1e-6)", T, theirs["lemma 10"]),
            curve("ours, pure", T, mine[0.0]),
            curve("ours, delta = 1e-6", T, mine[DELTA], "ours"),
            curve("ours without noise", T, plain, "plain"),
            Line("slope 3/4", T, [float(mine[DELTA][0].mean()) * (t / T[0]) ** 0.75 for t in T],
                 "bound"),
        )))  # fmt: skip
    return Exhibit(
        "Regret against the number of rounds",
        "T^3/4 n^1/2 with a factor log^2 T n/epsilon (pure) or polylogs/epsilon (Theorem 1).",
        tuple(rows),
        "Absolute losses, epsilon = 1. Theirs is Algorithm 1 with the noise of its lemmas, and a "
        "minus sign mended (below). Without private noise both grow like T^3/4 at most; theirs "
        "drowns in noise at these sizes.",
        tuple(panels),
        "Not moving at all has a regret that grows like T.",
    )


def _domains(found: Found, T: int) -> Exhibit:
    rows = []
    for name in DOMAINS:
        lemmas = [found.over(paper, domain=name, rounds=T, epsilon=1.0, lemma=lemma, sign=1)
                  for lemma in LEMMAS]  # fmt: skip
        best = min(lemmas, key=lambda v: float(v.mean()))
        mine = found.over(ours, domain=name, rounds=T, epsilon=1.0, delta=DELTA)
        pure = found.over(ours, domain=name, rounds=T, epsilon=1.0, delta=0.0)
        plain = found.mean(ours, domain=name, rounds=T, epsilon=math.inf, delta=0.0)
        idle = found.mean(still, domain=name, rounds=T)
        rows.append(Row(name, shown(best), shown(mine), compare(mine, best),
                        f"pure {shown(pure)}; no noise {digits(plain)}; "
                        f"not moving {digits(idle)}"))  # fmt: skip
    return Exhibit(
        "Matroid, flow and base polytopes",
        "any set with a linear minimiser, such as matroid and base polytopes.",
        tuple(rows),
        f"Regret at T = {T:,}, epsilon = 1, delta = 1e-6; theirs is the better of Lemmas 7 and 10. "
        "Our steps are tuned for private learners; the same steps without noise are in the notes.",
    )


def _budgets(found: Found, T: int) -> Exhibit:
    rows = []
    theirs = []
    mine = []
    pure = []
    for epsilon in EPSILONS:
        lemmas = [found.over(paper, domain="simplex", rounds=T, epsilon=epsilon, lemma=lemma,
                             sign=1) for lemma in LEMMAS]  # fmt: skip
        theirs.append(min(lemmas, key=lambda v: float(v.mean())))
        mine.append(found.over(ours, domain="simplex", rounds=T, epsilon=epsilon, delta=DELTA))
        pure.append(found.over(ours, domain="simplex", rounds=T, epsilon=epsilon, delta=0.0))
        rows.append(Row(f"epsilon = {epsilon:g}", shown(theirs[-1]), shown(mine[-1]),
                        compare(mine[-1], theirs[-1]), f"pure {shown(pure[-1])}"))  # fmt: skip
    idle = found.mean(still, domain="simplex", rounds=T)
    lines = (
        curve("the better of Lemmas 7 and 10", EPSILONS, theirs, "theirs"),
        curve("ours, delta = 1e-6", EPSILONS, mine, "ours"),
        curve("ours, pure", EPSILONS, pure),
        Line("not moving", EPSILONS, [idle] * len(EPSILONS), "bound"),
    )
    return Exhibit(
        "Regret against epsilon",
        "the private term is proportional to 1/epsilon.",
        tuple(rows),
        f"The simplex of ten, T = {T:,}. Where the line meets that of not moving, noise is all "
        "there is.",
        (Panel("simplex", "epsilon", "regret", lines),),
        "Bands are 95% intervals over seeds.",
    )


def _calls(found: Found, T: int) -> Exhibit:
    rows = []
    for name in DOMAINS:
        a = found.over(paper, "calls", domain=name, rounds=T, epsilon=1.0, lemma="lemma 10", sign=1)
        b = found.over(ours, "calls", domain=name, rounds=T, epsilon=1.0, delta=DELTA)
        rows.append(Row(name, digits(float(a.mean())), digits(float(b.mean())), compare(b, a)))
    return Exhibit(
        "Calls of the linear minimiser, a round",
        "at most one call a round (T_batch conditional gradient steps a batch).",
        tuple(rows),
        "Theirs is Algorithm 1 with our conditional gradient method and the paper's precision.",
    )


def _sign(found: Found, T: int) -> Exhibit:
    runs = [found.over(paper, domain="simplex", rounds=T, epsilon=1.0, lemma="none", sign=sign)
            for sign in (-1, 1)]  # fmt: skip
    idle = found.over(still, domain="simplex", rounds=T)
    wrong = float(runs[0].mean()) > float(idle.mean())
    row = Row("regret without any noise", shown(runs[0]), shown(runs[1]), WRONG if wrong else EQUAL,
              f"not moving: {shown(idle)}")  # fmt: skip
    return Exhibit(
        "Line 14 has the wrong sign",
        "minimise |x|^2/2 - <eta s, x>, s the sum of the gradients so far.",
        (row,),
        f"As printed the algorithm climbs. The simplex, T = {T:,}, no noise at all: with the "
        "printed sign it loses more than by not moving. Algorithm 2 of the paper has it right.",
        theirs="as printed",
        ours="plus sign",
    )


PAPER = Paper(
    "projection-free-2021",
    "Projection-free bandit optimization with privacy guarantees",
    "Ene, Nguyen and Vladu (AAAI 2021)",
    "The idea holds: bandits over matroid, flow and base polytopes with a linear minimiser alone. "
    "Its noise hides a whole batch where one round is enough, which at real sizes leaves nothing "
    "to learn from; one line has the wrong sign.",
    cells,
    exhibits,
)
