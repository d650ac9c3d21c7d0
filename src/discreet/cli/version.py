"""`discreet version`."""

from discreet import __version__


def version() -> None:
    """Print the version."""
    print(f"discreet {__version__}")
