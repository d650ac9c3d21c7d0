"""Locally private regression as a protocol: what a device sends, and what a server may do with it.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 2 and 3, with residuals instead of labels.

    paper   U       Phi_t, V_t   psi_t      H_(k)  psi^     theta_(k)
    here    frame   gram         moment     tally of gram, moment   theta

A fit is a sequence of rounds. In each, the server publishes questions (`PublicState`), every
person answers one of them, once (`report`), and the server adds the answers up (`Server`). It keeps
sums only and has no way to take a record: `Server.aggregate` accepts a `Report`.

With z = frame phi, residual r = y - <phi, theta> and reach R(phi) = clip max(1, |z|), people report

    gram     z z^T / (|z| max(1, |z|)) 1{|r| <= R}      mean H
    moment   z/|z| clip(r / R, +-1)                     mean H frame^-1 (theta* - theta) / clip
    scale    1{|r| <= clip}, for several clips          gives the next clip

so that moment = H w / clip for w = frame^-1 (theta* - theta), and w has a posterior. Where nothing
is known yet the frame is large, the report has full length and R covers the error of theta; where
theta is good, R is about the errors' own size. The noise shrinks with it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.privacy import BallChannel, IntervalChannel, Noise, SymmetricChannel
from discreet.privacy.checks import Array, finite, one_of, positive, row_norms, whole
from discreet.regression.base import Estimate
from discreet.regression.matrices import power
from discreet.regression.tally import Tally as Tally

PHASES = (0.1, 0.15, 0.25, 0.5)  # share of the people
GRAM = (0.5, 0.5, 0.4, 0.2)  # of them, who report the Gram term
CLIP = (1.0, 2.0, 2.0, 1.5)  # reach in deviations; below 1.5 the slope costs what the noise saves
CLIP_KNOWN = (1.0, 2.5, 2.5, 2.5)  # without Gram reports nobody measures the slope: keep it near 1
SCALE = 0.1  # of a later phase's people
LEVELS = 2.0 ** -np.arange(6, -1, -1)  # clips that "scale" tries, as a share of the label bound
COVER = 1.5  # deviations of theta's error within the reach
QUESTIONS = ("gram", "moment", "scale")
SHRINK = 0.3  # of the eigenvalues' noise; more loses rare directions
HEAVY = 5.0  # deviations that should hold all but 2% of residuals; a normal law needs 2.3


@dataclass(frozen=True)
class PublicState:
    """All that a device needs to know to answer: a question, and what was published so far.

    >>> state = PublicState.start("moment", dim=2, epsilon=1.0)
    >>> from discreet.privacy import SeededNoise
    >>> report([[0.6, 0.8]], [0.5], state, SeededNoise(0)).values.shape
    (1, 2)
    """

    question: str
    theta: Array  # (d,)
    frame: Array  # (d, d), symmetric
    clip: float
    epsilon: float
    contributions: int = 1
    round: int = 0
    number: int = 0  # of the question within the round

    def __post_init__(self) -> None:
        one_of("question", self.question, QUESTIONS)
        positive("clip", self.clip)

    @classmethod
    def start(
        cls, question: str, *, dim: int, epsilon: float, contributions: int = 1
    ) -> "PublicState":
        """What is public before anyone has reported: nothing but bounds."""
        return cls(question, np.zeros(dim), np.eye(dim), 1.0, epsilon, contributions)

    @property
    def channel(self) -> BallChannel | IntervalChannel | SymmetricChannel:
        """What the answer goes through before it leaves the device."""
        k = self.contributions
        if self.question == "gram":
            return SymmetricChannel(len(self.theta), self.epsilon, contributions=k)
        if self.question == "scale":
            return IntervalChannel(self.epsilon, low=0.0, high=1.0, contributions=k)
        return BallChannel(len(self.theta), self.epsilon, contributions=k)


@dataclass(frozen=True)
class Report:
    """Answers that have left their devices, already private: (n, d, d), (n, d) or (n,)."""

    round: int
    number: int
    values: Array


def answer(X: Array, y: Array, state: PublicState) -> Array:
    """The answers before the channel: every one has norm at most 1, whatever X and y are."""
    X, y = np.clip(X, -1.0, 1.0), np.clip(y, -1.0, 1.0)  # nothing inside the bounds is changed
    residual = y - X @ state.theta
    if state.question == "scale":
        return (np.abs(residual) <= state.clip).astype(np.float64)
    z = X @ state.frame
    length = row_norms(z, "l2")
    unit = z / np.where(length == 0, 1.0, length)[:, None]  # 0 at phi = 0
    longer = np.maximum(length, 1.0)
    reach = state.clip * longer
    if state.question == "gram":
        # |u u^T|_F = 1, |z| / max(1, |z|) <= 1, and an indicator.
        weight = length / longer * (np.abs(residual) <= reach)
        return np.asarray(unit[:, :, None] * (unit * weight[:, None])[:, None, :])
    return np.asarray(unit * np.clip(residual / reach, -1.0, 1.0)[:, None])  # |u| <= 1


def report(
    X: ArrayLike, y: ArrayLike, state: PublicState, noise: Noise | None = None
) -> Report:  # (n, d), (n,) -> one answer for each person
    """What a device sends (n = 1), or n devices: epsilon-DP before anyone sees it."""
    rows, labels = finite("X", X), finite("y", y)
    if rows.ndim != 2 or rows.shape[1] != len(state.theta) or labels.shape != rows.shape[:1]:
        raise ValueError(
            f"expected X of shape (n, {len(state.theta)}) and y of shape (n,), "
            f"got {rows.shape} and {labels.shape}"
        )
    # clip=True shortens what rounding made longer than 1; nothing else is.
    values = state.channel.privatize(answer(rows, labels, state), noise, clip=True)
    return Report(state.round, state.number, values)


class Server:
    """Asks, adds up, estimates; sees reports only.

    The prior is theta ~ N(0, I/d). With public covariates nobody reports the Gram term.

    >>> server = Server(2, people=1000, epsilon=1.0)
    >>> [(state.question, people) for state, people in server.ask()]
    [('gram', 50), ('moment', 50)]
    """

    def __init__(
        self,
        dim: int,
        people: int,
        epsilon: float,
        *,
        contributions: int = 1,
        public_X: Array | None = None,
        frame: Array | None = None,
    ) -> None:
        self.dim, self.people = whole("dim", dim), whole("people", people)
        self.epsilon = positive("epsilon", epsilon, allow_inf=True)
        self.contributions = whole("contributions", contributions)
        self._public = public_X
        self._clips = CLIP if public_X is None else CLIP_KNOWN
        self._theta, self._covariance = np.zeros(dim), np.eye(dim) / dim
        self._frame = np.eye(dim) if frame is None else frame / np.linalg.norm(frame, 2)
        self._first = self._theta, self._covariance  # learned without clipping
        self._deviation, self._heavy = 1.0, False
        self._rounds = [(0, "fit")]
        self._rounds += [(k, step) for k in range(1, len(PHASES)) for step in ("scale", "fit")]
        self._round = 0
        self._open()

    @property
    def done(self) -> bool:
        """Whether all rounds are over."""
        return self._round == len(self._rounds)

    @property
    def phase(self) -> int:
        """The phase of the open round."""
        return self._rounds[self._round][0]

    def ask(self) -> list[tuple[PublicState, int]]:
        """The open round's questions, each with the number of people who shall answer it."""
        return list(self._asked)

    def aggregate(self, report: Report) -> None:
        """Add reports on a question of the open round."""
        if not isinstance(report, Report):
            raise TypeError(f"the server takes a Report, never records: {type(report).__name__}")
        self._open_tally(report.round, report.number).add(report.values)

    def absorb(self, tally: Tally, state: PublicState) -> None:
        """Add reports on an open question that were added up elsewhere, from files say."""
        self._open_tally(state.round, state.number).merge(tally)

    def close(self) -> None:
        """End the round: learn from its sums, and publish the next questions."""
        if self.done:
            raise ValueError("all rounds are over; read the estimate")
        if self._rounds[self._round][1] == "scale":
            self._rescale()
        else:
            self._learn()
        self._round += 1
        self._open()

    def estimate(self) -> Estimate:
        """theta and the covariance of its error, after the rounds closed so far."""
        return Estimate(self._theta.copy(), self._covariance.copy())

    # -- asking -----------------------------------------------------------------------------------

    def _open(self) -> None:
        self._asked: list[tuple[PublicState, int]] = []
        if self.done:
            return
        phase, step = self._rounds[self._round]
        first = round(self.people * sum(PHASES[:phase]))
        size = round(self.people * sum(PHASES[: phase + 1])) - first
        scale = int(SCALE * size) // len(LEVELS) if phase else 0
        if step == "scale":
            for level in LEVELS:
                self._put("scale", level, scale)
        else:
            size -= scale * len(LEVELS)
            gram = 0 if self._public is not None else int(GRAM[phase] * size)
            clip = self._clips[phase] * self._deviation
            for question, people in (("gram", gram), ("moment", size - gram)):
                if people:
                    self._put(question, clip, people)
        self._tallies = [Tally() for _ in self._asked]

    def _open_tally(self, round: int, number: int) -> Tally:
        if round != self._round or not 0 <= number < len(self._asked):
            raise ValueError(f"expected a report on an open question of round {self._round}")
        return self._tallies[number]

    def _put(self, question: str, clip: float, people: int) -> None:
        state = PublicState(
            question,
            self._theta,
            self._frame,
            float(clip),
            self.epsilon,
            self.contributions,
            self._round,
            len(self._asked),
        )
        self._asked.append((state, people))

    # -- learning: post-processing of sums --------------------------------------------------------

    def _rescale(self) -> None:
        """The deviation of residuals: where the share within it crosses that of a normal law.

        A heavy tail, say of 0/1 labels that are mostly 0, must not be cut: it may be one-sided.
        Then the reach holds 98% of the residuals, and what was learned with less is forgotten.
        """
        if all(tally.count > 1 for tally in self._tallies):
            levels = np.append(LEVELS, 2.0)  # no residual is larger: nobody needs to report that
            shares = _isotonic(np.array([*(tally.mean for tally in self._tallies), 1.0]))
            rising = np.minimum(shares, 1.0) + 1e-9 * np.arange(len(shares))
            deviation = float(np.exp(np.interp(0.683, rising, np.log(levels))))
            doubt = 2 * math.sqrt(max(float(tally.variance) for tally in self._tallies))
            most = float(levels[np.argmax(rising >= 0.98 - doubt)])
            if most > HEAVY * deviation and not self._heavy:
                self._heavy, (self._theta, self._covariance) = True, self._first
            self._deviation = most / min(self._clips[1:]) if self._heavy else deviation
        self._frame = self._next_frame()

    def _next_frame(self) -> Array:
        """frame^2 = COVER^2 C / deviation^2 + sqrt(C / |C|): R covers the error of theta.

        The first part is the paper's U, since C is U^2 up to a factor where the frame is U; the
        second keeps reports long in directions that are known.
        """
        C = self._covariance
        relative = C / np.linalg.norm(C, 2)
        return power(COVER**2 * C / self._deviation**2 + power(relative, 0.5), 0.5)

    def _learn(self) -> None:
        """The posterior of w = frame^-1 (theta* - theta) given  clip moment = H w + noise."""
        by_name = {s.question: t for (s, _), t in zip(self._asked, self._tallies, strict=True)}
        moments = by_name.get("moment", Tally())
        if moments.count < 2 or (self._public is None and by_name.get("gram", Tally()).count < 2):
            return
        clip = self._asked[0][0].clip
        b, noise = clip * moments.mean, clip**2 * moments.variance
        grams = by_name["gram"] if self._public is None else self._known()
        frame, back = self._frame, np.linalg.inv(self._frame)
        shift, left = posterior(back @ self._covariance @ back, grams, b, noise)
        self._theta = self._theta + frame @ shift
        self._covariance = frame @ left @ frame
        if self.phase == 0:
            self._first = self._theta, self._covariance

    def _known(self) -> Tally:
        """The Gram term of public covariates, in the open frame."""
        assert self._public is not None
        tally, everyone = Tally(), PublicState("gram", np.zeros(self.dim), self._frame, 1e300, 1.0)
        for piece in pieces(len(self._public), self.dim**2):
            rows = self._public[piece]
            tally.add(answer(rows, np.zeros(len(rows)), everyone))
        return tally


