"""What a page shows of a bandit: public state and releases, read in one transaction.

The open noisy sum, the marks of rewarded rounds and waiting decisions are never looked at.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.bandits.belief import Belief
from discreet.bandits.predictions import Weights
from discreet.bandits.value import Totals, Value
from discreet.features import FeatureMap
from discreet.least_squares.posterior import root
from discreet.privacy import Guarantee
from discreet.privacy.gaussian import gaussian_epsilon, gaussian_mu
from discreet.service import administration, offers
from discreet.service import store as tables
from discreet.service.dashboard.learnt import (
    Coefficient,
    Comparison,
    Estimate,
    Model,
    Window,
    coefficients,
    comparisons,
    mean_reward,
)
from discreet.service.devices import Devices
from discreet.service.joint import Joint
from discreet.service.replies import BanditSummary, PopulationReply, PublishedWindow
from discreet.service.schema import Definition
from discreet.service.server import Server


@dataclass(frozen=True)
class Public:
    """What the store and the learner say of a bandit: all of it public, none of it changes.

    row          of the bandit, without its learner
    definition   what the bandit is
    policy       that decides now
    promise      the service's guarantee
    releases     as they were published
    """

    row: Any
    definition: Definition
    model: Callable[[], Model] | None  # None before anything is known
    policy: Any
    promise: Guarantee
    releases: list[PublishedWindow]
    totals: Sequence[Totals]  # of rewards, as released; none under local trust
    value: Value | None  # against the hold-out
    opened: float  # when the open window began


@dataclass(frozen=True)
class View:
    """One bandit, as its page shows it.

    summary        as the API shows it
    definition     what the bandit is
    policy         that decides now
    promise        the service's guarantee
    windows        closed ones, with the errors of their releases
    opened         when the open window began
    coefficients   by action, or by attribute of actions
    comparisons    with choices that do not look at the context
    value          against the hold-out; None without one
    """

    summary: BanditSummary
    definition: Definition
    features: Any  # Declared, AnyJson or None
    policy: Any
    promise: Guarantee
    windows: list[Window]
    opened: float
    coefficients: dict[str, list[Coefficient]]
    comparisons: list[Comparison]
    value: Value | None

    @property
    def left(self) -> int | None:
        """Decisions until the next release; None if there will be none."""
        window = self.summary.window
        if window.rounds is None or not self.summary.learning:
            return None
        return max(window.rounds - window.decided, 0)

    @property
    def pace(self) -> float | None:
        """Seconds for each decision in the last window; None before there is one."""
        if not self.windows:
            return None
        last = self.windows[-1]
        before = self.windows[-2].at if len(self.windows) > 1 else self.summary.created
        return max(last.at - before, 0.0) / last.rounds

    @property
    def mean(self) -> Estimate | None:
        """The mean reward of the last window that shows one."""
        return next((each.mean for each in reversed(self.windows) if each.mean), None)


async def view(server: Server, name: str) -> View:
    """A bandit; raises `not-found`."""
    found = await server.with_bandit(name, partial(_public, server))
    summary = administration.summary(server, found.row)
    # Many features take a while: neither the writer nor the event loop waits for that.
    return await asyncio.to_thread(_view, found, summary)


def _public(server: Server, connection: Connection, row: Any) -> Public:
    tenant = server.tenant_of(connection, row)
    policies = tables.policies
    opened = connection.execute(
        sa.select(policies.c.at).where(
            policies.c.bandit == row.name,
            policies.c.epoch == row.epoch,
            policies.c.version == row.version,
        )
    ).scalar_one()
    if isinstance(tenant, Devices):
        policy, model = _of_devices(tenant)
    else:
        policy, model = tenant.learner.policy, _of_windows(tenant)
    return Public(
        row,
        tenant.definition,
        model,
        policy,
        tenant.guarantee(),
        administration.published(connection, row),
        () if isinstance(tenant, Devices) else tenant.learner.totals,
        None if isinstance(tenant, Devices) else tenant.learner.value,
        opened,
    )


def _of_windows(tenant: Joint) -> Callable[[], Model] | None:
    learner = tenant.learner
    belief, unit, middle = learner.belief, learner.reward_unit, learner.reward_middle
    if not isinstance(belief, Belief) or not belief.informed:
        return None
    return lambda: Model(Weights.of(belief), unit, middle, belief.gram)


def _of_devices(tenant: Devices) -> tuple[Any, Callable[[], Model] | None]:
    policy, belief = tenant.learner.policy, tenant.learner.belief
    if policy.window == 0:
        return policy.rule, None
    largest = max(map(abs, tenant.definition.reward.range))

    def model() -> Model:
        spread = root(belief.covariance)
        return Model(Weights(belief.theta, 0.0, spread, np.zeros(len(spread))), largest)

    return policy.rule, model


def _view(found: Public, summary: BanditSummary) -> View:
    definition = found.definition
    windows = _windows(found)
    features = offers.features(definition)
    learnt: dict[str, list[Coefficient]] = {}
    compared: list[Comparison] = []
    if found.model is not None:
        model = found.model()
        feature_map = getattr(features, "map", None)
        if isinstance(feature_map, FeatureMap):
            learnt = coefficients(model, feature_map)
            now = next((each.mean for each in reversed(windows) if each.mean), None)
            if now is not None and definition.link == "identity":
                compared = comparisons(model, feature_map, now, definition.baseline)
        else:
            each = enumerate(model.effects(1.0))
            learnt = {"columns": [Coefficient(f"column {i}", estimate) for i, estimate in each]}
    return View(
        summary,
        definition,
        features,
        found.policy,
        found.promise,
        windows,
        found.opened,
        learnt,
        compared,
        found.value if definition.holdout is not None else None,
    )


def _windows(found: Public) -> list[Window]:
    """Releases as they were published, each with what the ledger says of its noise."""
    promise = found.promise
    if found.definition.privacy.on_devices:
        each_costs = promise.epsilon / promise.contributions
        return [
            Window(
                r.window,
                r.rounds,
                r.at,
                Estimate(float(r.count or 0.0), 0.0),
                None,
                None,
                each_costs,
            )
            for r in found.releases
        ]
    scopes: dict[str | int, list[Any]] = {}  # without a scope a release is a window
    for place, release in enumerate(promise.releases):
        scopes.setdefault(release.scope or place, []).append(release)
    windows = []
    for published, total, booked in zip(
        found.releases,
        found.totals,
        scopes.values(),
        strict=False,  # one more is open
    ):
        mu = math.sqrt(math.fsum(each.mu**2 for each in booked))
        count = Estimate(total.count, math.sqrt(total.variances[0]))
        rewards = Estimate(total.sum, math.sqrt(total.variances[1]))
        windows.append(
            Window(
                published.window,
                published.rounds,
                published.at,
                count,
                rewards,
                mean_reward(count, rewards, found.definition.reward.range),
                gaussian_epsilon(mu, promise.delta) if math.isfinite(mu) else None,
            )
        )
    return windows


# -- everybody's ----------------------------------------------------------------------------------


def population_bar(population: PopulationReply) -> dict[str, Any]:
    """Shares of a population's budget in mu^2, in which costs add up."""
    limit = population.limit
    charges = population.bandits
    spent = [math.inf if each.mu is None else each.mu**2 for each in charges]
    whole = gaussian_mu(limit.epsilon, limit.delta) ** 2 if limit else math.fsum(spent)
    if not whole or math.isinf(whole):
        shares = [1 / len(spent) if spent else 0.0 for _ in spent]
    else:
        shares = [each / whole for each in spent]
    starts = [math.fsum(shares[:i]) for i in range(len(shares))]
    parts = [
        {**msgspec.structs.asdict(each), "share": share, "start": start}
        for each, share, start in zip(charges, shares, starts, strict=True)
    ]
    return {**msgspec.structs.asdict(population), "parts": parts, "share": math.fsum(shares)}


async def log(server: Server, before: int | None, most: int) -> list[Any]:
    """What administrators did, the newest first."""

    def read(connection: Connection) -> list[Any]:
        table = tables.log
        query = sa.select(table).order_by(table.c.id.desc()).limit(most)
        if before is not None:
            query = query.where(table.c.id < before)
        return list(connection.execute(query))

    return await server.transact(read)
