"""Requests, as msgspec types: they are decoded by them, and described by them."""

from typing import Any

import msgspec

from discreet.service.errors import invalid


class DecideRequest(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What is known about one person, and what may be chosen.

    context    as the definition declares it, or any JSON for hashed features
    actions    those to choose from; null: all that are declared
    features   raw rows, one for each action
    person     an id, of which only a keyed hash is kept
    id         names the decision, in place of its token
    """

    context: Any = None
    actions: list[Any] | None = None
    features: list[list[float]] | None = None
    person: str | None = None
    id: str | None = None


class DecideBody(DecideRequest, omit_defaults=True, forbid_unknown_fields=True):
    """One request; or many, as `requests`, or as `contexts` that all have the same `actions`.

    requests   many requests
    contexts   many contexts with the same `actions`
    """

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
    """The reward of a decision, named by its token or by the caller's id.

    decision   its token, or its id
    reward     in the range of the definition
    """

    decision: Any = None
    reward: Any = None


class LearnBody(RewardItem):
    """One reward, or many.

    rewards   many of them
    """

    rewards: list[RewardItem] | None = None


class ReportItem(msgspec.Struct):
    """A device's report: a random id, the policy and the question that it answers, integers.

    id         32 hexadecimal digits, random
    policy     tag of the policy that it answers
    question   its name in the policy
    values     integers, as the channel draws them
    """

    id: Any = None
    policy: Any = None
    question: Any = None
    values: Any = None


class ReportBody(ReportItem):
    """One report, or many.

    reports   many of them
    """

    reports: list[ReportItem] | None = None


class AnyRewards(msgspec.Struct):
    """Many rewards, some of which are not even objects.

    rewards   as they came
    """

    rewards: list[Any]


class KeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new key.

    name      for people
    scopes    what it may do
    bandits   for which; null: all
    rate      requests a second; null: no limit
    """

    name: str
    scopes: list[str]
    bandits: list[str] | None = None
    rate: float | None = None


class PopulationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The most that may be spent on these people.

    epsilon   of the limit
    delta     of the limit
    unit      what a person contributes: round or person
    """

    epsilon: float
    delta: float = 1e-6
    unit: str | None = None


class RankableAction(msgspec.Struct):
    """An action of the retired Personalizer API.

    id         its name
    features   any JSON
    """

    id: str
    features: list[Any] = []


class RankRequest(msgspec.Struct, rename="camel"):
    """Rank of the retired Personalizer API.

    actions            to choose from
    context_features   any JSON
    excluded_actions   ids of those that must not be chosen
    event_id           names the decision; null: the server does
    defer_activation   the decision counts once it is activated
    """

    actions: list[RankableAction]
    context_features: list[Any] = []
    excluded_actions: list[str] = []
    event_id: str | None = None
    defer_activation: bool = False


class PersonalizerReward(msgspec.Struct):
    """Reward of the retired Personalizer API.

    value   of the event
    """

    value: float
