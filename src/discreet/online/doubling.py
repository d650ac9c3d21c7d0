"""An unknown horizon: restart with twice the horizon on fresh data, at no cost in privacy."""

import dataclasses
import json
import os
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.privacy.checks import Array, numbers, whole
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.release import Release
from discreet.privacy.state import expect, load_state, save_state


class Doubling:
    """Any learner of this folder without a horizon: horizons first, 2 first, 4 first, ...

    Requires   make_learner(horizon) returns a new learner whose noise is fresh: hand every learner
               the same `SeededNoise`, made once outside, never one with the same seed again.
    Guarantee  that of one learner. Each round enters one of them, so a person of one round is
               touched by one restart; k rounds of one person may fall into several, and pure
               costs add up to no more than k rounds of one (for delta > 0 that is not shown, so
               contributions > 1 is refused there).

    The regret is at most 1/(1 - 2^-1/2) = 3.4 times sqrt(T)'s constant (Agarwal and Singh 2017
    need a known T).

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

    def __init__(self, make_learner: Callable[[int], Any], first: int = 1024) -> None:
        self.first, self._make = whole("first", first), make_learner
        self._name = secrets.token_hex(8)
        self._restarts = 0
        self._before = 0  # rounds of learners that are through
        self._delta = 0.0  # the largest so far: short restarts may need none
        self._past: tuple[Release, ...] = ()
        self._terms: tuple[Any, ...] | None = None
        self._learner = self._made()

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
    def guarantee(self) -> Guarantee:
        """The promise of one learner; a release's scope names its restart."""
        promise: Guarantee = self._learner.guarantee
        delta = max(promise.delta, self._delta)
        return dataclasses.replace(promise, delta=delta, releases=self._past + self._scoped())

    def decide(self, *features: Any) -> Any:
        """The decision of the learner at work."""
        self._turn()
        return self._learner.decide(*features)

    def learn(self, *feedback: Any) -> Any:
        """Feedback as the learner takes it; under full information a loss starts its own round.

        A bandit decision belongs to the learner that made it: after a restart it is refused.
        """
        if len(feedback) == 1:
            self._turn()
        return self._learner.learn(*feedback)

    def run(self, losses: ArrayLike) -> Array:  # (m, n) -> (m, n)
        """The decisions of m rounds whose losses are known: the same as m times decide, learn."""
        rows = numbers("losses", losses)
        self._turn()
        check = getattr(self._learner, "check", None)
        if check is not None:
            check(rows)  # all of them first, so that a bad one changes nothing
        parts: list[Array] = []
        done = 0
        while done < len(rows) or not parts:
            self._turn()
            room = self._learner.horizon - self._learner.rounds
            parts.append(self._learner.run(rows[done : done + room]))
            done += room
        return np.concatenate(parts)

    def state_dict(self) -> dict[str, Any]:
        """Arrays and plain values from which `load_state_dict` goes on."""
        past = json.dumps([release.to_dict() for release in self._past])
        inner = {f"learner.{name}": value for name, value in self._learner.state_dict().items()}
        own = {
            "format": 1,
            "kind": "Doubling",
            "name": self._name,
            "first": self.first,
            "restarts": self._restarts,
        }
        return {**own, "before": self._before, "delta": self._delta, "past": past, **inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state. Learners in between are made, so that seeds are used up."""
        expect(state, format=1, kind="Doubling", first=self.first)
        if state["restarts"] < self._restarts or (self.rounds and state["name"] != self._name):
            raise ValueError("the state is older, or of another learner; load it into a new one")
        past = tuple(Release.from_dict(record) for record in json.loads(state["past"]))
        inner = {name[8:]: v for name, v in state.items() if name.startswith("learner.")}
        kept, learner = self._restarts, self._learner
        try:
            while self._restarts < state["restarts"]:
                self._restarts += 1
                learner = self._made()
            learner.load_state_dict(inner)
        except Exception:
            self._restarts = kept
            raise
        self._learner, self._past, self._before = learner, past, state["before"]
        self._delta, self._name = float(state["delta"]), str(state["name"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, for the owner's eyes only. A state may go on once."""
        save_state(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str], make_learner: Callable[[int], Any]) -> "Doubling":
        """Go on from a file, with the `make_learner` it was made with."""
        state = load_state(path)
        expect(state, format=1, kind="Doubling")
        learner = cls(make_learner, state["first"])
        learner.load_state_dict(state)
        return learner

    def _turn(self) -> None:
        """Restart if the learner at work has had its rounds."""
        if self._learner.rounds < self._learner.horizon:
            return
        past, before = self._past + self._scoped(), self.rounds
        delta = max(self._delta, self._learner.guarantee.delta)
        self._restarts += 1
        try:
            self._learner = self._made()
        except Exception:
            self._restarts -= 1
            raise
        self._past, self._before, self._delta = past, before, delta

    def _made(self) -> Any:
        horizon = self.first * 2**self._restarts
        learner = self._make(horizon)
        if learner.horizon != horizon or learner.rounds:
            raise ValueError(f"make_learner({horizon}) must return a new learner of that horizon")
        promise: Guarantee = learner.guarantee
        asked = getattr(learner, "budget", promise)  # a short restart may be pure all the same
        # Pure costs are linear in the number of rounds: k_1 + k_2 + ... = k rounds over the
        # restarts cost epsilon (k_1 + k_2 + ...)/k. Gaussian costs of k rounds are not.
        if asked.contributions > 1 and asked.delta > 0:
            raise ValueError(
                "with delta > 0 Doubling protects one round of a person; set contributions=1, "
                "delta=0, or a horizon"
            )
        terms = (promise.epsilon, promise.contributions, promise.trust)
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
