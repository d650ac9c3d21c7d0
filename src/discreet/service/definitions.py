"""What a bandit is: a JSON definition, its features and its learner.

    {"context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold"]}},
     "actions": ["email", "call", "nothing"],
     "reward": {"range": [0, 1], "wait": "7d", "default": 0},
     "privacy": {"epsilon": 1.0, "delta": 1e-6, "trust": "joint", "unit": "round"}}

In place of context and actions: `"dim": 20` for raw rows, or `"features": {"hashed": 32}` for any
JSON.
"""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np

from discreet.arrays import Array, within
from discreet.bandits import Holdout, LinearBandit, LocalServer
from discreet.features import Category, FeatureMap, Number
from discreet.hashed import HashedFeatures
from discreet.privacy import Crowd, Noise
from discreet.privacy.gaussian import bounded_range_mu, gaussian_mu
from discreet.service.errors import explained, invalid, not_json

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")
_WAIT = re.compile(r"(\d{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_WAIT = 10 * 366 * 86400
_MOST_DIM = 512
_MOST_LOCAL_DIM = 128
_MOST_ACTIONS = 10_000


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


@lru_cache(maxsize=256)
def parsed(raw: bytes) -> Definition:
    """A definition that can be served, or a problem that says what is wrong with it."""
    try:
        definition = msgspec.json.decode(raw, type=Definition)
    except msgspec.ValidationError as error:
        raise invalid(explained(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise not_json() from None
    try:
        _checked(definition)
        features(definition)
        if definition.privacy.on_devices:
            local_server(definition)
        else:
            learner(definition)
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid(str(error)) from None
    return definition


def _checked(definition: Definition) -> None:
    privacy, reward = definition.privacy, definition.reward
    ways = [definition.dim is not None, definition.features is not None]
    declared = definition.actions is not None or definition.context is not None
    if sum([*ways, declared and not any(ways)]) != 1 or (ways[0] and declared):
        raise ValueError(
            "describe features in one way: context and actions, or dim, or features.hashed"
        )
    if ways[1] and (definition.context is not None or definition.action_features is not None):
        raise ValueError("hashed features take any context: leave out context and action_features")
    if declared and not any(ways) and definition.actions is None:
        raise ValueError("declare actions: a list of names")
    if definition.actions is not None and not 1 <= len(definition.actions) <= _MOST_ACTIONS:
        raise ValueError(f"a bandit has between 1 and {_MOST_ACTIONS} actions")
    if definition.actions is not None and any(not name for name in definition.actions):
        raise ValueError("an action needs a name")
    if definition.baseline is not None and definition.baseline not in (definition.actions or ()):
        raise ValueError("baseline must be one of the declared actions")
    if definition.holdout is not None:
        if not 0 < definition.holdout <= 0.5:
            raise ValueError("holdout must be a fraction of decisions, between 0 and 1/2")
        if privacy.on_devices:
            raise ValueError(
                f"trust {privacy.trust!r} has no holdout: devices decide by themselves"
            )
    if definition.dim is not None and not 1 <= definition.dim <= _MOST_DIM:
        raise ValueError(f"dim must lie between 1 and {_MOST_DIM}")
    if definition.features is not None and not 2 <= definition.features.hashed <= _MOST_DIM:
        raise ValueError(f"features.hashed must lie between 2 and {_MOST_DIM}")
    if definition.horizon is not None and not 1 <= definition.horizon <= 2**53:
        raise ValueError("horizon must be a positive number of rounds, or null")
    low, high = reward.range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("reward.range must be [low, high] with low < high")
    if reward.default is not None:
        if not low <= reward.default <= high:
            raise ValueError("reward.default must lie in reward.range")
        if reward.wait is None:
            raise ValueError("reward.default needs reward.wait: how long to wait for the real one")
    wait(definition)
    if privacy.epsilon is not None and not 0 < privacy.epsilon <= 1000:
        raise ValueError("privacy.epsilon must be positive, or null to switch privacy off")
    if not 0 < privacy.delta < 0.1:
        raise ValueError("privacy.delta must be positive and small, such as 1e-6")
    if not 1 <= privacy.contributions <= 1000:
        raise ValueError("privacy.contributions must be a positive number")
    if privacy.unit == "round" and privacy.visits is not None:
        raise ValueError("privacy.visits belongs to unit 'person'")
    if privacy.unit == "person" and privacy.contributions != 1:
        raise ValueError("unit 'person' covers all visits: leave out contributions")
    if privacy.on_devices:
        _checked_local(definition)
    if privacy.trust != "shuffled" and privacy.crowd is not None:
        raise ValueError("privacy.crowd belongs to trust 'shuffled'")
    if privacy.population is not None and not NAME.fullmatch(privacy.population):
        raise ValueError("privacy.population must be a short name of letters, digits, . _ -")


def _checked_local(definition: Definition) -> None:
    """Devices decide, count and answer by themselves: what only a server could do is refused."""
    privacy, reward = definition.privacy, definition.reward
    trust = f"trust {privacy.trust!r}"
    if privacy.epsilon is None:
        raise ValueError(f"{trust} needs an epsilon: without one devices would send records")
    if privacy.trust == "local" and privacy.delta != Privacy(epsilon=None).delta:
        raise ValueError(f"{trust} is pure: leave out privacy.delta, it is 0")
    if privacy.trust == "shuffled" and privacy.population is not None:
        raise ValueError(
            f"{trust} has a delta that no Gaussian mu covers: it cannot be charged to a population"
        )
    if privacy.unit == "person":
        raise ValueError(
            f"{trust} protects people by contributions: leave out privacy.unit; each device "
            "sends at most that many reports, which together cost epsilon"
        )
    if definition.features is not None:
        raise ValueError(f"{trust} takes context and actions, or dim; not features.hashed")
    if reward.wait is not None or reward.default is not None:
        raise ValueError(f"{trust}: devices report when they like; leave out reward.wait")
    if definition.horizon is not None or definition.link != "identity":
        raise ValueError(f"{trust} takes no horizon, and no link but 'identity'")


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


def mu_squared(definition: Definition) -> float:
    """What the bandit costs each person over its whole life, as mu^2; inf without privacy."""
    privacy = definition.privacy
    if privacy.epsilon is None:
        return math.inf
    if privacy.trust == "local":
        return bounded_range_mu(2 * privacy.epsilon) ** 2  # of any pure epsilon
    return gaussian_mu(privacy.epsilon, privacy.delta) ** 2


# -- features --------------------------------------------------------------------------------------


class Offer:
    """Feature rows of what may be chosen, and how each choice is called.

    rows    one for each action
    names   of the actions
    """

    __slots__ = ("names", "rows")

    def __init__(self, rows: Any, names: Sequence[Any]) -> None:
        self.rows = rows
        self.names = names


def _assert_baseline_is_offered(definition: Definition, actions: list[Any] | None) -> None:
    """Held-out decisions get the baseline by its place among the declared actions."""
    if actions is not None and None not in (definition.holdout, definition.baseline):
        raise ValueError("this bandit holds out decisions for its baseline: leave out actions")


class Declared:
    """Declared context and actions.

    definition   with context and actions
    """

    def __init__(self, definition: Definition) -> None:
        context = {
            name: column.feature(name) for name, column in (definition.context or {}).items()
        }
        extra = {n: column.feature(n) for n, column in (definition.action_features or {}).items()}
        assert definition.actions is not None
        self.map = FeatureMap(context, definition.actions, action_features=extra or None)
        self.dim = self.map.dim
        self.names = self.map.names
        self.definition = definition

    def offer(self, context: Any, actions: list[Any] | None) -> Offer:
        """Rows for the available actions."""
        _assert_baseline_is_offered(self.definition, actions)
        if not isinstance(context, dict):
            context = {}
        names = self.map.actions if actions is None else actions
        return Offer(self.map(context, actions), names)

    def offers(
        self, contexts: Sequence[Any], actions: list[Any] | None
    ) -> tuple[Array, Sequence[Any]]:
        """Rows (n, actions, dim) for many contexts with the same actions, and their names."""
        _assert_baseline_is_offered(self.definition, actions)
        names = self.map.actions if actions is None else actions
        if not self.map.columns:
            one = self.map({}, actions)
            return np.broadcast_to(one, (len(contexts), *one.shape)), names
        try:
            table = {name: [each[name] for each in contexts] for name in self.map.columns}
        except (KeyError, TypeError):
            raise ValueError("each context must be an object with every declared column") from None
        return self.map.many(table, actions), names


class AnyJson:
    """Hashed features of any context and any actions.

    definition   with hashed features
    """

    def __init__(self, definition: Definition) -> None:
        assert definition.features is not None
        hashed = definition.features
        self.map = HashedFeatures(hashed.hashed, number_bound=hashed.number_bound)
        self.actions = None if definition.actions is None else list(definition.actions)
        self.definition = definition
        self.dim = self.map.dim
        self.names = tuple(f"column {i}" for i in range(self.dim))

    def offer(self, context: Any, actions: list[Any] | None) -> Offer:
        """Rows for actions that are strings, or objects with an "id"."""
        _assert_baseline_is_offered(self.definition, actions)
        given = self.actions if actions is None else actions
        if not given:
            raise ValueError("this bandit has no fixed list of actions: send actions")
        if len(given) > _MOST_ACTIONS:
            raise ValueError(f"send at most {_MOST_ACTIONS} actions")
        names = [_called(each) for each in given]
        if len(set(names)) < len(names):
            raise ValueError("each action must have an id of its own")
        return Offer(self.map(context, given), names)


def _called(action: Any) -> Any:
    if isinstance(action, dict):
        if not isinstance(action.get("id"), str):
            raise ValueError('an action must be a string, or an object with a string "id"')
        return action["id"]
    if not isinstance(action, str):
        raise ValueError('an action must be a string, or an object with a string "id"')
    return action


def features(definition: Definition) -> Declared | AnyJson | None:
    """How contexts become rows; None where callers send rows."""
    if definition.dim is not None:
        return None
    return AnyJson(definition) if definition.features is not None else Declared(definition)


def dim(definition: Definition) -> int:
    """The number of features."""
    made = features(definition)
    return definition.dim if made is None else made.dim  # type: ignore[return-value]


def learner(definition: Definition, noise: Noise | None = None) -> LinearBandit:
    """The learner that a definition describes, new."""
    privacy = definition.privacy
    if dim(definition) > _MOST_DIM:
        raise ValueError(f"this definition has {dim(definition)} features; {_MOST_DIM} is the most")
    return LinearBandit(
        dim(definition),
        definition.horizon,
        math.inf if privacy.epsilon is None else privacy.epsilon,
        privacy.delta,
        link=definition.link,
        policy=definition.policy,
        estimator="information-weighted",  # its sum holds its noise from the start
        reward_range=definition.reward.range,
        contributions=privacy.contributions,
        unit=privacy.unit,
        visits=privacy.visits,
        holdout=held_out(definition),
        noise=noise,
    )


def held_out(definition: Definition) -> Holdout | None:
    """Which decisions are held out, and what they get."""
    if definition.holdout is None:
        return None
    if definition.baseline is None:
        return Holdout(definition.holdout)
    assert definition.actions is not None
    return Holdout(definition.holdout, list(definition.actions).index(definition.baseline))


def local_server(definition: Definition) -> LocalServer:
    """The server of a definition under local or shuffled trust, new."""
    privacy = definition.privacy
    assert privacy.epsilon is not None
    if dim(definition) > _MOST_LOCAL_DIM:
        raise ValueError(
            f"this definition has {dim(definition)} features; {_MOST_LOCAL_DIM} is the most under "
            "local trust, where a report can have as many numbers as their square"
        )
    return LocalServer(
        dim(definition),
        privacy.epsilon,
        policy="thompson" if definition.policy == "auto" else definition.policy,
        reward_range=definition.reward.range,
        contributions=privacy.contributions,
        **_shuffled(privacy),
    )


def _shuffled(privacy: Privacy) -> dict[str, Any]:
    if privacy.trust != "shuffled":
        return {}
    stated = privacy.crowd or CrowdTerms()
    return {"delta": privacy.delta, "crowd": Crowd(**msgspec.structs.asdict(stated))}


def raw_rows(rows: Any, columns: int) -> Array:
    """Rows that a caller sent, (actions, columns) of finite numbers, shortened to the unit ball."""
    if not isinstance(rows, list) or not 1 <= len(rows) <= _MOST_ACTIONS:
        raise ValueError("features must be a list of rows, one for each action")
    if any(not isinstance(row, list) or len(row) != columns for row in rows):
        raise ValueError(f"each row of features must have {columns} numbers")
    if any(isinstance(x, bool) or not isinstance(x, int | float) for row in rows for x in row):
        raise ValueError("features must be numbers")
    try:
        array = np.array(rows, dtype=np.float64)
    except OverflowError:
        raise ValueError("features must be finite numbers") from None
    if not np.isfinite(array).all():
        raise ValueError("features must be finite numbers")
    return within("features", array, 1.0, norm="l2", clip=True)
