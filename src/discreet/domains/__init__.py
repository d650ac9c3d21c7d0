"""Decision sets: what a learner may choose from, and how to optimise over it.

    linear_minimizer(g)    argmin <g, x>
    leader(total, rate)    argmin <total, x> + R(x)/rate, R = negative entropy on the simplex,
                           |x - interior_point|^2/2 elsewhere
    project(y)             argmin |x - y|_2
    barrier                self-concordant, in the coordinates of `affine_hull`

`linear_minimizer` and `leader` take one row or many; on a polytope many rows are a loop. The
simplex has no interior: its barrier lives in the n - 1 coordinates z of its affine hull,
x = origin + basis z with an orthonormal basis; elsewhere z = x.
"""

import json

from discreet.domains.barriers import Barrier
from discreet.domains.base import AffineHull, Domain
from discreet.domains.polytope import Polytope
from discreet.domains.simple import Ball, Cube, Simplex

__all__ = ["AffineHull", "Ball", "Barrier", "Cube", "Domain", "Polytope", "Simplex", "from_spec"]


def from_spec(spec: str) -> Domain:
    """The domain that `Domain.spec` described.

    >>> from_spec(Cube(4).spec()).dim
    4
    """
    arguments = json.loads(spec)
    kinds: dict[str, type[Domain]] = {c.__name__: c for c in (Simplex, Cube, Ball, Polytope)}
    return kinds[arguments.pop("kind")](**arguments)
