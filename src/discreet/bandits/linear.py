"""The contextual bandit: windows x estimator x policy.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 6, 15 and 17: epochs with a fixed policy, one
private regression at the end of each. Better than printed: residuals around what is known, all
epochs combined into one Gaussian belief, and exploration in a few rounds of each epoch only.

    paper   epoch j, T^(j)   f^(j)          b^(j)            pi^(j)
    here    window           belief.mean    belief.root      _policy
"""

import math
from typing import Any

import numpy as np

from discreet.bandits.belief import Belief
from discreet.bandits.decisions import Policy
from discreet.bandits.estimators import Descent, Estimator, InformationWeighted, section
from discreet.bandits.learner import Bandit
from discreet.bandits.local import LocalReports, own_seed
from discreet.bandits.local_protocol import POLICIES as LOCAL_POLICIES
from discreet.bandits.local_server import LocalServer
from discreet.bandits.policies import (
    Elimination,
    Greedy,
    Interval,
    Mixed,
    SquareCB,
    Thompson,
    Ucb,
    Uniform,
)
from discreet.links import LINKS
from discreet.links import link as link_named
from discreet.privacy import Budget, Guarantee, Noise
from discreet.privacy.checks import one_of
from discreet.privacy.noise import source, source_named

POLICIES = ("ucb", "thompson", "elimination", "squarecb", "greedy")
ESTIMATORS = ("auto", "information-weighted", "sgd")
DRAWS = 64  # of theta in a window, for Thompson sampling
OPTIMISM = 2.5  # deviations by which exploring rounds are optimistic
EXPLORING = 0.3  # most rounds of a window that explore; fewer when the window is long
TRIES = 8  # optimistic rounds in a window, at least, for each dimension
CONFIDENCE = 2.0  # deviations of an interval, for elimination
MANY = 400  # features beyond which "auto" takes gradient steps


