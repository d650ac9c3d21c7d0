"""Which code and data files decide the numbers: digests, for results that are kept in files."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

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


def data_digest(options: Mapping[str, Any]) -> str:
    """A digest of the contents of all files that options name; "" if they name none.

    Any text that is the path of a file counts: a file that decides nothing only costs a run.

    >>> data_digest({"dim": 3, "policy": "random"})
    ''
    """
    sha = hashlib.sha256()
    paths = [path for path in _texts(options) if os.path.isfile(path)]
    for path in paths:
        with open(path, "rb") as file:
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()[:24] if paths else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
