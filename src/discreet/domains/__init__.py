"""Decision sets: what a learner may choose from, and how to optimise over it.

    every Domain        linear_minimizer(g)   argmin <g, x>, one row or many
                        contains(x), diameter(p), spec()
                        affine_hull           origin + basis z, an orthonormal basis
                        interior_point        in the relative interior
                        inner_radius          of a ball around it, in the hull, that is inside
    a ProjectionDomain  project(y)            argmin |x - y|_2
                        leader(total, rate)   argmin <total, x> + R(x)/rate, R = negative entropy
                                              on the simplex, |x - interior_point|^2/2 elsewhere
                        reach                 max R - min R
    a BarrierDomain     barrier               self-concordant, in the coordinates z

    set                                  kind        hull           linear minimiser
    Simplex(n)                           barrier     n - 1          smallest entry
    Cube(n) = [-1, 1]^n                  barrier     n              signs
    Ball(n)                              barrier     n              direction
    Polytope(A, b)                       barrier     n              linear program
    LpBall(p, n, radius)                 projection  n              Hoelder's inequality
    TraceNormBall(rows, columns, radius) projection  rows columns   top singular pair
    MatroidPolytope.uniform(n, k)        -           n              greedy
      .partition(groups, limits)         -           n less loops   greedy
      .graphic(edges)                    -           n less loops   Kruskal
      (n, independent)                   -           n less loops   greedy
      each with bases=True               -           n less parts   greedy
    BasePolytope(n, f)                   -           < n            greedy
    FlowPolytope(edges, source, sink)    -           edges - nodes + 1 (live ones)  shortest path
    BirkhoffPolytope(n)                  -           (n - 1)^2      assignment

A set without projection needs none: `nearest_point` finds the nearest point by linear minimisation
alone, and a new set only needs `dim` and `linear_minimizer` (see `Domain`).
"""

import json
from collections.abc import Callable

from discreet.domains.barriers import Barrier
from discreet.domains.base import BarrierDomain, Domain, ProjectionDomain
from discreet.domains.conditional_gradient import Nearest, nearest_point
from discreet.domains.flows import FlowPolytope
from discreet.domains.greedy import BasePolytope, MatroidPolytope
from discreet.domains.hull import AffineHull
from discreet.domains.lp import LpBall
from discreet.domains.matrices import BirkhoffPolytope, TraceNormBall
from discreet.domains.polytope import Polytope
from discreet.domains.simple import Ball, Cube, Simplex

__all__ = [
    "AffineHull",
    "Ball",
    "Barrier",
    "BarrierDomain",
    "BasePolytope",
    "BirkhoffPolytope",
    "Cube",
    "Domain",
    "FlowPolytope",
    "LpBall",
    "MatroidPolytope",
    "Nearest",
    "Polytope",
    "ProjectionDomain",
    "Simplex",
    "TraceNormBall",
    "from_spec",
    "nearest_point",
]


_CLASSES = (
    *(Simplex, Cube, Ball, LpBall, Polytope),
    *(FlowPolytope, TraceNormBall, BirkhoffPolytope),
)
_MAKERS: dict[str, Callable[..., Domain]] = {
    **{kind.__name__: kind for kind in _CLASSES},
    "MatroidPolytope.uniform": MatroidPolytope.uniform,
    "MatroidPolytope.partition": MatroidPolytope.partition,
    "MatroidPolytope.graphic": MatroidPolytope.graphic,
}


def from_spec(spec: str) -> Domain:
    """The domain that `Domain.spec` described.

    >>> from_spec(Cube(4).spec()).dim
    4
    """
    arguments = json.loads(spec)
    kind = arguments.pop("kind")
    if kind not in _MAKERS:
        raise ValueError(
            f"a {kind} made from a function cannot be made again from text; make it yourself, "
            "make the learner with it and call load_state_dict"
        )
    return _MAKERS[kind](**arguments)
