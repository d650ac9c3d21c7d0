"""Attacks on private regression under central trust: all rows are known but one, one of two.

The attacker sees every release inside the fit and takes their exact likelihood (`transcript.py`),
beside the coefficients.

Why no attack here comes nearer than `attainable`: a fit adds up bounds on several statistics, and
no pair moves all of them as far as each can move. `Likelihood.realised` computes how far a pair
does move them: attainable is its root mean square over 200 runs.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.entries import Entry
from discreet.audit.registry import REGISTRY, Scored
from discreet.audit.rows import Claim, Fits, attack
from discreet.audit.views import Likelihood, Make
from discreet.privacy import Guarantee
from discreet.privacy.noise import Noise
from discreet.regression import PrivateGLM, PrivateLinearRegression, PrivateSearchCV

Row = tuple[Array, float]  # features on the unit sphere, label
Rows = tuple[Array, Array]


def turned(cosine: float, towards: float = 0.0) -> tuple[Row, Row]:
    """Opposite labels, and features at this angle around the direction `towards`.

    Opposite labels move a moment most at angle 0; a Gram matrix moves most at a right angle.
    """
    half = math.acos(cosine) / 2
    angles = (towards + half, towards - half)
    first, second = (np.array([math.cos(angle), math.sin(angle)]) for angle in angles)
    return (first, -1.0), (second, 1.0)


LABELS = turned(1.0)
E1 = np.array([1.0, 0.0])
# The public order of the rows: a row that comes first is in the first release, and in no other.
FIRST = tuple(int(place) for place in np.random.default_rng(0).permutation(100))


def _axes(n: int, dim: int = 2, length: float = 1.0, label: float = 0.0) -> Rows:
    """The same number of rows along each axis: a round Gram matrix."""
    return np.tile(length * np.eye(dim), (n // dim, 1)), np.full(n, label)


def _zeros(n: int, dim: int = 2) -> Rows:
    return _axes(n, dim, 0.0)


def _line(n: int) -> Rows:
    """Rows that teach the learner a line: against what it knows the canary is an outlier."""
    coins = np.random.default_rng(0)
    X = np.sign(coins.standard_normal((n, 1)))
    return X, np.clip(0.3 * X[:, 0] + 0.05 * coins.standard_normal(n), -1, 1)


@dataclass(frozen=True)
class Fit:
    """A learner, everybody's rows, and what the canary's may be.

    make     the learner, from its noise
    rows     everybody: features and labels
    pair     the canary's two rows, one in each neighbour
    places   where the canary stands among the rows
    """

    make: Make
    rows: Rows
    pair: tuple[Row, Row] = LABELS
    places: tuple[int, ...] = (0,)  # of the canary's rows: the first so many that are promised

    def run(self, claim: Claim, neighbour: int, noise: Noise) -> Array:
        """All releases of a fit by exact likelihood, and the coefficients; one row is replaced."""
        X, y = (part.copy() for part in self.rows)
        features, label = self.pair[neighbour]
        places = list(self.places[: claim.contributions])
        X[places] = features[: X.shape[1]]
        y[places] = label
        # A ratio of noisy sums has no variance; its arctan does, and tells the same.
        made = self.make(claim, noise).fit(X, y)
        return np.arctan(np.ravel(made.theta if isinstance(made, Scored) else made.coef_))


FITS: dict[str, Fit] = {}


def _fits(
    name: str,
    entry: str,  # of the registry
    rows: Rows,
    pair: tuple[Row, Row] = LABELS,
    *,
    changes: dict[str, Any] | None = None,  # of its arguments
    places: tuple[int, ...] = (0,),
    limit: int | None = None,  # releases after which rows are not the canary's
    make: Make | None = None,
    fits: Fits | None = None,
    **row: Any,
) -> None:
    known = REGISTRY[entry]
    made = make or partial(known.claiming, random_state=0, **(changes or {}))
    FITS[name] = Fit(made, rows, pair, places)
    row |= {"room": "regression", "kind": "gaussian", "fits": fits or _alike(known)}
    attack(name, known.of, **row)(Likelihood(FITS[name].run, limit))


def _alike(entry: Entry) -> Fits:
    """Models as of this entry, with as much public knowledge where it is no method of its own."""

    def fits(model: Any, promise: Guarantee) -> bool:
        known = isinstance(model, PrivateLinearRegression) or _public(model) == (
            "public_X" in entry.arguments
        )
        return promise.trust == "central" and known and entry.resembles(model, promise)

    return fits


def _public(model: Any) -> bool:
    return getattr(model, "public_X", None) is not None


def _sum_of_labels(model: Any, X: Array, y: Array) -> float:
    """A score by which the sum of the labels chooses between two candidates."""
    return float(np.sum(y)) * (1.0 if model.norm_bound > 1 else -1.0)


def _search(claim: Claim, noise: Noise) -> Any:
    sgd = REGISTRY["PrivateLinearRegression central sgd"]
    model = sgd.claiming(claim, noise, random_state=0)
    grid = {"norm_bound": [1.0, 1.0 + 1e-9]}
    return PrivateSearchCV(model, grid, blocks=2, scoring=_sum_of_labels)


def _linear(
    method: str, rows: Rows, pair: tuple[Row, Row] = LABELS, who: str = "", **row: Any
) -> None:
    entry = f"PrivateLinearRegression central {method}"
    name = f"linear regression {method.replace('-covariates', ' covariates')}"
    _fits(name + who, entry, rows, pair, **row)


# Of mu^2 .15 is for Gram matrices, which labels do not move; steps are moved most at the start.
_linear("information-weighted", _line(10), attainable=0.84, effort=0.15)
# Of mu^2 of the first part .3 is for a Gram matrix, which labels do not move; steps are moved by
# all that they can.
_parts: dict[str, Any] = {"attainable": 0.84, "effort": 0.4}
_linear("single-pass", _zeros(100), places=FIRST[:1], **_parts)
_linear("single-pass", _zeros(100), places=FIRST, who=", three rows of one person", contributions=3,
        **_parts)  # fmt: skip
# With c the cosine, .35 of mu^2 is moved by 1 - c^2 of itself and .65 by (4 + 2 c - 2 c^2) / 6:
# most at c = .19, .80 of mu^2.
_linear("reweighted", _zeros(10), turned(0.19), attainable=0.89)
_linear("sgd", _zeros(10))
_linear("public-covariates", _axes(1500, 1, 0.7), effort=0.2,
        changes={"public_X": _axes(1500, 1, 0.7)[0]})  # fmt: skip
_fits("ssp", "SSP", _zeros(4))
# A tenth of mu^2 goes to the least eigenvalue, moved by sqrt(1 - c^2) beside a long axis; nine
# tenths to second moments, moved by 1 - (1 - c)^2 / 4: most at c = .69, .93 of mu^2.
_fits("adassp", "AdaSSP", (np.tile([1.0, 0.0], (10, 1)), np.zeros(10)), turned(0.69, math.pi / 4),
      attainable=0.96)  # fmt: skip
_fits("dp gradient descent", "DPGradientDescent", _zeros(4), attainable=0.99,
      changes={"steps": 10, "learning_rate": 1e-3})  # fmt: skip

# -- PrivateGLM: every link and method, with and without public rows ------------------------------
#
# newton   Opposite labels move the gradient fully and the information not at all:
#          1/(1 + GRAM_COST/2) of mu^2, all of it where covariates are public. A small coef_bound
#          keeps the mean near 1/2, where both labels surprise alike. With the identity: the steps
#          of linear regression. Counts around 2 teach the mean; the canary's are at the bound, on
#          opposite rows: both are clipped, and move every gradient by nearly 2 S.
# erm      With c the cosine, .4 of mu^2 is for Gram matrices, moved by 1 - c^2 of itself, and .6
#          for the minimiser, moved by (1 + c)/2 where the frame fits the rows: most at c = .375,
#          .7 of mu^2; with counts, whose largest residual is at 0 only, at a right angle.
# public   Private rows half as long as the public ones that made the frame: the curvature is at
#          the edge. The frame is free and labels do not move H, a fifth: .8 of mu^2 is left.
# sgd      Batches are disjoint: the first release has the canary, a Gram matrix, which moves most
#          at a right angle; with public covariates a gradient, of opposite rows of least label.

COUNTS = (np.ones((1000, 1)), np.tile(np.arange(0.0, 5.0), 200))
OUTLIERS = ((np.array([1.0]), 100.0), (np.array([-1.0]), 100.0))
COUNTED = {"label_bound": 100.0, "coef_bound": None}


def _glm(link: str, method: str, known: bool) -> dict[str, Any]:
    """Rows, pair and sizes for a link and a method; `known`: with public covariates."""
    least = -1.0 if link == "identity" else 0.0
    middle = 0.0 if link == "identity" else 0.5
    opposite = ((E1, least), (-E1, least))
    round_one, round_two = (row for row, _ in turned(0.0))
    found: dict[str, Any] = {"changes": {}}
    if method == "sgd":
        pair = opposite if known else turned(0.0)
        found |= {"rows": _zeros(100), "pair": pair, "places": FIRST[:1], "limit": 1}
        found["changes"] = {"public_X": np.eye(2)} if known else {}
    elif method == "erm" and known:
        found |= {"rows": _axes(2000, 1, 0.485, middle), "pair": opposite, "attainable": 0.89}
        found |= {"changes": {"coef_bound": 0.02, "public_X": np.ones((2000, 1))}}
    elif method == "erm":
        counts = link == "poisson"
        pair = ((round_one, 0.0), (round_two, 0.0)) if counts else turned(0.375)
        found |= {"rows": _axes(500, label=middle), "pair": pair}
        found |= {"attainable": 0.79 if counts else 0.83, "changes": {"coef_bound": 0.1}}
    else:
        found |= {
            "identity": {"rows": _line(10), "attainable": 0.92 if known else 0.84, "effort": 0.15},
            "poisson": {"rows": COUNTS, "pair": OUTLIERS, "changes": COUNTED, "effort": 0.3,
                        "attainable": 0.99 if known else 0.93},
        }.get(link, {"rows": _zeros(10, 1), "changes": {"coef_bound": 0.05}, "effort": 0.5,
                     "attainable": 1.0 if known else 0.94})  # fmt: skip
        public = {"public_X": np.ones((1, 1))} if known else {}
        found["changes"] = {**found["changes"], **public}
    return found


for _name, _entry in REGISTRY.items():
    if _entry.of is PrivateGLM and _entry.arguments["trust"] == "central":
        _link, _method = _entry.arguments["link"], _entry.arguments["method"]
        _known = "public_X" in _entry.arguments
        _words = f"glm {_method}, {_link}" + ", public covariates" * _known
        _fits(_words, _name, **_glm(_link, _method, _known))

# Newton for two classes as for the logistic link. For more, opposite rows of one class:
# 1/(1 + GRAM_COST) of mu^2, among rows of all classes, from which the frame is learned.
_bounds: dict[str, Any] = {"coef_bound": 0.05, "fit_intercept": False}
_third = ((np.array([1.0]), 2.0), (np.array([-1.0]), 2.0))
_fits(
    "logistic regression", "PrivateLogisticRegression 2 classes", _zeros(10, 1), attainable=0.94,
    changes={"classes": (-1.0, 1.0), **_bounds}, effort=0.5,
    fits=lambda model, promise: not _public(model) and len(model.classes_) == 2,
)  # fmt: skip
_fits(
    "logistic regression, four classes", "PrivateLogisticRegression 4 classes",
    (np.ones((500, 1)), np.arange(500.0) % 4), _third, changes=_bounds, attainable=0.89, effort=0.2,
    fits=lambda model, promise: not _public(model) and len(model.classes_) > 2,
)  # fmt: skip
_fits(
    "logistic regression, public covariates", "PrivateLogisticRegression 3 classes",
    (np.ones((300, 1)), np.arange(300.0) % 3), _third, effort=0.5,
    changes={**_bounds, "public_X": np.ones((1, 1))},
)  # fmt: skip
# The canary's label decides the vote of its block, which moves by sqrt(2), and moves the last fit
# as far as a label can: all of mu^2.
_fits("search cv", "PrivateSearchCV", _zeros(10, 1), make=_search, effort=0.5)


def _named(model: str) -> Fits:
    return lambda scored, promise: scored.name == model


# The classifier is certain. Another label moves two counts, and Brier's sum from 0 to 1; a row that
# is predicted 1 and is 1, or -1, moves the sum of labels by 2 and those of errors by 1.
for _model in ("signs", "line"):
    _name = f"score_private {_model}"
    _fits(
        f"held-out score, {_model}", _name, _axes(10, 2), ((E1, -1.0), (E1, 1.0)),
        make=REGISTRY[_name].claiming,
        fits=_named(_model),
    )  # fmt: skip
