"""Replies, as msgspec types: they are made of them, and described by them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from discreet.service.schema import Column, Definition, says

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

    decision: Annotated[str, says("a sealed token: send it back with the reward")]
    action: Annotated[Any, says("its name, or its place where raw rows were sent")]
    probability: Annotated[float, says("with which it was chosen")]
    policy: Annotated[int, says("version of the policy that chose it")]


class DecisionsReply(msgspec.Struct):
    """Many of them, in the order of the requests."""

    decisions: Annotated[list[DecisionReply], says("one for each request")]


class StatusReply(msgspec.Struct):
    """What became of a reward or of a report."""

    status: Annotated[Status, says("all of them mean that a retry is not needed")]


class StatusesReply(msgspec.Struct):
    """The same for many, in order."""

    statuses: Annotated[list[Status], says("one for each reward or report")]


class BatchReply(msgspec.Struct, omit_defaults=True):
    """What became of a relay's batch: of a small one nothing counts."""

    status: Annotated[
        str,
        says(
            '"small": fewer sound reports than the minimum',
            extra_json_schema={"enum": BATCH_STATUSES},
        ),
    ]
    bad: Annotated[
        list[int] | UnsetType, says("of a small one: places of reports that are none")
    ] = UNSET


class EvaluationMetadata(msgspec.Struct):
    """What the reward of a flag's decision is sent with."""

    decision: Annotated[str, says("a sealed token: send it back with the reward")]
    probability: Annotated[float, says("with which the variant was chosen")]
    policy: Annotated[int, says("version of the policy that chose it")]


class Evaluation(msgspec.Struct, rename="camel"):
    """A flag (OFREP): its value, or why there is none."""

    key: Annotated[str | UnsetType, says("name of the bandit")] = UNSET
    value: Annotated[Any, says("of the variant: its name, a boolean or a number")] = UNSET
    variant: Annotated[str | UnsetType, says("the action")] = UNSET
    reason: Annotated[str | UnsetType, says("SPLIT: chosen at random")] = UNSET
    metadata: Annotated[EvaluationMetadata | UnsetType, says("of the decision")] = UNSET
    error_code: Annotated[str | UnsetType, says("such as INVALID_CONTEXT")] = UNSET
    error_details: Annotated[str | UnsetType, says("what to do")] = UNSET


class BulkEvaluation(msgspec.Struct):
    """All flags that a key may see, for one context."""

    flags: Annotated[list[Evaluation], says("in the order of their names")]


# -- bandits ---------------------------------------------------------------------------------------


class Progress(msgspec.Struct):
    """How far the open window is."""

    number: Annotated[int, says("of the window, from 1")]
    rounds: Annotated[int | None, says("decisions that it has; null: it stays open for ever")]
    leased: Annotated[int, says("of them, to servers")]
    decided: Annotated[int, says("of them, as far as this server knows")]


class BanditSummary(msgspec.Struct):
    """A bandit in a list."""

    name: Annotated[str, says("of the bandit")]
    definition: Annotated[Definition, says("with every field")]
    created: Annotated[float, says("seconds since 1970")]
    rounds: Annotated[int, says("decisions so far; under local trust reports")]
    policy: Annotated[int, says("its version")]
    learning: Annotated[bool, says("whether feedback counts")]
    retired: Annotated[bool, says("by an administrator")]
    alarm: Annotated[str | None, says("why learning has stopped; null if it has not")]
    window: Annotated[Progress, says("the open one")]


class BanditsReply(msgspec.Struct):
    """All bandits that the key may see."""

    bandits: Annotated[list[BanditSummary], says("in the order of their names")]


