"""Which code decides the numbers: a digest of the source, for results that are kept in files."""

import hashlib
from functools import cache
from pathlib import Path

from discreet import __version__

ABOVE = ("cli", "audit", "experiments")  # they run learners and show results


@cache
def digest() -> str:
    """The version and a digest of all learners, worlds and mechanisms: edit one and it changes.

    >>> digest().startswith(__version__), digest() == digest()
    (True, True)
    """
    home = Path(__file__).parent
    sha = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        name = path.relative_to(home)
        if name.parts[0] not in ABOVE:
            sha.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__}+{sha.hexdigest()[:12]}"
