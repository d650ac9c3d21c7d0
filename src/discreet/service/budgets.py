"""Populations: people who are in several bandits pay for all of them.

Each bandit is charged for its whole life when it is created, as mu^2 of Gaussian differential
privacy; a pure epsilon counts as mu = -2 Phi^-1(1/(1 + e^epsilon)), which it implies. Adaptive
compositions add as mu^2 (Dong, Roth and Su 2022), so the sum of the charges must stay within the
limit's own mu^2. Charges are never deleted: a retired bandit has spent what it spent.
"""

import math
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.privacy.gaussian import gaussian_epsilon, gaussian_mu
from discreet.service import store as tables
from discreet.service.errors import Problem, conflict, invalid
from discreet.service.replies import Charge, Limit, PopulationReply, Spent

_SLACK = 1 + 1e-12


def limit_of(row: Any) -> float:
    """The most mu^2 that may be spent; inf without a limit."""
    if row is None or row.epsilon is None:
        return math.inf
    return gaussian_mu(row.epsilon, row.delta) ** 2


def spent(connection: Connection, population: str) -> tuple[float, list[Any]]:
    """The sum of mu^2 so far, and the charges."""
    charges = tables.charges
    query = sa.select(charges).where(charges.c.population == population).order_by(charges.c.at)
    rows = list(connection.execute(query))
    return math.fsum(row.mu_squared for row in rows), rows


def row_of(connection: Connection, population: str, *, lock: bool = False) -> Any:
    """The population's row, or None."""
    query = sa.select(tables.populations).where(tables.populations.c.name == population)
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


def charge(
    connection: Connection, population: str, bandit: str, epoch: str, mu2: float, unit: str
) -> None:
    """Book a bandit's whole life, or raise `budget-exhausted` and change nothing.

    Call it under the instance's lock: two creations must not race for the same budget.
    """
    row = row_of(connection, population, lock=True)
    if row is None:
        connection.execute(
            sa.insert(tables.populations).values(name=population, unit=unit, created=time.time())
        )
    elif row.unit is None:
        connection.execute(
            sa.update(tables.populations)
            .where(tables.populations.c.name == population)
            .values(unit=unit)
        )
    elif row.unit != unit:
        raise conflict(
            "other-unit",
            "The population protects another unit.",
            f"Its unit is {row.unit!r}: a bandit in it must protect the same.",
        )
    limit = limit_of(row)
    total, charges = spent(connection, population)
    if math.isinf(mu2) and math.isfinite(limit):
        raise conflict(
            "budget-exhausted",
            "A bandit without privacy cannot join a population that has a limit.",
            "Give it an epsilon, or leave out the population.",
        )
    if total + mu2 > limit * _SLACK:
        raise _exhausted(row, total + mu2, limit, charges)
    connection.execute(
        sa.insert(tables.charges).values(
            population=population,
            bandit=bandit,
            epoch=epoch,
            mu_squared=_stored(mu2),
            at=time.time(),
        )
    )


def _stored(mu2: float) -> float:
    return 1e300 if math.isinf(mu2) else mu2


def _exhausted(row: Any, wanted: float, limit: float, charges: list[Any]) -> Problem:
    holders = [
        {"bandit": each.bandit, "epsilon": _epsilon(each.mu_squared, row.delta)} for each in charges
    ]
    over = _epsilon(wanted, row.delta)
    return conflict(
        "budget-exhausted",
        "The population's privacy budget does not allow this bandit.",
        f"Together the bandits would cost epsilon = {over:.4g} at delta = {row.delta:g}, and the "
        f"limit is {row.epsilon:g}. Raise the limit, or give the new bandit a smaller epsilon; "
        "what other bandits hold stays spent, also when they are retired.",
        limit={"epsilon": row.epsilon, "delta": row.delta},
        wanted={"epsilon": over, "delta": row.delta},
        excess=over - row.epsilon,
        held_by=holders,
    )


def _epsilon(mu2: float, delta: float) -> float:
    return gaussian_epsilon(math.sqrt(mu2), delta) if mu2 else 0.0


def set_limit(
    connection: Connection, population: str, epsilon: float, delta: float, unit: str | None
) -> bool:
    """Create a population or change its limit, which may not fall below what is spent."""
    if not (0 < epsilon < math.inf and 0 < delta < 0.1):
        raise invalid("epsilon must be positive, delta positive and small such as 1e-6.")
    row = row_of(connection, population, lock=True)
    total, _ = spent(connection, population)
    if total > gaussian_mu(epsilon, delta) ** 2 * _SLACK:
        raise conflict(
            "limit-below-spent",
            "The limit would be below what is spent.",
            "A limit may rise, but never fall below what the population's bandits cost.",
        )
    populations = tables.populations
    if row is None:
        connection.execute(
            sa.insert(populations).values(
                name=population,
                epsilon=epsilon,
                delta=delta,
                unit=unit or "round",
                created=time.time(),
            )
        )
        return True
    if unit is not None and row.unit is not None and unit != row.unit:
        raise conflict(
            "other-unit",
            "The population protects another unit.",
            f"Its unit is {row.unit!r} and cannot be changed.",
        )
    connection.execute(
        sa.update(populations)
        .where(populations.c.name == population)
        .values(epsilon=epsilon, delta=delta, unit=row.unit or unit or "round")
    )
    return False


def shown(connection: Connection, row: Any) -> PopulationReply:
    """A population for the API: its limit, what is spent, and by whom."""
    total, charges = spent(connection, row.name)
    delta = 1e-6 if row.delta is None else row.delta
    return PopulationReply(
        name=row.name,
        unit=row.unit,
        limit=None if row.epsilon is None else Limit(row.epsilon, row.delta),
        spent=Spent(_shown_epsilon(total, delta), delta, _mu(total)),
        bandits=[
            Charge(
                each.bandit, _shown_epsilon(each.mu_squared, delta), _mu(each.mu_squared), each.at
            )
            for each in charges
        ],
    )


def _mu(mu2: float) -> float | None:
    return None if mu2 >= 1e300 else math.sqrt(mu2)


def _shown_epsilon(mu2: float, delta: float) -> float | None:
    return None if mu2 >= 1e300 else _epsilon(mu2, delta)
