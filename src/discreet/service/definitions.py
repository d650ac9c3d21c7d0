"""What a bandit is: from a definition in JSON to its learner."""

import math
import re
from functools import lru_cache
from typing import Any

import msgspec

from discreet.bandits import Holdout, LinearBandit, LocalServer, Model, People
from discreet.privacy import Shuffled
from discreet.privacy.gaussian import bounded_range_mu, gaussian_mu
from discreet.privacy.noise import Noise
from discreet.service.bodies import decoded
from discreet.service.errors import invalid
from discreet.service.offers import MOST_ACTIONS, Declared, dim, features
from discreet.service.schema import CrowdTerms, Definition, Privacy, wait

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")
_DEFINITION = msgspec.json.Decoder(Definition)
_MOST_DIM = 512
_MOST_LOCAL_DIM = 128


@lru_cache(maxsize=4096)
def parsed(raw: bytes) -> Definition:
    """A definition that can be served, or a problem that says what is wrong with it."""
    definition: Definition = decoded(_DEFINITION, raw)
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
    """What learners and feature maps do not know: how a definition is written, what is served."""
    privacy, reward, hashed = definition.privacy, definition.reward, definition.features
    ways = [definition.dim is not None, hashed is not None]
    declared = definition.actions is not None or definition.context is not None
    if sum([*ways, declared and not any(ways)]) != 1 or (ways[0] and declared):
        raise ValueError(
            "describe features in one way: context and actions, or dim, or features.hashed"
        )
    if ways[1] and (definition.context is not None or definition.action_features is not None):
        raise ValueError("hashed features take any context: leave out context and action_features")
    if declared and not any(ways) and definition.actions is None:
        raise ValueError("declare actions: a list of names")
    if definition.actions is not None and any(not name for name in definition.actions):
        raise ValueError("an action needs a name")
    if isinstance(definition.baseline, int):
        if definition.actions is not None or not 0 <= definition.baseline < MOST_ACTIONS:
            raise ValueError(
                "baseline must be the name of an action, or the place of one of those "
                "that come with each request"
            )
    elif definition.baseline is not None and definition.baseline not in (definition.actions or ()):
        raise ValueError("baseline must be one of the declared actions")
    low, high = reward.range
    if reward.default is not None:
        if not low <= reward.default <= high:
            raise ValueError("reward.default must lie in reward.range")
        if reward.wait is None:
            raise ValueError("reward.default needs reward.wait: how long to wait for the real one")
    wait(definition)
    if not 0 < privacy.delta < 0.1:
        raise ValueError("privacy.delta must be positive and small, such as 1e-6")
    if privacy.on_devices:
        _checked_local(definition)
    if privacy.trust != "shuffled" and privacy.crowd is not None:
        raise ValueError("privacy.crowd belongs to trust 'shuffled'")
    for name, given, most in (
        ("dim", definition.dim or 0, _MOST_DIM),
        ("features.hashed", hashed.hashed if hashed else 0, _MOST_DIM),
        ("the number of actions", len(definition.actions or ()), MOST_ACTIONS),
        ("horizon", definition.horizon or 0, 2**53),
        ("privacy.epsilon", privacy.epsilon or 0.0, 1000),
        ("privacy.contributions", privacy.contributions, 1000),
    ):
        if given > most:
            raise ValueError(f"{name} may be {most} at most")
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
    if definition.holdout is not None:
        raise ValueError(f"{trust} has no holdout: devices decide by themselves")
    if definition.features is not None:
        raise ValueError(f"{trust} takes context and actions, or dim; not features.hashed")
    if reward.wait is not None or reward.default is not None:
        raise ValueError(f"{trust}: devices report when they like; leave out reward.wait")
    if reward.typical_reward is not None:
        raise ValueError(f"{trust} takes no reward.typical_reward")
    if definition.unknown != "refuse":
        raise ValueError(f"{trust}: devices make their rows; leave out unknown")
    if definition.horizon is not None or definition.link != "identity":
        raise ValueError(f"{trust} takes no horizon, and no link but 'identity'")


def assert_meant(definition: Definition) -> None:
    """Raise if something stands in a new definition that would mean nothing: older ones may have
    it."""
    privacy, (low, high) = definition.privacy, definition.reward.range
    if privacy.visits is not None and privacy.unit != "person":
        raise invalid("privacy.visits belongs to unit 'person'")
    if privacy.contributions != 1 and privacy.unit == "person":
        raise invalid("unit 'person' covers all visits: leave out privacy.contributions")
    if not math.isfinite(high - low):
        raise invalid("reward.range is too wide")


def mu_squared(definition: Definition) -> float:
    """What the bandit costs each person over its whole life, as mu^2; inf without privacy."""
    privacy = definition.privacy
    if privacy.epsilon is None:
        return math.inf
    if privacy.trust == "local":
        return bounded_range_mu(2 * privacy.epsilon) ** 2  # of any pure epsilon
    return gaussian_mu(privacy.epsilon, privacy.delta) ** 2


def learner(definition: Definition, noise: Noise | None = None) -> LinearBandit:
    """The learner that a definition describes, new."""
    privacy = definition.privacy
    if dim(definition) > _MOST_DIM:
        raise ValueError(f"this definition has {dim(definition)} features; {_MOST_DIM} is the most")
    made = features(definition)
    return LinearBandit(
        dim(definition),
        definition.horizon,
        math.inf if privacy.epsilon is None else privacy.epsilon,
        privacy.delta,
        # Not gradient steps, however many features: this sum holds its noise from the start.
        policy="ucb" if definition.policy == "auto" else definition.policy,
        reward_range=definition.reward.range,
        model=Model(
            definition.link,
            made.map.block_of if isinstance(made, Declared) else None,
            typical_reward=definition.reward.typical_reward,
        ),
        people=_people(privacy),
        holdout=held_out(definition),
        noise=noise,
    )


def _people(privacy: Privacy) -> People:
    if privacy.unit == "person":
        return People(visits=privacy.visits or "first")
    return People(rounds=privacy.contributions)


def held_out(definition: Definition) -> Holdout | None:
    """Which decisions are held out, and what they get."""
    if definition.holdout is None:
        return None
    if definition.baseline is None:
        return Holdout(definition.holdout)
    if isinstance(definition.baseline, int):
        return Holdout(definition.holdout, definition.baseline)
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
    return {"delta": privacy.delta, "crowd": Shuffled(**msgspec.structs.asdict(stated))}
