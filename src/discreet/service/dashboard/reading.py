"""What a page shows of a bandit: public state and releases, read in one transaction.

The open noisy sum, the marks of rewarded rounds and waiting decisions are never looked at.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from discreet.bandits.belief import Belief
from discreet.bandits.window import VALUE
from discreet.features import FeatureMap
from discreet.privacy import Guarantee
from discreet.privacy.gaussian import gaussian_epsilon, gaussian_mu
from discreet.service import definitions, turning
from discreet.service import store as tables
from discreet.service.administration import _run as run
from discreet.service.administration import _summary as summary
from discreet.service.dashboard.learnt import (
    Coefficient,
    Comparison,
    Estimate,
    Weights,
    Window,
    coefficients,
    comparisons,
    mean_reward,
)
from discreet.service.definitions import Definition
from discreet.service.errors import not_found
from discreet.service.local import LocalHeld
from discreet.service.server import Server


@dataclass(frozen=True)
class View:
    """One bandit, as its page shows it."""

    summary: dict[str, Any]
    definition: Definition
    features: Any  # Declared, AnyJson or None
    policy: Any
    promise: Guarantee
    windows: list[Window]
    opened: float  # when the open window began
    coefficients: dict[str, list[Coefficient]]
    comparisons: list[Comparison]

    @property
    def left(self) -> int | None:
        """Decisions until the next release; None if there will be none."""
        size = self.summary["window"]["rounds"]
        if size is None or not self.summary["learning"]:
            return None
        return max(int(size) - int(self.summary["window"]["leased"]), 0)

    @property
    def pace(self) -> float | None:
        """Seconds for each decision in the last window; None before there is one."""
        if not self.windows:
            return None
        last = self.windows[-1]
        before = self.windows[-2].at if len(self.windows) > 1 else self.summary["created"]
        return max(last.at - before, 0.0) / last.rounds

    @property
    def mean(self) -> Estimate | None:
        """The mean reward of the last window that shows one."""
        return next((each.mean for each in reversed(self.windows) if each.mean), None)


async def view(server: Server, name: str) -> View:
    """A bandit; raises `not-found`."""

    def read() -> View:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            if row is None:
                raise not_found("bandit")
            held = server.held_of(connection, row)
            table = tables.windows
            found = connection.execute(
                sa.select(table.c.release)
                .where(table.c.bandit == name, table.c.release.is_not(None))
                .order_by(table.c.number)
            )
            releases = [json.loads(text) for text in found.scalars()]
            policies = tables.policies
            opened = connection.execute(
                sa.select(policies.c.at).where(
                    policies.c.bandit == name,
                    policies.c.epoch == row.epoch,
                    policies.c.version == row.version,
                )
            ).scalar_one()
            return _view(row, held, releases, opened)

    shown: View = await run(server, read)
    return shown


def _view(
    row: Any, held: turning.Held | LocalHeld, releases: list[dict[str, Any]], opened: float
) -> View:
    definition = held.definition
    promise = turning.guarantee(held)
    if isinstance(held, LocalHeld):  # sums of reports: neither coefficients nor counts of rewards
        made, rule = definitions.features(definition), held.server.policy.rule
        return View(summary(row), definition, made, rule, promise, [], opened, {}, [])
    learner = held.learner
    windows = _windows(definition, promise, releases)
    made = definitions.features(definition)
    found: dict[str, list[Coefficient]] = {}
    compared: list[Comparison] = []
    belief = learner._belief
    feature_map = getattr(made, "map", None)
    if isinstance(belief, Belief) and belief.informed:
        weights = Weights(learner)
        if isinstance(feature_map, FeatureMap):
            found = coefficients(weights, feature_map)
        else:
            names = made.names if made else tuple(f"column {i}" for i in range(learner.dim))
            each = zip(names, weights.all(1.0), strict=True)
            found = {"columns": [Coefficient(name, estimate) for name, estimate in each]}
        now = next((each.mean for each in reversed(windows) if each.mean), None)
        if isinstance(feature_map, FeatureMap) and now and definition.link == "identity":
            compared = comparisons(weights, feature_map, now, definition.baseline)
    return View(
        summary(row),
        definition,
        made,
        learner.policy,
        promise,
        windows,
        opened,
        found,
        compared,
    )


def _windows(
    definition: Definition, promise: Guarantee, releases: list[dict[str, Any]]
) -> list[Window]:
    """Releases as they were published, each with what the ledger says of its noise."""
    scopes: dict[str | None, list[Any]] = {}
    for release in promise.releases:
        scopes.setdefault(release.scope, []).append(release)
    low, high = definition.reward.range
    largest = max(abs(low), abs(high))
    found = []
    for published, booked in zip(releases, scopes.values(), strict=False):
        std = math.fsum(each.scale for each in booked) / VALUE
        mu = math.sqrt(math.fsum(each.mu**2 for each in booked))
        count = Estimate(published["count"], std)
        total = Estimate(published["sum"], largest * std)
        found.append(
            Window(
                published["window"],
                published["rounds"],
                published["at"],
                count,
                total,
                mean_reward(count, total, (low, high)),
                mu,
                gaussian_epsilon(mu, promise.delta) if math.isfinite(mu) else None,
            )
        )
    return found


# -- everybody's ----------------------------------------------------------------------------------


def population_bar(population: dict[str, Any]) -> dict[str, Any]:
    """Shares of a population's budget in mu^2, in which costs add up."""
    limit = population["limit"]
    charges = population["bandits"]
    spent = [math.inf if each["mu"] is None else each["mu"] ** 2 for each in charges]
    whole = gaussian_mu(limit["epsilon"], limit["delta"]) ** 2 if limit else math.fsum(spent)
    if not whole or math.isinf(whole):
        shares = [1 / len(spent) if spent else 0.0 for _ in spent]
    else:
        shares = [each / whole for each in spent]
    starts = [math.fsum(shares[:i]) for i in range(len(shares))]
    parts = [
        {**each, "share": share, "start": start}
        for each, share, start in zip(charges, shares, starts, strict=True)
    ]
    return {**population, "parts": parts, "share": math.fsum(shares)}


async def log(server: Server, before: int | None, most: int) -> list[Any]:
    """What administrators did, the newest first."""

    def read() -> list[Any]:
        table = tables.log
        query = sa.select(table).order_by(table.c.id.desc()).limit(most)
        if before is not None:
            query = query.where(table.c.id < before)
        with server.store.transaction() as connection:
            return list(connection.execute(query))

    shown: list[Any] = await run(server, read)
    return shown
