"""The generic checks: each takes an `Entry` and returns what is wrong, an empty list if nothing.

They know no learner. tests/mutation runs the same functions on planted bugs.
"""

import copy
import inspect
import math
import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from forced import Transcript, deaf, replaced

from discreet.audit.entries import Entry, Session
from discreet.domains import Domain
from discreet.privacy import Ledger, SeededNoise
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.noise import Noise

# -- only the release speaks ----------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    """Equal, to the last bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        a, b = np.asarray(one), np.asarray(other)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(one == other)


def played(
    entry: Entry, heard: Transcript, data: list[Any], delay: int = 0, script: bool = False
) -> tuple[Session, Transcript]:
    """A run on deaf mechanisms; what is shown at its end is under `end`."""
    session = Session(entry.make())
    for kind, t, step in entry.steps(data, delay):
        heard.round = t if kind == "learn" else None
        step(session)
    heard.round = None
    session.end, session.state = entry.shown(session), entry.state(session)
    if script:
        heard.script = heard.told
    return session, heard.ended()


def rehearse(entry: Entry, heard: Transcript, delay: int, data: list[Any]) -> None:
    """Take the stand-ins from a run on this data set, with mechanisms that hear."""
    heard.hears, heard.script = True, None
    played(entry, heard, data, delay, script=True)
    heard.hears = False


