"""Before a bandit is created: how fast it would learn, by a planner that does not block."""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from discreet.service.errors import Problem

MOST_PEOPLE = 100_000  # that are simulated: most of what can be learnt is learnt by then
SECONDS = 60.0  # that a forecast may take
REMEMBERED = 64  # answers; the same question has the same answer
WAITING = 4  # questions at once: one is worked on, the others wait


@dataclass(frozen=True)
class Question:
    """What is known before the first decision; the defaults are what the form shows at first.

    people     who come in a day
    days       for which they come
    features   columns of a row
    actions    to choose from
    epsilon    the promise
    clicks     rewards are 0 or 1: the fraction of ones
    """

    people: int = 1000  # a day
    days: int = 30
    features: int = 8
    actions: int = 3
    epsilon: float = 1.0
    clicks: float = 0.1  # rewards of 0 or 1, so many of them 1

    LIMITS: ClassVar[dict[str, tuple[float, float]]] = {
        "people": (1, 10**9),
        "days": (1, 3650),
        "features": (2, 100),
        "actions": (2, 50),
        "epsilon": (0.01, 100),
        "clicks": (0.001, 0.999),
    }

    @property
    def rounds(self) -> int:
        """People that are simulated."""
        return min(max(self.people * self.days, 100), MOST_PEOPLE)


def asked(form: Mapping[str, str]) -> tuple[Question, dict[str, str]]:
    """The question of a form, and what is wrong with it by field."""
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for each in fields(Question):
        text = form.get(each.name, "").strip()
        if not text:
            continue
        low, high = Question.LIMITS[each.name]
        value: float | None
        try:
            value = int(text) if each.type is int else float(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            wrong[each.name] = f"A number between {low:g} and {high:g}."
        else:
            values[each.name] = value
    return Question(**values), wrong


class Planner:
    """Asks the library's forecast in a process of its own, one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0
        self._known: dict[Question, dict[str, Any]] = {}

    async def answer(self, question: Question) -> dict[str, Any]:
        """The forecast; raises `busy` if too many wait or it takes too long."""
        if question in self._known:
            return self._known[question]
        if self._waiting >= WAITING:
            raise _busy("Other forecasts are being made.")
        self._waiting += 1
        try:
            async with self._turn:
                found = self._known.get(question) or await _simulated(question)
        finally:
            self._waiting -= 1
        while len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[question] = found
        return found


async def _simulated(question: Question) -> dict[str, Any]:
    given = {**asdict(question), "rounds": question.rounds, "delta": 1e-6}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "discreet.service.dashboard.planner",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, _ = await process.communicate(json.dumps(given).encode())
    except TimeoutError:
        raise _busy("The forecast took too long.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise _busy("The planner has stopped.")
    found: dict[str, Any] = json.loads(out)
    if "error" in found:
        raise Problem(422, "no-forecast", "There is no such forecast.", found["error"])
    return found


def _busy(title: str) -> Problem:
    return Problem(503, "busy", title, "Try again in a minute, with fewer people or features.")
