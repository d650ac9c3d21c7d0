"""`discreet audit`: attack the learners, and hold what the attacks prove against the claims."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from discreet.cli.options import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.table import Table

    from discreet.audit.rows import Attack
    from discreet.audit.run import Audited


def audit(
    learner: Annotated[
        str | None,
        Argument(metavar="[LEARNER]", help="A part of a name, or a room; by default all."),
    ] = None,
    epsilon: Annotated[float, Option(metavar="E", help="What the learners claim.")] = 1.0,
    runs: Annotated[
        int, Option(min=100, help="Of every learner, on each of two neighbouring streams.")
    ] = 10_000,
    seed: Annotated[int, Option(min=0, help="Of the noise; another one attacks anew.")] = 0,
    workers: Workers = None,
    out: Annotated[Path, Option(help="Folder for the figure.")] = Path("out"),
    reports: Annotated[
        Path | None, Option(metavar="FILE", help="Audit what devices sent: JSON of reports.")
    ] = None,
) -> None:
    """Attack ourselves: what epsilon can be proved from outside, against what is claimed?

    Each learner runs on two streams that differ in one person, at the worst
    pair we know; an attacker who sees all that is published tells them
    apart. How often that works bounds epsilon from below. A bound above the
    claim would prove a leak; one far below proves nothing.

    \b
      discreet audit laplace
      discreet audit regression --runs 2000
      discreet audit --reports reports.json
    """
    from rich.console import Console

    console = Console()
    if reports is not None:
        if learner is not None:
            raise ValueError("name a learner, or a file of reports; not both")
        from discreet.audit.reports import audit_reports

        _tell(console, [audit_reports(reports)], out)
    else:
        _tell(console, _proved(_chosen(learner, epsilon), runs, seed, workers, console), out)


def _proved(
    chosen: "list[Attack]", runs: int, seed: int, workers: int | None, console: "Console"
) -> "list[Audited]":
    """What the attacks prove; Ctrl-C shows what is finished."""
    many = f"{len(chosen)} attacks" if len(chosen) > 1 else "1 attack"
    console.print(f"{many}, {runs:,} runs on each of two neighbours", highlight=False)
    done: list[Audited] = []
    try:
        return attacked(chosen, runs, seed, workers, console, done.append)
    except KeyboardInterrupt:
        if done:
            console.print(_table(done))
        console.print(
            f"\nStopped: {len(done)} of {len(chosen)} attacks are finished, and nothing is kept. "
            "One room or attack at a time, or fewer --runs, take less: discreet audit --help",
            highlight=False,
        )
        raise


def attacked(
    chosen: "Sequence[Attack]",
    runs: int,
    seed: int,
    workers: int | None,
    console: "Console",
    finished: "Callable[[Audited], object]" = lambda each: None,
) -> "list[Audited]":
    """What each attack proves; on a terminal a bar shows how far they are."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from discreet.audit.run import audit_all, blocks_of

    columns = TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn()
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task("attacking", total=sum(blocks_of(each, runs) for each in chosen))
        return audit_all(
            chosen,
            runs,
            seed,
            workers=workers or os.cpu_count() or 1,
            progress=lambda name: progress.update(bar, advance=1, description=name),
            finished=finished,
        )


def _tell(console: "Console", results: "list[Audited]", out: Path) -> None:
    """The table and the figure; leaves with status 1 if a claim is refuted."""
    from discreet.experiments.figures import audit_figure

    console.print(_table(results))
    shown = [(r.attack.name, r.close.fraction, r.attack.attainable) for r in results]
    path = audit_figure(shown, out)
    broken = [result.attack.name for result in results if result.verdict == "BROKEN"]
    console.print(f"Figure: {path}", highlight=False)
    if broken:
        console.print(f"[bold red]Claims refuted:[/bold red] {', '.join(broken)}")
        raise Exit(1)


def _chosen(part: str | None, epsilon: float) -> "list[Attack]":
    from discreet.audit import ATTACKS

    word = (part or "").lower().replace("_", " ")
    found = [each.at(epsilon) for each in ATTACKS.values() if word in (each.room, "")] or [
        each.at(epsilon) for each in ATTACKS.values() if word in each.name
    ]
    if not found:
        names = "\n  ".join(sorted(ATTACKS))
        raise ValueError(f"no attack has {part!r} in its name; there are\n  {names}")
    return found


def _table(results: "list[Audited]") -> "Table":
    from rich.table import Table

    from discreet.experiments.power import verdict

    sure = 1 - (1 - results[0].sure.confidence) * len(results)
    table = Table(
        "attack",
        "claim",
        "proved, 95%",
        "fraction",
        "runs",
        "verdict",
        title="What attacks prove",
        title_justify="left",
        caption=f"BROKEN: with {sure:.4g} confidence over all {len(results)} attacks together "
        "(Bonferroni). Not refuted: p is the chance of such scores if the claim holds, for the "
        "attack by itself. No power: it proves less than a tenth of the claim and would hardly "
        "notice a leak; so many runs would have power if it did all that can be done. Gaussian and "
        "zCDP claims are attacked as such; fractions: of epsilon or mu",
        caption_justify="left",
    )
    for column in table.columns:
        column.overflow = "fold"
    for column in table.columns[1:5]:
        column.justify = "right"
    for result in results:
        attack, close, _ = result
        claim = attack.claim
        words = f"{claim.epsilon:g}" + (f", {claim.delta:g}" if claim.delta else "")
        style = "bold red" if result.verdict == "BROKEN" else ""
        table.add_row(
            attack.name,
            words,
            f"{close.lower_bound:.3f}",
            f"{close.fraction:.0%}" + (" mu" if close.unit == "mu" else ""),
            f"{close.runs}",
            verdict(result),
            style=style,
        )
    return table
