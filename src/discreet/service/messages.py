"""Requests, as msgspec types: they are decoded by them, and described by them."""

from typing import Any

import msgspec

from discreet.service.errors import invalid


class DecideRequest(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What is known about one person, and what may be chosen."""

    context: Any = None
    actions: list[Any] | None = None
    features: list[list[float]] | None = None
    person: str | None = None
    id: str | None = None


class DecideBody(DecideRequest, omit_defaults=True, forbid_unknown_fields=True):
    """One request; or many, as `requests`, or as `contexts` that all have the same `actions`."""

    requests: list[DecideRequest] | None = None
    contexts: list[Any] | None = None

    def assert_one_way(self) -> None:
        """Raise unless many requests are sent in one way only."""
        own = (self.context, self.features, self.person, self.id)
        given = [each for each in own if each is not None]
        if self.requests is not None and self.actions is not None:
            given.append(self.actions)
        if given or (self.requests is not None and self.contexts is not None):
            raise invalid(
                "send one request; or `requests`, each with its own fields; or `contexts`, "
                "with `actions` for all of them"
            )


class RewardItem(msgspec.Struct):
    """The reward of a decision, named by its token or by the caller's id."""

    decision: Any = None
    reward: Any = None


class LearnBody(RewardItem):
    """One reward, or many."""

    rewards: list[RewardItem] | None = None


class ReportItem(msgspec.Struct):
    """A device's report: a random id, the policy and the question that it answers, integers."""

    id: Any = None
    policy: Any = None
    question: Any = None
    values: Any = None


class ReportBody(ReportItem):
    """One report, or many."""

    reports: list[ReportItem] | None = None


class AnyRewards(msgspec.Struct):
    """Many rewards, some of which are not even objects."""

    rewards: list[Any]


class KeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new key."""

    name: str
    scopes: list[str]
    bandits: list[str] | None = None
    rate: float | None = None


class PopulationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The most that may be spent on these people."""

    epsilon: float
    delta: float = 1e-6
    unit: str | None = None


class RankableAction(msgspec.Struct):
    """An action of the retired Personalizer API."""

    id: str
    features: list[Any] = []


class RankRequest(msgspec.Struct, rename="camel"):
    """Rank of the retired Personalizer API."""

    actions: list[RankableAction]
    context_features: list[Any] = []
    excluded_actions: list[str] = []
    event_id: str | None = None
    defer_activation: bool = False


class PersonalizerReward(msgspec.Struct):
    """Reward of the retired Personalizer API."""

    value: float
