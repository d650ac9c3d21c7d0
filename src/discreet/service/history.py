"""Old logs: what a bandit knows before its first decision.

A private log is one more release, in windows of its own, and its rounds are none of the bandit's:
they pay what its rounds pay. A public one is a prior. Either way it is read once: before any round
number was given away, in the transaction that opens the first window anew. The window that was open
is dropped unread, with nothing in it.
"""

import asyncio
import math
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from discreet.arrays import Array
from discreet.service.administration import published
from discreet.service.definitions import parsed
from discreet.service.errors import conflict, invalid
from discreet.service.messages import HistoryBody, HistoryItem
from discreet.service.offers import AnyJson, Declared, Misfit, features, raw_rows
from discreet.service.replies import HistoryReply
from discreet.service.schema import Definition
from discreet.service.server import Server
from discreet.service.tenant import is_learning


async def take(server: Server, name: str, body: HistoryBody, who: str) -> HistoryReply:
    """Begin with an old log; the same log again changes nothing."""
    row = await server.with_bandit(name, lambda _, row: row)
    definition = parsed(row.definition.encode())
    if definition.privacy.on_devices:
        raise conflict("devices-decide", "Under local trust no server has records to learn from.")
    X, y = await asyncio.to_thread(read, definition, body)
    about = HistoryReply(body.id, len(y), body.public)

    def change(connection: Connection) -> tuple[HistoryReply, dict[str, Any] | None]:
        row = server.row(connection, name)
        tenant = server.tenant_of(connection, row)
        known = [each.history for each in published(connection, row) if each.history]
        if about in known:
            return about, None
        if known or row.window > 1 or row.next_round > row.window_start or not is_learning(row):
            raise conflict(
                "has-begun",
                "An old log comes before the first decision, and once.",
                "Create another bandit, with another name, for another beginning.",
            )
        tenant.begin_with(connection, server.vault, row, (X, y), about)
        server.note(connection, who, "history", name)
        return about, {"bandit": name, "window": row.window + 1}

    def run() -> HistoryReply:
        try:
            found: HistoryReply = server.fenced("turn", change)
            return found
        except ValueError as error:  # what the learner says of such a definition
            server.forget(name)
            raise invalid(str(error)) from None
        except BaseException:
            server.forget(name)
            raise

    return await server.do(run)


# -- from a log to rows ----------------------------------------------------------------------------


def read(definition: Definition, body: HistoryBody) -> tuple[Array, Array]:
    """Chosen rows (n, dim) and rewards (n,); NaN where an exported line is no decision."""
    if (body.rows is None) == (body.events is None):
        raise invalid("send `rows`, or `events`")
    made = features(definition)
    if body.events is not None and definition.features is None:
        raise invalid("Personalizer's events go to a bandit with hashed features")
    items = body.rows if body.rows is not None else [_event(each) for each in body.events or ()]
    if not items:
        raise invalid("the log is empty")
    dim = (definition.dim or 0) if made is None else made.dim
    X = np.full((len(items), dim), math.nan)
    y = np.full(len(items), math.nan)
    for at, item in enumerate(items):
        if item is not None:
            try:
                X[at] = _row(made, dim, item)
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                if body.events is None:
                    misfit = error if isinstance(error, Misfit) else Misfit(str(error))
                    raise misfit.of("rows", at) from None
            y[at] = item.reward
    return X, y


def _row(made: Declared | AnyJson | None, dim: int, item: HistoryItem) -> Array:
    """The row of what was chosen."""
    if made is None:
        if item.features is None or item.context is not None or item.action is not None:
            raise Misfit("this bandit takes `features`: the chosen row")
        return np.asarray(raw_rows([item.features], dim)[0])
    if item.features is not None or item.action is None:
        raise Misfit("this bandit takes `context` and `action`, not `features`")
    if made.actions is not None and made.definition.features is not None:
        named = item.action if isinstance(item.action, str) else item.action.get("id")
        if named not in made.actions:
            raise Misfit("`action` must be one of the declared actions")
    return np.asarray(made.rows(item.context, [item.action])[0])


def _event(line: dict[str, Any]) -> HistoryItem | None:
    """A line that Personalizer exported, as `rank` would read it; None for what is no decision.

    "c" holds the context's features by their source and, as "_multi", those of the actions: "_tag"
    is an action's id, "j" its features. "_label_Action" counts from 1; a cost is minus a reward.
    """
    try:
        context, chosen = line["c"], int(line["_label_Action"]) - 1
        cost = line["_label_cost"]
        if chosen < 0 or isinstance(cost, bool) or not isinstance(cost, int | float):
            return None
        action = context["_multi"][chosen]
        given = [x for name, x in context.items() if not name.startswith("_")]
        known = {"id": action["_tag"], "features": action.get("j", [])}
        return HistoryItem(-float(cost), _flat(given), known)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _flat(sources: list[Any]) -> list[Any]:
    """Features of all sources side by side, as `contextFeatures` has them."""
    return [x for each in sources for x in (each if isinstance(each, list) else [each])]
