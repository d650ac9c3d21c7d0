"""A person's device that speaks to a decision server, and reports through a relay if there is one.

    device = RemoteDevice("https://decisions.example", "ads", "device.state",
                          Promise(epsilon=1.0, delta=1e-6), relay="https://relay.example")
    decision = device.decide([[1.0, 0.0], [0.0, 1.0]])
    device.report(decision, 1.0)

The law is that of `discreet.bandits.Device`: it checks every policy against the person's limits. A
report is counted and on disk before a byte of it is sent; one without an answer is sent again, with
the same bytes.
"""

import base64
import json
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import ArrayLike

from discreet.bandits import Device, Promise, PublicPolicy
from discreet.decisions import Decision
from discreet.privacy.noise import Noise
from discreet.service import sealing
from discreet.service.client import Client, ServiceError, path_of
from discreet.service.sealing import Terms
from discreet.state import load_state, save_state
from discreet.state.files import own

AGREEMENTS = 3  # tries to find server and relay of one mind
PAUSE = 0.2  # seconds between them; doubles
LARGEST_SIZE = 2**20  # bytes of a report
CLOSED, WAITING = "closed", "waiting"
_TERMS = msgspec.json.Decoder(Terms)


class RemoteDevice:
    """Decides by the public policy, keeps the record to itself, and reports each round once.

    url            of the decision server
    bandit         its name
    memory         a file for limits, counts and reports without an answer: it must outlive the
                   process, and belong to this device alone
    promise        the person's own limits, the first time; afterwards those in the memory hold,
                   and others are refused
    relay          address of a relay, run by others than the server: reports go there, sealed to
                   the server's key. None: they go to the server
    person         who sends, for the relay's limit of one report in a batch; None: a random name
    noise          of the reports; None is the operating system's entropy
    """

    def __init__(
        self,
        url: str,
        bandit: str,
        memory: str | Path,
        promise: Promise | None = None,
        *,
        relay: str | None = None,
        person: str | None = None,
        noise: Noise | None = None,
    ) -> None:
        self._server = Client(url, None)
        self._relay = None if relay is None else Client(relay, None)
        self._bandit = bandit
        self._path = Path(memory)
        own(self._path, self)  # two processes would each send all reports
        kept = load_state(self._path) if self._path.exists() else {}
        if promise is None and not kept:
            raise ValueError("state the promise: the limits of all that this device will ever send")
        self._person = person or kept.get("person") or secrets.token_hex(16)
        self._waiting: list[dict[str, Any]] = kept.get("waiting", [])
        try:
            self._document = self._fetched()
            policy = self._allowed(self._document)
            if kept:
                self._device = Device.restarted(policy, kept["device"], noise=noise)
                if promise is not None and not self._device.promise.includes(promise):
                    raise ValueError(
                        "this device promised other limits before; its memory holds them"
                    )
            else:
                assert promise is not None
                self._device = Device(policy, promise, noise=noise)
        except BaseException:
            self.close()
            raise
        self._keep()

    @property
    def sent(self) -> int:
        """How many reports it has drawn."""
        return self._device.sent

    def decide(self, features: ArrayLike) -> Decision:  # (actions, dim)
        """Choose an action by the last policy that was read; nothing leaves the device."""
        return self._device.decide(features)

    def report(self, decision: Decision, reward: float) -> str:
        """One private report of a decision's reward: its status, or "waiting" (see `flush`).

        Report every decision, also one that brought nothing: a missing report would tell.
        """
        terms = self._follow()
        if json.loads(self._document).get("learning") is False:
            return CLOSED  # nothing is drawn, so nothing is spent
        policy = self._device.state
        tag = _tag(self._document)
        made = self._device.report(decision, reward)
        values = policy.channels[made.question].encode(made.values).ravel().tolist()
        body: dict[str, Any] = {"id": secrets.token_hex(16), "policy": tag}
        body |= {"question": made.question, "values": values}
        if terms is not None:
            sealed = base64.b64encode(sealing.seal(terms, msgspec.json.encode(body))).decode()
            body = {"id": secrets.token_hex(16), "policy": tag, "person": self._person}
            body["sealed"] = sealed
        self._waiting.append(body)
        self._keep()
        return self.flush()[body["id"]]

    def flush(self) -> dict[str, str]:
        """Send what has had no answer; statuses by id of the report."""
        statuses = {}
        for body in list(self._waiting):
            call = "sealed" if "sealed" in body else "reports"
            to = self._relay if call == "sealed" else self._server
            statuses[body["id"]] = WAITING
            if to is None:
                continue  # it was drawn for a relay
            try:
                reply = to.call("POST", path_of(self._bandit, call), body)
                statuses[body["id"]] = str(reply["status"])
            except ServiceError as error:
                if not error.is_final:
                    continue
                statuses[body["id"]] = "refused"
            except OSError:
                continue
            self._waiting.remove(body)
            self._keep()
        return statuses

    def close(self) -> None:
        """Close connections; the next call opens them again."""
        for client in (self._server, self._relay):
            if client is not None:
                client.close()

    def __enter__(self) -> "RemoteDevice":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- policies and terms ------------------------------------------------------------------------

    def _fetched(self) -> bytes:
        return self._server.document(path_of(self._bandit, "policy"))

    def _allowed(self, document: bytes) -> PublicPolicy:
        """The policy, if reports that need a crowd would go through one."""
        policy = PublicPolicy.from_dict(json.loads(document))
        if policy.batch is not None and self._relay is None:
            raise ValueError("reports of this bandit are shuffled: state a relay; nothing was sent")
        return policy

    def _follow(self) -> Terms | None:
        """Read the policy again, within the limits; with a relay, only if both say the same.

        A server that gave each person another key or policy could tell reports apart, and a relay
        that gave out its own key could read them.
        """
        for attempt in range(AGREEMENTS):
            self._document = self._fetched()
            policy = self._allowed(self._document)
            self._device.update(policy)
            if self._relay is None or json.loads(self._document).get("learning") is False:
                return None
            theirs, terms = (
                _TERMS.decode(client.document(path_of(self._bandit, "terms")))
                for client in (self._server, self._relay)
            )
            expected = (self._bandit, _tag(self._document), sealing.digest(self._document))
            if theirs == terms and (terms.bandit, terms.policy, terms.digest) == expected:
                _check(terms, policy)
                return terms
            if attempt < AGREEMENTS - 1:
                time.sleep(PAUSE * 2**attempt)  # perhaps a window has just ended
        raise ValueError(
            "relay and server do not agree on the policy: nothing was sent; try again later"
        )

    def _keep(self) -> None:
        """Write the memory, whole or not at all; it is on disk when this returns."""
        kept = {"device": self._device.memory(), "person": self._person, "waiting": self._waiting}
        save_state(self._path, kept, self)


def _tag(document: bytes) -> str:
    found = json.loads(document)
    return f"{found['epoch']}-{found['version']}"


def _check(terms: Terms, policy: PublicPolicy) -> None:
    """Before a record is seen: whether a report fits must not depend on it."""
    if not sealing.longest_report(policy, terms.policy) <= terms.size <= LARGEST_SIZE:
        raise ValueError("the terms state a size that reports do not fit; nothing was sent")
    if policy.batch is not None and terms.minimum < policy.batch.minimum:
        raise ValueError("the terms state a smaller crowd than the policy; nothing was sent")
