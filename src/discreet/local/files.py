"""Reports that lie in files: streamed into the server's sums, with flat memory."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discreet.arrays import Array, one_of
from discreet.distributed.reports import add_up
from discreet.local.questions import Channel, Question
from discreet.local.report import ReportSum
from discreet.local.server import Server


@dataclass
class _Kept:
    """Sums of the reports that a device could have sent, and how many others there were.

    question  that they answer
    dim       of its state
    channel   that says which reports are possible
    sums      of those
    refused   how many were not
    """

    question: Question
    dim: int
    channel: Channel
    sums: ReportSum = field(default_factory=ReportSum)
    refused: int = 0


def take_files(
    server: Server[Any, Any],
    question: str,
    files: Iterable[str | Path],
    *,
    window: int,
    client: Any = None,
) -> int:
    """Add the reports of files on a question of a window; returns how many were left out.

    `Server.take` says which are left out: all of them, if the window is no longer open. A file that
    cannot be read raises, and then nothing is added. `client`, a `distributed.Client`, has the
    files read by its workers; sums come back. Files hold reports, private already: no budget is
    spent here, and no noise is drawn.

    >>> import tempfile
    >>> import numpy as np
    >>> from discreet.bandits import LocalServer
    >>> server = LocalServer(2, epsilon=1.0, seed=0)
    >>> radius = server.ask().channels["moment"].radius
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/moments.npy", np.tile([radius, 0.0], (7, 1)))
    ...     take_files(server, "moment", [f"{folder}/moments.npy"], window=0), server.taken
    (0, 7)
    """
    state = server.ask()
    one_of("question", question, tuple(state.channels))
    server._expect_single()
    asked = next(each for each in state.questions if each.name == question)
    start = partial(_Kept, asked, state.dim, state.channels[question])
    total = start()
    for part in add_up(files, asked.shape(state.dim), start, _add, client=client):
        total.sums.merge(part.sums)
        total.refused += part.refused
    return server.take_sum(window, question, total.sums, total.refused)


def _add(kept: _Kept, values: Array) -> None:
    sound = values[kept.channel.possible(values)]
    for part in kept.question.split(sound, kept.dim).values():  # one: no question is joint here
        kept.sums.add(part)
    kept.refused += len(values) - len(sound)
