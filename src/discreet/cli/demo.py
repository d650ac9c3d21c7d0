"""`discreet demo`: what privacy costs a bandit, on a real experiment."""

from pathlib import Path
from typing import Annotated

from typer import Option

from discreet.cli.options import Out, Show, Workers


def demo(
    out: Out = Path("out/demo"),
    rounds: Annotated[int, Option(min=100, max=10**8, help="People, one by one.")] = 50_000,
    seeds: Annotated[int, Option(min=1, help="Runs of everything; more are surer.")] = 10,
    workers: Workers = None,
    show: Show = True,
) -> None:
    """Private and non-private bandits side by side, at three budgets: what does privacy cost?

    One world is made after a real experiment: people were drawn by lot into
    health insurance plans (RAND, 1974-1982), and the learner has to find out
    which plan suits whom. The other is synthetic. A table fills while runs
    finish; then there is a report, one HTML page. It also says what the
    bandit would tell about itself: what it gains over a hold-out, and what
    it has learnt.

    Stop it when you like: the same command resumes where it was.
    """
    from discreet.cli.run import run_and_show
    from discreet.experiments.demo import FIRST_SEED, demo_experiment
    from discreet.experiments.worth import demo_worth

    run_and_show(
        demo_experiment(rounds, seeds),
        out,
        workers,
        show,
        beside=lambda: demo_worth(rounds, FIRST_SEED),
    )
