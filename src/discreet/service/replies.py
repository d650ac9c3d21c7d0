"""Replies, as msgspec types: they are made of them, and described by them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from discreet.service.schema import Column, Definition

STATUSES = {
    "counted": "it is on disk",
    "duplicate": "this decision had its reward before; nothing has changed",
    "late": "it came after the time that the bandit waits; whatever came before stays",
    "accepted": "counted, or the person had counted already: it does not say which",
    "closed": "the bandit learns no more",
    "unknown": "not a decision of this bandit",
    "invalid": "not a reward in the bandit's range",
}
BATCH_STATUSES = ["counted", "duplicate", "closed", "small"]
Status = Annotated[str, Meta(extra_json_schema={"enum": list(STATUSES)})]
Price = float | Literal["inf"]
Matrix = list[list[float]]


# -- deciding and learning -------------------------------------------------------------------------


class DecisionReply(msgspec.Struct):
    """An action, and the token that its reward is sent with."""

    decision: Annotated[str, Meta(description="a sealed token: send it back with the reward")]
    action: Annotated[Any, Meta(description="its name, or its place where raw rows were sent")]
    probability: Annotated[float, Meta(description="with which it was chosen")]
    policy: Annotated[int, Meta(description="version of the policy that chose it")]


class DecisionsReply(msgspec.Struct):
    """Many of them, in the order of the requests."""

    decisions: Annotated[list[DecisionReply], Meta(description="one for each request")]


class StatusReply(msgspec.Struct):
    """What became of a reward or of a report."""

    status: Annotated[Status, Meta(description="all of them mean that a retry is not needed")]


class StatusesReply(msgspec.Struct):
    """The same for many, in order."""

    statuses: Annotated[list[Status], Meta(description="one for each reward or report")]


class BatchReply(msgspec.Struct):
    """What became of a relay's batch: a small one is dropped, unread."""

    status: Annotated[
        str,
        Meta(
            description='"small": fewer sound reports than the minimum',
            extra_json_schema={"enum": BATCH_STATUSES},
        ),
    ]


class EvaluationMetadata(msgspec.Struct):
    """What the reward of a flag's decision is sent with."""

    decision: Annotated[str, Meta(description="a sealed token: send it back with the reward")]
    probability: Annotated[float, Meta(description="with which the variant was chosen")]
    policy: Annotated[int, Meta(description="version of the policy that chose it")]


class Evaluation(msgspec.Struct, rename="camel"):
    """A flag (OFREP): its value, or why there is none."""

    key: Annotated[str | UnsetType, Meta(description="name of the bandit")] = UNSET
    value: Annotated[Any, Meta(description="of the variant: its name, a boolean or a number")] = (
        UNSET
    )
    variant: Annotated[str | UnsetType, Meta(description="the action")] = UNSET
    reason: Annotated[str | UnsetType, Meta(description="SPLIT: chosen at random")] = UNSET
    metadata: Annotated[EvaluationMetadata | UnsetType, Meta(description="of the decision")] = UNSET
    error_code: Annotated[str | UnsetType, Meta(description="such as INVALID_CONTEXT")] = UNSET
    error_details: Annotated[str | UnsetType, Meta(description="what to do")] = UNSET


class BulkEvaluation(msgspec.Struct):
    """All flags that a key may see, for one context."""

    flags: Annotated[list[Evaluation], Meta(description="in the order of their names")]


# -- bandits ---------------------------------------------------------------------------------------


class Progress(msgspec.Struct):
    """How far the open window is."""

    number: Annotated[int, Meta(description="of the window, from 1")]
    rounds: Annotated[
        int | None, Meta(description="decisions that it has; null: it stays open for ever")
    ]
    leased: Annotated[int, Meta(description="of them, to servers")]
    decided: Annotated[int, Meta(description="of them, as far as this server knows")]


class BanditSummary(msgspec.Struct):
    """A bandit in a list."""

    name: Annotated[str, Meta(description="of the bandit")]
    definition: Annotated[Definition, Meta(description="with every field")]
    created: Annotated[float, Meta(description="seconds since 1970")]
    rounds: Annotated[int, Meta(description="decisions so far; under local trust reports")]
    policy: Annotated[int, Meta(description="its version")]
    learning: Annotated[bool, Meta(description="whether feedback counts")]
    retired: Annotated[bool, Meta(description="by an administrator")]
    alarm: Annotated[str | None, Meta(description="why learning has stopped; null if it has not")]
    window: Annotated[Progress, Meta(description="the open one")]


class BanditsReply(msgspec.Struct):
    """All bandits that the key may see."""

    bandits: Annotated[list[BanditSummary], Meta(description="in the order of their names")]