def delays(entry: Entry) -> tuple[int, ...]:
    """Feedback at once, and so late that it falls into another window, beside that one's own."""
    return (0, entry.rounds // 2) if entry.family.late else (0,)


def only_the_release_speaks(entry: Entry) -> list[str]:
    """What differs between two data sets although nothing was released."""
    wrong: set[str] = set()
    with deaf() as heard, counted() as calls:
        for delay in delays(entry):
            rehearse(entry, heard, delay, entry.data(2))
            runs, counts = [], []
            for which in (0, 1):
                data = entry.data(which)
                calls.restart()
                runs.append(played(entry, heard, data, delay))
                counts.append(dict(calls))
            (one, given), (other, also) = runs
            wrong |= {f"the number of calls of {k}" for k in counts[0] | counts[1]
                      if counts[0].get(k) != counts[1].get(k)}  # fmt: skip
            if not given.given or len(given.given) != len(also.given):
                wrong.add("the number of releases")
            wrong |= {name for name in one.end if not same(one.end[name], other.end[name])}
            if one.state.keys() != other.state.keys():
                wrong.add("the names in the state")
                continue
            moved = {k for k in one.state if not same(one.state[k], other.state[k])}
            wrong |= {f"state {name}" for name in moved - set(entry.clear)}
            # Filtered sums are saved in the clear; here they are silent, so they do not show.
            silent = any(name.endswith("_sum._memory") for name in one.state)
            words = " ".join(entry.promise(one).unprotected)
            if (moved or silent) and "state" not in words:
                wrong.add("the guarantee does not say that a stolen state shows data")
    return sorted(wrong)


def places(entry: Entry) -> list[int]:
    """Rounds that are replaced."""
    return sorted({0, entry.rounds // 3, entry.rounds - 1})


def within_the_budget(entry: Entry) -> list[str]:
    """Rounds whose replacement moves what enters the releases by more than was paid for.

    Some rounds of one data set are replaced by those of another; and the first round of a stream in
    which nobody else says a word, with all feedback in the last window.
    """
    wrong = []
    cases = [
        (delay, entry.data(2), entry.data(0), {t: entry.neighbour(t) for t in places(entry)})
        for delay in delays(entry)
    ]
    quiet = entry.family.quiet(entry)
    if quiet is not None:
        cases.append((entry.rounds - 1, quiet[0], quiet[0], {0: quiet[1]}))
    with deaf() as heard:
        for delay, script, data, neighbours in cases:
            rehearse(entry, heard, delay, script)
            one, given = played(entry, heard, data, delay)
            for t, neighbour in neighbours.items():
                _, other = played(entry, heard, neighbour, delay)
                spent = given.spent(other, entry.promise(one))
                if not spent <= 1 + 1e-9:
                    wrong.append(f"round {t}, feedback {delay} late: {spent:.4g} times the budget")
    return wrong


# -- injected failures ----------------------------------------------------------------------------

LINEAR_ALGEBRA = (
    "cholesky", "eigh", "eigvalsh", "inv", "lstsq", "norm", "pinv", "qr", "solve", "svd",
)  # fmt: skip
DRAWS = ("uniform", "normal", "spawn")
ORACLES = ("linear_minimizer", "project", "leader")


def domains() -> list[type]:
    """All decision sets."""
    found, todo = [], [Domain]
    while todo:
        kind = todo.pop()
        found.append(kind)
        todo += kind.__subclasses__()
    return found


class Sabotage(dict[str, int]):
    """Counts the calls of noise, ledger and linear algebra; the k-th of them fails if asked to."""

    at: int = 0  # which call fails; 0 for none
    error: type[BaseException] = MemoryError
    total = 0
    fired = ""

    def restart(self, at: int = 0, error: type[BaseException] = MemoryError) -> None:
        """A new run, in which this call fails."""
        self.clear()
        self.at, self.error, self.total, self.fired = at, error, 0, ""

    def call(self, name: str) -> None:
        """One call, or its failure."""
        self[name] = self.get(name, 0) + 1
        self.total += 1
        if self.total == self.at:
            self.fired = name
            raise self.error("injected")


@contextmanager
def counted() -> Iterator[Sabotage]:
    """The library with every such call counted."""
    calls = Sabotage()

    def counting(name: str) -> Any:
        def wrap(kept: Any) -> Any:
            def call(*args: Any, **more: Any) -> Any:
                calls.call(name)
                return kept(*args, **more)

            return call

        return wrap

    with ExitStack() as stack:
        for name in DRAWS:
            stack.enter_context(replaced(SeededNoise, name, counting(f"noise {name}")))
        stack.enter_context(replaced(Ledger, "spend", counting("ledger")))
        for kind in domains():
            for name in ORACLES:
                if name in vars(kind) and not inspect.isabstract(kind):
                    stack.enter_context(replaced(kind, name, counting(f"domain {name}")))
        for name in LINEAR_ALGEBRA:
            kept = getattr(np.linalg, name)
            setattr(np.linalg, name, counting(f"linalg {name}")(kept))
            stack.callback(setattr, np.linalg, name, kept)
        yield calls


class Released(set[int]):
    """Which noisy sums have been read; a restored one is the same sum."""

    def __init__(self) -> None:
        super().__init__()
        self.restart()

    def restart(self) -> None:
        """A new run."""
        self.clear()
        self.kept: list[Any] = []  # so that no id is used twice
        self.wrong = ""


@contextmanager
def watched() -> Iterator[Released]:
    """Complains if data enters a noisy sum after its value was read."""
    seen, inside = Released(), [False]

    def read(self: Any) -> Any:
        if not inside[0] and id(self) not in seen:
            seen.add(id(self))
            seen.kept.append(self)
        return self.__dict__["_value"]

    def written(self: Any, new: Any) -> None:
        self.__dict__["_value"] = new

    def within(kept: Any) -> Any:
        def call(self: Any, *args: Any, **more: Any) -> Any:
            if kept.__name__ == "add" and id(self) in seen and np.any(args[0]):
                seen.wrong = "data entered a sum that had been released"
            before, inside[0] = inside[0], True
            try:
                return kept(self, *args, **more)
            finally:
                inside[0] = before

        return call

    def restoring(kept: Any) -> Any:
        def decoded(plain: Any, like: Any) -> Any:
            inside[0] = True
            try:
                total = kept(plain, like)
            finally:
                inside[0] = False
            for old in seen.kept:
                mine, its = total.__dict__["_value"], old.__dict__["_value"]
                if old.release.scope == total.release.scope and np.array_equal(mine, its):
                    seen.add(id(total))
            seen.kept.append(total)
            return total

        return decoded

    with ExitStack() as stack:
        for name in ("add", "_encoded", "__init__"):
            stack.enter_context(replaced(NoisySum, name, within))
        NoisySum._decoded = staticmethod(restoring(NoisySum._decoded))  # type: ignore
        stack.callback(delattr, NoisySum, "_decoded")
        NoisySum._value = property(read, written)  # type: ignore[assignment]
        stack.callback(delattr, NoisySum, "_value")
        yield seen


def attempts(total: int, most: int, shift: int = 0) -> list[int]:
    """Which calls fail: all of them, or `most` spread evenly, and the last one."""
    apart = max(1, math.ceil(total / most))
    return sorted({*range(1 + shift % apart, total + 1, apart), total}) if total else []


MODES = ((KeyboardInterrupt, False), (MemoryError, True))  # what is raised; whether it resumes


def all_or_nothing(entry: Entry, most: int = 24, shift: int = 0) -> list[str]:
    """What is counted twice if a call fails and the step is tried again, or a saved state resumes.

    Rounds: what enters sums, rows of running sums and reports while round t is learned. Noise:
    a noisy sum takes no data after it was read. Releases: not more of them than without failure.
    """
    wrong: set[str] = set()
    steps = entry.steps(entry.data(0))
    ends: list[int] = []
    can_resume = hasattr(entry.make(), "state_dict")
    with deaf() as heard, counted() as calls, watched() as sums:

        def run(k: int, error: type[BaseException], resumes: bool) -> tuple[Transcript, str]:
            session = Session(entry.make())
            heard.restart()
            sums.restart()
            calls.restart(k, error)
            how = interrupted(entry, session, steps, (heard, calls, resumes, ends), wrong)
            if sums.wrong:
                wrong.add(f"{sums.wrong}, {how}")
            return heard.ended(), how

        oracle, _ = run(0, MemoryError, False)
        rounds, total = oracle.terms(), calls.total
        for i, k in enumerate(attempts(total, most if steps[0][0] != "fit" else 8, shift)):
            error, resumes = MODES[i % 2]
            given, how = run(k, error, resumes and can_resume)
            counts = given.terms()
            wrong |= {f"a round counts {n} times, {how}" for t, n in counts.items()
                      if n > rounds.get(t, 1)}  # fmt: skip
            made, should = given.releases(), oracle.releases()
            if made > should:
                wrong.add(f"{made} releases for {should}, {how}")
    return sorted(wrong)


def interrupted(
    entry: Entry,
    session: Session,
    steps: list[Any],
    kit: tuple[Transcript, Sabotage, bool, list[int]],
    wrong: set[str],
) -> str:
    """A run in which one call fails once, and the step it was in is tried again; says how.

    The first run fails nowhere and notes how many calls were made when each step ended.
    """
    heard, calls, resumes, ends = kit
    how = ""
    for i, (kind, t, step) in enumerate(steps):
        heard.round = t if kind == "learn" else None
        before, given = calls.fired, len(heard.given)
        fails = calls.at and not before and calls.at <= ends[i]  # in this step
        state = committed(entry, session) if fails and kind != "fit" else {}
        try:
            step(session)
            ends += [calls.total] * (not calls.at)
            continue
        except (calls.error, Exception) as raised:
            if before or not calls.fired:
                if not how:
                    raise
                if not isinstance(raised, (ValueError, KeyError)):  # refused, or never decided
                    wrong.add(f"{type(raised).__name__} in a later {kind}, {how}")
                continue
        how = f"{kind} {'resumed' if resumes else 'tried again'} after {calls.fired} failed"
        if kind == "fit":
            if same_estimate(entry.make(), session.subject):
                heard.given.clear()  # nobody has seen anything of it
            else:
                wrong.add(f"something is left behind, {how}")
        now = committed(entry, session) if kind != "fit" else {}
        if saves(session) and same(state, now):
            del heard.given[given:]  # the step has shown nothing and left nothing
        changed = kind == "learn" and any(not same(state[k], now[k]) for k in entry.clear)
        try:
            if resumes:
                fresh = entry.make()
                fresh.load_state_dict(session.subject.state_dict())
                session.subject = fresh
            step(session)
            if changed:
                wrong.add(f"a round counts twice in the open sum, {how}")
        except ValueError as refused:  # the ledger, or a loss that counts already: that is safe
            if "damaged" in str(refused):
                wrong.add(f"a state that cannot be resumed, {how}")
        except Exception as raised:
            wrong.add(f"{type(raised).__name__}, {how}")
    return how


def saves(session: Session) -> bool:
    """Whether all that a learner remembers is in a state."""
    return hasattr(session.subject, "state_dict")


def committed(entry: Entry, session: Session) -> dict[str, Any]:
    """What a state holds but for the positions of generators: draws that were dropped are lost."""
    state = entry.state(session)
    return {k: v for k, v in state.items() if not ("_rng" in k or k.endswith("position"))}


def same_estimate(one: Any, other: Any) -> bool:
    """Whether two estimators show the same."""
    names = ("coef_", "intercept_", "guarantee_", "theta")
    return all(same(getattr(one, n, None), getattr(other, n, None)) for n in names)


def running_sum_counts_once(entry: Entry, most: int = 40) -> list[str]:
    """How often each row is in a running sum after a failure: read off the digits of the sum.

    Row t is 4^-t in one coordinate. The same failure with the same noise and rows of zero leaves
    the noise alone, so the difference of two runs is the exact sum, and its digits in base 4 count
    the rows.
    """
    wrong: set[str] = set()
    n = entry.rounds
    marks = [np.eye(entry.family.dim)[0] / 2.0 * 4.0**-t for t in range(n)]
    silent = [np.zeros(entry.family.dim)] * n
    with counted() as calls:

        def last(data: list[Any], k: int, error: type[BaseException], resumes: bool) -> Any:
            session = Session(entry.make())
            calls.restart(k, error)
            for _, _, step in entry.steps(data):
                try:
                    step(session)
                except error:
                    if resumes:
                        fresh = entry.make()
                        fresh.load_state_dict(session.subject.state_dict())
                        session.subject = fresh
                    step(session)
            return session.shown[-1].reshape(-1, entry.family.dim)[-1]

        last(marks, 0, MemoryError, False)
        for i, k in enumerate(attempts(calls.total, most)):
            error, resumes = MODES[i % 2]
            left = 2 * float((last(marks, k, error, resumes) - last(silent, k, error, resumes))[0])
            how = f"{'resumed' if resumes else 'tried again'} after {calls.fired} failed"
            for t in range(n):
                digit = round(left * 4.0**t - 0.35)  # what follows is at most 1/3
                left -= digit * 4.0**-t
                if digit not in (0, 1):
                    wrong.add(f"a row counts {digit} times, {how}")
                    break
    return sorted(wrong)


# -- coins ----------------------------------------------------------------------------------------


def coins_do_not_depend_on_data(entry: Entry) -> list[str]:
    """Whether a decision for one context leaves the generators elsewhere than for another."""
    contexts = entry.family.contexts()
    if not contexts:
        return []
    wrong = []
    for late in (False, True):  # before anything was learned, and after
        ends = []
        for context in contexts:
            session = Session(entry.make())
            if late:
                for _, _, step in entry.steps(entry.data(0)):
                    step(session)
            for _ in range(3):
                session.subject.decide(context)
            ends.append(generators(session.subject))
        if any(end != ends[0] for end in ends):
            wrong.append(f"{'after learning' if late else 'at first'}: coins depend on the context")
    return wrong


def generators(subject: Any) -> list[str]:
    """Where all random generators inside an object stand."""
    found, todo, seen = [], [subject], set()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, np.random.Generator):
            found.append(str(each.bit_generator.state))
        elif isinstance(each, Noise):
            found.append(each.state())
        elif isinstance(each, dict):
            todo.extend(each.values())
        elif isinstance(each, (list, tuple)):
            todo.extend(each)
        elif type(each).__module__.startswith("discreet"):
            todo.extend(getattr(each, "__dict__", {}).values())
    return sorted(found)


# -- copies ---------------------------------------------------------------------------------------


def copies_are_refused(entry: Entry) -> list[str]:
    """Which ways to copy a live object are open: a copy would publish the same noise twice."""
    session, wrong = Session(entry.make()), []
    for _, _, step in entry.steps(entry.data(0))[:3]:
        step(session)
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        try:
            way(session.subject)
        except TypeError as refused:
            if "state_dict" not in str(refused):
                wrong.append(f"{way.__name__} is refused without a word about state_dict")
        except (AttributeError, pickle.PicklingError):  # a closure that pickle cannot name
            wrong.append(f"{way.__name__} fails by chance")
        else:
            wrong.append(f"{way.__name__} makes a copy")
    return wrong
