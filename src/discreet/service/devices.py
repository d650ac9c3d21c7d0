"""Local and shuffled trust: devices decide, and send private reports.

Everything here is public: a report is private before it arrives, whatever happens to it. So sums
are stored as they are, nothing is sealed, and a window may go on after a restore. A window is full
when it has the reports that it wants; the commit that fills it also turns it. Ids of reports are
kept while their window is open: a retry counts once, and later ones are answered `closed`.

Reports come from devices, or sealed and in batches from a relay: then the server cannot tell who
sent which, or when. `terms` says what such a batch is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from sqlalchemy.engine import Connection

from discreet.bandits import LocalServer
from discreet.local.report import Answers, BatchSum
from discreet.privacy import Guarantee
from discreet.privacy.channels import RESPONSE
from discreet.service import definitions, offers, rows, sealing
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.live import Live
from discreet.service.replies import ReportCounts
from discreet.service.schema import Definition
from discreet.service.sealing import Terms
from discreet.service.tenant import Stored, Tenant
from discreet.service.vault import Vault
from discreet.state import from_bytes, to_bytes

UNPROTECTED = (
    "network addresses, to whoever sees requests for policies and reports",
    "people who clear their device's storage, or use several devices: each device keeps its own "
    "promise",
)
MINIMUM = 0.5  # of a batch, under local trust; under shuffled trust the policy says it
_OPEN = ("_sums", "taken", "refused")  # of a LocalServer's state: what a report changes


class Devices(Tenant):
    """A bandit whose devices decide for themselves, and draw their own noise."""

    learner: LocalServer
    is_public = True
    after_restore = "goes on"

    def new(self) -> LocalServer:
        return definitions.local_server(self.definition)

    def guarantee(self) -> Guarantee:
        """What each person is promised, whatever this server does."""
        promise = self.learner.guarantee
        return replace(promise, unprotected=(*promise.unprotected, *UNPROTECTED))

    # -- reports -----------------------------------------------------------------------------------

    def read(self, question: str, codes: Sequence[list[int]]) -> tuple[list[int], Answers]:
        """Answers to a question: the places of those that a device could have sent, and these."""
        policy = self.learner.policy
        shape = policy.shape(question)
        nothing = Answers(policy.window, question, np.empty(0))
        if shape is None:
            return [], nothing
        wanted = math.prod(shape)
        places = [
            place
            for place, each in enumerate(codes)
            if len(each) == wanted and all(-RESPONSE <= code <= RESPONSE for code in each)
        ]
        if not places:
            return [], nothing
        integers = np.array([codes[place] for place in places], dtype=np.int64)
        channel = policy.channels[question]
        values = channel.decode(integers if shape else integers[:, 0])
        sound = channel.possible(values)
        kept = [place for place, good in zip(places, sound, strict=True) if good]
        return kept, Answers(policy.window, question, values[sound])

    @property
    def is_shuffled(self) -> bool:
        """Whether reports count in the batches of a relay only."""
        return self.learner.crowd is not None

    def take(self, answers: list[Answers]) -> None:
        """Add what `read` found to the sums in memory; under shuffled trust it is a whole batch."""
        if self.is_shuffled:
            policy = self.learner.policy
            self.learner.aggregate(BatchSum.empty(policy).plus_answers(answers, policy))
        else:
            self.learner.take_answers(answers)

    def counts(self) -> ReportCounts:
        return ReportCounts(self.learner.taken, self.learner.refused)

    def refuse(self, reports: int = 1) -> None:
        self.learner.refused += reports

    # -- windows -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new server asks at once."""

    def window(self) -> tuple[int, int]:
        """The number of reports before the window that has just opened, and of those it wants."""
        return self.learner.taken, self.learner.size(self.learner.policy.window)

    def is_learning(self) -> bool:
        return True

    def close(self, connection: Connection, row: Any) -> dict[str, Any]:
        """Learn from the sums, which are published as they are."""
        released = {
            "count": self.learner.taken - row.window_start,
            "sum": {q: np.asarray(each.total).tolist() for q, each in self.learner.sums.items()},
        }
        rows.delete(connection, tables.reports, bandit=row.name)
        self.learner.close()
        return released

    def restart(self, connection: Connection, vault: Vault, row: Any) -> dict[str, Any]:
        """The window goes on, under a new name of its policy.

        Reports hold their own noise, so nothing of it could be used twice. Devices that answered a
        policy which this database has forgotten name another epoch, and are answered `closed`.
        """
        self.resume(connection, vault, row)
        return {
            "window_start": row.window_start,
            "window_end": row.window_end,
            "next_round": row.next_round,
        }

    # -- what is stored, and what is published -----------------------------------------------------

    def public_state(self) -> dict[str, Any]:
        return self.learner._stored()

    def seal(self, vault: Vault) -> tuple[bytes, bytes]:
        state = self.learner._stored()["state"]
        return to_bytes({name: state[name] for name in _OPEN}), b""

    def load(self, connection: Connection, vault: Vault, row: Any, stored: Stored) -> None:
        """What was learnt from closed windows, with the sums of the open one."""
        _, sums = stored
        assert sums is not None
        state = self._state(connection)
        state["state"] |= from_bytes(sums)
        self.learner = self.new()
        self.learner._restore(state)

    def policy(self) -> dict[str, Any]:
        """All that a device needs to decide and to answer, in any language."""
        policy = self.learner.policy
        channels = {each.kind: policy.channels[each.name].thresholds for each in policy.questions}
        shown = {"channels": channels, "features": features(self.definition)}
        return policy.to_dict() | shown

    def publish(self, row: Any) -> Callable[[Live], None]:
        raise Problem("devices-decide")

    def terms(self, vault: Vault, policy: bytes) -> bytes:
        """The key that reports are sealed to, and what a batch is: a window."""
        public = self.learner.policy
        size = self.learner.size(public.window)
        minimum = math.ceil(MINIMUM * size)
        if public.batch is not None:
            size, minimum = public.batch.size, public.batch.minimum
        longest = sealing.longest_report(public, self.tag)
        terms = Terms(
            bandit=self.name,
            policy=self.tag,
            digest=sealing.digest(policy),
            key=sealing.public_key(vault.report_key(self.name, self.tag)),
            size=-(-longest // sealing.STEP) * sealing.STEP,
            batch=size,
            minimum=minimum,
            epsilon=public.report_epsilon,
        )
        return msgspec.json.encode(terms)


def features(definition: Definition) -> dict[str, Any]:
    """How a device makes rows: parts of an action times (1, columns of the context).

    Lists, since the order counts. A row is the outer product of the two, parts first
    (`discreet.features`); the scale is in the parts.
    """
    declared = offers.features(definition)
    if declared is None:
        return {"dim": definition.dim}
    assert isinstance(declared, offers.Declared)
    columns = []
    anyone: dict[str, Any] = {}
    for name, column in (definition.context or {}).items():
        columns.append({"name": name, **msgspec.to_builtins(column)})
        if column.number is not None:
            anyone[name] = column.number[0]
        else:
            assert column.category is not None
            anyone[name] = column.category[0]
    made = declared.map(anyone)
    blocks = made.reshape(len(made), -1, len(declared.map.context_names))
    parts = blocks[:, :, 0]  # the first column is the constant 1
    actions = [
        {"name": name, "parts": each.tolist()}
        for name, each in zip(declared.map.actions, parts, strict=True)
    ]
    return {"columns": columns, "actions": actions}