class ReleaseCost(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One release of a guarantee, and its cost in each currency in which it has a finite one."""

    what: Annotated[str, Meta(description="was published")]
    mechanism: Annotated[str, Meta(description="that made it")]
    norm: Annotated[str, Meta(description="in which the sensitivity is measured")]
    sensitivity: Annotated[Price, Meta(description="how far one person can move it")]
    scale: Annotated[Price, Meta(description="of the noise")]
    sampler: Annotated[str, Meta(description="how the noise was drawn")]
    scope: Annotated[str | None, Meta(description="the rows that it saw; null: all")]
    epsilon: Annotated[Price | UnsetType, Meta(description="its cost as pure privacy")] = UNSET
    mu: Annotated[Price | UnsetType, Meta(description="its cost as Gaussian privacy")] = UNSET
    rho: Annotated[Price | UnsetType, Meta(description="its cost as zCDP")] = UNSET
    crowd: Annotated[
        int | UnsetType | None,
        Meta(description="honest reports that it was shuffled among; null: not shuffled"),
    ] = UNSET


class Promise(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A guarantee for machines."""

    format: Annotated[int, Meta(description="of this record")]
    epsilon: Annotated[Price, Meta(description="of everything, now and later")]
    delta: Annotated[float, Meta(description="with which that may fail")]
    trust: Annotated[
        Literal["central", "joint", "local", "shuffled"], Meta(description="against whom")
    ]
    neighbours: Annotated[str, Meta(description="which data sets are told apart")]
    unit: Annotated[str, Meta(description="what is protected")]
    contributions: Annotated[int, Meta(description="rounds of one person that are covered")]
    sampler: Annotated[str, Meta(description="how noise was drawn")]
    releases: Annotated[list[ReleaseCost], Meta(description="made so far")]
    unprotected: Annotated[list[str], Meta(description="what is not promised")]
    reference: Annotated[str, Meta(description="of the method")]
    audits: Annotated[list[dict[str, Any]], Meta(description="results of attacks")]
    local_epsilon: Annotated[
        Price | UnsetType,
        Meta(description="of all reports of a person by themselves (shuffled trust)"),
    ] = UNSET
    minimum: Annotated[
        float | UnsetType,
        Meta(description="fraction of a batch below which it is dropped (shuffled trust)"),
    ] = UNSET
    honest: Annotated[
        float | UnsetType,
        Meta(description="fraction of a batch that the promise counts on (shuffled trust)"),
    ] = UNSET


class GuaranteeReply(Promise, forbid_unknown_fields=True, kw_only=True):
    """A guarantee for machines, and in words."""

    statement: Annotated[str, Meta(description="the promise in words")]


class ReportCounts(msgspec.Struct):
    """Reports that counted, and those that no device could have sent."""

    taken: Annotated[int, Meta(description="reports that counted")]
    refused: Annotated[int, Meta(description="reports that no device could have sent")]


class BanditReply(BanditSummary, kw_only=True):
    """One bandit, with its guarantee; under local trust with its number of reports."""

    guarantee: Annotated[Promise, Meta(description="the promise")]
    reports: Annotated[ReportCounts | UnsetType, Meta(description="under local trust")] = UNSET


class HistoryReply(msgspec.Struct):
    """An old log that a bandit has begun with."""

    id: Annotated[str, Meta(description="as the caller named it")]
    rows: Annotated[int, Meta(description="of the log")]
    public: Annotated[bool, Meta(description="whether it was said to be public, and cost nothing")]


class PublishedWindow(msgspec.Struct):
    """What was published of a window: number and sum of rewards; of reports by question."""

    window: Annotated[int, Meta(description="its number")]
    rounds: Annotated[int, Meta(description="decisions in it")]
    at: Annotated[float, Meta(description="seconds since 1970")]
    count: Annotated[
        float | UnsetType,
        Meta(description="of rewards, as released; none where nothing was learnt"),
    ] = UNSET
    sum: Annotated[
        float | dict[str, Any] | UnsetType,
        Meta(description="of rewards, as released; under local trust sums of reports by question"),
    ] = UNSET
    history: Annotated[
        HistoryReply | UnsetType, Meta(description="where an old log stands for the window")
    ] = UNSET


class ReleasesReply(msgspec.Struct):
    """What was published, window by window."""

    releases: Annotated[list[PublishedWindow], Meta(description="in the order of their windows")]


class Earned(msgspec.Struct):
    """What a decision earns, or how much more: an estimate, and where the truth lies."""

    estimate: Annotated[float, Meta(description="in units of rewards")]
    low: Annotated[float, Meta(description="end of its interval")]
    high: Annotated[float, Meta(description="the same, above")]


class Proof(msgspec.Struct):
    """The release with which the uplift was proved to be above 0."""

    window: Annotated[int, Meta(description="its number")]
    decisions: Annotated[int, Meta(description="so many in all, up to then")]
    at: Annotated[float, Meta(description="seconds since 1970")]


class ReleasedValue(msgspec.Struct):
    """What was known of the worth after a release; null while the noise hides it."""

    window: Annotated[int, Meta(description="its number")]
    decisions: Annotated[int, Meta(description="so many in all, up to then")]
    at: Annotated[float, Meta(description="seconds since 1970")]
    mean: Annotated[Earned | None, Meta(description="what a decision under the policy earns")]
    holdout: Annotated[
        Earned | None, Meta(description="what a held-out decision earns; null without a hold-out")
    ]
    uplift: Annotated[
        Earned | None,
        Meta(description="how much more the policy earns, compared within each release"),
    ]


class ValueReply(msgspec.Struct):
    """What a bandit is worth, from releases alone; under local trust nobody knows."""

    confidence: Annotated[float, Meta(description="that all intervals of all releases hold")]
    rounds: Annotated[int, Meta(description="decisions that the present intervals are about")]
    mean: Annotated[
        Earned | None,
        Meta(description="what a decision under the policy earns; null while it is not known"),
    ]
    holdout: Annotated[
        Earned | None, Meta(description="what a held-out decision earns; null without a hold-out")
    ]
    uplift: Annotated[
        Earned | None,
        Meta(description="how much more the policy earns, compared within each release"),
    ]
    proved: Annotated[
        Proof | None, Meta(description="since when the uplift is above 0; null: not proved")
    ]
    more: Annotated[
        int | None,
        Meta(
            description="decisions after the last release that may prove it, as a forecast; "
            "null: proved, or out of sight"
        ),
    ]
    releases: Annotated[list[ReleasedValue], Meta(description="in the order of their windows")]


# -- policies --------------------------------------------------------------------------------------


class PolicyReply(msgspec.Struct):
    """A public policy under joint trust: its kind, and the numbers and arrays of that kind."""

    epoch: Annotated[str, Meta(description="of the store")]
    version: Annotated[int, Meta(description="of the policy")]
    learning: Annotated[bool, Meta(description="whether feedback counts")]
    kind: Annotated[str, Meta(description="of policy")]


class QuestionReply(msgspec.Struct):
    """What a fraction of the devices is asked."""

    name: Annotated[str, Meta(description="what a report refers to")]
    kind: Annotated[
        Literal["gram", "moment", "square"],
        Meta(description="which function of the record is asked for"),
    ]
    clip: Annotated[float, Meta(description="where residuals are clipped")]
    fraction: Annotated[float, Meta(description="of the devices that answer it")]


class ContextColumn(Column, frozen=True, kw_only=True):
    """A column of the context, by its name."""

    name: Annotated[str, Meta(description="of the column")]


class ActionParts(msgspec.Struct):
    """An action, and what its row holds once for each column of the context."""

    name: Annotated[str, Meta(description="of the action")]
    parts: Annotated[
        list[float], Meta(description="its row is their product with (1, columns of the context)")
    ]


class DeviceFeatures(msgspec.Struct):
    """How a device makes rows: of declared columns and actions, or raw ones of `dim` numbers."""

    dim: Annotated[int | UnsetType, Meta(description="of raw rows")] = UNSET
    columns: Annotated[
        list[ContextColumn] | UnsetType, Meta(description="of the context, in order")
    ] = UNSET
    actions: Annotated[list[ActionParts] | UnsetType, Meta(description="in order")] = UNSET


class PlannedBatch(msgspec.Struct):
    """The crowd that a report will hide in, under shuffled trust."""

    size: Annotated[int, Meta(description="planned reports")]
    minimum: Annotated[int, Meta(description="fewer are not released")]
    honest: Annotated[int, Meta(description="reports that the promise counts on")]
    epsilon: Annotated[Price, Meta(description="promised against everybody but the relay")]
    delta: Annotated[float, Meta(description="of that promise")]
    local_epsilon: Annotated[Price, Meta(description="the most that a report may cost by itself")]
    minimum_fraction: Annotated[
        float | UnsetType, Meta(description="of every planned batch, fewer are not released")
    ] = UNSET
    honest_fraction: Annotated[
        float | UnsetType, Meta(description="of every planned batch, the promise counts on")
    ] = UNSET


class DevicePolicyReply(msgspec.Struct):
    """A public policy under local trust: all that a device needs (docs/local.md)."""

    epoch: Annotated[str, Meta(description="of the store")]
    version: Annotated[int, Meta(description="of the policy")]
    learning: Annotated[bool, Meta(description="whether reports count; false: send none")]
    format: Annotated[int, Meta(description="of this document")]
    window: Annotated[int, Meta(description="its number, from 0")]
    theta: Annotated[list[float], Meta(description="the estimate")]
    whitening: Annotated[Matrix, Meta(description="that features are multiplied with")]
    questions: Annotated[list[QuestionReply], Meta(description="one of which a device answers")]
    epsilon: Annotated[Price, Meta(description="of all reports of one person")]
    contributions: Annotated[int, Meta(description="the most reports of one person")]
    norm_bound: Annotated[float, Meta(description="of features")]
    outcome_range: Annotated[tuple[float, float], Meta(description="of rewards")]
    root: Annotated[Matrix, Meta(description="of the covariance of theta")]
    draws: Annotated[Matrix, Meta(description='of theta, for "thompson"')]
    policy: Annotated[str, Meta(description="thompson, ucb or greedy")]
    exploring: Annotated[float, Meta(description="fraction of rounds in which ucb is optimistic")]
    channels: Annotated[
        dict[str, dict[str, float]], Meta(description="thresholds by kind of question")
    ]
    features: Annotated[DeviceFeatures, Meta(description="how rows are made")]
    batch: Annotated[PlannedBatch | UnsetType, Meta(description="under shuffled trust")] = UNSET


# -- populations and keys --------------------------------------------------------------------------


class Limit(msgspec.Struct):
    """The most that may be spent."""

    epsilon: Annotated[float, Meta(description="of the most that may be spent")]
    delta: Annotated[float, Meta(description="of it")]


class Spent(msgspec.Struct):
    """What is spent; null where a bandit has no privacy."""

    epsilon: Annotated[float | None, Meta(description="at this delta")]
    delta: Annotated[float, Meta(description="of the limit, or 1e-6")]
    mu: Annotated[float | None, Meta(description="the same as Gaussian privacy")]


class Charge(msgspec.Struct):
    """What one bandit costs a population for its whole life."""

    bandit: Annotated[str, Meta(description="its name")]
    epsilon: Annotated[float | None, Meta(description="at the delta of the population")]
    mu: Annotated[float | None, Meta(description="the same as Gaussian privacy")]
    at: Annotated[float, Meta(description="seconds since 1970")]


class PopulationReply(msgspec.Struct):
    """A population: its limit, what is spent, and by whom."""

    name: Annotated[str, Meta(description="of the population")]
    unit: Annotated[
        Literal["round", "person"] | None,
        Meta(description="what a person contributes; null before the first bandit"),
    ]
    limit: Annotated[Limit | None, Meta(description="null: none")]
    spent: Annotated[Spent, Meta(description="by all bandits together")]
    bandits: Annotated[list[Charge], Meta(description="that have spent it")]


class PopulationsReply(msgspec.Struct):
    """All populations."""

    populations: Annotated[list[PopulationReply], Meta(description="in the order of their names")]


class KeyReply(msgspec.Struct):
    """A key without its secret."""

    id: Annotated[str, Meta(description="stands in its secret")]
    name: Annotated[str, Meta(description="for people")]
    scopes: Annotated[list[str], Meta(description="what it may do")]
    bandits: Annotated[list[str] | None, Meta(description="for which; null: all")]
    rate: Annotated[float | None, Meta(description="requests a second; null: no limit")]
    created: Annotated[float, Meta(description="seconds since 1970")]
    revoked: Annotated[float | None, Meta(description="the same; null while it lives")]


class KeysReply(msgspec.Struct):
    """All keys."""

    keys: Annotated[list[KeyReply], Meta(description="in the order of their creation")]


class NewKeyReply(msgspec.Struct):
    """A new key; its secret is shown here and never again."""

    id: Annotated[str, Meta(description="stands in its secret")]
    secret: Annotated[str, Meta(description="to be kept; the server has a hash of it")]
    name: Annotated[str, Meta(description="for people")]
    scopes: Annotated[list[str], Meta(description="what it may do")]
    bandits: Annotated[list[str] | None, Meta(description="for which; null: all")]
    rate: Annotated[float | None, Meta(description="requests a second; null: no limit")]


# -- operations, and the retired service -----------------------------------------------------------


class HealthReply(msgspec.Struct):
    """The process lives."""

    status: Annotated[Literal["ok"], Meta(description="the only one")] = "ok"


class ReadyReply(msgspec.Struct):
    """The store answers; names of bandits whose learning has stopped with an alarm."""

    alarms: Annotated[list[str], Meta(description="names of bandits; a jump of the clock")]
    status: Annotated[Literal["ok"], Meta(description="the only one")] = "ok"


class Ranked(msgspec.Struct):
    """An action of the retired Personalizer API, and how likely it was."""

    id: Annotated[str, Meta(description="of the action")]
    probability: Annotated[float, Meta(description="with which it was chosen")]


class RankReply(msgspec.Struct, rename="camel"):
    """Rank of the retired Personalizer API."""

    ranking: Annotated[list[Ranked], Meta(description="all actions")]
    event_id: Annotated[str, Meta(description="names the decision")]
    reward_action_id: Annotated[str, Meta(description="the action to show")]
