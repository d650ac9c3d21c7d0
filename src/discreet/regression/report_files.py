"""Reports of a locally private fit that lie in files: streamed into the server's sums."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discreet.distributed.reports import add_up
from discreet.privacy.checks import Array
from discreet.regression.local_protocol import PublicState
from discreet.regression.local_server import Server
from discreet.regression.tally import Tally


@dataclass
class _Sound:
    """Sums of the reports that a device could have sent, and how many others there were."""

    tally: Tally = field(default_factory=Tally)
    refused: int = 0


def aggregate_files(
    server: Server, state: PublicState, files: Iterable[str | Path], *, client: Any = None
) -> int:
    """Add the reports of files to an open question; returns how many were left out.

    A report that no device could have sent (`possible` of the channel) is left out alone; a file
    that cannot be read raises, and then nothing is added. `client`, a `distributed.Client`, has the
    files read by its workers. Files hold reports, private already: no budget is spent here, and no
    noise is drawn.

    >>> import tempfile
    >>> import numpy as np
    >>> from discreet.privacy import SeededNoise
    >>> from discreet.regression.local_protocol import report
    >>> server = Server(2, people=1000, epsilon=1.0)
    >>> state, people = server.ask()[1]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reports = report(np.ones((people, 2)) / 2, np.ones(people), state, SeededNoise(0))
    ...     np.save(f"{folder}/moments.npy", reports.values)
    ...     aggregate_files(server, state, [f"{folder}/moments.npy"])
    0
    """
    total = _Sound()
    for part in add_up(files, state.shape, _Sound, partial(_add, state), client=client):
        total.tally.merge(part.tally)
        total.refused += part.refused
    server.absorb(total.tally, state)
    return total.refused


def _add(state: PublicState, sums: _Sound, values: Array) -> None:
    kept = values[state.channel.possible(values)]
    sums.tally.add(kept)
    sums.refused += len(values) - len(kept)
