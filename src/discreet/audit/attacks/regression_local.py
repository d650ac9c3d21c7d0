"""Attacks on private regression under local trust: the attacker hears the canary's report.

What a channel sent is scored by its density, so that a test has no threshold to guess. Either the
device's own code is asked (`report_many`), or everybody in a fit is the same person and the wire is
tapped: one fit is then thousands of runs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attacks.regression import LABELS, Row
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, Fits, attack
from discreet.audit.views import each, log_ratio, rounded, wiretapped
from discreet.links import LINKS
from discreet.local.questions import Question, answer
from discreet.local.report import report_many
from discreet.local.state import PublicState
from discreet.privacy import BallChannel, SeededNoise
from discreet.privacy.observation import observed, values
from discreet.regression import PrivateLinearRegression
from discreet.regression.local import PREDICTION_BOUND

E1, E2 = ISOTROPIC = np.eye(2)
ORIGIN = np.zeros(2)
PEOPLE = 4000


def _linked(link: str) -> Fits:
    return lambda model, promise: promise.trust == "local" and model.link == link


def _local(method: str) -> Fits:
    return lambda model, promise: promise.trust == "local" and model.method_ == method


regression = partial(attack, room="regression", kind="pure")
phases = partial(regression, fits=_local("information-weighted"))


def _question(
    kind: str,
    pair: tuple[Row, Row],
    *,
    theta: Array = ORIGIN,
    whitening: Array = ISOTROPIC,
    clip: float = 1.0,
) -> Callable[[Claim, int, int, SeededNoise], Array]:
    def one_person(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """What one device sends to a question of the protocol, by exact likelihood."""
        reports = claim.contributions
        question = Question(kind, kind, clip, 1.0)
        state = PublicState(
            window=0,
            theta=theta,
            whitening=whitening,
            questions=(question,),
            epsilon=claim.epsilon,
            contributions=reports,
        )
        answers = [answer(x[None], np.array([y]), question, theta, whitening)[0] for x, y in pair]
        features, label = pair[neighbour]
        count = runs * reports
        rows = np.tile(features, (count, 1))
        batches = report_many(rows, np.full(count, label), state, np.zeros(count), noise)
        sent = np.concatenate([batch.values for batch in batches])
        ratio = rounded(log_ratio(state.channels[kind], sent, answers))
        return np.asarray(ratio.reshape(runs, reports).sum(axis=1))

    return one_person


phases("local regression moment report", PrivateLinearRegression)(_question("moment", LABELS))
phases(
    "local regression moment report, three of one person", PrivateLinearRegression, contributions=3
)(_question("moment", LABELS))
# Later phases: theta is known better, residuals are cut earlier and the whitening is stretched.
phases("local regression moment report, later phase", PrivateLinearRegression)(
    _question("moment", LABELS, theta=0.5 * E1, whitening=np.diag([3.0, 1.0]), clip=0.1)
)
# Two Gram answers are never opposite; orthogonal ones differ by e^epsilon on part of the sphere.
phases("local regression gram report", PrivateLinearRegression)(
    _question("gram", ((E2, 1.0), (E1, 1.0)))
)
phases("local regression scale report", PrivateLinearRegression)(
    _question("within", ((E1, 1.0), (E1, 0.0)), clip=0.5)
)
# Bandits ask the same but for the scale: there it is the square of a residual.
attack("local bandit scale report", room="bandits", kind="pure")(
    _question("square", ((E1, 0.0), (E1, 1.0)), clip=0.5)
)


def _wiretapped(
    name: str,
    entry: str,
    answers: list[Any],
    fits: Fits,
    pair: tuple[Row, Row] = LABELS,
    **changes: Any,
) -> None:
    known = REGISTRY[entry]

    def fit(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> None:
        """Everybody is the same person; the wire carries one report of each, heard in one fit."""
        features, label = pair[neighbour]
        model = known.claiming(claim, noise, random_state=0, **changes)
        model.fit(np.tile(features, (PEOPLE, 1)), np.full(PEOPLE, label))

    def read(claim: Claim, heard: list[Array]) -> Array:
        # The first batch alone: its people answer what was public before anyone reported.
        return rounded(log_ratio(BallChannel(2, claim.epsilon), heard[0], answers))

    regression(name, known.of, fits=fits)(wiretapped(fit, read))


_wiretapped(
    "local regression known covariates",
    "PrivateLinearRegression local known-covariates",
    [-E1, E1],
    _local("known-covariates"),
    public_X=[[1.0, 0.0], [0.0, 0.5]],
)
# The first gradients, at theta = 0, fill the channel's ball.
_wiretapped("local regression sgd", "PrivateLinearRegression local sgd", [E1, -E1], _local("sgd"))
for _link in LINKS:
    # At theta = 0 the least label surprises as much as any; opposite rows move it most.
    _least = -1.0 if _link == "identity" else 0.0
    _wiretapped(
        f"local glm, {_link}",
        f"PrivateGLM {_link} local sgd",
        [E1, -E1],
        _linked(_link),
        ((E1, _least), (-E1, _least)),
        public_X=[[1.0, 0.0]],
    )
CROWD = 1000  # people: two batches at epsilon = 1


@regression(
    "local regression sgd, last batch", PrivateLinearRegression, fits=_local("sgd"), attainable=0.62
)
@each
def last_batch(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """Everybody else pulls theta to 1, so that the canary's gradient is 0 or fills the ball."""
    # Near theta = 1: (1 - 0)/(1 - tanh(1/2)) = e^.62 at epsilon = 1.
    y = np.ones(CROWD)
    canary = np.random.default_rng(0).permutation(CROWD)[-1]  # the last in the public order
    y[canary] = (-1.0, 1.0)[neighbour]
    with observed("report") as heard:
        sgd = REGISTRY["PrivateLinearRegression local sgd"]
        sgd.claiming(claim, noise, random_state=0).fit(np.ones((CROWD, 1)), y)
    theta = 0.0
    for batch in values(heard[:-1]):
        theta -= (min(PREDICTION_BOUND, abs(theta)) + 1) * float(batch.mean())
    guess = np.clip(theta, -PREDICTION_BOUND, PREDICTION_BOUND)
    answers = [np.array([guess - label]) / (abs(guess) + 1) for label in (-1.0, 1.0)]
    sent = np.asarray(heard[-1].value[-1:])
    return float(rounded(log_ratio(BallChannel(1, claim.epsilon), sent, answers))[0])
