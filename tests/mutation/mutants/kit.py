"""What a planted bug is, how it is planted in the library's own code, and how bounds are proved.

A bug is a small edit of the source of one real function: the text to replace must occur exactly
once, so that a mutant whose target has been rewritten fails aloud instead of planting nothing.
"""

import contextlib
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet.audit import ATTACKS, audit, audit_scores
from discreet.privacy.gaussian import gaussian_mu

SURE = 0.9999  # confidence of every bound from an attack
EPSILON, DELTA = 8.0, 1e-6  # a budget at which few runs have power
MU = gaussian_mu(EPSILON, DELTA)
LIBRARY = str(Path(discreet.__file__).parent)
PLANTED: dict[Any, tuple[str, str]] = {}  # functions with an edit, and which


@dataclass(frozen=True)
class Edit:
    """Replace `old` by `new` in the source of `where`, "module:function" or "module:Class.name"."""

    where: str
    old: str
    new: str

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """The library with this edit."""
        module, _, path = self.where.partition(":")
        owner: Any = importlib.import_module(f"discreet.{module}")
        *parents, name = path.split(".")
        for each in parents:
            owner = getattr(owner, each)
        kept = vars(owner)[name]
        if PLANTED.get(kept) == (self.old, self.new):  # the same function, under another name
            yield
            return
        made = self._rewritten(owner, kept)
        plain = inspect.isfunction(kept) and inspect.isfunction(made)
        if not parents and plain and not (kept.__closure__ or made.__code__.co_freevars):
            # Other modules, and tables of methods, hold this function: change what it does.
            code, kept.__code__ = kept.__code__, made.__code__
            PLANTED[kept] = (self.old, self.new)
            try:
                yield
            finally:
                kept.__code__ = code
                del PLANTED[kept]
            return
        setattr(owner, name, made)
        try:
            yield
        finally:
            setattr(owner, name, kept)

    def _rewritten(self, owner: Any, kept: Any) -> Any:
        plain = getattr(kept, "__func__", None) or getattr(kept, "fget", None) or kept
        plain = inspect.unwrap(plain)
        source = textwrap.dedent(inspect.getsource(plain))
        found = source.count(self.old)
        if found != 1:
            raise LookupError(f"{self.where} holds {self.old!r} {found} times; rewrite the mutant")
        edited = textwrap.indent(source.replace(self.old, self.new), "    ")
        # A parameter of this name is what super() without arguments looks for.
        maker = f"def make(__class__):\n{edited}\n    return {plain.__name__}\n"
        made: dict[str, Any] = {}
        exec(compile(maker, f"<mutant of {self.where}>", "exec"), plain.__globals__, made)
        return made["make"](owner)


@dataclass(frozen=True)
class Leak:
    """A module books its releases and draws the noise, and then uses the exact value."""

    where: str  # "module:mechanism", of the `Mechanisms` that the module imports

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """The library with this leak."""
        module, _, name = self.where.partition(":")
        owner: Any = importlib.import_module(f"discreet.{module}")
        mechanism = getattr(owner.Mechanisms, name)

        def exact(self: Any, value: Any, **about: Any) -> Any:
            return mechanism(self, value, **about)._replace(value=np.array(value, np.float64))

        with _in_place(owner, name, exact):
            yield


@contextlib.contextmanager
def _in_place(module: Any, mechanism: str, method: Any) -> Iterator[None]:
    """A module whose `Mechanisms` have another method under this name."""
    kept = module.Mechanisms
    module.Mechanisms = type("Mechanisms", (kept,), {mechanism: method})
    try:
        yield
    finally:
        module.Mechanisms = kept


@dataclass(frozen=True)
class Mutant:
    """A planted bug and the detector that catches it.

    `catch` attacks the library as it stands and returns a number; above `claim` it is an alarm.
    kind="audit": a lower bound on epsilon at confidence `SURE`; every other kind is computed
    without chance, so that an alarm is certain.
    """

    name: str
    room: str
    broken: str
    kind: str  # audit, sensitivity, ledger, state, law, trace or contract
    claim: float
    catch: Callable[[], float]
    edits: tuple[Edit | Leak, ...]
    unit: str = "epsilon"
    attack: str = ""  # of `discreet.audit.ATTACKS`, which catches it (too, if `catch` is another)
    tried: str = ""  # one of them that misses it, or hardly catches it, at this size

    @property
    def where(self) -> str:
        """The functions that are broken."""
        return ", ".join(dict.fromkeys(each.where.replace(":", ".") for each in self.edits))

    @contextlib.contextmanager
    def plant(self) -> Iterator[None]:
        """The library with this bug."""
        with contextlib.ExitStack() as stack:
            for each in self.edits:
                stack.enter_context(each.planted())
            yield

    def caught(self, value: float) -> bool:
        """Whether the detector's number is an alarm; rounding is none."""
        return value > self.claim * (1 + 1e-9) + 1e-12


