"""An unknown horizon: restart with twice the horizon on fresh data, at no cost in privacy."""

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, real_or_nan
from discreet.decisions import LossDecision
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.release import Release
from discreet.state import Stateful, damaged


class Doubling(Stateful):
    """Any learner of this folder without a horizon: horizons first, 2 first, 4 first, ...

    Requires   make_learner(horizon) returns a new learner whose noise is fresh: hand every learner
               the same `SeededNoise`, made once outside, never one with the same seed again.
    Guarantee  that of one learner. Each round enters one of them, so a person of one round is
               touched by one restart. k rounds of one person may fall into several, k_1 + k_2 +
               ... = k. Pure costs are linear in them: sum epsilon k_i/k = epsilon. Squares of
               Gaussian costs are at most linear where a restart has 3 k rounds or more: sum mu^2
               k_i/k = mu^2. The two do not mix, so for k > 1 all restarts must be of one kind.

    The regret is at most 1/(1 - 2^-1/2) = 3.4 times sqrt(T)'s constant (Agarwal and Singh 2017
    need a known T).

    make_learner   a function from a horizon to a learner; not saved, so `load` asks for it
    first          the first horizon

    >>> from discreet.domains import Simplex
    >>> from discreet.online import FTRL
    >>> from discreet.privacy import SeededNoise
    >>> noise = SeededNoise(0)
    >>> learner = Doubling(lambda T: FTRL(Simplex(2), T, 1.0, 1e-6, noise=noise), first=64)
    >>> learner.run(np.tile([0.0, 1.0], (1000, 1))).shape, learner.horizon
    ((1000, 2), 1984)
    >>> [round.scope for round in learner.guarantee.releases]
    ['restart 0', 'restart 1', 'restart 2', 'restart 3', 'restart 4']
    """

    _state = (
        "_made_with", "_restarts", "_before", "_delta", "_past", "_earlier", "_learner", "_maker"
    )  # fmt: skip

    def __init__(self, make_learner: Callable[[int], Any], first: int = 1024) -> None:
        self.make_learner = make_learner
        self.first = integer("first", first)
        self._restarts = 0
        self._before = 0  # rounds of earlier learners
        self._delta = 0.0  # the largest so far: short restarts may need none
        self._past: tuple[Release, ...] = ()
        self._earlier: tuple[str, ...] = ()  # names of earlier learners, as decisions have them
        self._terms: tuple[Any, ...] | None = None
        self._learner = self._made(0)
        self._maker: str = self._learner._run  # as its decisions name it
        # Part of the state: learners with other arguments have other noise.
        self._made_with = json.dumps(self._learner._config(), default=np.ndarray.tolist)

    @property
    def learner(self) -> Any:
        """The learner at work."""
        return self._learner

    @property
    def rounds(self) -> int:
        """Rounds so far, over all restarts."""
        return self._before + int(self._learner.rounds)

    @property
    def horizon(self) -> int:
        """The number of rounds after which the next restart comes; it doubles then."""
        return self._before + int(self._learner.horizon)

    @property
    def learning(self) -> bool:
        """Always: there is no horizon."""
        return True

    @property
    def guarantee(self) -> Guarantee:
        """The promise of one learner; a release's scope names its restart."""
        promise: Guarantee = self._learner.guarantee
        delta = max(promise.delta, self._delta)
        return dataclasses.replace(promise, delta=delta, releases=self._past + self._scoped())

    def decide(self, *features: Any) -> Any:
        """The decision of the learner at work."""
        with self._live:
            self._turn()
            return self._learner.decide(*features)

    def learn(self, *feedback: Any) -> bool:
        """Feedback as the learner takes it; whether it counted.

        What is no decision's feedback (a loss vector, a row and its label) starts a round of its
        own. A bandit decision belongs to the learner that made it: after a restart it no longer
        counts.
        """
        with self._live:
            maker = getattr(feedback[0], "learner", None) if feedback else None
            if maker is None:
                self._turn()
            elif maker in self._earlier:
                return False
            return bool(self._learner.learn(*feedback))

    def decision(self, record: dict[str, Any]) -> Any:
        """The decision that `to_dict` described; that of an earlier restart counts no more."""
        maker = record.get("learner") if isinstance(record, dict) else None
        if maker in self._earlier:
            return LossDecision(record.get("round", 0), str(maker), None)
        return self._learner.decision(record)

    def run(self, losses: ArrayLike) -> Array:  # (m, n) -> (m, n)
        """The decisions of m rounds whose losses are known: the same as m times decide, learn."""
        rows = real_or_nan(losses if isinstance(losses, list | tuple) else np.asarray(losses))
        with self._live:
            self._turn()
            parts: list[Array] = []
            done = 0
            while done < len(rows) or not parts:
                self._turn()
                room = self._learner.horizon - self._learner.rounds
                parts.append(self._learner.run(rows[done : done + room]))
                done += room
            return np.concatenate(parts)

    def _turn(self) -> None:
        """Restart if the learner at work has had its rounds."""
        if self._learner.rounds < self._learner.horizon:
            return
        learner = self._made(self._restarts + 1)
        self._commit(
            _learner=learner,
            _restarts=self._restarts + 1,
            _before=self.rounds,
            _delta=max(self._delta, self._learner.guarantee.delta),
            _past=self._past + self._scoped(),
            _earlier=(*self._earlier, self._maker),
            _maker=learner._run,
        )

    def _made(self, restart: int) -> Any:
        horizon = self.first * 2**restart
        learner = self.make_learner(horizon)
        if learner.horizon != horizon or learner.rounds:
            raise ValueError(f"make_learner({horizon}) must return a new learner of that horizon")
        promise: Guarantee = learner.guarantee
        # What was asked for: the promise of a short restart may need none of it.
        delta = getattr(learner, "budget", promise).delta
        if promise.contributions > 1:
            _assert_rounds_add_up(promise, horizon, delta)
        terms = (promise.epsilon, delta, promise.contributions, promise.trust)
        if self._terms not in (None, terms):
            raise ValueError("make_learner must give every restart the same privacy budget")
        self._terms = terms
        return learner

    def _scoped(self) -> tuple[Release, ...]:
        """The learner's releases under the name of its restart: disjoint rows do not add up."""
        releases: tuple[Release, ...] = self._learner.guarantee.releases
        name = f"restart {self._restarts}"
        if all(release.scope is None for release in releases):
            return tuple(dataclasses.replace(release, scope=name) for release in releases)
        # A release without scope beside others stays so: it is counted in full, which is safe.
        return tuple(
            release
            if release.scope is None
            else dataclasses.replace(release, scope=f"{name}, {release.scope}")
            for release in releases
        )

    @classmethod
    def _decoded(cls, plain: Any, like: Self | None) -> Self:
        """Learners in between are made, so that their noise is used up and never drawn again."""
        restarts = plain.get("_restarts") if isinstance(plain, dict) else None
        # Horizons double: no stream has more restarts than 60.
        if like is None or not isinstance(restarts, int) or not 0 <= restarts <= 60:
            raise damaged("restarts")
        if plain.get("_made_with") != like._made_with:
            raise ValueError(
                "this state was saved with learners of other arguments; use the make_learner that "
                "it was saved with"
            )
        if restarts < like._restarts:
            raise ValueError(
                f"the state is older: at restart {restarts}, this learner at {like._restarts}; "
                "publishing those rounds again would spend the budget twice"
            )
        there = cls.__new__(cls)
        there.__dict__.update({**like.__dict__, "_restarts": restarts})
        for restart in range(like._restarts + 1, restarts + 1):
            there._learner = like._made(restart)
        return super()._decoded(plain, there)

    def _validate(self) -> None:
        if self._before != self.first * (2**self._restarts - 1):
            raise damaged("before")
        # Decisions name the learner that made them: it keeps its name when it is resumed.
        self._learner.__dict__["_run"] = self._maker


