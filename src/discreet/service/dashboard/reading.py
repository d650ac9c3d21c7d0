"""What a page shows of a bandit: public state and releases, read in one transaction.

The open noisy sum, the marks of rewarded rounds and waiting decisions are never looked at.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.bandits.history import SCOPE
from discreet.bandits.predictions import LEVEL, Effect, effects
from discreet.evaluation.worth import Totals
from discreet.features import FeatureMap
from discreet.privacy import Guarantee
from discreet.privacy.gaussian import gaussian_epsilon, gaussian_mu
from discreet.service import administration, offers, rows
from discreet.service import store as tables
from discreet.service.devices import Devices
from discreet.service.replies import BanditSummary, PopulationReply, PublishedWindow, ValueReply
from discreet.service.schema import Column, Definition
from discreet.service.server import Server

Learnt = dict[str, list[tuple[str, Effect]]]  # by part of a row: columns, and what they add


@dataclass(frozen=True)
class Window:
    """One release, as it was published."""

    published: PublishedWindow  # its number, rounds, time, count and sum
    count_std: float  # of the noise in the count
    sum_std: float  # of the noise in the sum
    epsilon: float | None  # what it costs, at the bandit's delta; None without privacy


@dataclass(frozen=True)
class View:
    """One bandit, as its page shows it."""

    summary: BanditSummary  # as the API shows it
    definition: Definition  # what the bandit is
    features: offers.Declared | offers.AnyJson | None  # from contexts to rows; None for raw ones
    policy: Any  # that decides now
    promise: Guarantee  # the service's guarantee
    windows: list[Window]  # closed ones
    worth: ValueReply  # what the bandit is worth, now and after each release
    opened: float  # when the open window began
    learnt: Learnt  # the effects of `LinearBandit.summary`; none before anything is known
    level: float = LEVEL  # of the intervals of effects

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
        last = self.windows[-1].published
        before = self.windows[-2].published.at if len(self.windows) > 1 else self.summary.created
        return max(last.at - before, 0.0) / last.rounds


async def view(server: Server, name: str) -> View:
    """A bandit; raises `not-found`."""
    return await server.with_bandit(name, partial(_view, server))


def _view(server: Server, connection: Connection, row: Any) -> View:
    tenant = server.tenant_of(connection, row)
    here = {"bandit": row.name, "epoch": row.epoch, "version": row.version}
    (opened,) = rows.one(connection, tables.policies, "at", **here)
    features = offers.features(tenant.definition)
    feature_map = features.map if isinstance(features, offers.Declared) else None
    learner = tenant.learner
    promise = tenant.guarantee()
    releases = administration.published(connection, row)
    found: Iterable[Effect] = ()
    if isinstance(tenant, Devices):
        policy = learner.policy.rule
        windows = _of_reports(promise, releases)
        if learner.policy.window > 0:
            found = _of_devices(tenant, feature_map)
    else:
        policy = learner.policy
        windows = windows_of(promise, administration.decided(releases), learner.totals)
        if learner.belief.informed:
            found = learner.summary(feature_map).effects
    return View(
        administration.summary(server, row),
        tenant.definition,
        features,
        policy,
        promise,
        windows,
        administration.worth(tenant, releases),
        opened,
        _by_part(found, feature_map),
    )


def _of_devices(tenant: Devices, feature_map: FeatureMap | None) -> tuple[Effect, ...]:
    """What each feature adds to the expected reward, by the belief of closed windows."""
    belief = tenant.learner.belief
    largest = max(map(abs, tenant.definition.reward.range))
    names = [f"x{i}" for i in range(len(belief.theta))]
    errors = np.sqrt(np.maximum(np.diagonal(belief.covariance), 0.0))
    scale = 1.0 if feature_map is None else feature_map.scale
    return effects(names, largest * belief.theta, largest * errors, scale, LEVEL)


def _by_part(found: Iterable[Effect], feature_map: FeatureMap | None) -> Learnt:
    """Effects by action, or by attribute of actions: rows are these times the context's columns."""
    if not found:
        return {}
    if feature_map is None:
        return {"columns": [(each.name, each) for each in found]}
    left = iter(found)
    columns = feature_map.context_names
    return {
        "every action" if part == "1" else part.removeprefix("action="): list(
            zip(columns, islice(left, len(columns)), strict=True)
        )
        for part in feature_map.parts
    }


def _of_reports(promise: Guarantee, releases: Sequence[PublishedWindow]) -> list[Window]:
    each_costs = promise.epsilon / promise.contributions
    return [Window(published, 0.0, 0.0, each_costs) for published in releases]


def windows_of(
    promise: Guarantee,
    releases: Sequence[PublishedWindow],
    totals: Sequence[Totals],
) -> list[Window]:
    """Releases as they were published, each with what the ledger says of its noise."""
    scopes: dict[str | int, list[Any]] = {}  # without a scope a release is a window
    own = (each for each in promise.releases if not (each.scope or "").startswith(SCOPE))
    for place, release in enumerate(own):
        scopes.setdefault(release.scope or place, []).append(release)
    windows = []
    booked = scopes.values()  # one more is open
    for published, total, some in zip(releases, totals, booked, strict=False):
        mu = math.sqrt(math.fsum(each.mu**2 for each in some))
        count_std, rewards_std = total.noise_stds
        windows.append(
            Window(
                published,
                count_std,
                rewards_std,
                gaussian_epsilon(mu, promise.delta) if math.isfinite(mu) else None,
            )
        )
    return windows


# -- a context that a visitor tries ---------------------------------------------------------------


def probabilities(view: View, form: dict[str, str]) -> list[tuple[str, float]]:
    """How likely each action is in the context of a form, by the public policy."""
    made = view.features
    if made is None:
        assert view.definition.dim is not None
        raw = offers.raw_rows(_json(form, "features"), view.definition.dim)
        offer = offers.Offer(raw, [f"row {i}" for i in range(len(raw))])
    elif isinstance(made, offers.Declared):
        columns = view.definition.context or {}
        context = {name: _value(column, form, name) for name, column in columns.items()}
        offer = made.offer(context, None)
    else:
        actions = _json(form, "actions") if form.get("actions", "").strip() else None
        offer = made.offer(_json(form, "context"), actions)
    found = view.policy.probabilities(np.asarray(offer.rows, dtype=float)[None])[0]
    return [(str(name), float(each)) for name, each in zip(offer.names, found, strict=True)]


def _value(column: Column, form: dict[str, str], name: str) -> Any:
    text = form.get(f"column-{name}", "")
    if column.takes_null and text in ("", "missing"):
        return None
    if column.number is not None:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{name} must be a number")
        return value
    assert column.category is not None
    places = {str(i): each for i, each in enumerate(column.category)}
    if text in places:
        return places[text]
    if column.other:
        return ""  # a category that was not declared
    raise ValueError(f"{name} must be one of its categories")


def _json(form: dict[str, str], name: str) -> Any:
    try:
        return json.loads(form.get(name, ""))
    except (ValueError, RecursionError):
        raise ValueError(f"{name} must be JSON") from None


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
    def read(connection: Connection) -> list[Any]:
        table = tables.log
        query = sa.select(table).order_by(table.c.id.desc()).limit(most)
        if before is not None:
            query = query.where(table.c.id < before)
        return list(connection.execute(query))

    return await server.transact(read)