def by_registry(name: str, runs: int | None = None) -> tuple[float, float]:
    """(lower bound on epsilon, claim) of an attack of `discreet.audit`."""
    attack = ATTACKS[name]
    epsilon, enough = (2.0, 3000) if attack.claim.kind == "pure" else (EPSILON, 600)
    return audit(attack.at(epsilon), runs or enough, seed=1, confidence=SURE).lower_bound, epsilon


def audited(
    name: str,
    room: str,
    broken: str,
    attack: str,
    edits: tuple[Edit | Leak, ...],
    runs: int | None = None,
) -> Mutant:
    """A planted bug that an attack of `discreet.audit` catches, with few runs where these do."""
    claim = 2.0 if ATTACKS[attack].claim.kind == "pure" else EPSILON
    catch = lambda: by_registry(attack, runs)[0]  # noqa: E731 - a detector has no name of its own
    return Mutant(name, room, broken, "audit", claim, catch, edits, attack=attack)


def proved(first: Any, second: Any, *, delta: float = 0.0, gdp: bool = False) -> float:
    """The epsilon that two samples of scores prove. gdp=True holds against Gaussian claims only."""
    method = "gdp" if gdp else "clopper-pearson"
    samples = [np.asarray(scores, dtype=np.float64) for scores in (first, second)]
    return audit_scores(*samples, delta=delta, confidence=SURE, method=method).lower_bound


def gaussian_proved(first: Any, second: Any) -> float:
    """The epsilon at DELTA that two samples prove against a Gaussian claim."""
    return proved(first, second, delta=DELTA, gdp=True)


def both(run: Callable[[int, int], float], runs: int) -> list[np.ndarray[Any, Any]]:
    """Scores of `run(neighbour, seed)` in two neighbouring neighbours, every seed used once."""
    return [
        np.array([run(neighbour, 2 * i + neighbour) for i in range(runs)], dtype=np.float64)
        for neighbour in (0, 1)
    ]


def lines_run(action: Callable[[], Any]) -> set[tuple[str, int]]:
    """Which lines of the library ran; those of a mutant count too."""
    seen: set[tuple[str, int]] = set()

    def local(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        return local if name.startswith((LIBRARY, "<mutant")) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return seen


@contextlib.contextmanager
def spied(module: Any, what: str = "") -> Iterator[list[tuple[Any, Any]]]:
    """(exact value, record) of every Gaussian release, or of those called `what`."""
    gaussian, seen = module.Mechanisms.gaussian, list[tuple[Any, Any]]()

    def spy(self: Any, value: Any, **about: Any) -> Any:
        out = gaussian(self, value, **about)
        if what in ("", out.release.what):
            seen.append((np.array(value), out.release))
        return out

    with _in_place(module, "gaussian", spy):
        yield seen


def moved(seen: list[tuple[Any, Any]]) -> float:
    """How far apart the first two exact values are, against what was booked."""
    (first, record), (second, _) = seen[:2]
    return float(np.linalg.norm(first - second)) / float(record.sensitivity)


def words(text: str) -> str:
    """A name for a test."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def best_linear_attack(outputs_per_noise: Any, moves: Any) -> Any:
    """Weights over Gaussian outputs that tell a move best; noise that is missing is used."""
    B = np.asarray(outputs_per_noise)
    covariance = B @ B.T + 1e-9 * np.eye(len(B))
    return np.linalg.solve(covariance, np.asarray(moves))


def exact_mu(outputs_per_noise: Any, moves: Any, scale: float) -> float:
    """mu of outputs = data + scale * (B z): the length of B^-1 moves, over the scale."""
    return float(np.linalg.norm(np.linalg.solve(outputs_per_noise, moves))) / scale
