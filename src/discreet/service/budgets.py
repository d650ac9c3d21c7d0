"""Populations: people who are in several bandits pay for all of them.

Each bandit is charged for its whole life when it is created, as mu^2 of Gaussian differential
privacy; a pure epsilon counts as mu = -2 Phi^-1(1/(1 + e^epsilon)), which it implies. Adaptive
compositions add as mu^2 (Dong, Roth and Su 2022), so the sum of the charges must stay within the
limit's own mu^2. Charges are never deleted: a retired bandit has spent what it spent.
"""

import math
import time
from typing import Any

from sqlalchemy.engine import Connection

from discreet.privacy.gaussian import gaussian_epsilon, gaussian_mu
from discreet.service import rows
from discreet.service import store as tables
from discreet.service.errors import Problem, invalid
from discreet.service.replies import Charge, Limit, PopulationReply, Spent

_SLACK = 1 + 1e-12
_NO_PRIVACY = 1e300  # mu^2 of it, as it is stored
LIMIT = ("population", "epsilon", "delta", "unit")  # as the fence names them


def limit_of(row: Any) -> float:
    """The most mu^2 that may be spent; inf without a limit."""
    if row is None or row.epsilon is None:
        return math.inf
    return gaussian_mu(row.epsilon, row.delta) ** 2


def spent(connection: Connection, population: str) -> tuple[float, list[Any]]:
    found = rows.find(connection, tables.charges, population=population)
    return math.fsum(each.mu_squared for each in found), sorted(found, key=lambda each: each.at)


def charge(
    connection: Connection, population: str, bandit: str, epoch: str, mu2: float, unit: str
) -> None:
    """Book a bandit's whole life, or raise `budget-exhausted` and change nothing.

    Call it under the instance's lock: two creations must not race for the same budget.
    """
    row = rows.one(connection, tables.populations, name=population)
    if row is None:
        begin(connection, population, unit=unit)
    elif row.unit is None:
        rows.update(connection, tables.populations, {"name": population}, unit=unit)
    elif row.unit != unit:
        raise Problem("other-unit", unit=row.unit)
    limit = limit_of(row)
    total, charges = spent(connection, population)
    if math.isinf(mu2) and math.isfinite(limit):
        why = "It has no epsilon: give it one, or leave out the population, which has a limit."
        raise Problem("budget-exhausted", what=why)
    if total + mu2 > limit * _SLACK:
        raise _exhausted(row, total + mu2, limit, charges)
    book(connection, population, bandit, epoch, mu2)


def begin(connection: Connection, population: str, **limit: Any) -> None:
    rows.insert(
        connection, tables.populations, [{"name": population, "created": time.time(), **limit}]
    )


def book(connection: Connection, population: str, bandit: str, epoch: str, mu2: float) -> None:
    spent = {"mu_squared": min(mu2, _NO_PRIVACY), "at": time.time()}
    row = {"population": population, "bandit": bandit, "epoch": epoch, **spent}
    rows.insert(connection, tables.charges, [row])


def _exhausted(row: Any, wanted: float, limit: float, charges: list[Any]) -> Problem:
    holders = [
        {"bandit": each.bandit, "epsilon": _epsilon(each.mu_squared, row.delta)} for each in charges
    ]
    over = _epsilon(wanted, row.delta)
    why = (
        f"Together the bandits would cost epsilon = {over:.4g} at delta = {row.delta:g}, and the "
        f"limit is {row.epsilon:g}. Raise the limit, or give the new bandit a smaller epsilon; "
        "what other bandits hold stays spent, also when they are retired."
    )
    more = {
        "limit": {"epsilon": row.epsilon, "delta": row.delta},
        "wanted": {"epsilon": over, "delta": row.delta},
        "excess": over - row.epsilon,
        "held_by": holders,
    }
    return Problem("budget-exhausted", what=why, more=more)


def _epsilon(mu2: float, delta: float) -> float:
    return gaussian_epsilon(math.sqrt(mu2), delta) if mu2 else 0.0


def set_limit(
    connection: Connection, population: str, epsilon: float, delta: float, unit: str | None
) -> bool:
    """Create a population or change its limit, which may not fall below what is spent."""
    if not (0 < epsilon < math.inf and 0 < delta < 0.1):
        raise invalid("epsilon must be positive, delta positive and small such as 1e-6.")
    row = rows.one(connection, tables.populations, name=population)
    total, _ = spent(connection, population)
    if total > gaussian_mu(epsilon, delta) ** 2 * _SLACK:
        raise Problem("limit-below-spent")
    limit: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if row is None:
        begin(connection, population, **limit, unit=unit or "round")
        return True
    if unit is not None and row.unit is not None and unit != row.unit:
        raise Problem("other-unit", unit=row.unit)
    limit |= {"unit": row.unit or unit or "round"}
    rows.update(connection, tables.populations, {"name": population}, **limit)
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
    return None if mu2 >= _NO_PRIVACY else math.sqrt(mu2)


def _shown_epsilon(mu2: float, delta: float) -> float | None:
    return None if mu2 >= _NO_PRIVACY else _epsilon(mu2, delta)


def remembered(connection: Connection) -> dict[str, Any]:
    """Everything that a restored database must not forget, for the fence."""
    charged = ("population", "bandit", "epoch", "mu_squared")
    charges = rows.find(connection, tables.charges, *charged)
    limits = rows.find(connection, tables.populations, "name", "epsilon", "delta", "unit")
    keys = rows.find(connection, tables.keys, "id", "revoked")
    bandits = rows.find(connection, tables.bandits, "name", retired=True)
    return {
        "charges": [dict(zip(charged, each, strict=True)) for each in charges],
        "limits": [dict(zip(LIMIT, each, strict=True)) for each in limits],
        "revoked": [key for key, revoked in keys if revoked is not None],
        "retired": [name for (name,) in bandits],
    }
