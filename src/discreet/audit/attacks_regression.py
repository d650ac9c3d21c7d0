"""Attacks on private regression: everybody's rows are known but one, which is one of two.

Central trust: the attacker sees every release inside the fit, not only the coefficients, and takes
their exact likelihood (`transcript.py`); coefficients are a function of those releases. Local
trust: the attacker hears the canary's report.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.audit.transcript import likelihood_ratio
from discreet.audit.wire import listening
from discreet.privacy import Noise, SeededNoise
from discreet.privacy.checks import Array
from discreet.regression import AdaSSP, PrivateGLM, PrivateLinearRegression
from discreet.regression.baselines import SSP, DPGradientDescent
from discreet.regression.local_protocol import PublicState, answer, report

E1, E2 = np.eye(2)
Row = tuple[Array, float]  # features on the unit sphere, label
LABELS: tuple[Row, Row] = ((E1, -1.0), (E1, 1.0))  # opposite labels
AXES: tuple[Row, Row] = ((E2, 1.0), (E1, 1.0))  # orthogonal features: the Gram matrix's worst
Make = Callable[[Claim, Noise], Any]


def _zeros(n: int) -> tuple[Array, Array]:
    return np.zeros((n, 2)), np.zeros(n)


def _line(n: int) -> tuple[Array, Array]:
    """Rows that teach the learner a line: against what it knows the canary is an outlier."""
    coins = np.random.default_rng(0)
    X = np.sign(coins.standard_normal((n, 1)))
    return X, np.clip(0.3 * X[:, 0] + 0.05 * coins.standard_normal(n), -1, 1)


def _fits(
    name: str,
    make: Make,
    pair: tuple[Row, Row],
    rows: tuple[Array, Array],
    *,
    place: int = 0,
    limit: int | None = None,
    near: float = 1.0,
    effort: float = 1.0,
) -> None:
    X, y = rows

    @attack(name, room="regression", kind="gaussian", near=near, effort=effort)
    def fits(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
        """All releases of a fit, by exact likelihood; one row is replaced by its worst opposite."""
        pairs = []
        for features, label in pair:
            other, labels = X.copy(), y.copy()
            other[place], labels[place] = features[: X.shape[1]], label
            pairs.append((other, labels))

        def run(which: int, source: Noise) -> None:
            make(claim, source).fit(*pairs[which])

        return np.array([likelihood_ratio(run, world, noise, limit) for _ in range(runs)])


def _linear(method: str) -> Make:
    return lambda claim, noise: PrivateLinearRegression(
        claim.epsilon, claim.delta, method=method, noise=noise, random_state=0
    )


def _glm(method: str, **options: Any) -> Make:
    return lambda claim, noise: PrivateGLM(
        claim.epsilon, claim.delta, method=method, noise=noise, random_state=0, **options
    )


# The public order of the rows: a row that comes first is in the first release, and in no other.
FIRST = int(np.random.default_rng(0).permutation(60)[0])

_fits(
    "linear regression information-weighted",
    _linear("information-weighted"),
    LABELS,
    _line(500),
    near=0.88,
    effort=0.3,
)
_fits(
    "linear regression single-pass",
    _linear("single-pass"),
    LABELS,
    _zeros(60),
    place=FIRST,
    limit=1,
)
_fits("linear regression reweighted", _linear("reweighted"), AXES, _zeros(10), near=0.88)
_fits("linear regression sgd", _linear("sgd"), LABELS, _zeros(10))
_fits(
    "linear regression public covariates",
    lambda claim, noise: PrivateLinearRegression(
        claim.epsilon,
        claim.delta,
        method="public-covariates",
        public_X=_line(500)[0],
        noise=noise,
        random_state=0,
    ),
    LABELS,
    _line(500),
    effort=0.4,
)
_fits(
    "ssp",
    lambda claim, noise: SSP(claim.epsilon, claim.delta, noise=noise, random_state=0),
    LABELS,
    _zeros(4),
)
_fits(
    "adassp",
    lambda claim, noise: AdaSSP(claim.epsilon, claim.delta, noise=noise, random_state=0),
    LABELS,
    _zeros(4),
    near=0.95,
)
_fits(
    "dp gradient descent",
    lambda claim, noise: DPGradientDescent(
        claim.epsilon, claim.delta, steps=10, learning_rate=1e-3, noise=noise, random_state=0
    ),
    LABELS,
    _zeros(4),
)
_fits("glm newton", _glm("newton"), LABELS, _zeros(60))
# Output perturbation is calibrated by a bound on how far the minimiser can move; it moves less.
_fits("glm erm", _glm("erm", coef_bound=1.0), AXES, _zeros(60))
_fits("glm sgd", _glm("sgd"), AXES, _zeros(60), place=FIRST, limit=1)


def _question(question: str, pair: tuple[Row, Row], near: float) -> None:
    @attack(f"local regression {question} report", room="regression", kind="pure", near=near)
    def one_report(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
        """One report as the device sends it; the score is along the two answers' difference."""
        state = PublicState.start(question, dim=2, epsilon=claim.epsilon)
        answers = [answer(x[None], np.array([y]), state).ravel() for x, y in pair]
        features, label = pair[world]
        sent = report(np.tile(features, (runs, 1)), np.full(runs, label), state, noise).values
        return np.round(sent.reshape(runs, -1) @ (answers[1] - answers[0]), 9)


_question("moment", LABELS, 1.0)
_question("gram", AXES, 1.0)  # two Gram answers are never opposite


def _wiretapped(name: str, make: Make, people: int, near: float) -> None:
    @attack(name, room="regression", kind="pure", near=near)
    def wiretap(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
        """Everybody is the same person; the wire carries one report of each, heard in one fit."""
        features, label = LABELS[world]
        scores: list[Array] = []
        while sum(map(len, scores)) < runs:
            with listening() as heard:
                make(claim, noise).fit(np.tile(features, (people, 1)), np.full(people, label))
            # Vectors of the first batch alone: later questions depend on earlier reports.
            first = next(sent for sent in heard if sent.shape[-1] == 2)
            scores.append(first @ E1)
        return np.concatenate(scores)[:runs]


_wiretapped(
    "local regression sgd",
    lambda claim, noise: PrivateLinearRegression(
        claim.epsilon, trust="local", method="sgd", noise=noise, random_state=0
    ),
    4000,
    1 / 3,  # a gradient is at most REACH + 1 = 3 long, the first one 1
)
_wiretapped(
    "local glm",
    lambda claim, noise: PrivateGLM(
        claim.epsilon, trust="local", public_X=[[1.0, 0.0]], noise=noise, random_state=0
    ),
    4000,
    1.0,
)
