"""Bugs that these tests have found and that are not mended yet: delete a line with its bug.

(check, part of the entry's name) -> why it fails today. An empty table is the aim.
"""

OPEN: dict[tuple[str, str], str] = {}


def reason(check: str, name: str) -> str:
    """Why this check may fail on this entry; empty if it must pass."""
    for (of, part), why in OPEN.items():
        if of == check and part in name:
            return why
    return ""
