"""`discreet statement`: the promise of a saved state, in words."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from discreet.cli.options import Given, read_file


def statement(
    state: Annotated[Path, Argument(help="What a learner, a model or a running sum has saved.")],
    as_json: Annotated[
        bool, Option("--json", help="All of the guarantee, every release too, for machines.")
    ] = False,
    given: Given = None,
) -> None:
    """What a saved learner promises each person, what it has released, what it does not protect.

    The state is read and left as it is; it may be in use. Nothing but the
    promise is printed, and that is public.
    """
    import json

    promise = read_file(state, given or []).guarantee
    print(json.dumps(promise.to_dict(), indent=2) if as_json else promise.statement())
