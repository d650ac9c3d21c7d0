"""The `discreet` command."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from discreet import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help()
        return 0
    try:
        status: int = options.run(options)
    except ImportError as error:
        parser.exit(1, f"discreet: {error}\nTry: pip install 'discreet[experiments]'\n")
    except ValueError as error:
        parser.exit(2, f"discreet: {error}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="discreet",
        description="Differentially private online learning, regression and bandits.",
        epilog="Start with: discreet demo, discreet plan --rows 20000 --dim 8, or\n"
        "discreet plan --rounds 50000 --dim 5",
    )
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="")

    demo = commands.add_parser(
        "demo",
        help="a private running average of a sensitive stream, beside the truth",
        description="Publish the running average of a simulated stream of ratings after every "
        "single one, privately: a binary tree against a buffered Toeplitz sum against the truth.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--rounds", type=int, default=100_000, help="length of the stream")
    demo.add_argument("--epsilon", type=float, default=1.0, help="privacy budget; less hides more")
    demo.add_argument("--delta", type=float, default=1e-6, help="chance that epsilon may fail")
    demo.add_argument("--seed", type=int, default=0, help="of the simulated stream and noise")
    demo.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    demo.set_defaults(run=_demo)

    plan = commands.add_parser(
        "plan",
        help="before any data: the error or regret to expect, what privacy costs, how much to "
        "collect",
        description="""\
Forecast private linear regression (--rows) or a private bandit (--rounds) before any private row
is read. Say what the features look like: a dimension (directions spread evenly), or better a
public sample of rows such as yours. Never plan on the private rows themselves: the plan would
leak them. Regression is forecast by formulas, a bandit by simulating the learner on a stand-in
for your world.""",
        epilog="""\
how to choose
  epsilon  how well anyone can tell whether you are in the data: after the release they are right
           at most e^epsilon / (1 + e^epsilon) of the time (1: 73%, 3: 95%), up to delta.
           Start at 1; below .3 expect to need many rows, above 3 little is promised.
  delta    chance that the promise fails; well below 1 / people. It is cheap: 1e-6 or 1e-9.
  trust    central, joint: somebody may hold the data (and for a bandit, only your own action may
           depend on your own data). local: nobody may, and errors and regret are 10 times as
           large or more.
  noise    spread of labels or rewards around their mean, relative to their bound. Ratings in
           [0, 1] that scatter by .1: 0.1.
  clicks   instead of noise, for rewards that are yes or no: how many are yes on average.
  gap      how much more the best action is worth than the average one, relative to the reward
           bound. The default is the most that such features allow; take less if effects are weak.
  contributions   rounds in which one person may appear. The promise is for all of them together.

examples
  discreet plan --rows 20000 --dim 8
  discreet plan --rows 20000 --dim 8 --epsilon 0.3 1 3 --target 0.005
  discreet plan --rows 100000 --public-sample census.csv --norm-bound 5 --trust both
  discreet plan --rounds 50000 --dim 5
  discreet plan --rounds 100000 --dim 5 --actions 4 --epsilon 0.3 1 3 --clicks 0.1 --gap 0.02
  discreet plan --rounds 200000 --public-sample items.csv --norm-bound 5 --trust both
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("--rows", type=int, metavar="N",
                      help="plan a regression: private rows, one per person (10000)")  # fmt: skip
    plan.add_argument("--rounds", type=int, metavar="T", help="plan a bandit: decisions to make")
    plan.add_argument("--dim", type=int, metavar="D", help="number of features")
    plan.add_argument("--public-sample", type=Path, metavar="FILE",
                      help="public rows instead: .npy, or .csv of features; for a bandit also "
                      ".npy of shape (n, actions, features)")  # fmt: skip
    plan.add_argument("--norm-bound", type=float, default=1.0, metavar="B",
                      help="public bound on the norm of a row of the sample (1)")  # fmt: skip
    plan.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0], metavar="E",
                      help="privacy budgets to compare; less hides more (0.5 1 2)")  # fmt: skip
    plan.add_argument("--delta", type=float, default=1e-6,
                      help="chance that epsilon may fail; local trust has 0 (1e-6)")  # fmt: skip
    plan.add_argument("--noise", type=float, metavar="S",
                      help="of labels or rewards, relative to their bound (0.1)")  # fmt: skip
    plan.add_argument("--trust", metavar="T",
                      help="local, both, or central (--rows), joint (--rounds)")  # fmt: skip
    plan.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure (out)")
    only = plan.add_argument_group("with --rows only")
    only.add_argument("--target", type=float, metavar="ERROR",
                      help="also say how many rows this mean absolute error needs")  # fmt: skip
    only = plan.add_argument_group("with --rounds only")
    only.add_argument("--actions", type=int, metavar="A",
                      help="actions to choose from in a round (10)")  # fmt: skip
    only.add_argument("--gap", type=float, metavar="G",
                      help="best action against the average one (as large as can be)")  # fmt: skip
    only.add_argument("--clicks", type=float, metavar="P",
                      help="rewards are 0 or 1, so many of them 1 on average")  # fmt: skip
    only.add_argument("--contributions", type=int, metavar="K",
                      help="rounds in which one person may appear (1)")  # fmt: skip
    plan.set_defaults(run=_plan)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from discreet.experiments.demo import run

    run(options.rounds, options.epsilon, options.delta, seed=options.seed, out=options.out)
    return 0


def _plan(options: argparse.Namespace) -> int:
    from discreet.experiments import bandit_planning, bandit_report, planning

    bandit = options.rounds is not None
    if bandit and options.rows is not None:
        raise ValueError("give --rows to plan a regression or --rounds to plan a bandit, not both")
    for name in ("target",) if bandit else ("actions", "gap", "clicks", "contributions"):
        if getattr(options, name) is not None:
            right = "--rows" if bandit else "--rounds"
            raise ValueError(f"--{name} goes with {right}; leave it out, or give {right}")
    if (options.dim is None) == (options.public_sample is None):
        raise ValueError("give either --dim D or --public-sample FILE, so that features are known")
    features = options.dim
    if features is None:
        features = planning.read_sample(options.public_sample, options.norm_bound, sets=bandit)
    if bandit:
        stream = bandit_planning.Stream(
            features,
            options.rounds,
            options.actions,
            options.noise,
            options.delta,
            1 if options.contributions is None else options.contributions,
            options.gap,
            options.clicks,
        )
        trust = options.trust or "joint"
        bandit_report.run(stream, options.epsilon, trust=trust, out=options.out)
    else:
        rows = 10_000 if options.rows is None else options.rows
        noise = 0.1 if options.noise is None else options.noise
        question = planning.Question(features, rows, noise, options.delta)
        trust = options.trust or "central"
        planning.run(question, options.epsilon, trust=trust, target=options.target, out=options.out)
    return 0


def _version(options: argparse.Namespace) -> int:
    print(f"discreet {__version__}")
    return 0
