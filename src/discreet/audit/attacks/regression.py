"""Attacks on private regression under central trust: all rows are known but one, one of two.

The attacker sees every release inside the fit and takes their exact likelihood (`transcript.py`).
Coefficients are a function of those releases, if the fit keeps its promise: they stand beside the
likelihood as views of their own, so that noise which was booked but not used is noticed.

Why no attack here comes nearer than `attainable`: a fit adds up bounds on several statistics, and
no pair moves all of them as far as each can move. `realised` computes how far a pair does move
them, without statistics of attacks: attainable is its root mean square over 200 runs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import ATTACKS, Claim, attack, noise_of
from discreet.audit.transcript import Compared, compare
from discreet.privacy import Noise, SeededNoise
from discreet.regression import (
    AdaSSP,
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from discreet.regression.baselines import SSP, DPGradientDescent

Row = tuple[Array, float]  # features on the unit sphere, label
Rows = tuple[Array, Array]
Make = Callable[[Claim, Noise], Any]


def turned(cosine: float, towards: float = 0.0) -> tuple[Row, Row]:
    """Opposite labels, and features at this angle around the direction `towards`.

    Opposite labels move a moment most at angle 0; a Gram matrix moves most at a right angle.
    """
    half = math.acos(cosine) / 2
    angles = (towards + half, towards - half)
    first, second = (np.array([math.cos(angle), math.sin(angle)]) for angle in angles)
    return (first, -1.0), (second, 1.0)


LABELS = turned(1.0)
UNIT: dict[str, Any] = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}


def _zeros(n: int, dim: int = 2) -> Rows:
    return np.zeros((n, dim)), np.zeros(n)


def _axes(n: int, dim: int, length: float = 1.0, label: float = 0.0) -> Rows:
    """The same number of rows along each axis: a round Gram matrix."""
    return np.tile(length * np.eye(dim), (n // dim, 1)), np.full(n, label)


def _line(n: int) -> Rows:
    """Rows that teach the learner a line: against what it knows the canary is an outlier."""
    coins = np.random.default_rng(0)
    X = np.sign(coins.standard_normal((n, 1)))
    return X, np.clip(0.3 * X[:, 0] + 0.05 * coins.standard_normal(n), -1, 1)


@dataclass(frozen=True)
class Fit:
    """A learner, everybody's rows, and what the canary's may be.

    After `limit` releases a fit is cut short: rows of later batches are not the canary's.

    make     the learner, from its noise
    rows     everybody: features and labels
    pair     the canary's two rows, one in each neighbour
    places   where the canary stands among the rows
    limit    releases after which a fit is cut short; None: it runs to its end
    """

    make: Make
    rows: Rows
    pair: tuple[Row, Row]
    places: tuple[int, ...] = (0,)  # of the canary's rows: the first so many that are promised
    limit: int | None = None

    def comparing(self, claim: Claim) -> Callable[[int, Noise], Compared]:
        """Runs one fit in a neighbour; all releases, as both neighbours explain them."""
        X, y = self.rows
        neighbours = []
        for features, label in self.pair:
            other = X.copy()
            labels = y.copy()
            places = list(self.places[: claim.contributions])
            other[places], labels[places] = features[: X.shape[1]], label
            neighbours.append((other, labels))

        def run(which: int, source: Noise) -> Array:
            return np.ravel(self.make(claim, source).fit(*neighbours[which]).coef_)

        return lambda neighbour, noise: compare(run, neighbour, noise, self.limit)


FITS: dict[str, Fit] = {}


def realised(name: str, runs: int, seed: int = 0) -> float:
    """The fraction of mu that the pair of this attack reaches with infinitely many runs.

    The root mean square of mu, exact where later releases do not depend on earlier noise.
    """
    claim = ATTACKS[name].claim
    noise = noise_of(seed, 0)
    comparing = FITS[name].comparing(claim)
    squares = [comparing(i % 2, noise).mu ** 2 for i in range(runs)]
    return math.sqrt(np.mean(squares)) / claim.mu


def _fits(
    name: str, fit: Fit, attainable: float, effort: float = 1.0, contributions: int = 1
) -> None:
    FITS[name] = fit

    @attack(
        name,
        room="regression",
        kind="gaussian",
        attainable=attainable,
        effort=effort,
        contributions=contributions,
    )
    def fits(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """All releases of a fit by exact likelihood, and the coefficients; one row is replaced."""
        comparing = fit.comparing(claim)
        scores = []
        for _ in range(runs):
            seen = comparing(neighbour, noise)
            # A ratio of noisy sums has no variance; its arctan does, and tells the same.
            views = [] if seen.outcome is None else np.arctan(seen.outcome)
            scores.append([seen.log_ratio, *views])
        return np.array(scores)


def _linear(method: str, **options: Any) -> Make:
    return lambda claim, noise: PrivateLinearRegression(
        claim.epsilon,
        claim.delta,
        contributions=claim.contributions,
        method=method,
        noise=noise,
        random_state=0,
        **UNIT,
        **options,
    )


def _glm(method: str, **options: Any) -> Make:
    return lambda claim, noise: PrivateGLM(
        claim.epsilon,
        claim.delta,
        method=method,
        noise=noise,
        random_state=0,
        **{**UNIT, **options},
    )


def _classifier(classes: tuple[float, ...]) -> Make:
    return lambda claim, noise: PrivateLogisticRegression(
        claim.epsilon,
        claim.delta,
        classes=classes,
        norm_bound=1.0,
        coef_bound=0.05,
        fit_intercept=False,
        noise=noise,
        random_state=0,
    )


def _sum_of_labels(model: Any, X: Array, y: Array) -> float:
    """A score by which the sum of the labels chooses between two candidates."""
    return float(np.sum(y)) * (1.0 if model.norm_bound > 1 else -1.0)


def _search(claim: Claim, noise: Noise) -> Any:
    model = _linear("sgd")(claim, noise)
    grid = {"norm_bound": [1.0, 1.0 + 1e-9]}
    return PrivateSearchCV(model, grid, blocks=2, scoring=_sum_of_labels)


def _baseline(kind: Callable[..., Any], **options: Any) -> Make:
    return lambda claim, noise: kind(
        claim.epsilon, claim.delta, noise=noise, random_state=0, **UNIT, **options
    )


# The public order of the rows: a row that comes first is in the first release, and in no other.
FIRST = tuple(int(place) for place in np.random.default_rng(0).permutation(100))

# Stages: labels move the moments of each as far as they can, and no Gram matrix.
_fits(
    "linear regression information-weighted",
    Fit(_linear("information-weighted"), _line(6000), LABELS),
    attainable=0.9,
    effort=0.3,
)
# Few rows, at every epsilon: of mu^2 .81 is for moments, which labels move by 4 of 4.18 if the Gram
# matrix tells where rows are, as here it mostly does.
_fits(
    "linear regression information-weighted, few rows",
    Fit(_linear("information-weighted"), _line(10), LABELS),
    attainable=0.84,
    effort=0.2,
)
_fits(  # a sketch plans the clip, and Gram matrices weigh rows as steps do
    "linear regression information-weighted, few rows, sketched",
    Fit(_linear("information-weighted"), _line(1500), LABELS),
    attainable=0.88,
    effort=0.1,
)
_fits(
    "linear regression single-pass",
    Fit(_linear("single-pass"), _zeros(100), LABELS, FIRST[:1], limit=1),
    attainable=1.0,
)
_fits(
    "linear regression single-pass, three rows of one person",
    Fit(_linear("single-pass"), _zeros(100), LABELS, FIRST, limit=1),
    attainable=1.0,
    contributions=3,
)
# With c the cosine, .35 of mu^2 is moved by 1 - c^2 of itself and .65 by (4 + 2 c - 2 c^2) / 6:
# most at c = .19, .80 of mu^2.
_fits(
    "linear regression reweighted",
    Fit(_linear("reweighted"), _zeros(10), turned(0.19)),
    attainable=0.89,
)
_fits("linear regression sgd", Fit(_linear("sgd"), _zeros(10), LABELS), attainable=1.0)
_fits(
    "linear regression public covariates",
    Fit(
        _linear("public-covariates", public_X=_axes(1500, 1, 0.7)[0]),
        _axes(1500, 1, 0.7),
        LABELS,
    ),
    attainable=0.87,
    effort=0.4,
)
_fits("ssp", Fit(_baseline(SSP), _zeros(4), LABELS), attainable=1.0)
# A tenth of mu^2 goes to the least eigenvalue, moved by sqrt(1 - c^2) beside a long axis; nine
# tenths to second moments, moved by 1 - (1 - c)^2 / 4: most at c = .69, .93 of mu^2.
_fits(
    "adassp",
    Fit(_baseline(AdaSSP), (np.tile([1.0, 0.0], (10, 1)), np.zeros(10)), turned(0.69, math.pi / 4)),
    attainable=0.96,
)
_fits(
    "dp gradient descent",
    Fit(_baseline(DPGradientDescent, steps=10, learning_rate=1e-3), _zeros(4), LABELS),
    attainable=0.99,
)
# Opposite labels move the gradient fully and the information not at all: 1/(1 + GRAM_COST/2) of
# mu^2. A small coef_bound keeps the mean near 1/2, where both labels surprise alike.
_fits(
    "glm newton",
    Fit(_glm("newton", coef_bound=0.05), _zeros(10, 1), LABELS),
    attainable=0.94,
    effort=0.6,
)
_fits(  # the stages of linear regression
    "glm identity",
    Fit(_glm("newton", link="identity"), _line(6000), LABELS),
    attainable=0.9,
    effort=0.3,
)
COUNTS = np.tile(np.arange(0.0, 5.0), 200)
# Counts around 2 teach the mean; the canary's are at the bound, on rows of opposite directions:
# both are clipped, and move every gradient by nearly 2 S.
_fits(
    "glm counts",
    Fit(
        _glm("newton", link="poisson", label_bound=100.0),
        (np.ones((1000, 1)), COUNTS),
        ((np.array([1.0]), 100.0), (np.array([-1.0]), 100.0)),
    ),
    attainable=0.93,
    effort=0.6,
)
# The same for two classes. For more, opposite rows of one class: 1/(1 + GRAM_COST) of mu^2, among
# rows of all classes, from which the frame is learned.
_fits(
    "logistic regression",
    Fit(_classifier((-1.0, 1.0)), _zeros(10, 1), LABELS),
    attainable=0.94,
    effort=0.6,
)
_fits(
    "logistic regression, four classes",
    Fit(
        _classifier((0.0, 1.0, 2.0, 3.0)),
        (np.ones((500, 1)), np.arange(500.0) % 4),
        ((np.array([1.0]), 2.0), (np.array([-1.0]), 2.0)),
    ),
    attainable=0.89,
    effort=0.6,
)
# The canary's label decides the vote of its block, which moves by sqrt(2), and moves the last fit
# as far as a label can: all of mu^2.
_fits(
    "search cv",
    Fit(_search, _zeros(10, 1), LABELS),
    attainable=1.0,
    effort=0.1,
)
# With c the cosine, .4 of mu^2 is for Gram matrices, moved by 1 - c^2 of itself, and .6 for the
# minimiser, moved by (1 + c)/2 where the frame fits the rows: most at c = .375, .76 of mu^2.
_fits(
    "glm erm",
    Fit(_glm("erm", coef_bound=0.1), _axes(500, 2, label=0.5), turned(0.375)),
    attainable=0.83,
    effort=0.4,
)
# Private rows half as long as the public ones that made the frame: the curvature is at the edge.
# The frame costs nothing here and labels do not move H, a fifth: .8 of mu^2 is left.
_fits(
    "glm erm public covariates",
    Fit(
        _glm("erm", coef_bound=0.02, public_X=_axes(2000, 1)[0]),
        _axes(2000, 1, 0.485, 0.5),
        LABELS,
    ),
    attainable=0.89,
    effort=0.3,
)
_fits("glm sgd", Fit(_glm("sgd"), _zeros(100), turned(0.0), FIRST[:1], limit=1), attainable=1.0)
