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
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from discreet.features import Category, Number


def says(text: str, **more: Any) -> Meta:
    """What a field is, for the documents of the API."""
    return Meta(description=text, **more)


_WAIT = re.compile(r"(\d{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_WAIT = 10 * 366 * 86400


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column with public bounds: a number in [low, high], or one of some categories."""

    number: Annotated[tuple[float, float] | None, says("lowest and highest value")] = None
    category: Annotated[list[str | int | bool] | None, says("the values")] = None
    other: Annotated[bool, says("whether there is a column for values that were not declared")] = (
        False
    )
    missing: Annotated[
        float | Literal["indicator"] | bool | None,
        says(
            "what null is: of numbers one that stands for it, or `indicator`: 0 here "
            "and 1 in a second column; of categories true: a column of its own; else it is refused"
        ),
    ] = None

    def feature(self, name: str) -> Number | Category:
        """The column as `features.py` knows it."""
        if (self.number is None) == (self.category is None):
            raise ValueError(f"column {name!r} needs either number: [low, high] or category: [...]")
        if self.number is not None:
            if self.other or isinstance(self.missing, bool):
                raise ValueError(
                    f"column {name!r} holds numbers: leave out other; missing is a number within "
                    'the bounds, or "indicator"'
                )
            return Number(*self.number, missing=self.missing)
        assert self.category is not None
        if self.missing not in (None, True, False) or isinstance(self.missing, float):
            raise ValueError(f"column {name!r} holds categories: missing is true or false")
        return Category(*self.category, other=self.other, missing=bool(self.missing))

    @property
    def takes_null(self) -> bool:
        """Whether a value may be missing."""
        return self.missing is not None and self.missing is not False


class Hashed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Any JSON, hashed into so many columns."""

    hashed: Annotated[int, says("number of columns")]
    number_bound: Annotated[float, says("numbers are clipped to [-bound, bound]")] = 1.0


class Reward(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In which range rewards lie, how long to wait for one, and what counts if none comes."""

    range: Annotated[tuple[float, float], says("lowest and highest reward")] = (
        0.0,
        1.0,
    )
    wait: Annotated[str | None, says('such as "7d": later rewards do not count')] = None
    default: Annotated[float | None, says("that counts if none came; null: nothing does")] = None
    typical_reward: Annotated[
        float | None,
        says(
            "about how large expected rewards are, as publicly known, rather too large "
            "than too small; null: half of the range"
        ),
    ] = None


class CrowdTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shuffled trust: what batches are counted on for (`discreet.privacy.Shuffled`)."""

    minimum: Annotated[
        float, says("of the planned reports of a batch; one with fewer is not released")
    ] = 0.8
    honest: Annotated[
        float,
        says("of the planned reports: so many are drawn as they should be, which nobody checks"),
    ] = 0.5
    local_epsilon: Annotated[float, says("the most that a report costs by itself")] = 8.0


class Privacy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is promised to whom; epsilon null switches privacy off."""

    epsilon: Annotated[float | None, says("null switches privacy off")]
    delta: Annotated[float, says("of the promise")] = 1e-6
    trust: Annotated[
        Literal["joint", "local", "shuffled"],
        says(
            "joint: the server sees records; local: devices keep them; shuffled: "
            "devices keep them, and a relay hides who sent which report"
        ),
    ] = "joint"
    unit: Annotated[
        Literal["round", "person"],
        says("what is protected: a round, or a person with all visits"),
    ] = "round"
    visits: Annotated[
        Literal["first", "all"] | None,
        says('of a person that count, with unit "person": first (unless stated) or all'),
    ] = None
    contributions: Annotated[int, says("rounds of one person that are covered")] = 1
    population: Annotated[str | None, says("that is charged")] = None
    crowd: Annotated[
        CrowdTerms | None,
        says('with trust "shuffled": what batches are counted on for'),
    ] = None

    @property
    def on_devices(self) -> bool:
        """Whether devices decide by themselves, and send private reports."""
        return self.trust != "joint"


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bandit: what it sees, what it may do, what it learns from, what it promises."""

    privacy: Annotated[Privacy, says("the promise")]
    context: Annotated[dict[str, Column] | None, says("columns by name")] = None
    actions: Annotated[
        list[str] | dict[str, dict[str, Any]] | None,
        says("names, or names with their features"),
    ] = None
    action_features: Annotated[dict[str, Column] | None, says("columns of actions")] = None
    dim: Annotated[int | None, says("numbers of a raw row, in place of context and actions")] = None
    features: Annotated[Hashed | None, says("hashed columns, in place of context")] = None
    unknown: Annotated[
        Literal["refuse", "ignore"],
        says(
            "what is not declared: refuse it; or ignore columns, persons where rounds "
            "are protected, take categories for none, and booleans where numbers stand for 0 and 1"
        ),
    ] = "refuse"
    reward: Annotated[Reward, says("its range, and how long to wait for it")] = msgspec.field(
        default_factory=Reward
    )
    horizon: Annotated[int | None, says("decisions after which learning ends; null: never")] = None
    link: Annotated[
        Literal["identity", "logistic", "probit", "poisson"],
        says("from rows to expected rewards"),
    ] = "identity"
    policy: Annotated[str, says("how it explores")] = "auto"
    baseline: Annotated[
        str | int | None,
        says(
            "the action to compare with: what people would get without it; where "
            "actions come with each request its place among them, such as 0"
        ),
    ] = None
    holdout: Annotated[
        float | None,
        says("fraction of decisions that get it (or any), to measure the gain"),
    ] = None

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
