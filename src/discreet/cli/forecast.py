"""`discreet forecast`: what privacy will cost, before any data."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

MOST = 10**12  # rows; nobody has them
_REGRESSION = "With --rows only"
_BANDIT = "With --rounds only"


forecast = typer.Typer()


@forecast.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    rows: Annotated[
        int | None,
        Option(metavar="N", help="Of a regression: private rows, one per person (10000)."),
    ] = None,
    rounds: Annotated[
        int | None, Option(metavar="T", help="Of a bandit: decisions to make.")
    ] = None,
    dim: Annotated[int | None, Option(metavar="D", help="Number of features.")] = None,
    public_sample: Annotated[
        Path | None,
        Option(metavar="FILE", help="Public rows instead: .npy, or .csv of features; for a bandit "
               "also .npy of shape (n, actions, features)."),
    ] = None,
    norm_bound: Annotated[
        float, Option(metavar="B", help="Public bound on the norm of a row of the sample.")
    ] = 1.0,
    epsilon: Annotated[
        str, Option(metavar="E,...", help="Privacy budgets to compare; less hides more.")
    ] = "0.5,1,2",
    delta: Annotated[
        float, Option(help="Chance that epsilon may fail; local trust has 0.")
    ] = 1e-6,
    noise: Annotated[
        float | None,
        Option(metavar="S", help="Of labels or rewards, relative to their bound (0.1)."),
    ] = None,
    trust: Annotated[
        str | None,
        Option(metavar="T", help="local, shuffled, both, all, central (--rows), joint (--rounds)."),
    ] = None,
    out: Annotated[Path, Option(help="Folder for the figure.")] = Path("out"),
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Also a page; never overwritten.")
    ] = None,
    as_json: Annotated[
        Path | None, Option("--json", metavar="FILE", help="Also all numbers; never overwritten.")
    ] = None,
    target: Annotated[
        float | None,
        Option(metavar="ERROR", rich_help_panel=_REGRESSION,
               help="Also say how many rows this mean absolute error needs."),
    ] = None,
    actions: Annotated[
        int | None,
        Option(metavar="A", rich_help_panel=_BANDIT,
               help="Actions to choose from in a round (10)."),
    ] = None,
    gap: Annotated[
        float | None,
        Option(metavar="G", rich_help_panel=_BANDIT,
               help="Best action against the average one (as large as can be)."),
    ] = None,
    clicks: Annotated[
        float | None,
        Option(metavar="P", rich_help_panel=_BANDIT,
               help="Rewards are 0 or 1, so many of them 1 on average."),
    ] = None,
    contributions: Annotated[
        int | None,
        Option(metavar="K", rich_help_panel=_BANDIT,
               help="Rounds in which one person may appear (1)."),
    ] = None,
    people: Annotated[
        int | None,
        Option(metavar="N", rich_help_panel=_BANDIT,
               help="So many come again and again; each is protected with all their rounds."),
    ] = None,
    visits: Annotated[
        str | None,
        Option(metavar="V", rich_help_panel=_BANDIT,
               help="Of these people: the first reward counts, or all (one in each window)."),
    ] = None,
) -> None:  # fmt: skip
    """Before any data: the error or regret to expect, what privacy costs, how much to collect.

    Forecast private linear regression (--rows) or a private bandit (--rounds)
    before any private row is read; an A/B test is `discreet forecast
    experiment`. Say what the features look like: a
    dimension (directions spread evenly), or better a public sample of rows
    such as yours; with as many rows as actions, a bandit offers the same ones
    every round. Never forecast from the private rows themselves: the
    forecast would leak them. Both are forecast by the learner itself, run on
    stand-ins for your rows or your world.

    \b
    how to choose
      epsilon  how well anyone can tell whether you are in the data: after the
               release they are right at most e^epsilon / (1 + e^epsilon) of
               the time (1: 73%, 3: 95%), up to delta. Start at 1; below .3
               expect to need many rows, above 3 little is promised.
      delta    chance that the promise fails; well below 1 / people. It is
               cheap: 1e-6 or 1e-9.
      trust    central, joint: somebody may hold the data (and for a bandit,
               only your own action may depend on your own data). local: nobody
               may, and errors and regret are 10 times as large or more.
               shuffled: nobody may, but a relay hides reports in a crowd;
               regret is 2 to 10 times joint trust's, errors 2 to 7 times.
      noise    spread of labels or rewards around their mean, relative to their
               bound. Ratings in [0, 1] that scatter by .1: 0.1.
      clicks   instead of noise, for rewards that are yes or no: how many are
               yes on average.
      gap      how much more the best action is worth than the average one,
               relative to the reward bound. The default is the most that such
               features allow; take less if effects are weak.
      contributions   rounds in which one person may appear. The promise is for
               all of them together.
      people   instead of contributions: how many come, however often. The
               promise is for all that one of them ever does.

    \b
    examples
      discreet forecast --rows 20000 --dim 8
      discreet forecast --rows 20000 --dim 8 --epsilon 0.3,1,3 --target 0.005
      discreet forecast --rows 100000 --public-sample census.csv --norm-bound 5
      discreet forecast --rounds 50000 --dim 5 --trust all
      discreet forecast --rounds 100000 --dim 5 --actions 4 --clicks 0.1 --gap 0.02
      discreet forecast --rounds 200000 --public-sample items.csv --norm-bound 5
      discreet forecast --rows 20000 --dim 8 --html plan.html --json plan.json
    """
    if context.invoked_subcommand is not None:
        return
    from discreet.experiments.bandit_forecast import Stream
    from discreet.experiments.regression_forecast import Question, read_sample
    from discreet.experiments.sheet import Files, run
    from discreet.privacy.budget import weaknesses

    bandit = rounds is not None
    if bandit and rows is not None:
        raise ValueError("give --rows for a regression or --rounds for a bandit, not both")
    wrong = {"target": target} if bandit else {"actions": actions, "gap": gap, "clicks": clicks,
                                               "contributions": contributions,
                                               "people": people, "visits": visits}  # fmt: skip
    for name, value in wrong.items():
        if value is not None:
            right = "--rows" if bandit else "--rounds"
            raise ValueError(f"--{name} goes with {right}; leave it out, or give {right}")
    if (dim is None) == (public_sample is None):
        raise ValueError("give either --dim D or --public-sample FILE, so that features are known")
    if visits is not None and people is None:
        raise ValueError("--visits goes with --people N: how many come again and again")
    budgets = _numbers(epsilon)
    _bounded("--rows", rows, MOST)
    _bounded("--dim", dim, 10**9)
    for each in budgets:
        _bounded("--epsilon", each, 1000)
        for weakness in weaknesses(each, delta):
            print(f"discreet: {weakness}", file=sys.stderr)
    features = (
        dim if public_sample is None
        else read_sample(public_sample, norm_bound, sets=bandit)
    )  # fmt: skip
    assert features is not None
    question: Stream | Question
    if rounds is not None:
        question = Stream(
            features, rounds, actions, noise, delta,
            1 if contributions is None else contributions, gap, clicks, people,
            "first" if visits is None else visits,
        )  # fmt: skip
    else:
        question = Question(
            features, 10_000 if rows is None else rows, 0.1 if noise is None else noise, delta,
            target,
        )  # fmt: skip
    run(question, budgets, trust=trust, files=Files(out, html, as_json))


@forecast.command()
def experiment(
    baseline: Annotated[
        float, Option(metavar="P", help="Chance of the metric without the change.")
    ],
    lift: Annotated[float, Option(metavar="D", help="What the change adds to that chance.")],
    arms: Annotated[int, Option(min=2, help="Arms, of equal size.")] = 2,
    epsilon: Annotated[
        str, Option(metavar="E,...", help="Privacy budgets to compare; less hides more.")
    ] = "0.3,1,3",
    delta: Annotated[float, Option(help="Chance that epsilon may fail.")] = 1e-6,
    looks: Annotated[int, Option(min=1, help="Looks that will be taken.")] = 50,
    power: Annotated[float, Option(help="Chance that the difference is proved.")] = 0.8,
    out: Annotated[Path, Option(help="Folder for the figure.")] = Path("out"),
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Also a page; never overwritten.")
    ] = None,
    as_json: Annotated[
        Path | None, Option("--json", metavar="FILE", help="Also all numbers; never overwritten.")
    ] = None,
) -> None:
    """How many people an A/B test needs, with privacy and without, before anybody came.

    \b
      discreet forecast experiment --baseline .10 --lift .02 --arms 2 --epsilon 1
    """
    from discreet.evaluation.forecast import Trial
    from discreet.experiments.sheet import Files, run
    from discreet.experiments.trial_forecast import TrialQuestion

    trial = Trial(baseline, lift, arms, looks, power, delta)
    run(TrialQuestion(trial), _numbers(epsilon), trust=None, files=Files(out, html, as_json))


def _bounded(name: str, value: float | None, most: float) -> None:
    if value is not None and value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value:g}")


def _numbers(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise ValueError(f"--epsilon takes numbers such as 0.3,1,3, got {text!r}") from None
