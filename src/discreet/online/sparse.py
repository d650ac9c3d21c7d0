"""A bandit for many features of which few matter (Han et al. 2022, Algorithm 3).

    paper   K        t_0      h_sub    zeta   theta_{t_0,i}    theta_{t,i}         a_t
    here    n_arms   forced   gap      link   self._first      self._arms.theta    `decide`

    lines 3-10   the arms in turn, t_0 times each: a schedule that no context enters
    line 13      arms whose forced-sample estimate is within h/2 of the best
    line 14      the greedy one among them
    lines 16-17  the row enters the sums of its arm, zeros those of the others      `arms.py`

Better than printed: parameters move at the ends of public windows that grow, a few entries at
a time, each window with the whole budget. method="every-round" is the paper's step.
"""

import json
import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.links import link as link_named
from discreet.online.arms import SELECTING, SIGNAL, Arms, WindowArms
from discreet.online.arms_every_round import VertexArms
from discreet.privacy import Budget, Guarantee, Noise
from discreet.privacy.checks import Array, finite, numbers, one_of, positive, whole
from discreet.privacy.noise import source, source_named
from discreet.privacy.state import copied, expect, keeps, load_state, save_state

METHODS: dict[str, Callable[..., Arms]] = {"windows": WindowArms, "every-round": VertexArms}
REWARDS = {"identity": (-1.0, 1.0), "logistic": (0.0, 1.0)}
CLIP = 0.2  # of residuals, identity link
UNPROTECTED = (
    "one's own action, which may depend on one's own context",
    "decision records: they hold the context",
    "that a reward came, and when",
    "the horizon and the public bounds",
)


@dataclass(frozen=True, eq=False)
class ArmDecision:
    """One choice. Keep it, or its `to_dict()`, until the reward comes: it holds the context."""

    round: int
    action: int
    probability: float
    row: Array = field(repr=False)  # (dim,)
    learner: str = field(repr=False)  # whose decision this is

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**self.__dict__, "row": self.row.tolist()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """A decision from `to_dict`; a damaged record raises ValueError."""
        try:
            t, action = (whole(n, record[n], least=0) for n in ("round", "action"))
            row, p = finite("row", record["row"]), float(record["probability"])
            return cls(t, action, p, row, str(record["learner"]))
        except (KeyError, TypeError, ValueError):
            raise ValueError("not a decision record; use ArmDecision.to_dict") from None


