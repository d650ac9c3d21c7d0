"""What an entry of the registry is: one configuration of a public class, its data and its calls.

A data set is a list of rounds. `data(0)` and `data(1)` lie inside the public bounds and have
nothing in common but their shapes; `neighbour(t)` is `data(0)` with round t replaced, or all rounds
of its person where a person is protected.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.rows import Claim
from discreet.privacy import Guarantee, SeededNoise
from discreet.privacy.noise import Noise


class Session:
    """A learner at work: what it decided, by round, and what everybody has seen of it."""

    def __init__(self, subject: Any) -> None:
        self.subject = subject  # the learner
        self.decisions: dict[int, Any] = {}
        self.shown: list[Any] = []
        self.end: dict[str, Any] = {}  # what is shown at the end
        self.state: dict[str, Any] = {}


Step = tuple[str, int, Callable[[Session], None]]  # what is called, for which round, the call


@dataclass(frozen=True, eq=False)
class Entry:
    """One configuration of one public class."""

    name: str  # unique
    of: type  # the class
    arguments: Mapping[str, Any]  # of its constructor; noise is drawn anew for each
    family: "Family"  # how it is fed and read
    rounds: int  # of a data set
    # Names of state entries that hold people's data in the clear, and which words of the guarantee
    # say so. Everything else in a state must be a function of what was released.
    clear: tuple[str, ...] = ()  # such names
    private: bool = True  # whether it promises anything
    build: Callable[..., Any] | None = None  # in place of the class, where more is to be made

    def make(self, **changes: Any) -> Any:
        """One of it, always with the same seeds; or with some other arguments."""
        noise = {"noise": SeededNoise(2)} if self.private else {}
        return (self.build or self.of)(**{**noise, **self.arguments, **changes})

    def claiming(self, claim: Claim, noise: Noise, **changes: Any) -> Any:
        """One that promises the claim: for attacks, which have sizes of their own."""
        return self.make(noise=noise, **self.family.promised(self, claim), **changes)

    def resembles(self, learner: Any, promise: Guarantee) -> bool:
        """Whether a learner has this trust, method, link and kind of domain, whatever its sizes."""
        known = self.arguments
        own = {"trust": promise.trust} | {
            name: getattr(learner, attribute, None)
            for name, attribute in (("method", "method_"), ("link", "link"))
        }
        alike = all(known[name] == value for name, value in own.items() if name in known)
        domain = known.get("domain")
        return alike and (domain is None or isinstance(learner.domain, type(domain)))

    def data(self, which: int) -> list[Any]:
        # A third one (2) is compared with nothing.
        return self.family.data(self, which, np.random.default_rng(which + 1))

    def neighbour(self, t: int) -> list[Any]:
        """The first data set with another person in round t."""
        rounds = self.data(0)
        for each in self.family.replaced(rounds, t):
            rounds[each] = self.data(1)[each]
        return rounds

    def steps(self, data: list[Any], delay: int = 0) -> list[Step]:
        """What is called, in order; feedback comes `delay` rounds late where it may."""
        return self.family.steps(data, delay)

    def shown(self, session: Session) -> dict[str, Any]:
        # All that others see, after the steps.
        seen = {"decisions": session.shown, **self.family.shown(session)}
        promise = getattr(session.subject, "guarantee", None) or session.subject.guarantee_
        return {**seen, "guarantee": str(promise), "releases": list(promise.releases)}

    def state(self, session: Session) -> dict[str, Any]:
        """What a saved state holds, by dotted names, without random ones."""
        save = getattr(session.subject, "state_dict", None)
        state = flat(save()["state"]) if save else {}
        return {k: v for k, v in state.items() if not k.startswith(("_earlier", "_maker", "_key"))}

    def promise(self, session: Session) -> Any:
        subject = session.subject
        return subject.guarantee_ if hasattr(subject, "guarantee_") else subject.guarantee


def flat(state: Any, name: str = "") -> dict[str, Any]:
    """A tree of values as one dict: `window.theta`, `_each.0.theta`, ..."""
    if isinstance(state, dict) and "@" in state:
        return flat(state["of"], name)
    if not isinstance(state, (dict, list)):
        return {name: state}
    parts = state.items() if isinstance(state, dict) else enumerate(state)
    found: dict[str, Any] = {}
    for key, value in parts:
        found |= flat(value, f"{name}.{key}".lstrip("."))
    return found


class Family:
    """How learners of one interface are fed and read."""

    late = False  # whether feedback may come late
    asked = "decide"  # what comes before the feedback of a round
    every = 0  # rounds from close to close; 0: there is none

    def promised(self, entry: "Entry", claim: Claim) -> dict[str, Any]:
        """The arguments that say what is promised."""
        found: dict[str, Any] = {"epsilon": claim.epsilon}
        if claim.delta > 0 or "delta" in entry.arguments:
            found["delta"] = claim.delta
        return found | ({"contributions": claim.contributions} if claim.contributions > 1 else {})

    def contexts(self) -> list[Any]:
        """Contexts of one size for which a decision must use as many coins."""
        return []

    def replaced(self, data: list[Any], t: int) -> list[int]:
        """The rounds that neighbours do not share, if round t is one of them."""
        return [t]

    def quiet(self, entry: "Entry") -> tuple[list[Any], list[Any]] | None:
        """Neighbours that differ in the first round as far as they can; nobody else says a word."""
        return None

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        raise NotImplementedError

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        """Every round is decided at its time; its feedback comes `delay` rounds later."""
        n = len(data)
        out: list[Step] = []
        for t in range(n + delay):
            if t < n and type(self).decide is not Family.decide:
                out.append((self.asked, t, partial(self.decide, t, data[t])))
            if t >= delay:
                out.append(("learn", t - delay, partial(self.learn, t - delay, data[t - delay])))
            if self.every and t % self.every == self.every - 1:
                out.append(("close", t, partial(self.close, t)))
        return out

    def decide(self, t: int, record: Any, session: Session) -> None:
        """Nothing, where nobody is asked."""

    def learn(self, t: int, record: Any, session: Session) -> None:
        raise NotImplementedError

    def close(self, t: int, session: Session) -> None:
        """What comes after `every` rounds."""

    def shown(self, session: Session) -> dict[str, Any]:
        raise NotImplementedError