class ReleaseCost(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One release of a guarantee, and its cost in each currency in which it has a finite one."""

    what: Annotated[str, says("was published")]
    mechanism: Annotated[str, says("that made it")]
    norm: Annotated[str, says("in which the sensitivity is measured")]
    sensitivity: Annotated[Price, says("how far one person can move it")]
    scale: Annotated[Price, says("of the noise")]
    sampler: Annotated[str, says("how the noise was drawn")]
    scope: Annotated[str | None, says("the rows that it saw; null: all")]
    epsilon: Annotated[Price | UnsetType, says("its cost as pure privacy")] = UNSET
    mu: Annotated[Price | UnsetType, says("its cost as Gaussian privacy")] = UNSET
    rho: Annotated[Price | UnsetType, says("its cost as zCDP")] = UNSET
    crowd: Annotated[
        int | UnsetType | None,
        says("honest reports that it was shuffled among; null: not shuffled"),
    ] = UNSET


class Promise(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A guarantee for machines."""

    format: Annotated[int, says("of this record")]
    epsilon: Annotated[Price, says("of everything, now and later")]
    delta: Annotated[float, says("with which that may fail")]
    trust: Annotated[Literal["central", "joint", "local", "shuffled"], says("against whom")]
    neighbours: Annotated[str, says("which data sets are told apart")]
    unit: Annotated[str, says("what is protected")]
    contributions: Annotated[int, says("rounds of one person that are covered")]
    sampler: Annotated[str, says("how noise was drawn")]
    releases: Annotated[list[ReleaseCost], says("made so far")]
    unprotected: Annotated[list[str], says("what is not promised")]
    reference: Annotated[str, says("of the method")]
    audits: Annotated[list[dict[str, Any]], says("results of attacks")]
    local_epsilon: Annotated[
        Price | UnsetType,
        says("of all reports of a person by themselves (shuffled trust)"),
    ] = UNSET
    minimum: Annotated[
        float | UnsetType,
        says("fraction of a batch below which it is dropped (shuffled trust)"),
    ] = UNSET
    honest: Annotated[
        float | UnsetType,
        says("fraction of a batch that the promise counts on (shuffled trust)"),
    ] = UNSET


class GuaranteeReply(Promise, forbid_unknown_fields=True, kw_only=True):
    """A guarantee for machines, and in words."""

    statement: Annotated[str, says("the promise in words")]


class ReportCounts(msgspec.Struct):
    """Reports that counted, and those that no device could have sent."""

    taken: Annotated[int, says("reports that counted")]
    refused: Annotated[int, says("reports that no device could have sent")]


class BanditReply(BanditSummary, kw_only=True):
    """One bandit, with its guarantee; under local trust with its number of reports."""

    guarantee: Annotated[Promise, says("the promise")]
    reports: Annotated[ReportCounts | UnsetType, says("under local trust")] = UNSET


class HistoryReply(msgspec.Struct):
    """An old log that a bandit has begun with."""

    id: Annotated[str, says("as the caller named it")]
    rows: Annotated[int, says("of the log")]
    public: Annotated[bool, says("whether it was said to be public, and cost nothing")]


class PublishedWindow(msgspec.Struct):
    """What was published of a window: number and sum of rewards; of reports by question."""

    window: Annotated[int, says("its number")]
    rounds: Annotated[int, says("decisions in it")]
    at: Annotated[float, says("seconds since 1970")]
    count: Annotated[
        float | UnsetType,
        says("of rewards, as released; none where nothing was learnt"),
    ] = UNSET
    sum: Annotated[
        float | dict[str, Any] | UnsetType,
        says("of rewards, as released; under local trust sums of reports by question"),
    ] = UNSET
    history: Annotated[HistoryReply | UnsetType, says("where an old log stands for the window")] = (
        UNSET
    )


class ReleasesReply(msgspec.Struct):
    """What was published, window by window."""

    releases: Annotated[list[PublishedWindow], says("in the order of their windows")]


class Earned(msgspec.Struct):
    """What a decision earns, or how much more: an estimate, and where the truth lies."""

    estimate: Annotated[float, says("in units of rewards")]
    low: Annotated[float, says("end of its interval")]
    high: Annotated[float, says("the same, above")]


class Proof(msgspec.Struct):
    """The release with which the uplift was proved to be above 0."""

    window: Annotated[int, says("its number")]
    decisions: Annotated[int, says("so many in all, up to then")]
    at: Annotated[float, says("seconds since 1970")]


class ReleasedValue(msgspec.Struct):
    """What was known of the worth after a release; null while the noise hides it."""

    window: Annotated[int, says("its number")]
    decisions: Annotated[int, says("so many in all, up to then")]
    at: Annotated[float, says("seconds since 1970")]
    mean: Annotated[Earned | None, says("what a decision under the policy earns")]
    holdout: Annotated[
        Earned | None, says("what a held-out decision earns; null without a hold-out")
    ]
    uplift: Annotated[
        Earned | None,
        says("how much more the policy earns, compared within each release"),
    ]


class ValueReply(msgspec.Struct):
    """What a bandit is worth, from releases alone; under local trust nobody knows."""

    confidence: Annotated[float, says("that all intervals of all releases hold")]
    rounds: Annotated[int, says("decisions that the present intervals are about")]
    mean: Annotated[
        Earned | None,
        says("what a decision under the policy earns; null while it is not known"),
    ]
    holdout: Annotated[
        Earned | None, says("what a held-out decision earns; null without a hold-out")
    ]
    uplift: Annotated[
        Earned | None,
        says("how much more the policy earns, compared within each release"),
    ]
    proved: Annotated[Proof | None, says("since when the uplift is above 0; null: not proved")]
    more: Annotated[
        int | None,
        says(
            "decisions after the last release that may prove it, as a forecast; "
            "null: proved, or out of sight"
        ),
    ]
    releases: Annotated[list[ReleasedValue], says("in the order of their windows")]


# -- policies --------------------------------------------------------------------------------------


class PolicyReply(msgspec.Struct):
    """A public policy under joint trust: its kind, and the numbers and arrays of that kind."""

    epoch: Annotated[str, says("of the store")]
    version: Annotated[int, says("of the policy")]
    learning: Annotated[bool, says("whether feedback counts")]
    kind: Annotated[str, says("of policy")]


class QuestionReply(msgspec.Struct):
    """What a fraction of the devices is asked."""

    name: Annotated[str, says("what a report refers to")]
    kind: Annotated[
        Literal["gram", "moment", "square"],
        says("which function of the record is asked for"),
    ]
    clip: Annotated[float, says("where residuals are clipped")]
    fraction: Annotated[float, says("of the devices that answer it")]


class ContextColumn(Column, frozen=True, kw_only=True):
    """A column of the context, by its name."""

    name: Annotated[str, says("of the column")]


class ActionParts(msgspec.Struct):
    """An action, and what its row holds once for each column of the context."""

    name: Annotated[str, says("of the action")]
    parts: Annotated[list[float], says("its row is their product with (1, columns of the context)")]


class DeviceFeatures(msgspec.Struct):
    """How a device makes rows: of declared columns and actions, or raw ones of `dim` numbers."""

    dim: Annotated[int | UnsetType, says("of raw rows")] = UNSET
    columns: Annotated[list[ContextColumn] | UnsetType, says("of the context, in order")] = UNSET
    actions: Annotated[list[ActionParts] | UnsetType, says("in order")] = UNSET


class PlannedBatch(msgspec.Struct):
    """The crowd that a report will hide in, under shuffled trust."""

    size: Annotated[int, says("planned reports")]
    minimum: Annotated[int, says("fewer are not released")]
    honest: Annotated[int, says("reports that the promise counts on")]
    epsilon: Annotated[Price, says("promised against everybody but the relay")]
    delta: Annotated[float, says("of that promise")]
    local_epsilon: Annotated[Price, says("the most that a report may cost by itself")]
    minimum_fraction: Annotated[
        float | UnsetType, says("of every planned batch, fewer are not released")
    ] = UNSET
    honest_fraction: Annotated[
        float | UnsetType, says("of every planned batch, the promise counts on")
    ] = UNSET


class DevicePolicyReply(msgspec.Struct):
    """A public policy under local trust: all that a device needs (docs/local.md)."""

    epoch: Annotated[str, says("of the store")]
    version: Annotated[int, says("of the policy")]
    learning: Annotated[bool, says("whether reports count; false: send none")]
    format: Annotated[int, says("of this document")]
    window: Annotated[int, says("its number, from 0")]
    theta: Annotated[list[float], says("the estimate")]
    whitening: Annotated[Matrix, says("that features are multiplied with")]
    questions: Annotated[list[QuestionReply], says("one of which a device answers")]
    epsilon: Annotated[Price, says("of all reports of one person")]
    contributions: Annotated[int, says("the most reports of one person")]
    norm_bound: Annotated[float, says("of features")]
    outcome_range: Annotated[tuple[float, float], says("of rewards")]
    root: Annotated[Matrix, says("of the covariance of theta")]
    draws: Annotated[Matrix, says('of theta, for "thompson"')]
    policy: Annotated[str, says("thompson, ucb or greedy")]
    exploring: Annotated[float, says("fraction of rounds in which ucb is optimistic")]
    channels: Annotated[dict[str, dict[str, float]], says("thresholds by kind of question")]
    features: Annotated[DeviceFeatures, says("how rows are made")]
    batch: Annotated[PlannedBatch | UnsetType, says("under shuffled trust")] = UNSET


# -- populations and keys --------------------------------------------------------------------------


class Limit(msgspec.Struct):
    """The most that may be spent."""

    epsilon: Annotated[float, says("of the most that may be spent")]
    delta: Annotated[float, says("of it")]


class Spent(msgspec.Struct):
    """What is spent; null where a bandit has no privacy."""

    epsilon: Annotated[float | None, says("at this delta")]
    delta: Annotated[float, says("of the limit, or 1e-6")]
    mu: Annotated[float | None, says("the same as Gaussian privacy")]


class Charge(msgspec.Struct):
    """What one bandit costs a population for its whole life."""

    bandit: Annotated[str, says("its name")]
    epsilon: Annotated[float | None, says("at the delta of the population")]
    mu: Annotated[float | None, says("the same as Gaussian privacy")]
    at: Annotated[float, says("seconds since 1970")]


class PopulationReply(msgspec.Struct):
    """A population: its limit, what is spent, and by whom."""

    name: Annotated[str, says("of the population")]
    unit: Annotated[
        Literal["round", "person"] | None,
        says("what a person contributes; null before the first bandit"),
    ]
    limit: Annotated[Limit | None, says("null: none")]
    spent: Annotated[Spent, says("by all bandits together")]
    bandits: Annotated[list[Charge], says("that have spent it")]


class PopulationsReply(msgspec.Struct):
    """All populations."""

    populations: Annotated[list[PopulationReply], says("in the order of their names")]


class KeyReply(msgspec.Struct):
    """A key without its secret."""

    id: Annotated[str, says("stands in its secret")]
    name: Annotated[str, says("for people")]
    scopes: Annotated[list[str], says("what it may do")]
    bandits: Annotated[list[str] | None, says("for which; null: all")]
    rate: Annotated[float | None, says("requests a second; null: no limit")]
    share: Annotated[
        float | None, says("of a horizon, or of each window; null: as nobody stated it")
    ]
    created: Annotated[float, says("seconds since 1970")]
    revoked: Annotated[float | None, says("the same; null while it lives")]


class KeysReply(msgspec.Struct):
    """All keys."""

    keys: Annotated[list[KeyReply], says("in the order of their creation")]


class NewKeyReply(msgspec.Struct):
    """A new key; its secret is shown here and never again."""

    id: Annotated[str, says("stands in its secret")]
    secret: Annotated[str, says("to be kept; the server has a hash of it")]
    name: Annotated[str, says("for people")]
    scopes: Annotated[list[str], says("what it may do")]
    bandits: Annotated[list[str] | None, says("for which; null: all")]
    rate: Annotated[float | None, says("requests a second; null: no limit")]
    share: Annotated[
        float | None, says("of a horizon, or of each window; null: as nobody stated it")
    ]


# -- operations, and the retired service -----------------------------------------------------------


class HealthReply(msgspec.Struct):
    """The process lives."""

    status: Annotated[Literal["ok"], says("the only one")] = "ok"


class ReadyReply(msgspec.Struct):
    """The store answers; names of bandits whose learning has stopped with an alarm."""

    alarms: Annotated[list[str], says("names of bandits; a jump of the clock")]
    status: Annotated[Literal["ok"], says("the only one")] = "ok"


class Ranked(msgspec.Struct):
    """An action of the retired Personalizer API, and how likely it was."""

    id: Annotated[str, says("of the action")]
    probability: Annotated[float, says("with which it was chosen")]


class RankReply(msgspec.Struct, rename="camel"):
    """Rank of the retired Personalizer API."""

    ranking: Annotated[list[Ranked], says("all actions")]
    event_id: Annotated[str, says("names the decision")]
    reward_action_id: Annotated[str, says("the action to show")]
