"""`discreet forecast`: what privacy will cost, before any data."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

MOST = 10**12  # rows; nobody has them

HELP = """Before any data: the error or regret to expect, what privacy costs, how much to collect.

    Forecast private linear regression (--rows) or a private bandit (--rounds)
    before any private row is read; an A/B test is `discreet forecast experiment`.
    Say what the features look like: a dimension (directions spread evenly), or
    better a public sample of rows such as yours; with as many rows as actions,
    a bandit offers the same ones every round. Never forecast from the private
    rows themselves: the forecast would leak them. Both are forecast by the
    learner itself, run on stand-ins for your rows or your world.

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
               bound; with --label-range in the units of labels.
               Ratings in [0, 1] that scatter by .1: 0.1.
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
      discreet forecast --rows 20000 --dim 8 --epsilon 0.3,1,3 --target 0.005
      discreet forecast --rows 100000 --public-sample census.csv --norm-bound 5
      discreet forecast --rounds 50000 --dim 5 --trust all
      discreet forecast --rounds 100000 --dim 5 --clicks 0.1 --gap 0.02
      discreet forecast --rows 20000 --dim 8 --html plan.html --json plan.json
    """


def _of(task: str, metavar: str, help: str) -> Any:
    """An option that goes with --rows or --rounds alone."""
    return Option(metavar=metavar, help=help, rich_help_panel=f"With --{task} only")


Rows = Annotated[
    int | None,
    Option(metavar="N", help="Of a regression: private rows, one per person (10000)."),
]
Rounds = Annotated[int | None, Option(metavar="T", help="Of a bandit: decisions to make.")]
Dim = Annotated[int | None, Option(metavar="D", help="Number of features.")]
PublicSample = Annotated[
    Path | None,
    Option(metavar="FILE", help="Public rows instead: .npy, or .csv of features; for a bandit "
           "also .npy of shape (n, actions, features)."),
]  # fmt: skip
NormBound = Annotated[
    float, Option(metavar="B", help="Public bound on the norm of a row of the sample.")
]
Epsilons = Annotated[
    str, Option(metavar="E,...", help="Privacy budgets to compare; less hides more.")
]
Delta = Annotated[float, Option(help="Chance that epsilon may fail; local trust has 0.")]
Noise = Annotated[
    float | None, Option(metavar="S", help="Of labels or rewards, relative to their bound (0.1).")
]
Trust = Annotated[
    str | None,
    Option(metavar="T", help="local, shuffled, both, all, central (--rows), joint (--rounds)."),
]
Html = Annotated[Path | None, Option(metavar="FILE", help="Also a page; never overwritten.")]
Json = Annotated[
    Path | None, Option("--json", metavar="FILE", help="Also all numbers; never overwritten.")
]
Target = Annotated[
    float | None,
    _of("rows", "ERROR", "Also say how many rows this mean absolute error needs."),
]
LabelRange = Annotated[
    str | None,
    _of("rows", "LOW,HIGH", "Public bounds of labels: units of noise, target, errors."),
]
Actions = Annotated[int | None, _of("rounds", "A", "Actions to choose from in a round (10).")]
Gap = Annotated[
    float | None,
    _of("rounds", "G", "Best action against the average one (as large as can be)."),
]
Clicks = Annotated[
    float | None, _of("rounds", "P", "Rewards are 0 or 1, so many of them 1 on average.")
]
Contributions = Annotated[
    int | None, _of("rounds", "K", "Rounds in which one person may appear (1).")
]
People = Annotated[
    int | None,
    _of("rounds", "N", "So many come again and again; each is protected with all their rounds."),
]
Visits = Annotated[
    str | None,
    _of("rounds", "V", "Of these people: the first reward counts, or all (one in each window)."),
]
Out = Annotated[Path, Option(help="Folder for the figure.")]

forecast = typer.Typer()


@forecast.callback(invoke_without_command=True, help=HELP)
def start(
    context: typer.Context,
    rows: Rows = None,
    rounds: Rounds = None,
    dim: Dim = None,
    public_sample: PublicSample = None,
    norm_bound: NormBound = 1.0,
    epsilon: Epsilons = "0.5,1,2",
    delta: Delta = 1e-6,
    noise: Noise = None,
    trust: Trust = None,
    out: Out = Path("out"),
    html: Html = None,
    as_json: Json = None,
    target: Target = None,
    label_range: LabelRange = None,
    actions: Actions = None,
    gap: Gap = None,
    clicks: Clicks = None,
    contributions: Contributions = None,
    people: People = None,
    visits: Visits = None,
) -> None:
    """Of a regression or a bandit: `HELP` is what the command says of itself."""
    if context.invoked_subcommand is not None:
        return
    from discreet.experiments.bandit_forecast import Stream
    from discreet.experiments.regression_forecast import Question
    from discreet.experiments.sheet import Files, run

    of_bandits: dict[str, Any] = {
        "actions": actions,
        "gap": gap,
        "clicks": clicks,
        "contributions": contributions,
        "people": people,
        "visits": visits,
    }
    _assert_one_task(rows, rounds, {"target": target, "label-range": label_range}, of_bandits)
    if visits is not None and people is None:
        raise ValueError("--visits goes with --people N: how many come again and again")
    budgets = _budgets(epsilon, delta)
    features = _features(dim, public_sample, norm_bound, sets=rounds is not None)
    if rounds is not None:
        given = {name: each for name, each in of_bandits.items() if each is not None}
        question: Any = Stream(features, rounds, noise=noise, delta=delta, **given)
    else:
        _bounded("--rows", rows, MOST)
        n = 10_000 if rows is None else rows
        bounds = _label_range(label_range)
        spread = 0.05 * (bounds[1] - bounds[0]) if noise is None else noise
        question = Question(features, n, spread, delta, target, bounds)
    run(question, budgets, trust=trust, files=Files(out, html, as_json))


@forecast.command()
def experiment(
    baseline: Annotated[
        float, Option(metavar="P", help="Chance of the metric without the change.")
    ],
    lift: Annotated[float, Option(metavar="D", help="What the change adds to that chance.")],
    arms: Annotated[int, Option(min=2, help="Arms, of equal size.")] = 2,
    epsilon: Epsilons = "0.3,1,3",
    delta: Annotated[float, Option(help="Chance that epsilon may fail.")] = 1e-6,
    looks: Annotated[int, Option(min=1, help="Looks that will be taken.")] = 50,
    power: Annotated[float, Option(help="Chance that the difference is proved.")] = 0.8,
    out: Out = Path("out"),
    html: Html = None,
    as_json: Json = None,
) -> None:
    """How many people an A/B test needs, with privacy and without, before anybody came.

    \b
      discreet forecast experiment --baseline .10 --lift .02 --arms 2 --epsilon 1
    """
    from discreet.experiments.sheet import Files, run
    from discreet.experiments.trial_forecast import Trial

    trial = Trial(baseline, lift, arms, looks, power, delta)
    files = Files(out, html, as_json)
    run(trial, _budgets(epsilon, delta), trust=None, files=files)


def _assert_one_task(
    rows: int | None, rounds: int | None, of_rows: dict[str, Any], of_rounds: dict[str, Any]
) -> None:
    if rows is not None and rounds is not None:
        raise ValueError("give --rows for a regression or --rounds for a bandit, not both")
    wrong, right = (of_rounds, "--rounds") if rounds is None else (of_rows, "--rows")
    for name, value in wrong.items():
        if value is not None:
            raise ValueError(f"--{name} goes with {right}; leave it out, or give {right}")


def _features(dim: int | None, sample: Path | None, norm_bound: float, *, sets: bool) -> Any:
    """Their number, or public rows of them."""
    if (dim is None) == (sample is None):
        raise ValueError("give either --dim D or --public-sample FILE, so that features are known")
    if sample is None:
        _bounded("--dim", dim, 10**9)
        return dim
    from discreet.experiments.regression_forecast import read_sample

    return read_sample(sample, norm_bound, sets=sets)


def _budgets(epsilons: str, delta: float) -> list[float]:
    """The budgets; what is weak about them is said."""
    from discreet.privacy.release import weaknesses

    try:
        found = [float(each) for each in epsilons.split(",")]
    except ValueError:
        raise ValueError(f"--epsilon takes numbers such as 0.3,1,3, got {epsilons!r}") from None
    for each in found:
        _bounded("--epsilon", each, 1000)
        for weakness in weaknesses(each, delta):
            print(f"discreet: {weakness}", file=sys.stderr)
    return found


def _label_range(given: str | None) -> tuple[float, float]:
    if given is None:
        return -1.0, 1.0
    try:
        low, high = (float(each) for each in given.split(","))
    except ValueError:
        raise ValueError(f"--label-range takes two numbers such as 60,220, got {given!r}") from None
    return low, high


def _bounded(name: str, value: float | None, most: float) -> None:
    if value is not None and value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value:g}")
