"""`python -m discreet.service`: a server with the settings of the DISCREET_* variables."""

import sys

from discreet.service.errors import StoreBusy
from discreet.service.fence import RolledBack
from discreet.service.serving import serve
from discreet.service.settings import Settings


def main() -> int:
    """Serve; what goes wrong is one sentence."""
    try:
        serve(Settings.from_environment())
    except (ValueError, RolledBack, StoreBusy) as error:
        print(f"discreet: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
