"""The server of a locally private regression: it asks, adds answers up, and estimates.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 2 and 3; symbols in `local_protocol.py`.
"""

import math

import numpy as np

from discreet.privacy.checks import Array, positive, whole
from discreet.regression.base import Estimate
from discreet.regression.local_protocol import PublicState, Report, answer, pieces
from discreet.regression.matrices import power
from discreet.regression.tally import Tally

PHASES = (0.1, 0.15, 0.25, 0.5)  # share of the people
GRAM = (0.5, 0.5, 0.4, 0.2)  # of them, who report the Gram term
CLIP = (1.0, 2.0, 2.0, 1.5)  # reach in deviations; below 1.5 the slope costs what the noise saves
CLIP_KNOWN = (1.0, 2.5, 2.5, 2.5)  # without Gram reports nobody measures the slope: keep it near 1
SCALE = 0.1  # of a later phase's people
LEVELS = 2.0 ** -np.arange(6, -1, -1)  # clips that "scale" tries, as a share of the label bound
COVER = 1.5  # deviations of theta's error within the reach
SHRINK = 0.3  # of the eigenvalues' noise; more loses rare directions
HEAVY = 5.0  # deviations that should hold all but 2% of residuals; a normal law needs 2.3


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

    def aggregate(self, report: Report) -> int:
        """Add reports on a question of the open round; returns how many were left out.

        A report that no device could have sent is left out alone: see `possible` of the channels.
        """
        if not isinstance(report, Report):
            raise TypeError(f"the server takes a Report, never records: {type(report).__name__}")
        tally = self._open_tally(report.round, report.number)
        state, values = self._asked[report.number][0], np.asarray(report.values)
        if values.shape[1:] != state.shape or values.ndim == 0:
            raise ValueError(f"expected reports of shape (n, *{state.shape}), got {values.shape}")
        kept = values[state.channel.possible(values)]
        tally.add(kept)
        return len(values) - len(kept)

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
