"""The contextual bandit: windows x estimator x policy.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 6, 15 and 17: epochs with a fixed policy, one
private regression at the end of each. Better than printed: residuals around what is known, all
epochs combined into one Gaussian belief, and exploration in a few rounds of each epoch only.

    paper   epoch j, T^(j)   f^(j)          b^(j)            pi^(j)
    here    window           belief.mean    belief.root      policy
"""

import secrets
import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, one_of
from discreet.bandits import history
from discreet.bandits.descent import Descent
from discreet.bandits.estimators import Estimator, EstimatorWindow, InformationWeighted
from discreet.bandits.holdout import Holdout
from discreet.bandits.learner import FOREVER, Bandit
from discreet.bandits.local import LocalReports
from discreet.bandits.parts import Model, People, assert_part
from discreet.bandits.policies import POLICIES, Always, Mixed, Stage, Uniform
from discreet.bandits.predictions import Reading
from discreet.bandits.schedule import Schedule
from discreet.bandits.visitors import Visitors
from discreet.decisions import Policy
from discreet.evaluation.worth import Totals
from discreet.features import FeatureMap
from discreet.privacy import Budget, Guarantee, Ledger, SeededNoise, Shuffled
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.noise import Noise, source
from discreet.privacy.shuffle import trusted
from discreet.state import StateInUse, damaged

DEFAULTS = {"joint": "ucb", "local": "thompson", "shuffled": "ucb"}  # policies
CURRENCY = {"joint": "gaussian", "local": "pure", "shuffled": "shuffled"}
HELD_OUT = 2**32 - 1  # a stream of its own beside those of windows
MANY = 400  # features beyond which policy="auto" is "descent"
ENOUGH = 500  # first windows up to a horizon, before a link can be worth more than the identity


