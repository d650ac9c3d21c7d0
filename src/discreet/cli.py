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
        epilog="Start with: discreet demo",
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

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from discreet.experiments.demo import run

    run(options.rounds, options.epsilon, options.delta, seed=options.seed, out=options.out)
    return 0


def _version(options: argparse.Namespace) -> int:
    print(f"discreet {__version__}")
    return 0
