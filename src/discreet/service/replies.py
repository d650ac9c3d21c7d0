"""Replies, as msgspec types: they are made of them, and described by them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from discreet.service.definitions import Column, Definition

STATUSES = {
    "counted": "it is on disk",
    "duplicate": "this decision had its reward before; nothing has changed",
    "late": "it came after the time that the bandit waits",
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

    decision: str
    action: Any
    probability: float
    policy: int


class DecisionsReply(msgspec.Struct):
    """Many of them, in the order of the requests."""

    decisions: list[DecisionReply]


class StatusReply(msgspec.Struct):
    """What became of a reward or of a report."""

    status: Status


class StatusesReply(msgspec.Struct):
    """The same for many, in order."""

    statuses: list[Status]


class BatchReply(msgspec.Struct):
    """What became of a relay's batch: a small one is dropped, unread."""

    status: Annotated[str, Meta(extra_json_schema={"enum": BATCH_STATUSES})]


# -- bandits ---------------------------------------------------------------------------------------


class Progress(msgspec.Struct):
    """How far the open window is."""

    number: int
    rounds: int | None  # that it has; null: it stays open for ever
    leased: int
    decided: int


class BanditSummary(msgspec.Struct):
    """A bandit in a list."""

    name: str
    definition: Definition
    created: float
    rounds: int
    policy: int
    learning: bool
    retired: bool
    alarm: str | None
    window: Progress


class BanditsReply(msgspec.Struct):
    """All bandits that the key may see."""

    bandits: list[BanditSummary]


class ReleaseCost(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One release of a guarantee, and its cost in each currency in which it has a finite one."""

    what: str
    mechanism: str
    norm: str
    sensitivity: Price
    scale: Price
    sampler: str
    scope: str | None
    epsilon: Price | UnsetType = UNSET
    mu: Price | UnsetType = UNSET
    rho: Price | UnsetType = UNSET
    crowd: int | UnsetType | None = UNSET


class Promise(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A guarantee for machines."""

    format: int
    epsilon: Price
    delta: float
    trust: Literal["central", "joint", "local", "shuffled"]
    neighbours: str
    unit: str
    contributions: int
    sampler: str
    releases: list[ReleaseCost]
    unprotected: list[str]
    reference: str
    audits: list[dict[str, Any]]
    local_epsilon: Price | UnsetType = UNSET  # these three under shuffled trust
    minimum: float | UnsetType = UNSET
    honest: float | UnsetType = UNSET


class GuaranteeReply(Promise, forbid_unknown_fields=True, kw_only=True):
    """A guarantee for machines, and in words."""

    statement: str


class ReportCounts(msgspec.Struct):
    """Reports that counted, and those that no device could have sent."""

    taken: int
    refused: int


class BanditReply(BanditSummary, kw_only=True):
    """One bandit, with its guarantee; under local trust with its number of reports."""

    guarantee: Promise
    reports: ReportCounts | UnsetType = UNSET


class PublishedWindow(msgspec.Struct):
    """What was published of a window: number and sum of rewards; of reports by question."""

    window: int
    rounds: int
    at: float
    count: float | UnsetType = UNSET  # none where nothing was learnt
    sum: float | dict[str, Any] | UnsetType = UNSET


class ReleasesReply(msgspec.Struct):
    """What was published, window by window."""

    releases: list[PublishedWindow]


# -- policies --------------------------------------------------------------------------------------


class PolicyReply(msgspec.Struct):
    """A public policy under joint trust: its kind, and the numbers and arrays of that kind."""

    epoch: str
    version: int
    learning: bool
    kind: str


class QuestionReply(msgspec.Struct):
    """What a fraction of the devices is asked."""

    name: str
    kind: Literal["gram", "moment", "square"]
    clip: float
    fraction: float


class ContextColumn(Column, frozen=True, kw_only=True):
    """A column of the context, by its name."""

    name: str


class ActionParts(msgspec.Struct):
    """An action, and what its row holds once for each column of the context."""

    name: str
    parts: list[float]


class DeviceFeatures(msgspec.Struct):
    """How a device makes rows: of declared columns and actions, or raw ones of `dim` numbers."""

    dim: int | UnsetType = UNSET
    columns: list[ContextColumn] | UnsetType = UNSET
    actions: list[ActionParts] | UnsetType = UNSET


class PlannedBatch(msgspec.Struct):
    """The crowd that a report will hide in, under shuffled trust."""

    size: int
    minimum: int
    honest: int
    epsilon: Price
    delta: float
    local_epsilon: Price


class DevicePolicyReply(msgspec.Struct):
    """A public policy under local trust: all that a device needs (docs/local.md)."""

    epoch: str
    version: int
    learning: bool
    format: int
    window: int
    theta: list[float]
    whitening: Matrix
    questions: list[QuestionReply]
    epsilon: Price
    contributions: int
    norm_bound: float
    outcome_range: tuple[float, float]
    root: Matrix
    draws: Matrix
    policy: str
    exploring: float
    channels: dict[str, dict[str, float]]
    features: DeviceFeatures
    batch: PlannedBatch | UnsetType = UNSET


# -- populations and keys --------------------------------------------------------------------------


class Limit(msgspec.Struct):
    """The most that may be spent."""

    epsilon: float
    delta: float


class Spent(msgspec.Struct):
    """What is spent; null where a bandit has no privacy."""

    epsilon: float | None
    delta: float
    mu: float | None


class Charge(msgspec.Struct):
    """What one bandit costs a population for its whole life."""

    bandit: str
    epsilon: float | None
    mu: float | None
    at: float


class PopulationReply(msgspec.Struct):
    """A population: its limit, what is spent, and by whom."""

    name: str
    unit: Literal["round", "person"] | None
    limit: Limit | None
    spent: Spent
    bandits: list[Charge]


class PopulationsReply(msgspec.Struct):
    """All populations."""

    populations: list[PopulationReply]


class KeyReply(msgspec.Struct):
    """A key without its secret."""

    id: str
    name: str
    scopes: list[str]
    bandits: list[str] | None
    rate: float | None
    created: float
    revoked: float | None


class KeysReply(msgspec.Struct):
    """All keys."""

    keys: list[KeyReply]


class NewKeyReply(msgspec.Struct):
    """A new key; its secret is shown here and never again."""

    id: str
    secret: str
    name: str
    scopes: list[str]
    bandits: list[str] | None
    rate: float | None


# -- operations, and the retired service -----------------------------------------------------------


class HealthReply(msgspec.Struct):
    """The process lives."""

    status: Literal["ok"] = "ok"


class ReadyReply(msgspec.Struct):
    """The store answers; names of bandits whose learning has stopped with an alarm."""

    alarms: list[str]
    status: Literal["ok"] = "ok"


class Ranked(msgspec.Struct):
    """An action of the retired Personalizer API, and how likely it was."""

    id: str
    probability: float


class RankReply(msgspec.Struct, rename="camel"):
    """Rank of the retired Personalizer API."""

    ranking: list[Ranked]
    event_id: str
    reward_action_id: str
