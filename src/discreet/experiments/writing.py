"""Files that are whole or not there, whenever the process dies."""

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, text: str, *, new: bool = False) -> None:
    """Write a file so that whoever looks sees all of it or none; `new`: never over another one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not new:
            part.replace(path)
            return
        try:
            os.link(part, path)  # refuses an existing name, also one that has just appeared
        except FileExistsError:
            assert_new(path)
            raise
    finally:
        part.unlink(missing_ok=True)


def assert_new(path: Path) -> None:
    """Refuse a file that is there already: what was filed is not written over."""
    if path.exists():
        raise ValueError(f"{path} is there already and is never overwritten; choose another name")
