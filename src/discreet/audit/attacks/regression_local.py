"""Attacks on private regression under local trust: the attacker hears the canary's report.

What a channel sent is scored by its density, so that a test has no threshold to guess. Either the
device's own code is asked (`report_many`), or everybody in a fit is the same person and the wire is
tapped: one fit is then thousands of runs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.audit.attacks.regression import LABELS, Row
from discreet.local import PublicState, Question, report_many
from discreet.local.questions import Channel, answer
from discreet.privacy import BallChannel, SeededNoise, SymmetricChannel
from discreet.privacy.mechanisms import symmetric_to_vector
from discreet.privacy.observation import observed, values
from discreet.regression import PrivateGLM, PrivateLinearRegression
from discreet.regression.local import PREDICTION_BOUND

E1, E2 = ISOTROPIC = np.eye(2)
ORIGIN = np.zeros(2)
PEOPLE = 4000


def log_ratio(channel: Channel, sent: Array, answers: list[Any]) -> Array:
    """log density of reports, under the second answer against the first."""
    if isinstance(channel, SymmetricChannel):
        answers = [symmetric_to_vector(each) for each in answers]
        sent, channel = symmetric_to_vector(sent), channel.vectors
    ratio = channel.log_density(sent, answers[1]) - channel.log_density(sent, answers[0])
    return np.round(ratio, 9)  # equal up to rounding is equal


def _question(
    name: str,
    kind: str,
    pair: tuple[Row, Row],
    *,
    theta: Array = ORIGIN,
    whitening: Array = ISOTROPIC,
    clip: float = 1.0,
    contributions: int = 1,
    room: str = "regression",
) -> None:
    @attack(name, room=room, kind="pure", contributions=contributions)
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
        labels = np.full(count, label)
        batches = report_many(rows, labels, state, np.zeros(count), noise)
        sent = np.concatenate([batch.values for batch in batches])
        ratio = log_ratio(state.channels[kind], sent, answers)
        return np.asarray(ratio.reshape(runs, reports).sum(axis=1))


_question("local regression moment report", "moment", LABELS)
_question("local regression moment report, three of one person", "moment", LABELS, contributions=3)
# Later phases: theta is known better, residuals are cut earlier and the whitening is stretched.
_question(
    "local regression moment report, later phase",
    "moment",
    LABELS,
    theta=0.5 * E1,
    whitening=np.diag([3.0, 1.0]),
    clip=0.1,
)
# Two Gram answers are never opposite; orthogonal ones differ by e^epsilon on part of the sphere.
_question("local regression gram report", "gram", ((E2, 1.0), (E1, 1.0)))
_question("local regression scale report", "within", ((E1, 1.0), (E1, 0.0)), clip=0.5)
# Bandits ask the same but for the scale: there it is the square of a residual.
_question("local bandit scale report", "square", ((E1, 0.0), (E1, 1.0)), clip=0.5, room="bandits")


def _wiretapped(
    name: str,
    make: Callable[[Claim, SeededNoise], Any],
    channel: Callable[[Claim], Channel],
    pair: tuple[Row, Row],
    answers: list[Any],
    *,
    attainable: float = 1.0,
    call: int = 0,
) -> None:
    @attack(name, room="regression", kind="pure", attainable=attainable)
    def wiretap(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Everybody is the same person; the wire carries one report of each, heard in one fit."""
        (features, label), scores, count = pair[neighbour], list[Array](), 0
        while count < runs:
            with observed("report") as heard:
                make(claim, noise).fit(np.tile(features, (PEOPLE, 1)), np.full(PEOPLE, label))
            # One batch alone, of people who answer what was public before anyone reported.
            scores.append(log_ratio(channel(claim), heard[call].value, answers))
            count += len(scores[-1])
        return np.concatenate(scores)[:runs]


def _fit(kind: Callable[..., Any], **options: Any) -> Callable[[Claim, SeededNoise], Any]:
    return lambda claim, noise: kind(
        claim.epsilon, trust="local", noise=noise, random_state=0, **options
    )


_wiretapped(
    "local regression known covariates",
    _fit(PrivateLinearRegression, method="known-covariates", public_X=[[1.0, 0.0], [0.0, 0.5]]),
    lambda claim: BallChannel(2, claim.epsilon),
    LABELS,
    [-E1, E1],
)
_wiretapped(
    "local regression sgd",
    _fit(PrivateLinearRegression, method="sgd"),
    lambda claim: BallChannel(2, claim.epsilon),
    LABELS,
    [E1, -E1],  # the first gradients, at theta = 0, fill the channel's ball
)
CROWD = 1000  # people: two batches at epsilon = 1


@attack("local regression sgd, last batch", room="regression", kind="pure", attainable=0.62)
def last_batch(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Everybody else pulls theta to 1, so that the canary's gradient is 0 or fills the ball."""
    # Near theta = 1: (1 - 0)/(1 - tanh(1/2)) = e^.62 at epsilon = 1.
    X, y = np.ones((CROWD, 1)), np.ones(CROWD)
    canary = np.random.default_rng(0).permutation(CROWD)[-1]  # the last in the public order
    y[canary] = (-1.0, 1.0)[neighbour]
    channel = BallChannel(1, claim.epsilon)
    learner = _fit(PrivateLinearRegression, method="sgd")
    scores = np.empty(runs)
    for run in range(runs):
        with observed("report") as heard:
            learner(claim, noise).fit(X, y)
        theta = 0.0
        for batch in values(heard[:-1]):
            theta -= (min(PREDICTION_BOUND, abs(theta)) + 1) * float(batch.mean())
        guess = np.clip(theta, -PREDICTION_BOUND, PREDICTION_BOUND)
        answers = [np.array([guess - label]) / (abs(guess) + 1) for label in (-1.0, 1.0)]
        scores[run] = log_ratio(channel, heard[-1].value[-1:], answers)[0]
    return scores


_wiretapped(
    "local glm",
    _fit(PrivateGLM, public_X=[[1.0, 0.0]]),
    lambda claim: BallChannel(2, claim.epsilon),
    LABELS,
    [E1, -E1],
)
