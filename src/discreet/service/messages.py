"""Requests, as msgspec types: they are decoded by them, and described by them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from discreet.service.errors import invalid
from discreet.service.schema import says


class DecideRequest(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What is known about one person, and what may be chosen."""

    context: Annotated[
        Any, says("as the definition declares it, or any JSON for hashed features")
    ] = None
    actions: Annotated[
        list[Any] | None, says("those to choose from; null: all that are declared")
    ] = None
    features: Annotated[list[list[float]] | None, says("raw rows, one for each action")] = None
    person: Annotated[str | None, says("an id, of which only a keyed hash is kept")] = None
    id: Annotated[str | None, says("names the decision, in place of its token")] = None


class DecideBody(DecideRequest, omit_defaults=True, forbid_unknown_fields=True):
    """One request; or many, as `requests`, or as `contexts` that all have the same `actions`."""

    requests: Annotated[list[DecideRequest] | None, says("many requests")] = None
    contexts: Annotated[list[Any] | None, says("many contexts with the same `actions`")] = None

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


class RewardItem(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The reward of a decision, named by its token or by the caller's id."""

    decision: Annotated[Any, says("its token, or its id")] = None
    reward: Annotated[Any, says("in the range of the definition")] = None


class LearnBody(RewardItem, omit_defaults=True, forbid_unknown_fields=True):
    """One reward, or many."""

    rewards: Annotated[list[RewardItem] | None, says("many of them")] = None


class ReportItem(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A device's report: a random id, the policy and the question that it answers, integers."""

    id: Annotated[Any, says("32 hexadecimal digits, random")] = None
    policy: Annotated[Any, says("tag of the policy that it answers")] = None
    question: Annotated[Any, says("its name in the policy")] = None
    values: Annotated[Any, says("integers, as the channel draws them")] = None


class ReportBody(ReportItem, omit_defaults=True, forbid_unknown_fields=True):
    """One report, or many."""

    reports: Annotated[list[ReportItem] | None, says("many of them")] = None


class HistoryItem(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A decision of before: what was known, what was chosen, what it earned."""

    reward: Annotated[float, says("clipped to the range of the definition")]
    context: Annotated[Any, says("as for a decision")] = None
    action: Annotated[Any, says("that was chosen; with hashed features an object is fine too")] = (
        None
    )
    features: Annotated[list[float] | None, says("the chosen raw row")] = None
    probability: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        says("of that choice; a row teaches what it earned, whoever chose it"),
    ] = None


class HistoryBody(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """An old log: `rows`, or `events` as Personalizer exported them."""

    public: Annotated[bool, says("whether the log may be published: then it costs nothing")]
    rows: Annotated[list[HistoryItem] | None, says("decisions")] = None
    events: Annotated[list[dict[str, Any]] | None, says("lines of an exported log (dsjson)")] = None
    id: Annotated[str, says("of the log, for people", max_length=64)] = ""


class EvaluationBody(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Evaluation of flags (OFREP)."""

    context: Annotated[
        dict[str, Any],
        says("columns as declared; `targetingKey` is the person, where one is needed"),
    ] = {}


class KeyBody(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A new key."""

    name: Annotated[str, says("of the application: keys of one name share the ids of decisions")]
    scopes: Annotated[list[str], says("what it may do")]
    bandits: Annotated[list[str] | None, says("for which; null: all")] = None
    rate: Annotated[float | None, says("requests and decisions a second; null: no limit")] = None
    share: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        says(
            "fraction of a bandit's horizon, or of each window where it has none, that "
            "keys of this name may take while others may decide; null: of a window all, of a "
            "horizon all or a half"
        ),
    ] = None


class PopulationBody(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The most that may be spent on these people."""

    epsilon: Annotated[float, says("of the limit")]
    delta: Annotated[float, says("of the limit")] = 1e-6
    unit: Annotated[str | None, says("what a person contributes: round or person")] = None


class RankableAction(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """An action of the retired Personalizer API."""

    id: Annotated[str, says("its name")]
    features: Annotated[list[Any], says("any JSON")] = []


class RankRequest(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Rank of the retired Personalizer API."""

    actions: Annotated[list[RankableAction], says("to choose from")]
    context_features: Annotated[list[Any], says("any JSON")] = []
    excluded_actions: Annotated[list[str], says("ids of those that must not be chosen")] = []
    event_id: Annotated[str | None, says("names the decision; null: the server does")] = None
    defer_activation: Annotated[bool, says("the decision counts once it is activated")] = False


class PersonalizerReward(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Reward of the retired Personalizer API."""

    value: Annotated[float, says("of the event")]
