"""Replies, as msgspec types: they are made of them, and described by them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from discreet.service.schema import Column, Definition

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
    """An action, and the token that its reward is sent with.

    decision      a sealed token: send it back with the reward
    action        its name, or its place where raw rows were sent
    probability   with which it was chosen
    policy        version of the policy that chose it
    """

    decision: str
    action: Any
    probability: float
    policy: int


class DecisionsReply(msgspec.Struct):
    """Many of them, in the order of the requests.

    decisions   one for each request
    """

    decisions: list[DecisionReply]


class StatusReply(msgspec.Struct):
    """What became of a reward or of a report.

    status   all of them mean that a retry is not needed
    """

    status: Status


class StatusesReply(msgspec.Struct):
    """The same for many, in order.

    statuses   one for each reward or report
    """

    statuses: list[Status]


class BatchReply(msgspec.Struct):
    """What became of a relay's batch: a small one is dropped, unread.

    status   "small": fewer sound reports than the minimum
    """

    status: Annotated[str, Meta(extra_json_schema={"enum": BATCH_STATUSES})]


# -- bandits ---------------------------------------------------------------------------------------


class Progress(msgspec.Struct):
    """How far the open window is.

    number    of the window, from 1
    rounds    decisions that it has; null: it stays open for ever
    leased    of them, to servers
    decided   of them, as far as this server knows
    """

    number: int
    rounds: int | None
    leased: int
    decided: int


class BanditSummary(msgspec.Struct):
    """A bandit in a list.

    name         of the bandit
    definition   with every field
    created      seconds since 1970
    rounds       decisions so far; under local trust reports
    policy       its version
    learning     whether feedback counts
    retired      by an administrator
    alarm        why learning has stopped; null if it has not
    window       the open one
    """

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
    """All bandits that the key may see.

    bandits   in the order of their names
    """

    bandits: list[BanditSummary]


class ReleaseCost(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One release of a guarantee, and its cost in each currency in which it has a finite one.

    what          was published
    mechanism     that made it
    norm          in which the sensitivity is measured
    sensitivity   how far one person can move it
    scale         of the noise
    sampler       how the noise was drawn
    scope         the rows that it saw; null: all
    epsilon       its cost as pure privacy
    mu            its cost as Gaussian privacy
    rho           its cost as zCDP
    crowd         honest reports that it was shuffled among; null: not shuffled
    """

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
    """A guarantee for machines.

    format          of this record
    epsilon         of everything, now and later
    delta           with which that may fail
    trust           against whom
    neighbours      which data sets are told apart
    unit            what is protected
    contributions   rounds of one person that are covered
    sampler         how noise was drawn
    releases        made so far
    unprotected     what is not promised
    reference       of the method
    audits          results of attacks
    local_epsilon   of all reports of a person by themselves (shuffled trust)
    minimum         fraction of a batch below which it is dropped (shuffled trust)
    honest          fraction of a batch that the promise counts on (shuffled trust)
    """

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
    local_epsilon: Price | UnsetType = UNSET
    minimum: float | UnsetType = UNSET
    honest: float | UnsetType = UNSET


class GuaranteeReply(Promise, forbid_unknown_fields=True, kw_only=True):
    """A guarantee for machines, and in words.

    statement   the promise in words
    """

    statement: str


class ReportCounts(msgspec.Struct):
    """Reports that counted, and those that no device could have sent.

    taken     reports that counted
    refused   reports that no device could have sent
    """

    taken: int
    refused: int


class BanditReply(BanditSummary, kw_only=True):
    """One bandit, with its guarantee; under local trust with its number of reports.

    guarantee   the promise
    reports     under local trust
    """

    guarantee: Promise
    reports: ReportCounts | UnsetType = UNSET


class PublishedWindow(msgspec.Struct):
    """What was published of a window: number and sum of rewards; of reports by question.

    window   its number
    rounds   decisions in it
    at       seconds since 1970
    count    of rewards, as released; none where nothing was learnt
    sum      of rewards, as released; under local trust sums of reports by question
    """

    window: int
    rounds: int
    at: float
    count: float | UnsetType = UNSET
    sum: float | dict[str, Any] | UnsetType = UNSET


class ReleasesReply(msgspec.Struct):
    """What was published, window by window.

    releases   in the order of their windows
    """

    releases: list[PublishedWindow]


# -- policies --------------------------------------------------------------------------------------


class PolicyReply(msgspec.Struct):
    """A public policy under joint trust: its kind, and the numbers and arrays of that kind.

    epoch      of the store
    version    of the policy
    learning   whether feedback counts
    kind       of policy
    """

    epoch: str
    version: int
    learning: bool
    kind: str


class QuestionReply(msgspec.Struct):
    """What a fraction of the devices is asked.

    name       what a report refers to
    kind       which function of the record is asked for
    clip       where residuals are clipped
    fraction   of the devices that answer it
    """

    name: str
    kind: Literal["gram", "moment", "square"]
    clip: float
    fraction: float


