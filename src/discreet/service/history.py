"""Old logs: what a bandit knows before its first decision.

A private log is one more release, in windows of its own, and its rounds are none of the bandit's:
they pay what its rounds pay. A public one is a prior. Either way it is read once: before any round
number was given away, in the transaction that opens the first window anew. The window that was open
is dropped unread, with nothing in it.
"""

import asyncio
import hmac
import json
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from sqlalchemy.engine import Connection
from starlette.datastructures import Headers

from discreet.arrays import Array
from discreet.service import rows
from discreet.service import store as tables
from discreet.service.definitions import parsed
from discreet.service.errors import Problem, invalid
from discreet.service.limits import RawHeaders
from discreet.service.messages import HistoryBody, HistoryItem
from discreet.service.offers import AnyJson, Declared, Misfit, features, fits, raw_rows
from discreet.service.replies import HistoryReply
from discreet.service.schema import Definition
from discreet.service.server import Server
from discreet.service.tenant import is_learning

_SHOWN = 20  # actions that an error names


async def take(
    server: Server, name: str, body: HistoryBody, raw: bytes, who: str, headers: RawHeaders
) -> HistoryReply:
    """Begin with an old log, before the first decision; a retry changes nothing.

    That is the same request by the same key.
    """
    row = await server.with_bandit(name, lambda _, row: row)
    definition = parsed(row.definition.encode())
    if definition.privacy.on_devices:
        raise Problem("devices-decide")
    X, y = await asyncio.to_thread(read, definition, body)
    about = HistoryReply(body.id, len(y), body.public)
    shown = msgspec.to_builtins(about) | {"digest": _digest(headers, raw)}

    def change(connection: Connection) -> tuple[HistoryReply, dict[str, Any] | None]:
        row = server.row(connection, name)
        tenant = server.tenant_of(connection, row)
        first = rows.one(connection, tables.windows, "release", bandit=name, number=1)
        taken = json.loads(first.release or "{}").get("history")  # which stands for a window
        if taken is not None and _is_same(taken, shown):
            return about, None
        begun = row.window > 1 or row.next_round > row.window_start
        if taken is not None or begun or not is_learning(row):
            raise Problem("has-begun")
        tenant.begin_with(connection, server.vault, row, (X, y), shown)
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


def _digest(headers: RawHeaders, raw: bytes) -> str:
    """Of a request, under the key that sends it: the server has only a hash of that, so nobody who
    has store and secrets can try whether a log that he guesses is the one that was taken."""
    secret = Headers(raw=headers)["authorization"].partition(" ")[2].strip()
    return hmac.digest(secret.encode(), raw, "sha256").hex()


def _is_same(taken: dict[str, Any], sent: dict[str, Any]) -> bool:
    """Whether it is the log that was taken; of earlier ones no digest was kept."""
    digest = taken.setdefault("digest", sent["digest"])
    return hmac.compare_digest(digest, sent["digest"]) and taken == sent


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
                X[at] = fits(_row, made, dim, item)
            except Misfit as misfit:
                if body.events is None:
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
    if made.actions is not None:
        given = item.action.get("id") if isinstance(item.action, dict) else item.action
        if given not in made.actions:
            raise Misfit(f"`action` must be one of {_listed(made.actions)}", "action")
    return np.asarray(made.rows(item.context, [item.action])[0])


def _listed(actions: Sequence[str]) -> str:
    """Declared actions, which are public; the first of many."""
    more = f" (and {len(actions) - _SHOWN} more)" if len(actions) > _SHOWN else ""
    return ", ".join(actions[:_SHOWN]) + more


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
