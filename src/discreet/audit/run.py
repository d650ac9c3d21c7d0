"""Running attacks: blocks of runs over processes, one report for each attack.

Over a whole suite of attacks a claim is refuted with the confidence that is asked for, all attacks
together: each one is held to 1 - (1 - confidence) / (number of attacks) (Bonferroni). How close
an attack comes is another question, answered for each by itself.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, as_completed
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from discreet.arrays import Array
from discreet.audit.bounds import AuditReport, audit_scores
from discreet.audit.pool import process_pool
from discreet.audit.rows import Attack, Claim

ALWAYS = 10_000  # runs that a slow attack makes too, if they are asked for
BLOCK = 1000  # runs that one process takes at a time, with their own noise
Blocks = dict[tuple[int, int], Array]


class Audited(NamedTuple):
    """One attack, what it proved at 95%, and whether the claim survived the whole suite.

    attack   that was run
    close    its bound at 95%
    sure     its bound at the confidence of the whole suite
    """

    attack: Attack
    close: AuditReport
    sure: AuditReport

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
    blocks = {
        (neighbour, block): _block(attack, count, neighbour, seed, block)
        for neighbour in (0, 1)
        for block, count in enumerate(_counts(attack, runs))
    }
    return _report(attack, _sides(blocks), confidence)


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
    found: dict[str, Blocks] = {attack.name: {} for attack in chosen}
    tasks = [
        (attack, count, neighbour, seed, block)
        for attack in chosen
        for neighbour in (0, 1)
        for block, count in enumerate(_counts(attack, runs))
    ]
    results: dict[str, Audited] = {}
    with _pool(workers) as pool:
        for (attack, _, neighbour, _, block), scores in _done(tasks, pool):
            blocks = found[attack.name]
            blocks[neighbour, block] = scores
            progress(attack.name)
            if len(blocks) == blocks_of(attack, runs):
                sides = _sides(blocks)
                result = audit_sides(attack, sides, confidence=each, close=close)
                results[attack.name] = result
                finished(result)
    return [results[attack.name] for attack in chosen]


def audit_sides(
    attack: Attack, sides: tuple[Array, Array], *, confidence: float = 0.999, close: float = 0.95
) -> Audited:
    """What scores that exist already prove: those of the first neighbour, and of the second."""
    return Audited(attack, *(_report(attack, sides, level) for level in (close, confidence)))


def blocks_of(attack: Attack, runs: int) -> int:
    """How many blocks one attack takes, both sides together."""
    return 2 * len(_counts(attack, runs))


def _report(attack: Attack, sides: tuple[Array, Array], confidence: float) -> AuditReport:
    claim = attack.claim
    report = audit_scores(
        *sides,
        delta=claim.delta,
        confidence=confidence,
        method=claim.method,
        claim=claim.epsilon,
    )
    return replace(report, attack=attack.name, contributions=claim.contributions)


def _counts(attack: Attack, runs: int) -> list[int]:
    runs = max(min(runs, ALWAYS), round(attack.effort * runs))
    return [min(BLOCK, runs - start) for start in range(0, runs, BLOCK)]


def _block(attack: Attack, runs: int, neighbour: int, seed: int, block: int) -> Array:
    return attack.scores(runs, neighbour, 100_000 * seed + block)


def _sides(blocks: Blocks) -> tuple[Array, Array]:
    first, second = (
        np.concatenate([blocks[key] for key in sorted(blocks) if key[0] == neighbour])
        for neighbour in (0, 1)
    )
    return first, second


def _pool(workers: int) -> Any:
    if workers <= 1:
        return nullcontext()
    return process_pool(workers, "forkserver")


def _done(tasks: list[tuple[Any, ...]], pool: Executor | None) -> Iterator[tuple[Any, Array]]:
    if pool is None:
        for task in tasks:
            yield task, _block(*task)
        return
    jobs = {pool.submit(_named, task[0].name, task[0].claim, *task[1:]): task for task in tasks}
    for job in as_completed(jobs):
        yield jobs[job], job.result()


def _named(name: str, claim: Claim, *rest: int) -> Array:
    """What a process is asked to do: attacks travel by name."""
    from discreet.audit.attacks import ATTACKS

    return _block(replace(ATTACKS[name], claim=claim), *rest)
