"""What a database that is put back must not have forgotten."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import store as tables


def remembered(connection: Connection) -> dict[str, Any]:
    """Everything that a restored database must not forget."""
    alive = tables.keys.c.revoked.is_not(None)
    charges = connection.execute(sa.select(tables.charges))
    return {
        "charges": [
            {
                "population": each.population,
                "bandit": each.bandit,
                "epoch": each.epoch,
                "mu_squared": each.mu_squared,
            }
            for each in charges
        ],
        "limits": [
            {"population": p.name, "epsilon": p.epsilon, "delta": p.delta, "unit": p.unit}
            for p in connection.execute(sa.select(tables.populations))
        ],
        "revoked": list(connection.execute(sa.select(tables.keys.c.id).where(alive)).scalars()),
        "retired": list(
            connection.execute(
                sa.select(tables.bandits.c.name).where(tables.bandits.c.retired)
            ).scalars()
        ),
    }
