"""Decision sets: what a learner may choose from, and how to optimise over it.

    every Domain   linear_minimizer(g)   argmin <g, x>, one row or many
                   contains(x), diameter(p)
                   affine_hull           origin + basis z, an orthonormal basis
                   interior_point        in the relative interior
                   inner_radius          of a ball around it, in the hull, that is inside
    some           project(y)            argmin |x - y|_2 (`projects` says whether)
                   leader(total, rate)   argmin <total, x> + R(x)/rate, R = negative entropy
                                         on the simplex, |x - interior_point|^2/2 elsewhere
                   regularizer_range     max R - min R
                   barrier               self-concordant, in the coordinates z, or None
                   lp_shape              (p, radius) of an lp ball, or None
                   axis_vertices         if all vertices lie on the axes, or None

    set                                  can        hull           linear minimiser
    Simplex(n)                           P B V      n - 1          smallest entry
    Cube(n) = [-1, 1]^n                  P B        n              signs
    Ball(n)                              P B        n              direction
    Polytope(A, b)                       P B        n              linear program
    LpBall(p, n, radius)                 P, V if 1  n              Hoelder's inequality
    TraceNormBall(rows, columns, radius) P          rows columns   top singular pair
    MatroidPolytope.uniform(n, k)        -          n              greedy
      .partition(groups, limits)         -          n less loops   greedy
      .graphic(edges)                    -          n less loops   Kruskal
      (n, independent)                   -          n less loops   greedy
      each with bases=True               -          n less parts   greedy
    BasePolytope(n, f)                   -          < n            greedy
    FlowPolytope(edges, source, sink)    -          edges - nodes + 1 (live ones)  shortest path
    BirkhoffPolytope(n)                  -          (n - 1)^2      assignment

P projects, B has a barrier, V has its vertices on the axes. A set without projection needs none:
`conditional_gradient.py` finds the nearest point by linear minimisation alone, and a new set only
needs `dim` and `linear_minimizer`. A new set with a barrier sets `barrier` to a subclass of
`barriers.Barrier`.
"""

from discreet.domains.base import Domain
from discreet.domains.flows import FlowPolytope
from discreet.domains.greedy import BasePolytope, MatroidPolytope
from discreet.domains.matrices import BirkhoffPolytope, TraceNormBall
from discreet.domains.polytope import Polytope
from discreet.domains.simple import Ball, Cube, LpBall, Simplex

__all__ = [
    "Ball",
    "BasePolytope",
    "BirkhoffPolytope",
    "Cube",
    "Domain",
    "FlowPolytope",
    "LpBall",
    "MatroidPolytope",
    "Polytope",
    "Simplex",
    "TraceNormBall",
]