class ContextColumn(Column, frozen=True, kw_only=True):
    """A column of the context, by its name.

    name   of the column
    """

    name: str


class ActionParts(msgspec.Struct):
    """An action, and what its row holds once for each column of the context.

    name    of the action
    parts   its row is their product with (1, columns of the context)
    """

    name: str
    parts: list[float]


class DeviceFeatures(msgspec.Struct):
    """How a device makes rows: of declared columns and actions, or raw ones of `dim` numbers.

    dim       of raw rows
    columns   of the context, in order
    actions   in order
    """

    dim: int | UnsetType = UNSET
    columns: list[ContextColumn] | UnsetType = UNSET
    actions: list[ActionParts] | UnsetType = UNSET


class PlannedBatch(msgspec.Struct):
    """The crowd that a report will hide in, under shuffled trust.

    size               planned reports
    minimum            fewer are not released
    honest             reports that the promise counts on
    epsilon            promised against everybody but the relay
    delta              of that promise
    local_epsilon      the most that a report may cost by itself
    minimum_fraction   of every planned batch, fewer are not released
    honest_fraction    of every planned batch, the promise counts on
    """

    size: int
    minimum: int
    honest: int
    epsilon: Price
    delta: float
    local_epsilon: Price
    minimum_fraction: float | UnsetType = UNSET
    honest_fraction: float | UnsetType = UNSET


class DevicePolicyReply(msgspec.Struct):
    """A public policy under local trust: all that a device needs (docs/local.md).

    epoch           of the store
    version         of the policy
    learning        whether reports count; false: send none
    format          of this document
    window          its number, from 0
    theta           the estimate
    whitening       that features are multiplied with
    questions       one of which a device answers
    epsilon         of all reports of one person
    contributions   the most reports of one person
    norm_bound      of features
    outcome_range   of rewards
    root            of the covariance of theta
    draws           of theta, for "thompson"
    policy          thompson, ucb or greedy
    exploring       fraction of rounds in which ucb is optimistic
    channels        thresholds by kind of question
    features        how rows are made
    batch           under shuffled trust
    """

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
    """The most that may be spent.

    epsilon   of the most that may be spent
    delta     of it
    """

    epsilon: float
    delta: float


class Spent(msgspec.Struct):
    """What is spent; null where a bandit has no privacy.

    epsilon   at this delta
    delta     of the limit, or 1e-6
    mu        the same as Gaussian privacy
    """

    epsilon: float | None
    delta: float
    mu: float | None


class Charge(msgspec.Struct):
    """What one bandit costs a population for its whole life.

    bandit    its name
    epsilon   at the delta of the population
    mu        the same as Gaussian privacy
    at        seconds since 1970
    """

    bandit: str
    epsilon: float | None
    mu: float | None
    at: float


class PopulationReply(msgspec.Struct):
    """A population: its limit, what is spent, and by whom.

    name      of the population
    unit      what a person contributes; null before the first bandit
    limit     null: none
    spent     by all bandits together
    bandits   that have spent it
    """

    name: str
    unit: Literal["round", "person"] | None
    limit: Limit | None
    spent: Spent
    bandits: list[Charge]


class PopulationsReply(msgspec.Struct):
    """All populations.

    populations   in the order of their names
    """

    populations: list[PopulationReply]


class KeyReply(msgspec.Struct):
    """A key without its secret.

    id        stands in its secret
    name      for people
    scopes    what it may do
    bandits   for which; null: all
    rate      requests a second; null: no limit
    created   seconds since 1970
    revoked   the same; null while it lives
    """

    id: str
    name: str
    scopes: list[str]
    bandits: list[str] | None
    rate: float | None
    created: float
    revoked: float | None


class KeysReply(msgspec.Struct):
    """All keys.

    keys   in the order of their creation
    """

    keys: list[KeyReply]


class NewKeyReply(msgspec.Struct):
    """A new key; its secret is shown here and never again.

    id        stands in its secret
    secret    to be kept; the server has a hash of it
    name      for people
    scopes    what it may do
    bandits   for which; null: all
    rate      requests a second; null: no limit
    """

    id: str
    secret: str
    name: str
    scopes: list[str]
    bandits: list[str] | None
    rate: float | None


# -- operations, and the retired service -----------------------------------------------------------


class HealthReply(msgspec.Struct):
    """The process lives.

    status   the only one
    """

    status: Literal["ok"] = "ok"


class ReadyReply(msgspec.Struct):
    """The store answers; names of bandits whose learning has stopped with an alarm.

    alarms   names of bandits
    status   the only one
    """

    alarms: list[str]
    status: Literal["ok"] = "ok"


class Ranked(msgspec.Struct):
    """An action of the retired Personalizer API, and how likely it was.

    id            of the action
    probability   with which it was chosen
    """

    id: str
    probability: float


class RankReply(msgspec.Struct, rename="camel"):
    """Rank of the retired Personalizer API.

    ranking            all actions
    event_id           names the decision
    reward_action_id   the action to show
    """

    ranking: list[Ranked]
    event_id: str
    reward_action_id: str