class LinearBandit(Reading, Bandit):
    """Learns which action is best for whom, and nobody can tell from its decisions who did what.

    Requires   the expected reward of an action is nu(<phi, theta>), with nu = `model.link`,
               features phi in the ball of radius `norm_bound` and rewards in `reward_range`.
    Guarantee  (epsilon, delta), joint: everything shown to everybody except the person concerned.
               One person's round is one decision and its reward; `people` may protect more.

    Rounds come in windows; in each the policy is fixed. A window's rewards enter one sum that holds
    its noise from the start and is released when the window is full, at the next `decide`. Disjoint
    windows each have the whole budget. Without a horizon windows grow for ever; past a given one
    the last release is made, the policy stays and rewards no longer count.

    Parameters
        dim            number of features of a row, or the FeatureMap that makes rows: it knows
                       which features belong to one action alone
        horizon        rounds that count; None to learn for ever
        epsilon        privacy loss, for all releases together; inf switches privacy off
        delta          probability of a larger loss: 0 under local trust, else 1e-6 unless stated
        trust          "joint": a server that everybody trusts; "local": reports that are private;
                       "shuffled": such reports, hidden in a crowd by a relay, or
                       Shuffled(minimum=0.8, honest=0.5): the least part of a window's rewards that
                       must come, and of honest devices that is counted on
        policy         "ucb": greedy, but optimistic in a few rounds of each window; "thompson": the
                       best of one of 64 draws; "elimination"; "squarecb": every action keeps some
                       probability; "greedy"; "descent": squarecb on gradient steps, for thousands
                       of features; "auto" chooses
        norm_bound     length of the longest feature row; longer ones are shortened to it
        reward_range   least and largest reward; others are refused
        model          Model(link=, blocks=, half_life=, typical_reward=): how rewards depend on
                       features
        people         what is protected: People(visits="first" or "all"), all that a person ever
                       does; People(rounds=k), k rounds; None: one round
        holdout        Holdout(0.05, baseline=0): this fraction of rounds plays an action, or
                       "uniform", and `value` says what the policy gains over it
        seed           of the coins that choose; for simulations
        noise          SecureNoise() for release, SeededNoise(seed) for simulations; None for float
                       noise from the operating system

    >>> from discreet import environments
    >>> from discreet.privacy import SeededNoise
    >>> world, rng = environments.world("sphere", dim=4, seed=0), np.random.default_rng(0)
    >>> bandit = LinearBandit(4, horizon=4000, epsilon=1.0, seed=0, noise=SeededNoise(0))
    >>> for _ in range(10):  # one at a time
    ...     person = world.people(1, rng)
    ...     decision = bandit.decide(person.features[0])
    ...     counted = bandit.learn(decision, person.rewards([decision.action], rng)[0])
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

    _window: EstimatorWindow | None
    _state: ClassVar[tuple[str, ...]] = (
        *Bandit._state, "noise", "visitors", "_reports", "_belief", "_ledger", "_entropy",
        "_held_key", "_totals"
    )  # fmt: skip

    def __init__(
        self,
        dim: int | FeatureMap,
        horizon: int | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        trust: str | Shuffled = "joint",
        policy: str = "auto",
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        model: Model | None = None,
        people: People | None = None,
        holdout: Holdout | None = None,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        assert_part("model", model, Model, 'Model(link="logistic")')
        assert_part("people", people, People, 'People(visits="first")')
        assert_part("holdout", holdout, Holdout, "Holdout(0.05)")
        features = dim.dim if isinstance(dim, FeatureMap) else dim
        super().__init__(
            features, horizon, norm_bound=norm_bound, reward_range=reward_range, seed=seed
        )
        self.trust = trust
        kind, self.shuffled = trusted(trust, CURRENCY)
        self.people = People(rounds=1) if people is None else people
        self.people.assert_fits(kind)
        budget = Budget(epsilon, self._delta(delta, kind), self.people.contributions)
        self.epsilon, self.delta = budget.epsilon, budget.delta
        self.noise = source(noise)
        self.visitors = Visitors() if self.people.visits else None
        self.holdout = holdout
        if policy == "auto":
            policy = "descent" if kind == "joint" and self.dim > MANY else DEFAULTS[kind]
        self.policy_name = one_of("policy", policy, (*POLICIES, "descent"))
        self.model = self._assumed(model, dim, kind)
        self._recipe: Estimator | None = None
        self._reports: LocalReports | None = None
        if kind == "joint":
            self._recipe = self._planned(budget)
        else:
            self._reports = LocalReports.between(self, budget, self.policy_name)
        self._warn_of_link()
        self._belief = self._estimator.prior
        self._ledger = Ledger(budget, CURRENCY[kind])
        self._entropy = np.random.SeedSequence(self.seed).entropy  # for the draws of theta
        self._held_key = held_key(self._entropy)
        self._totals: tuple[Totals, ...] = ()  # what windows have released about rewards
        self.policy: Policy = self._held(Uniform())

    def _delta(self, delta: float | None, trust: str) -> float:
        if trust != "local":
            return 1e-6 if delta is None else delta
        if delta:
            raise ValueError(f"local trust is pure: delta must be 0, got {delta!r}; leave it out")
        return 0.0

    def _assumed(self, model: Model | None, features: int | FeatureMap, trust: str) -> Model:
        """The model, with the blocks of a feature map where they are of use."""
        model = Model() if model is None else model
        if trust == "joint" and self.policy_name != "descent":
            if isinstance(features, FeatureMap):
                if model.blocks is not None:
                    raise ValueError("the feature map brings its blocks: leave out Model(blocks=)")
                model = replace(model, blocks=features.block_of)
            model.assert_fits(self.dim, self._scale)
            return model
        where = "policy='descent'" if trust == "joint" else f"trust={trust!r}"
        model.assert_plain(where)
        if self.holdout is not None:
            raise ValueError(f"{where} takes no holdout: it does not release what one needs")
        return model

    def _warn_of_link(self) -> None:
        """A link learns more slowly: say so where the rounds are too few to make up for it."""
        least = ENOUGH * getattr(self._estimator, "first", 0)
        if self.model.link != "identity" and (self.horizon or least) < least:
            warnings.warn(
                f"in {self.horizon:,} rounds link='identity' gains more than "
                f"link={self.model.link!r}, which begins to pay after about {least:,}",
                stacklevel=3,
            )

    def _planned(self, budget: Budget) -> Estimator:
        """The estimator, with what each window has of the budget."""
        limits = (self.reward_range[0] / self._scale, self.reward_range[1] / self._scale)

        def sharing(share: float | None) -> Estimator:
            if self.policy_name == "descent":
                return Descent(self.dim, budget, limits, share)
            return InformationWeighted(
                self.dim, budget, limits, self._scale, self.model, self.people, self.holdout, share
            )

        return Schedule.of(sharing, self.horizon, self.people.shares).estimator

    @property
    def _estimator(self) -> Estimator:
        found = self._reports or self._recipe
        assert found is not None
        return found

    @property
    def guarantee(self) -> Guarantee:
        """The computed promise."""
        promise = self._estimator.guarantee(self._ledger, self.noise, self.people.visits or "")
        rows = getattr(self._belief, "public_rows", 0)
        if not rows:
            return promise
        return replace(promise, unprotected=(*promise.unprotected, history.PUBLIC.format(rows)))

    # -- windows ----------------------------------------------------------------------------------

    def warm_start(self, rows: ArrayLike, rewards: ArrayLike, *, public: bool) -> None:
        """Learn from an old log before the first decision: chosen rows (n, dim), and rewards (n,).

        A private log is released as the bandit's own windows are, and counted in the guarantee;
        its rounds are none of this bandit's. Whoever is in it and comes again has so many rounds
        more: a limit of `People(rounds=k)` is on both together. With `public=True`, for logs that
        may be published, there is neither noise nor cost, which the guarantee lists under
        `unprotected` from then on. Rows and rewards beyond their bounds are clipped; those that are
        not finite count for nothing.

        >>> from discreet.privacy import SeededNoise
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(3000, 2)) / 3
        >>> bandit = LinearBandit(2, epsilon=1.0, seed=0, noise=SeededNoise(0))
        >>> bandit.warm_start(rows, rows @ [0.8, -0.4], public=False)
        >>> bool(np.abs(bandit.theta - [0.8, -0.4]).max() < 0.15)
        True
        >>> bandit.guarantee.epsilon, bandit.guarantee.releases[0].scope
        (1.0, 'log, window 1')
        """
        if not isinstance(self._recipe, InformationWeighted):
            raise ValueError("an old log is learnt from under joint trust, and not by 'descent'")
        if self.visitors is not None and not public:
            raise ValueError(
                "People(visits=...) protects all that a person does, and who is in an old log may "
                "come again: say People(rounds=k), or use a log that is public"
            )
        X, y, fine = history.bounded(rows, rewards, self.dim, self.norm_bound, self.reward_range)
        with self._live:
            if self.rounds or self._window is not None or self._belief.windows:
                raise ValueError("an old log comes before the first decision, and once")
            belief, ledger = history.learned_from(
                self._recipe, self._ledger, self.noise, X, y / self._scale, fine, public=public
            )
            self._commit(_belief=belief, _ledger=ledger)

    def _size(self) -> int:
        opened = self._belief.windows + (self._window is not None)
        return self._schedule.size(self._belief, self.rounds, opened)

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self._estimator, self.horizon, self.people.shares)

    def _fold(self, rows: Array, rewards: Array, rounds: Any) -> None:
        assert self._window is not None
        if self.holdout is None:
            self._window.fold(rows, rewards)
        else:
            late = rounds < self._end - self._window.size
            self._window.fold(rows, rewards, self.held_out(rounds), late)

    # -- for a store that lets one copy act, and seals the open sum apart from the rest ------------

    @property
    def _stored_sum(self) -> Array:
        return np.asarray(self._open_sum._value)

    @_stored_sum.setter
    def _stored_sum(self, value: Array) -> None:
        self._open_sum._value = value

    @property
    def _open_sum(self) -> NoisySum:
        total: NoisySum = self._window.total  # type: ignore[union-attr]
        return total

    def _fold_stored(self, rows: Array, rewards: Array, rounds: NDArray[np.int64]) -> None:
        """Rows of stored decisions, in units of the norm bound, with rewards in the user's."""
        with self._live:
            self._fold(rows, rewards / self._scale, rounds)

    def _held(self, policy: Policy) -> Policy:
        """A policy that leaves some rounds to the baseline."""
        if self.holdout is None:
            return policy
        action = self.holdout.baseline
        baseline = Uniform() if isinstance(action, str) else Always(action)
        return Mixed(self.holdout.fraction, baseline, policy)

    def _opened(
        self, belief: Any, ledger: Ledger, size: int | None
    ) -> tuple[EstimatorWindow | None, Ledger]:
        """A new window, and the ledger with what it books."""
        if size is None:
            return None, ledger
        share = self._schedule.share(belief, ledger, self.rounds, belief.windows, size)
        window = self._estimator.open(belief, size, self.noise, share)
        window.attach(self._estimator, self.noise)
        return window, ledger._including(*window.opening)

    def _turned(self, size: int | None) -> dict[str, Any]:
        belief, ledger, totals = self._belief, self._ledger, self._totals
        if self._window is not None:
            first = self._end - self._window.size
            belief, found = self._window.close(belief)
            if found is not None:
                if self.holdout is not None:
                    held = self.holdout.count(first, self.rounds, self._held_key)
                    found = replace(found, held=held)
                totals = (*totals, found)
        window, ledger = self._opened(belief, ledger, size)
        stage = Stage(
            belief=belief,
            rounds=self.rounds,
            size=size or self.rounds,
            first=self._estimator.first,
            rng=lambda: np.random.default_rng(
                np.random.SeedSequence(self._entropy, spawn_key=(belief.windows,))
            ),
            previous=self.policy if self.holdout is None else self.policy.other,  # type: ignore[attr-defined]
            last=size is None or self.rounds + size == self.horizon,
        )
        policy = self._held(self._estimator.policy(self.policy_name, stage))
        # Each window of "all" forgets its people, and the key of their hashes.
        visitors = Visitors() if self.people.shares else self.visitors
        return {
            "_belief": belief,
            "_ledger": ledger,
            "_window": window,
            "policy": policy,
            "visitors": visitors,
            "_totals": totals,
        }

    def discard(self) -> None:
        """Drop the open window unread and open another one in its place.

        For a learner restored from an old state: its window may have been released since, and going
        on with it would use its noise twice.
        """
        with self._live:
            self._finish_turn()
            if self._window is not None:
                size = self._next()
                end = FOREVER if size is None else self.rounds + size
                self._commit(_end=end, **self._discarded(size))

    def _take_over(self) -> None:
        """With new noise, coins and name: decisions of the old name have no reward here."""
        if self.visitors is not None:
            raise StateInUse(
                "whoever resumed this file last has gone on without saving, and has ended: people "
                "whose rewards have counted since would count again. Begin anew, with what is left "
                "of their budget"
            )
        if isinstance(self.noise, SeededNoise):
            self.noise = SeededNoise(secrets.randbits(64))
        self._rng = np.random.default_rng()
        self.discard()

    def _discarded(self, size: int | None) -> dict[str, Any]:
        """What the dropped window has booked was never shown, and is gone.

        Not where windows share the budget: it may have been shown since, to the same people.
        """
        assert self._window is not None
        ledger = self._ledger
        if not self.people.shares:
            dropped = self._window.opening
            kept = (r for r in self._ledger.releases if r not in dropped)
            ledger = Ledger(self._ledger.budget, self._ledger.accounting)._including(*kept)
        window, ledger = self._opened(self._belief, ledger, size)
        visitors = Visitors() if self.people.shares else self.visitors
        return {"_ledger": ledger, "_window": window, "visitors": visitors}

    # -- saving -----------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        # The argument `policy` is a name; the attribute is what it has made of the releases.
        return {**super()._config(), "policy": self.policy_name}

    def _validate(self) -> None:
        super()._validate()
        if type(self._reports) is not (LocalReports if self._recipe is None else type(None)):
            raise damaged("reports")
        if not all(type(each) is Totals for each in self._totals):
            raise damaged("totals")
        if type(self.visitors) is not (Visitors if self.people.visits else type(None)):
            raise damaged("visitors")
        if self._window is not None:
            self._window.attach(self._estimator, self.noise)


def held_key(entropy: Any) -> int:
    """From which the rounds of the hold-out follow; not of the coins that choose."""
    key = np.random.SeedSequence(entropy, spawn_key=(HELD_OUT,))
    return int(key.generate_state(1, np.uint64)[0])