def _assert_rounds_add_up(promise: Guarantee, horizon: int, delta: float) -> None:
    """Whether k rounds of a person over several restarts cost no more than k in one of them.

    Running sums by filters: k rounds move C x by |c_0 + ... + c_{k-1}| at most, whose square grows
    by inc_b = <c_b, c_b + 2 (c_0 + ... + c_{b-1})> with round b. Coefficients c_u fall, so for a
    horizon T
        inc_{b+1} - inc_b = 2 sum_{u < T-1-b} c_u c_{u+b+1} - c_{T-1-b} (c_{T-1-b} + 2 sum ...)
                         >= (2 (T - 1 - 2 b) - (2 b + 1)) c_{T-1-b}^2 >= 0   if T >= 3 k.
    Increments that do not fall add up to at most j/k of the whole after j of k rounds. Trees say a
    sensitivity for which that holds, and a sum over batches counts k rounds k times: (j/k)^2.
    """
    k = promise.contributions
    if delta > 0 and any(math.isfinite(each.epsilon) for each in promise.releases):
        raise ValueError(
            f"a restart of {horizon} rounds would be pure, later ones not, and {k} rounds of one "
            "person in both cost too much: choose mechanism='blt', delta=0, or contributions=1"
        )
    if delta > 0 and horizon < 3 * k:
        raise ValueError(f"with delta > 0 first must be at least 3 contributions, that is {3 * k}")
