"""What a definition of a bandit says, as msgspec types.

    {"context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold"]}},
     "actions": ["email", "call", "nothing"],
     "reward": {"range": [0, 1], "wait": "7d", "default": 0},
     "privacy": {"epsilon": 1.0, "delta": 1e-6, "trust": "joint", "unit": "round"}}

In place of context and actions: `"dim": 20` for raw rows, or `"features": {"hashed": 32}` for any
JSON.
"""

import math
import re
from typing import Any, Literal

import msgspec

from discreet.features import Category, Number

_WAIT = re.compile(r"(\d{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_WAIT = 10 * 366 * 86400


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column with public bounds: a number in [low, high], or one of some categories.

    number     lowest and highest value
    category   the values
    other      whether there is a column for values that were not declared
    """

    number: tuple[float, float] | None = None
    category: list[str | int | bool] | None = None
    other: bool = False

    def feature(self, name: str) -> Number | Category:
        """The column as `features.py` knows it."""
        if (self.number is None) == (self.category is None):
            raise ValueError(f"column {name!r} needs either number: [low, high] or category: [...]")
        if self.number is not None:
            return Number(*self.number)
        assert self.category is not None
        return Category(*self.category, other=self.other)


class Hashed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Any JSON, hashed into so many columns.

    hashed         number of columns
    number_bound   numbers are clipped to [-bound, bound]
    """

    hashed: int
    number_bound: float = 1.0


class Reward(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In which range rewards lie, how long to wait for one, and what counts if none comes.

    range     lowest and highest reward
    wait      such as "7d": later rewards do not count
    default   that counts if none came; null: nothing does
    """

    range: tuple[float, float] = (0.0, 1.0)
    wait: str | None = None
    default: float | None = None


class CrowdTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shuffled trust: what batches are counted on for (`discreet.privacy.Crowd`).

    minimum         of the planned reports of a batch; one with fewer is not released
    honest          of the planned reports: so many are drawn as they should be, which nobody checks
    local_epsilon   the most that a report costs by itself
    """

    minimum: float = 0.8
    honest: float = 0.5
    local_epsilon: float = 8.0


class Privacy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is promised to whom; epsilon null switches privacy off.

    epsilon         null switches privacy off
    delta           of the promise
    trust           joint: the server sees records; local: devices keep them; shuffled: devices keep
                    them, and a relay hides who sent which report
    unit            what is protected: a round, or a person with all visits
    visits          of a person that count, with unit "person": first (unless stated) or all
    contributions   rounds of one person that are covered
    population      that is charged
    crowd           with trust "shuffled": what batches are counted on for
    """

    epsilon: float | None
    delta: float = 1e-6
    trust: Literal["joint", "local", "shuffled"] = "joint"
    unit: Literal["round", "person"] = "round"
    visits: Literal["first", "all"] | None = None
    contributions: int = 1
    population: str | None = None
    crowd: CrowdTerms | None = None

    @property
    def on_devices(self) -> bool:
        """Whether devices decide by themselves, and send private reports."""
        return self.trust != "joint"


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bandit: what it sees, what it may do, what it learns from, what it promises.

    privacy           the promise
    context           columns by name
    actions           names, or names with their features
    action_features   columns of actions
    dim               numbers of a raw row, in place of context and actions
    features          hashed columns, in place of context
    reward            its range, and how long to wait for it
    horizon           decisions after which learning ends; null: never
    link              from rows to expected rewards
    policy            how it explores
    baseline          the action to compare with: what people would get without it
    holdout           fraction of decisions that get it (or any), to measure the gain
    """

    privacy: Privacy
    context: dict[str, Column] | None = None
    actions: list[str] | dict[str, dict[str, Any]] | None = None
    action_features: dict[str, Column] | None = None
    dim: int | None = None
    features: Hashed | None = None
    reward: Reward = msgspec.field(default_factory=Reward)
    horizon: int | None = None
    link: Literal["identity", "logistic", "probit", "poisson"] = "identity"
    policy: str = "auto"
    baseline: str | None = None
    holdout: float | None = None

    def normalised(self) -> bytes:
        """The same bytes for every way to write the same definition: every field, in order.

        >>> from discreet.service.definitions import parsed
        >>> short = parsed(b'{"dim": 2, "reward": {"wait": "60s"}, "privacy": {"epsilon": 1}}')
        >>> long = (b'{"privacy": {"delta": 1e-6, "epsilon": 1.0}, "policy": "auto", '
        ...         b'"reward": {"range": [0, 1], "wait": "1m"}, "dim": 2, "horizon": null}')
        >>> parsed(long).normalised() == short.normalised()
        True
        """
        reward = msgspec.structs.replace(self.reward, wait=_spelled(wait(self)))
        privacy = self.privacy
        if privacy.unit == "person" and privacy.visits is None:
            privacy = msgspec.structs.replace(privacy, visits="first")
        if privacy.trust == "shuffled" and privacy.crowd is None:
            privacy = msgspec.structs.replace(privacy, crowd=CrowdTerms())
        same = msgspec.structs.replace(self, reward=reward, privacy=privacy)
        return msgspec.json.encode(same, order="sorted")


def wait(definition: Definition) -> float:
    """How many seconds after its decision a reward counts; inf if for ever."""
    text = definition.reward.wait
    if text is None:
        return math.inf
    found = _WAIT.fullmatch(text)
    if found is None:
        raise ValueError('reward.wait must be a time such as "30s", "15m", "12h" or "7d"')
    seconds = int(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _LONGEST_WAIT:
        raise ValueError("reward.wait must be positive and at most ten years")
    return float(seconds)


def _spelled(seconds: float) -> str | None:
    """A time in its largest unit: "168h" and "7d" are the same."""
    if math.isinf(seconds):
        return None
    unit = max((u for u, size in _SECONDS.items() if seconds % size == 0), key=_SECONDS.__getitem__)
    return f"{int(seconds) // _SECONDS[unit]}{unit}"
