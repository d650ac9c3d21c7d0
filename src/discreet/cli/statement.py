"""`discreet statement`: the promise of a saved state, in words."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def statement(
    state: Annotated[Path, Argument(help="What a learner or a running sum has saved.")],
    as_json: Annotated[
        bool, Option("--json", help="All of the guarantee, every release too, for machines.")
    ] = False,
) -> None:
    """What a saved learner promises each person, what it has released, what it does not protect.

    The state is read and left as it is; it may be in use. Nothing but the
    promise is printed, and that is public.
    """
    import json

    from discreet.saved import saved_guarantee

    promise = saved_guarantee(state)
    print(json.dumps(promise.to_dict(), indent=2) if as_json else promise.statement())