class LinearBandit(Bandit):
    """Learns which action is best for whom, and nobody can tell from its decisions who did what.

    Requires   the expected reward of an action is nu(<phi, theta>), nu = `link`, with features phi
               in the ball of radius `norm_bound` and rewards in `reward_range`.
    Guarantee  (epsilon, delta), joint: everything shown to everybody except the person concerned.
               One person's round is one decision and its reward; with contributions=k, k of them.

    Rounds come in windows; in each the policy is fixed. A window's rewards enter one sum that holds
    its noise from the start and is released when the window is full, at the next `decide`. Disjoint
    windows each have the whole budget. Without a horizon windows grow for ever; past a given one
    the last release is made, the policy stays and rewards no longer count.

    policy  "ucb": greedy, but optimistic in a few rounds of each window; "thompson": the best of
    one of 64 draws; "elimination" and "squarecb": the papers' (`width="theory"` for their
    constants); "greedy". estimator "sgd" is for thousands of features, with squarecb or greedy.

    >>> from discreet.environments import linear_world
    >>> from discreet.privacy import SeededNoise
    >>> world, rng = linear_world("sphere", dim=4, seed=0), np.random.default_rng(0)
    >>> bandit = LinearBandit(4, horizon=4000, epsilon=1.0, seed=0, noise=SeededNoise(0))
    >>> for _ in range(10):  # one at a time
    ...     person = world.people(1, rng)
    ...     decision = bandit.decide(person.features[0])
    ...     bandit.learn(decision, person.rewards([decision.action], rng)[0])
    >>> while bandit.rounds < 4000:  # or a window at a time
    ...     people = world.people(bandit.rounds_until_release, rng)
    ...     decisions = bandit.decide_many(people.features)
    ...     _ = bandit.learn_many(decisions, people.rewards(decisions.action, rng))
    >>> people = world.people(500, rng)
    >>> bool(people.regret(bandit.decide_many(people.features).action).mean() < 0.05)
    True
    >>> bandit.guarantee.epsilon, bandit.guarantee.trust
    (1.0, 'joint')
    """

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        trust: str = "joint",
        link: str = "identity",
        policy: str = "auto",
        estimator: str = "auto",
        width: str = "computed",
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        contributions: int = 1,
        clip: bool = False,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        super().__init__(
            dim, horizon, norm_bound=norm_bound, reward_range=reward_range, clip=clip, seed=seed
        )
        self.trust = one_of("trust", trust, ("joint", "local"))
        self.link = one_of("link", link, tuple(LINKS))
        self.estimator = one_of("estimator", estimator, ESTIMATORS)
        self._many = estimator == "sgd" or (estimator == "auto" and self.dim > MANY)
        self.policy = one_of("policy", policy, ("auto", *POLICIES))
        if policy == "auto":
            self.policy = "thompson" if trust == "local" else "squarecb" if self._many else "ucb"
        self.width = one_of("width", width, ("computed", "theory"))
        if width == "theory" and self.policy != "elimination":
            raise ValueError(
                "width='theory' is for policy='elimination'; others have no use for it"
            )
        self._budget = Budget(epsilon, self._delta(delta), contributions)
        self._source = source(noise)
        self._estimator = self._make()
        self._entropy = np.random.SeedSequence(seed).entropy  # for the draws of theta
        self._window = 1  # length of the open window
        self._intervals: tuple[Interval, ...] = ()
        self._policy: Policy = Uniform()

    def _delta(self, delta: float | None) -> float:
        if self.trust == "joint":
            return 1e-6 if delta is None else delta
        if delta:
            raise ValueError(f"local trust is pure: delta must be 0, got {delta!r}; leave it out")
        return 0.0

    def _make(self) -> Estimator:
        budget, noise = self._budget, self._source
        limits = (self.reward_range[0] / self._scale, self.reward_range[1] / self._scale)
        if self.trust == "local":
            if self.estimator != "auto":
                raise ValueError("trust='local' has one estimator: leave it at 'auto'")
            self._allow(LOCAL_POLICIES, "trust='local'")
            server = LocalServer(
                self.dim,
                budget.epsilon,
                policy=self.policy,
                norm_bound=self.norm_bound,
                reward_range=self.reward_range,
                contributions=budget.contributions,
                seed=None if self.seed is None else own_seed(self.seed, "draws"),
            )
            return LocalReports(server, noise, seed=self.seed)
        if self._many:
            self._allow(("squarecb", "greedy"), "estimator='sgd' (no confidence widths)")
            return Descent(self.dim, budget, noise, limits=limits)
        link = link_named(self.link)
        return InformationWeighted(
            self.dim, budget, noise, limits=limits, link=link, scale=self._scale
        )

    def _allow(self, policies: tuple[str, ...], where: str) -> None:
        if self.policy not in policies or self.link != "identity":
            raise ValueError(
                f"{where} knows the policies {', '.join(policies)} and link='identity'"
            )

    @property
    def theta(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The released weights, for features and rewards in the user's units; safe to publish."""
        return self._estimator.belief.weights * (self._unit / self.norm_bound)

    @property
    def intercept(self) -> float:
        """What the prediction <phi, theta> lacks: 0 unless 0 is off the middle of the rewards."""
        if not self._has_intercept:
            return 0.0
        low, high = self.reward_range
        return (low + high) / 2 + self._unit * self._estimator.belief.intercept

    @property
    def _has_intercept(self) -> bool:
        return bool(getattr(self._estimator.belief, "constant", 0.0))

    @property
    def _unit(self) -> float:
        """Of the belief's predictions, in the user's."""
        low, high = self.reward_range
        if self._has_intercept:
            return (high - low) / 2
        return self._scale if self.link == "identity" else 1.0

    @property
    def guarantee(self) -> Guarantee:
        """The computed promise."""
        return self._estimator.guarantee

    # -- windows ----------------------------------------------------------------------------------

    def _size(self) -> int:
        size = self._estimator.size(self.rounds)
        if self.rounds or self.horizon is None:
            return size
        return min(size, max(1, self.horizon // 3))  # some rounds must be left to profit

    def _begin(self, size: int) -> None:
        self._estimator.open(size)
        self._window = size
        self._policy = self._plan(size)

    def _absorb(self, rows: np.ndarray[Any, Any], rewards: np.ndarray[Any, Any]) -> None:
        self._estimator.add(rows, rewards)

    def _absorb_one(self, row: np.ndarray[Any, Any], reward: float) -> None:
        self._estimator.add_one(row, reward)

    def _release(self) -> None:
        self._estimator.close()
        belief = self._estimator.belief
        if self.policy == "elimination" and isinstance(belief, Belief):
            self._intervals = (*self._intervals, self._interval(belief))
        self._window = self.rounds  # what stays if no window follows
        self._policy = self._plan(self._window)

    # -- policies ---------------------------------------------------------------------------------

    def _plan(self, size: int) -> Policy:
        """The policy of a window of so many decisions, from what was released."""
        belief = self._estimator.belief
        if isinstance(self._estimator, LocalReports):
            return self._estimator.law
        if not belief.informed:
            return Uniform()
        if self.policy == "greedy":
            return Greedy(belief.weights)
        if self.policy == "squarecb":
            return SquareCB(belief.weights, belief.error)
        assert isinstance(belief, Belief)
        if self.policy == "elimination":
            return Elimination(self._intervals)
        if self.policy == "thompson":
            coins = np.random.default_rng(
                np.random.SeedSequence(self._entropy, spawn_key=(belief.windows,))
            )
            normal = coins.standard_normal((DRAWS, len(belief.mean)))
            root, _ = belief.split(belief.root)
            return Thompson(belief.weights + normal @ root.T)
        share = min(EXPLORING, max(self._estimator.size(0), TRIES * self.dim) / size)
        root, offset = belief.optimistic_root(OPTIMISM)
        optimist = Ucb(belief.weights, root, OPTIMISM, offset)
        return Mixed(share, optimist, Greedy(belief.weights))

    def _interval(self, belief: Belief) -> Interval:
        if self.width == "computed":
            root, offset = belief.split(belief.root)
            return Interval(belief.weights, root, CONFIDENCE, offset=offset)
        # b = min(8 lam |W phi|, 2), lam = sqrt(d log(1/delta) / N), W the root of the inverse Gram
        # matrix of the window (Algorithm 6, line 8), with delta = 1/(rounds so far).
        gram = belief.gram / max(belief.effective_rows, 1.0)
        values, vectors = np.linalg.eigh(gram)
        lam = math.sqrt(self.dim * math.log(max(self.rounds, 2)) / max(belief.effective_rows, 1.0))
        values = np.maximum(values, lam**2 / self.dim)
        root, offset = belief.split(vectors * values**-0.5)
        return Interval(belief.weights, root, 8 * lam, offset=offset)

    # -- saving -----------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        budget = self._budget
        return {
            "dim": self.dim,
            "horizon": self.horizon,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "trust": self.trust,
            "link": self.link,
            "policy": self.policy,
            "estimator": self.estimator,
            "width": self.width,
            "norm_bound": self.norm_bound,
            "reward_range": list(self.reward_range),
            "contributions": budget.contributions,
            "clip": self.clip,
            "seed": self.seed,
            "noise": type(self._source).__name__,
        }

    @classmethod
    def _rebuilt(cls, config: dict[str, Any]) -> "LinearBandit":
        return cls(**{**config, "noise": source_named(config["noise"])})

    def _memory(self) -> dict[str, Any]:
        intervals = self._intervals
        return {
            **{f"estimator.{name}": value for name, value in self._estimator.state().items()},
            "interval.means": np.array([each.mean for each in intervals]),
            "interval.roots": np.array([each.root for each in intervals]),
            "interval.offsets": np.array([each.offset for each in intervals]),
            "interval.widths": np.array([each.width for each in intervals]),
            "entropy": str(self._entropy),
            "window": self._window,
        }

    def _recall(self, memory: dict[str, Any]) -> None:
        self._estimator = self._make()
        self._estimator.restore(section(memory, "estimator"))
        saved = zip(
            *(memory[f"interval.{name}"] for name in ("means", "roots", "offsets", "widths")),
            strict=True,
        )
        self._intervals = tuple(
            Interval(mean, root, float(width), offset=offset) for mean, root, offset, width in saved
        )
        self._entropy, self._window = int(memory["entropy"]), int(memory["window"])
        self._policy = self._plan(self._window)
