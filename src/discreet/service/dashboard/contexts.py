"""A context that a visitor of the dashboard tries: what the public policy would do with it."""

import json
import math
from typing import Any

import numpy as np

from discreet.service import offers, schema
from discreet.service.dashboard import reading


def probabilities(view: reading.View, form: dict[str, str]) -> list[tuple[str, float]]:
    """How likely each action is in the context of a form, by the public policy."""
    made = view.features
    if made is None:
        assert view.definition.dim is not None
        rows = offers.raw_rows(_json(form, "features"), view.definition.dim)
        offer = offers.Offer(rows, [f"row {i}" for i in range(len(rows))])
    elif isinstance(made, offers.Declared):
        columns = view.definition.context or {}
        context = {name: _value(column, form, name) for name, column in columns.items()}
        offer = made.offer(context, None)
    else:
        actions = _json(form, "actions") if form.get("actions", "").strip() else None
        offer = made.offer(_json(form, "context"), actions)
    found = view.policy.probabilities(np.asarray(offer.rows, dtype=float)[None])[0]
    return [(str(name), float(each)) for name, each in zip(offer.names, found, strict=True)]


def _value(column: schema.Column, form: dict[str, str], name: str) -> Any:
    text = form.get(f"column-{name}", "")
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
