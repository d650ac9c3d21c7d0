"""Joint trust: the server sees records; what it stores of an open window is noisy, and sealed.

The open sum holds its noise from the start. It is sealed (vault.py) under a new key at every
commit, with the key of its people where each window counts anew.
"""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from discreet.arrays import Array
from discreet.bandits import LinearBandit
from discreet.evaluation.worth import Value
from discreet.privacy import Guarantee
from discreet.service import definitions
from discreet.service.counted import KEY_BYTES, forget_people
from discreet.service.live import Live
from discreet.service.tenant import Stored, Tenant
from discreet.service.vault import NAME_BYTES, Vault
from discreet.state import decode, encode

KEPT = (
    "decisions that are named by the caller or have a default reward, to whoever steals store and "
    "secrets while they wait, or a copy of the store from then and the secrets some time after "
    "(SECURITY.md says how long)"
)
DISK = (
    "the last batch of rewards, to whoever steals store and secrets together",
    "a snapshot of store and secrets together that is served twice, unless a witness notices",
)
RESTORED = (
    "people who were counted before a restore from a backup: they may be counted once more, and "
    "their population is charged for it"
)


class Joint(Tenant):
    """A bandit that this server decides for."""

    learner: LinearBandit
    is_public = False
    after_restore = "was discarded"
    _valued: tuple[Any, tuple[Value, ...]] = (None, ())  # releases, and what they say of the worth
    visit_key = b""  # of the open window's people, where each window counts anew

    def new(self) -> LinearBandit:
        return definitions.learner(self.definition, self.noise)

    def guarantee(self) -> Guarantee:
        """The learner's promise, and what a server adds to worry about."""
        promise = self.learner.guarantee
        more = list(DISK)
        if self.definition.reward.default is not None:
            more.append(KEPT)
        if promise.visits:
            more.append(RESTORED)
        return replace(promise, unprotected=(*promise.unprotected, *more))

    def values(self) -> tuple[Value, ...]:
        """What it was worth after each release; computed once for each."""
        totals = self.learner.totals
        if self._valued[0] is not totals:
            found = self.learner.values()
            now = self.learner.value
            self._valued = totals, found if now is None else (*found[:-1], now)
        return self._valued[1]

    def fold(self, rows: Array, rewards: Array, rounds: Any) -> None:
        """Add rewarded rows of tokens, in units of the norm bound, to the open noisy sum."""
        self.learner._fold_stored(rows, rewards, np.asarray(rounds))

    # -- windows -----------------------------------------------------------------------------------

    def begin(self) -> None:
        self.learner.turn()
        self._admit_everybody()

    def window(self) -> tuple[int, int]:
        return self.learner.rounds, self.learner.rounds_until_release

    def is_learning(self) -> bool:
        return self.learner.learning

    def close(self, connection: Connection, row: Any) -> dict[str, Any]:
        """Release the noisy sum as it is: its noise was drawn when the window opened."""
        learner = self.learner
        before = len(learner.totals)
        size = learner.rounds_until_release
        beyond = row.window_end - learner.rounds - size  # decided while rewards waited
        learner.advance(size)
        learner.turn()
        learner.advance(beyond)
        if self.visit_key:
            forget_people(connection, row)
        self._admit_everybody()
        released = [each.published() for each in learner.totals[before:]]
        return released[0] | {"rounds": size} if released else {}

    def restart(self, connection: Connection, vault: Vault, row: Any) -> dict[str, Any]:
        """The open window is discarded unread: it may have been released, with other rewards."""
        self.learner._restore(_with_new_names(self._state(connection), self.learner))
        self.learner.discard()
        if self.definition.privacy.visits == "all":
            forget_people(connection, row)
        self._admit_everybody()
        return {}

    def _admit_everybody(self) -> None:
        """People come to a window that has just opened as new ones, where each counts anew."""
        counts_anew = self.definition.privacy.visits == "all" and self.learner.window is not None
        self.visit_key = secrets.token_bytes(KEY_BYTES) if counts_anew else b""

    # -- what is stored, and what is published -----------------------------------------------------

    def public_state(self) -> dict[str, Any]:
        """The learner's state with zeros in place of the open sum: everything else is public."""
        learner = self.learner
        if learner.window is None:
            return learner._stored()
        held = learner._stored_sum
        learner._stored_sum = np.zeros_like(held)
        try:
            return learner._stored()
        finally:
            learner._stored_sum = held

    def seal(self, vault: Vault) -> tuple[bytes | None, bytes]:
        """The key of the window's people and its noisy sum, sealed; none if nothing is learnt."""
        if self.learner.window is None:
            return None, b""
        content = self.visit_key + np.asarray(self.learner._stored_sum, dtype="<f8").tobytes()
        sealed = vault.seal(self.name, self.epoch, self.sequence, content)
        return sealed, sealed[:NAME_BYTES]

    def load(self, connection: Connection, vault: Vault, row: Any, stored: Stored) -> None:
        """Open what `seal` sealed, in a new learner if another window is open by now."""
        if self.version != row.version:
            self.learner = self.new()
            self.learner._restore(_with_new_names(self._state(connection), self.learner))
        sequence, sums = stored
        if sums is None or self.learner.window is None:
            return
        content = vault.open(self.name, self.epoch, sequence, sums)
        size = KEY_BYTES if self.definition.privacy.visits == "all" else 0
        self.visit_key = content[:size]
        self.learner._stored_sum = np.frombuffer(content[size:], dtype="<f8").astype(np.float64)

    def policy(self) -> dict[str, Any]:
        found: dict[str, Any] = self.learner.policy.to_dict()  # type: ignore[attr-defined]
        return found

    def publish(self, row: Any) -> Callable[[Live], None]:
        """Sets the policy of the open window, on the event loop, when its lease arrives there."""
        learner = self.learner
        policy, version, window = learner.policy, row.version, row.window
        size = row.window_end - row.window_start

        def publish(live: Live) -> None:
            live.policy, live.version, live.window = policy, version, window
            live.window_size = size
            live.holdout, live.held_out = learner.holdout, learner.held_out

        return publish


def _with_new_names(state: dict[str, Any], learner: LinearBandit) -> dict[str, Any]:
    """A state that older code stored, with the names that its parts have now."""
    parts = state["state"]
    parts["_ledger"]["of"].setdefault("_closed", False)
    if "_estimator" in parts:  # it and the arguments follow from the definition
        del parts["_estimator"]
        parts["_reports"] = None
        state["config"] = learner._stored()["config"]
    else:  # what of the model is new since then is what it is by default
        state["config"]["model"] = encode(decode(state["config"]["model"]))
    if "window" in parts:
        parts["_window"] = parts.pop("window")
        if parts["_window"] is not None:
            total = parts["_window"]["of"]["total"]["of"]
            total["_value"] = total.pop("value")
            total["_published"] = False
    return state