class SparseBandit:
    """Chooses one of K arms for each person; rewards, more is better. Noise grows with log(dim).

    The expected reward of arm i is nu(<x, theta_i>), nu = `link`: the context x has entries in
    [-1, 1] (beyond, they are clipped), theta_i has few entries that matter and l1 norm at most
    `radius`. Rewards lie in [-1, 1], with link="logistic" in [0, 1].

    Guarantee  (epsilon, delta), joint: everything shown to everybody except the person concerned.
               One person's round is one context and its reward; with contributions=k, k of them.

    Why: others see functions of their own contexts and of the released thetas. Given what was
    released before, another context or reward of one person changes the sums of one arm by two
    terms, or of two arms by one term (they choose another arm); everybody else decides as before.
    When which arm releases how much is fixed in advance. `arms.py` prices both changes.

    forced=None is a public rule: as many rounds for each arm as a few strong entries need to stand
    out of chance and noise, at most a quarter of the horizon in all. gap=None admits every arm.
    clip bounds residuals: a small one needs less noise (default .2, more for a large epsilon; none
    for the logistic link or without privacy), but biases estimates if noise is skewed: for rewards
    of two values use link="logistic".

    It learns fastest if the entries of contexts are little correlated; if they are, slower.

    Rewards may come late, in any order, once, or never: a missing one adds nothing. A late one
    enters the window that is open. Past the horizon the policy stays and rewards no longer count.

    >>> from discreet.privacy import SeededNoise
    >>> rng, thetas = np.random.default_rng(0), np.zeros((2, 50))
    >>> thetas[0, 3], thetas[1, 7] = 0.8, -0.8
    >>> bandit = SparseBandit(2, 50, horizon=4000, epsilon=2.0, seed=0, noise=SeededNoise(0))
    >>> for _ in range(4000):
    ...     x = rng.uniform(-1, 1, 50)
    ...     d = bandit.decide(x)
    ...     bandit.learn(d, float(x @ thetas[d.action]))
    >>> x = np.zeros(50); x[3] = 1.0
    >>> bandit.decide(x).action, bandit.guarantee.trust
    (0, 'joint')
    """

    def __init__(
        self,
        n_arms: int,
        dim: int,
        horizon: int,
        epsilon: float,
        delta: float = 1e-6,
        *,
        link: str = "identity",
        radius: float = 1.0,
        forced: int | None = None,
        gap: float | None = None,
        clip: float | None = None,
        method: str = "windows",
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.n_arms, self.dim = whole("n_arms", n_arms), whole("dim", dim)
        self.horizon, self.budget = whole("horizon", horizon), Budget(epsilon, delta, contributions)
        if self.budget.pure:
            raise ValueError("delta must be above 0 (for example 1e-6): selections add up in zCDP")
        self.reward_range = REWARDS[one_of("link", link, tuple(REWARDS))]
        self._link, size = link_named(link), positive("radius", radius)
        self._asked = (forced, clip)
        self.forced = self._forced_rule() if forced is None else whole("forced", forced)
        if self.n_arms * self.forced > self.horizon:
            raise ValueError(
                f"{self.n_arms} arms, {self.forced} forced rounds each, do not fit in a horizon "
                f"of {self.horizon}"
            )
        self.gap = None if gap is None else positive("gap", gap)
        self.method = one_of("method", method, tuple(METHODS))
        self.clip = self._clip_rule(size) if clip is None else positive("clip", clip)
        seed = None if seed is None else whole("seed", seed, least=0)
        self._seed, self._coins, self._radius = seed, np.random.default_rng(seed), size
        self._noise = source(noise)
        self._name, self.rounds = secrets.token_hex(8), 0
        self._rewarded = bytearray()  # one byte for each decision: whether its reward has come
        self._advanced = 0  # rounds whose end the arms have seen
        self._first: Array | None = None  # (arms, dim), the forced-sample estimates
        self._arms: Arms = METHODS[self.method](
            self.n_arms,
            self.dim,
            self.horizon,
            self.budget,
            forced=self.forced,
            link=self._link,
            clip=self.clip,
            radius=size,
            noise=self._noise.spawn(1)[0],
        )

    @property
    def theta(self) -> Array:  # (arms, dim)
        """The released parameters."""
        return self._arms.theta.copy()

    @property
    def guarantee(self) -> Guarantee:
        """The promise over the whole life, with what has been released so far."""
        promise, k = self._arms.guarantee, self.budget.contributions
        limit = f"people in more than {k} rounds (whoever calls must enforce that limit)"
        return replace(
            promise,
            trust="joint",
            unprotected=(*UNPROTECTED, *((limit,) if k > 1 else ())),
            reference="Han, Liang, Liang, Wang, Yao and Zhang (2022), Algorithm 3",
        )

    def decide(self, x: ArrayLike) -> ArmDecision:  # (dim,)
        """Choose an arm for one person; reads released parameters and this context only."""
        row = numbers("x", x)
        if row.shape != (self.dim,):
            raise ValueError(f"x must have shape ({self.dim},), got {row.shape}")
        row = np.clip(row, -1.0, 1.0)  # a copy; NaN stays
        if math.isnan(float(np.add.reduce(row))):
            raise ValueError("x must be finite: it holds NaN; drop or impute first")
        self._advance()
        t = self.rounds
        if t < self.n_arms * self.forced:
            action, probability = t % self.n_arms, 1.0
        else:
            action, probability = self._greedy(row)
        self.rounds += 1
        self._rewarded.append(0)
        return ArmDecision(t, action, probability, row, self._name)

    def learn(self, decision: ArmDecision, reward: float) -> None:
        """Take the reward of a decision: any time later, in any order, once.

        A second one, one outside the range, NaN, or a decision of another learner raises
        ValueError and changes nothing.
        """
        if not isinstance(decision, ArmDecision) or decision.learner != self._name:
            raise ValueError("expected a decision that this learner made")
        row = decision.row
        mine = 0 <= decision.round < self.rounds and 0 <= decision.action < self.n_arms
        if not mine or row.shape != (self.dim,):
            raise ValueError("this learner never made that decision; was an old state loaded?")
        if self._rewarded[decision.round]:
            raise ValueError("this decision has had its reward; each counts once")
        if not float(np.maximum.reduce(np.abs(row))) <= 1:
            raise ValueError("this decision record is damaged: its context is out of bounds")
        try:
            value = float(reward)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("reward must be a number") from None
        low, high = self.reward_range
        if not low <= value <= high:
            raise ValueError(f"reward must lie in [{low:g}, {high:g}]; rescale it")
        self._rewarded[decision.round] = 1
        self._arms.take(decision.action, row, value)

    def _advance(self) -> None:
        """Let the arms see the end of the last round; never before the next decision is asked."""
        while self._advanced < min(self.rounds, self.horizon):
            self._advanced += 1
            self._arms.advance(self._advanced)
            if self._advanced == self.n_arms * self.forced:
                self._first = self._arms.theta.copy()

    def _greedy(self, x: Array) -> tuple[int, float]:
        """Lines 13 and 14; ties by a coin. The link increases, so it need not be applied twice."""
        worth = self._arms.theta @ x
        if self.gap is not None and self._first is not None:
            early = self._link.mean(self._first @ x)
            worth = np.where(early > early.max() - self.gap / 2, worth, -math.inf)
        (best,) = np.nonzero(worth == worth.max())
        if len(best) == 1:
            return int(best[0]), 1.0
        return int(best[int(self._coins.integers(len(best)))]), 1 / len(best)

    def _needs(self) -> tuple[float, float]:
        """Rows of one arm that strong entries need to stand out: of chance, of privacy's noise."""
        log = max(1.0, math.log(self.dim))
        # Chance: an entry of .1 among `dim` entries, residuals of .3.
        # Privacy: four such entries in one window, see `WindowArms.entries`.
        spend = math.sqrt(8 * self.budget.rho * SELECTING) / self.budget.contributions
        return 20 * log, 8 * log / (SIGNAL * spend)

    def _forced_rule(self) -> int:
        return max(1, min(math.ceil(math.hypot(*self._needs())), self.horizon // (4 * self.n_arms)))

    def _clip_rule(self, radius: float) -> float:
        slope = self._link.slopes(-radius, radius)[1]
        # |y - nu| <= 1 for the logistic link, else 1 + radius; the paper's g adds slope * diameter.
        worst = 1.0 if self._link.name == "logistic" else 1.0 + radius
        if self.method == "every-round":
            worst += 2 * radius * slope
            return worst if self.budget.off else worst / 4
        if self.budget.off or self._link.name == "logistic":
            return worst
        chance, privacy = self._needs()
        return min(worst, CLIP * max(1.0, math.sqrt(chance / privacy)))

    # -- saving -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from. Keep it secret: it holds exact sums."""
        arms = {f"arms.{name}": value for name, value in self._arms.state_dict().items()}
        return {
            "format": 1,
            "kind": type(self).__name__,
            "config": self._config(),
            "name": self._name,
            "rounds": self.rounds,
            "advanced": self._advanced,
            "rewarded": np.packbits(np.frombuffer(self._rewarded, dtype=np.uint8)),
            "first": np.zeros((0, self.dim)) if self._first is None else self._first.copy(),
            "coins": json.dumps(self._coins.bit_generator.state),
            **arms,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that is older than this learner is refused."""
        expect(state, format=1, kind=type(self).__name__, config=self._config())
        if self.rounds and state["name"] != self._name:
            raise ValueError("the state is of another learner; load it into a new one")
        rounds = int(state["rounds"])
        rewarded = np.unpackbits(np.asarray(state["rewarded"]), count=rounds)
        if rounds < self.rounds:
            raise ValueError(
                "the state is older than this learner: releasing the same window again would "
                "spend its budget twice"
            )
        keeps(np.frombuffer(self._rewarded, dtype=np.uint8), rewarded)
        other = copied(self)  # so that a damaged state changes nothing
        arms = {k.removeprefix("arms."): v for k, v in state.items() if k.startswith("arms.")}
        other._arms.load_state_dict(arms)
        other._coins.bit_generator.state = json.loads(state["coins"])
        first = np.array(state["first"])
        other._first = first if len(first) else None
        other._name, other.rounds, other._advanced = state["name"], rounds, int(state["advanced"])
        other._rewarded = bytearray(rewarded)
        self.__dict__.update(other.__dict__)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, for the owner's eyes only. A state may go on once."""
        save_state(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a file, with the same kind of noise."""
        state = load_state(path)
        expect(state, format=1, kind=cls.__name__)
        config = json.loads(state["config"])
        learner = cls(**{**config, "noise": source_named(config["noise"])})
        learner.load_state_dict(state)
        return learner

    def _config(self) -> str:
        forced, clip = self._asked
        config = {
            "n_arms": self.n_arms,
            "dim": self.dim,
            "horizon": self.horizon,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "link": self._link.name,
            "radius": self._radius,
            "forced": forced,
            "gap": self.gap,
            "clip": clip,
            "method": self.method,
            "contributions": self.budget.contributions,
            "seed": self._seed,
            "noise": type(self._noise).__name__,
        }
        return json.dumps(config)
