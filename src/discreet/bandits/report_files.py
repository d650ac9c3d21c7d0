"""Reports of a locally private bandit that lie in files: streamed into the server's sums."""

from collections.abc import Iterable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from discreet.bandits.local_protocol import SHARES, BanditReport
from discreet.bandits.local_server import LocalServer
from discreet.distributed.reports import add_up
from discreet.privacy.checks import Array, one_of

COUNTS = ("taken", "refused")
SUMS = COUNTS + tuple(
    f"{question}.{name}" for question in SHARES for name in ("count", "total", "squares")
)


def take_files(
    server: LocalServer,
    question: str,
    files: Iterable[str | Path],
    *,
    window: int,
    client: Any = None,
) -> int:
    """Add the reports of files on a question of a window; returns how many were left out.

    `LocalServer.take` says which are left out: all of them, if the window is no longer open. A file
    that cannot be read raises, and then nothing is added.
    `client`, a `distributed.Client`, has the files read by its workers: each has an empty copy of
    the server, and what comes back is that copy's sums.

    >>> import numpy as np, tempfile
    >>> server = LocalServer(2, epsilon=1.0, seed=0)
    >>> radius = server.policy.channels["moment"].radius
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/moments.npy", np.tile([radius, 0.0], (7, 1)))
    ...     take_files(server, "moment", [f"{folder}/moments.npy"], window=0), server.taken
    (0, 7)
    """
    d = server.dim
    shapes: dict[str, tuple[int, ...]] = {"gram": (d, d), "scale": (), "moment": (d,)}
    shape = shapes[one_of("question", question, tuple(SHARES))]
    before = server.refused
    empty = deepcopy(server)
    empty.load_state_dict({**server.state_dict(), **dict.fromkeys(SUMS, 0)})
    add = partial(_add, window, question)
    state = server.state_dict()
    for part in add_up(files, shape, partial(deepcopy, empty), add, client=client):
        more = part.state_dict()
        state |= {name: state[name] + more[name] for name in SUMS}
    server.load_state_dict(state)
    return server.refused - before


def _add(window: int, question: str, server: LocalServer, values: Array) -> None:
    server.take(BanditReport(window, question, values))