def posterior(prior: Array, grams: Tally, b: Array, noise: Array) -> tuple[Array, Array]:
    """Mean and covariance of w ~ N(0, prior) given  b = H w + noise  and noisy reports of H."""
    d = len(b)
    # Isotropic noise on H, s on the diagonal, moves H w by variance s^2 (|w|^2 I + w w^T)/2.
    variance = float(grams.variance) / (d * (d + 1) / 2)
    noise = noise + variance / 2 * (np.trace(prior) * np.eye(d) + prior)
    # Eigenvalues h - s^2 (d + 1) SHRINK / (2 h): what is within the noise tells nothing.
    values, vectors = np.linalg.eigh(grams.mean)
    values = np.maximum(values, 1e-300)
    values = np.maximum(values - SHRINK * variance * (d + 1) / 2 / values, 0.0)
    H = (vectors * values) @ vectors.T
    gain = prior @ H @ np.linalg.pinv(H @ prior @ H + noise, hermitian=True)
    left = prior - gain @ H @ prior
    return gain @ b, power((left + left.T) / 2, 1.0)


def pieces(n: int, width: int) -> list[slice]:
    """n people in pieces whose answers of this width fit the memory."""
    size = max(1, 2**20 // width)
    return [slice(i, i + size) for i in range(0, n, size)]


def _isotonic(values: Array) -> Array:
    """The closest non-decreasing sequence: the largest over starts of the least mean over ends."""
    n, sums = len(values), np.concatenate([[0.0], np.cumsum(values)])
    return np.array(
        [
            max(
                min((sums[b] - sums[a]) / (b - a) for b in range(i + 1, n + 1))
                for a in range(i + 1)
            )
            for i in range(n)
        ]
    )
