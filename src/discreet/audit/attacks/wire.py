"""Reports on the wire: one of each person, from learners whose every person is the canary.

What a channel sent is scored by its density, so that a test has no threshold to guess, or as the
number that it is. Either a learner of the registry lives among people who are all the same, and
thousands of them are one simulation; or one question of the protocol is asked of the device's code.
"""

from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attacks.regression import LABELS, Row
from discreet.audit.entries import Session
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, Draw, Fits, attack
from discreet.audit.views import each, in_crowds, log_ratio, rounded
from discreet.bandits import LocalServer
from discreet.links import LINKS
from discreet.local.questions import Question, answer
from discreet.local.report import report_many
from discreet.local.state import PublicState
from discreet.online.feedback import Reports
from discreet.privacy import BallChannel, SeededNoise
from discreet.privacy.release import observed, values
from discreet.regression import PrivateLinearRegression
from discreet.regression.local import PREDICTION_BOUND

E1, E2 = ISOTROPIC = np.eye(2)
PEOPLE = 4000
Answers = tuple[Any, Any]


def wire(
    name: str,
    entry: str,
    pair: tuple[Any, Any],
    answers: Answers | None = None,
    *also: type,
    fits: Fits | None = None,
    contributions: int = 1,
    **changes: Any,
) -> None:
    """`pair`: the record of everybody; `answers`: what channels of vectors are given for it."""
    known = REGISTRY[entry]

    def heard(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
        """Everybody is the same person: reports until a question depends on earlier ones."""
        session = Session(known.claiming(claim, noise, **changes))
        people = min(PEOPLE, getattr(session.subject, "rounds_until_release", PEOPLE))
        with observed("report") as seen:
            if hasattr(session.subject, "decide_many"):
                features, reward = pair[neighbour]
                made = session.subject.decide_many(np.tile(features, (people, 1, 1)))
                session.subject.learn_many(made, np.full(people, reward))
            else:
                for _, _, step in known.steps([pair[neighbour]] * people):
                    step(session)
        if answers is None:
            return np.concatenate([np.ravel(each) for each in values(seen)])
        channel = BallChannel(2, claim.epsilon, contributions=claim.contributions)
        # The answers of one window or batch, of the first question that is asked for vectors.
        sent = [each for each in values(seen) if each.shape[1:] == (2,)]
        first = sent if hasattr(session.subject, "learn") else sent[:1]
        return log_ratio(channel, np.concatenate(first), answers)

    room = known.of.__module__.split(".")[1]
    attack(name, known.of, *also, room=room, kind="pure", contributions=contributions,
           fits=fits or known.resembles)(in_crowds(heard))  # fmt: skip


def _reporting(learner: Any, promise: Any) -> bool:
    return issubclass(learner.heard_by, Reports)


LOSSES = (0.0, 1.0)
wire("adversarial bandit local", "AdversarialBandit local", LOSSES, fits=_reporting, horizon=PEOPLE)
for _name, _entry in {"": "ball local", " on a polytope": "polytope"}.items():
    wire(f"barrier bandit local{_name}", f"BarrierBandit {_entry}", (-1.0, 1.0), horizon=PEOPLE)
wire("private reduction", "PrivateReduction", LOSSES)

REWARDS = ((E1[None], -1.0), (E1[None], 1.0))
AT_ZERO: dict[str, Any] = {"horizon": 10**5}  # at theta = 0 rewards and gradients are 1 long
wire("linear bandit local", "LinearBandit local ucb", REWARDS, (-E1, E1), LocalServer, **AT_ZERO,
     reward_range=(-1.0, 1.0))  # fmt: skip
wire("local linucb", "LocalLinUCB", REWARDS, (-E1, E1), **AT_ZERO)
wire("local sgd bandit", "LocalSGDBandit", REWARDS, (E1, -E1), **AT_ZERO)
wire("local linucb, three reports of one user", "LocalLinUCB", REWARDS, (-E1, E1), contributions=3,
     **AT_ZERO)  # fmt: skip

LOCAL = "PrivateLinearRegression local"
wire("local regression known covariates", f"{LOCAL} known-covariates", LABELS, (-E1, E1),
     public_X=[[1.0, 0.0], [0.0, 0.5]])  # fmt: skip
# The first gradients, at theta = 0, fill the channel's ball.
wire("local regression sgd", f"{LOCAL} sgd", LABELS, (E1, -E1))
for _link in LINKS:
    # At theta = 0 the least label surprises as much as any; opposite rows move it most.
    _least = -1.0 if _link == "identity" else 0.0
    wire(f"local glm, {_link}", f"PrivateGLM {_link} local sgd", ((E1, _least), (-E1, _least)),
         (E1, -E1), public_X=[[1.0, 0.0]])  # fmt: skip


def _question(
    kind: str, pair: tuple[Row, Row], theta: Array = 0 * E1, whitening: Array = ISOTROPIC,
    clip: float = 1.0,
) -> Draw:  # fmt: skip
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


_local = REGISTRY[f"{LOCAL} information-weighted"].resembles
QUESTIONS: dict[str, Draw] = {
    "moment report": _question("moment", LABELS),
    "moment report, three of one person": _question("moment", LABELS),
    # theta is known better, residuals are cut earlier and the whitening is stretched.
    "moment report, later phase": _question("moment", LABELS, 0.5 * E1, np.diag([3.0, 1.0]), 0.1),
    # Gram answers are never opposite; orthogonal ones differ by e^epsilon on part of the sphere.
    "gram report": _question("gram", ((E2, 1.0), (E1, 1.0))),
    "scale report": _question("within", ((E1, 1.0), (E1, 0.0)), clip=0.5),
}
for _name, _draw in QUESTIONS.items():
    attack(f"local regression {_name}", PrivateLinearRegression, room="regression", kind="pure",
           fits=_local, contributions=3 if "three" in _name else 1)(_draw)  # fmt: skip
# Bandits ask the same but for the scale: there it is the square of a residual.
attack("local bandit scale report", room="bandits", kind="pure")(
    _question("square", ((E1, 0.0), (E1, 1.0)), clip=0.5)
)

CROWD = 1000  # people: two batches at epsilon = 1


# Near theta = 1: (1 - 0)/(1 - tanh(1/2)) = e^.62 at epsilon = 1.
@attack("local regression sgd, last batch", PrivateLinearRegression, room="regression", kind="pure",
        fits=REGISTRY[f"{LOCAL} sgd"].resembles, attainable=0.62)  # fmt: skip
@each
def last_batch(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """Everybody else pulls theta to 1, so that the canary's gradient is 0 or fills the ball."""
    y = np.ones(CROWD)
    canary = np.random.default_rng(0).permutation(CROWD)[-1]  # the last in the public order
    y[canary] = (-1.0, 1.0)[neighbour]
    with observed("report") as heard:
        sgd = REGISTRY[f"{LOCAL} sgd"]
        sgd.claiming(claim, noise, random_state=0).fit(np.ones((CROWD, 1)), y)
    theta = 0.0
    for batch in values(heard[:-1]):
        theta -= (min(PREDICTION_BOUND, abs(theta)) + 1) * float(batch.mean())
    guess = np.clip(theta, -PREDICTION_BOUND, PREDICTION_BOUND)
    answers = [np.array([guess - label]) / (abs(guess) + 1) for label in (-1.0, 1.0)]
    sent = np.asarray(heard[-1].value[-1:])
    return float(rounded(log_ratio(BallChannel(1, claim.epsilon), sent, answers))[0])
