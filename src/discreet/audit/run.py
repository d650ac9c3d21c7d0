"""Running attacks: blocks of runs over processes, one report for each attack.

Over a whole suite of attacks a claim is refuted with the confidence that is asked for, all attacks
together: each one is held to 1 - (1 - confidence) / (number of attacks) (Bonferroni). How close
an attack comes is another question, answered for each by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from discreet.arrays import Array
from discreet.audit.bounds import AuditReport, audit_scores
from discreet.audit.pool import process_pool
from discreet.audit.rows import Attack, Claim

ALWAYS = 1000  # runs that a slow attack makes too, if they are asked for
BLOCK = 1000  # runs that one process takes at a time, with their own noise
Task = tuple[Attack, int, int, int, int]  # runs, neighbour, seed, block


class Audited(NamedTuple):
    """One attack, what it proved at 95%, and whether the claim survived the whole suite."""

    attack: Attack  # that was run
    close: AuditReport  # at 95%
    sure: AuditReport  # at the confidence of the whole suite

    @property
    def verdict(self) -> str:
        """BROKEN only where the whole suite is sure; else what the attack by itself has to say."""
        if self.sure.verdict == "BROKEN":
            return "BROKEN"
        by_itself = self.close.verdict
        return by_itself if by_itself != "BROKEN" else f"not refuted (p = {self.close.p_value:.2g})"


def audit(
    attack: Attack, runs: int = 10_000, seed: int = 0, *, confidence: float = 0.95
) -> AuditReport:
    """Attack once, `runs` times on each side (a slow one less), in this process.

    >>> from discreet.audit import ATTACKS
    >>> report = audit(ATTACKS["interval channel"], runs=2000)
    >>> report.verdict, 0.5 < report.lower_bound < 1
    ('not refuted (p = ...)', True)
    """
    sides = [
        np.concatenate([_block(*task) for task in _tasks([attack], runs, seed) if task[2] == side])
        for side in (0, 1)
    ]
    return _report(attack, sides, confidence)


def audit_all(
    attacks: Iterable[Attack],
    runs: int = 10_000,
    seed: int = 0,
    *,
    confidence: float = 0.999,
    close: float = 0.95,
    workers: int = 1,
    suite: int | None = None,
    progress: Callable[[str], Any] = lambda name: None,
    finished: Callable[[Audited], Any] = lambda result: None,
) -> list[Audited]:
    """Attack all, in parallel; `progress` is told the attack's name after each block.

    `finished` is told of each attack as soon as all of its blocks are there.

    The verdict of `sure` holds with `confidence` over all attacks together, or over `suite` of
    them where these are only a part.
    """
    chosen = list(attacks)
    each = 1 - (1 - confidence) / max(1, suite or len(chosen))
    found: dict[str, dict[tuple[int, int], Array]] = {attack.name: {} for attack in chosen}
    results: dict[str, Audited] = {}
    with process_pool(workers, "forkserver") if workers > 1 else nullcontext() as pool:
        for (attack, _, *place), scores in _done(_tasks(chosen, runs, seed), pool):
            blocks = found[attack.name]
            blocks[place[0], place[2]] = scores
            progress(attack.name)
            if len(blocks) == blocks_of(attack, runs):
                sides = [
                    np.concatenate([blocks[key] for key in sorted(blocks) if key[0] == side])
                    for side in (0, 1)
                ]
                result = audit_sides(attack, sides, confidence=each, close=close)
                results[attack.name] = result
                finished(result)
    return [results[attack.name] for attack in chosen]


def audit_sides(
    attack: Attack, sides: Sequence[Array], *, confidence: float = 0.999, close: float = 0.95
) -> Audited:
    """What scores that exist already prove: those of the first neighbour, and of the second."""
    return Audited(attack, *(_report(attack, sides, level) for level in (close, confidence)))


def blocks_of(attack: Attack, runs: int) -> int:
    """How many blocks one attack takes, both sides together."""
    return sum(1 for _ in _tasks([attack], runs, 0))


def _report(attack: Attack, sides: Sequence[Array], confidence: float) -> AuditReport:
    claim = attack.claim
    about: dict[str, Any] = {"delta": claim.delta, "method": claim.method, "claim": claim.epsilon}
    report = audit_scores(*sides, confidence=confidence, **about)
    return replace(report, attack=attack.name, contributions=claim.contributions)


def _tasks(attacks: Iterable[Attack], runs: int, seed: int) -> Iterator[Task]:
    for attack in attacks:
        many = max(min(runs, ALWAYS), round(attack.effort * runs))
        for neighbour in (0, 1):
            for block, start in enumerate(range(0, many, BLOCK)):
                yield attack, min(BLOCK, many - start), neighbour, seed, block


def _block(attack: Attack, runs: int, neighbour: int, seed: int, block: int) -> Array:
    return attack.scores(runs, neighbour, 100_000 * seed + block)


def _done(tasks: Iterator[Task], pool: Executor | None) -> Iterator[tuple[Task, Array]]:
    if pool is None:
        yield from ((task, _block(*task)) for task in tasks)
        return
    jobs = {pool.submit(_named, task[0].name, task[0].claim, *task[1:]): task for task in tasks}
    for job in as_completed(jobs):
        yield jobs[job], job.result()


def _named(name: str, claim: Claim, *rest: int) -> Array:
    """What a process is asked to do: attacks travel by name."""
    from discreet.audit.attacks import ATTACKS

    return _block(replace(ATTACKS[name], claim=claim), *rest)
