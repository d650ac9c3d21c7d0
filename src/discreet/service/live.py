"""What the event loop knows of a bandit: its public policy, and round numbers that it may use."""

import time
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from discreet.arrays import Array
from discreet.service import offers, schema
from discreet.service.schema import Definition

_RATE_MEMORY = 0.8  # of the rate of decisions, from lease to lease


@dataclass
class Live:
    """A bandit for deciding: its public policy, and round numbers that this replica may use."""

    name: str  # of the bandit
    definition: Definition  # what the bandit is
    features: Any  # makes rows of contexts and actions; None for raw rows
    wait: float  # seconds for which rewards count
    about: bytes  # what its tokens are bound to: epoch and name
    policy: Any = None  # of the open window
    version: int = 0  # of the policy
    window: int = 0  # its number
    first: int = 0  # numbers first .. end - 1 are this replica's
    end: int = 0  # see `first`
    lease_ends: float = 0.0  # on the monotonic clock
    rate: float = 0.0  # decisions a second, lately
    used_at: float = 0.0  # when it last decided, on the monotonic clock
    waiting: Any = None  # a lease that is on its way
    spare: tuple[int, int, float] | None = None  # the next block of the same window, and its end
    returning: int = 0  # numbers that are on their way back to the store
    window_size: int = 0  # decisions in the open window
    shares: dict[tuple[str, int], int] = field(default_factory=dict)  # taken in advance (shares.py)
    refused: dict[str, Any] = field(default_factory=dict)  # who had their share, and when
    wanted: int = 0  # numbers that callers wait for
    rng: np.random.Generator = field(default_factory=np.random.default_rng)  # of coins
    holdout: Any = None  # which rounds play a baseline
    held_out: Any = None  # from numbers of rounds to whether they do

    @classmethod
    def of(cls, row: Any, definition: Definition) -> Self:
        """A bandit from its row, without a policy yet."""
        features, wait = offers.features(definition), schema.wait(definition)
        return cls(row.name, definition, features, wait, f"{row.epoch}\n{row.name}".encode())

    def coin(self, number: int) -> float:
        """What decides one round."""
        coin = float(self.rng.random())
        if self.holdout is None:
            return coin
        return float(self.holdout.coins(self.held_out(number), coin))

    def coins(self, first: int, n: int) -> Array:
        """What decides n rounds; the policy gives some of them to the baseline."""
        coins = self.rng.random(n)
        if self.holdout is None:
            return coins
        held = self.held_out(np.arange(first, first + n))
        return np.asarray(self.holdout.coins(held, coins))

    @property
    def unused(self) -> int:
        """Numbers that this replica has leased and not used."""
        spare = 0 if self.spare is None else self.spare[1] - self.spare[0]
        return self.end - self.first + spare + self.returning

    def note(self, decisions: int) -> None:
        """Decisions were made: the next lease is as long as traffic is dense."""
        now = time.monotonic()
        gap = max(now - self.used_at, 1e-4)
        self.rate = _RATE_MEMORY * self.rate + (1 - _RATE_MEMORY) * min(decisions / gap, 1e6)
        self.used_at = now
