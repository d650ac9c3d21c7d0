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
        epilog="Start with: discreet demo, or discreet plan --rows 20000 --dim 8",
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
        help="before any data: the error to expect, what privacy costs, how many rows to collect",
        description="""\
Forecast private linear regression before any private row is read. Give the number of rows you
will have and what the features look like: a dimension (directions spread evenly), or better a
public sample of rows such as yours. Never plan on the private rows themselves: the plan would
leak them.""",
        epilog="""\
how to choose
  epsilon  how well anyone can tell whether you are in the data: after the release they are right
           at most e^epsilon / (1 + e^epsilon) of the time (1: 73%, 3: 95%), up to delta.
           Start at 1; below .3 expect to need many rows, above 3 little is promised.
  delta    chance that the promise fails; well below 1 / rows. It is cheap: 1e-6 or 1e-9.
  trust    central: somebody may hold the data. local: nobody may, and errors are 10 times as
           large or more.
  noise    spread of the labels around their mean, relative to the label bound. Ratings in [0, 1]
           that scatter by .1: 0.1.

examples
  discreet plan --rows 20000 --dim 8
  discreet plan --rows 20000 --dim 8 --epsilon 0.3 1 3 --target 0.005
  discreet plan --rows 100000 --public-sample census.csv --norm-bound 5 --trust both
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("--rows", type=int, default=10_000, metavar="N",
                      help="private rows, one per person (10000)")  # fmt: skip
    plan.add_argument("--dim", type=int, metavar="D", help="number of features")
    plan.add_argument("--public-sample", type=Path, metavar="FILE",
                      help="public rows instead: .npy, or .csv of features")  # fmt: skip
    plan.add_argument("--norm-bound", type=float, default=1.0, metavar="B",
                      help="public bound on the norm of a row of the sample (1)")  # fmt: skip
    plan.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0], metavar="E",
                      help="privacy budgets to compare; less hides more (0.5 1 2)")  # fmt: skip
    plan.add_argument("--delta", type=float, default=1e-6,
                      help="chance that epsilon may fail, under central trust (1e-6)")  # fmt: skip
    plan.add_argument("--noise", type=float, default=0.1, metavar="S",
                      help="label noise, relative to the label bound (0.1)")  # fmt: skip
    plan.add_argument("--target", type=float, metavar="ERROR",
                      help="also say how many rows this mean absolute error needs")  # fmt: skip
    plan.add_argument("--trust", default="central", metavar="T",
                      help="central, local or both (central)")  # fmt: skip
    plan.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure (out)")
    plan.set_defaults(run=_plan)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from discreet.experiments.demo import run

    run(options.rounds, options.epsilon, options.delta, seed=options.seed, out=options.out)
    return 0


def _plan(options: argparse.Namespace) -> int:
    from discreet.experiments.planning import Question, read_sample, run

    if (options.dim is None) == (options.public_sample is None):
        raise ValueError("give either --dim D or --public-sample FILE, so that features are known")
    if options.dim is None:
        covariates = read_sample(options.public_sample, options.norm_bound)
    else:
        covariates = options.dim
    question = Question(covariates, options.rows, options.noise, options.delta)
    run(question, options.epsilon, trust=options.trust, target=options.target, out=options.out)
    return 0


def _version(options: argparse.Namespace) -> int:
    print(f"discreet {__version__}")
    return 0
