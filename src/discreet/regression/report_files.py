"""Moved to `discreet.local.take_files`: the old import works for one release."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from discreet.local import PublicState, Server, take_files


def aggregate_files(
    server: Server[Any, Any],
    state: PublicState,
    files: Iterable[str | Path],
    *,
    client: Any = None,
) -> int:
    """`take_files` for the first question of a state; deprecated."""
    warnings.warn(
        "discreet.regression.report_files.aggregate_files is deprecated: use "
        "discreet.local.take_files",
        DeprecationWarning,
        stacklevel=2,
    )
    question = state.questions[0].name
    return take_files(server, question, files, window=state.window, client=client)
