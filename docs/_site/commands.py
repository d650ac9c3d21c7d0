"""The command line, made from the commands: what each does, its arguments and its options.

The page is written into docs/reference when the site is built, beside those of the packages.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from .docstrings import inline
from .reference import PAGES, heading


def told(text: str | None) -> Iterator[str]:
    r"""Help as reStructuredText: what follows \b stays as it is drawn.

    >>> list(told("Do it.\n\n\b\n  a  \\[b]\n"))
    ['Do it.', '', '::', '', '      a  [b]', '']
    """
    for part in inspect.cleandoc(text or "").replace("\\[", "[").split("\n\n"):
        first, *lines = part.splitlines() or [""]
        if first.strip() == "\b":
            yield from ("::", "", *(f"    {line}" for line in lines), "")
        elif part.strip():
            yield from (inline(" ".join(part.split())), "")


def parameters(command: Any) -> Iterator[str]:
    """Arguments and options with what they mean."""
    for each in command.params:
        if each.name == "help" or getattr(each, "hidden", False):
            continue
        argument = each.param_type_name == "argument"
        name = (
            (each.metavar or each.name).upper()
            if argument
            else ", ".join([*each.opts, *each.secondary_opts])
        )
        yield f"``{name.strip('{}')}``"
        yield f"    {inline(' '.join((getattr(each, 'help', '') or '').split()))}"
    yield ""


def described(name: str, command: Any) -> Iterator[str]:
    """A command, then each of the group that it is."""
    inner = getattr(command, "commands", {})
    if not inner or command.invoke_without_command:
        yield from (f"discreet {name}", "-" * len(f"discreet {name}"), "")
        yield from told(command.help)
        yield from parameters(command)
    for each in inner:
        yield from described(f"{name} {each}", inner[each])


def page() -> str:
    """All commands."""
    import typer

    from discreet.cli.app import app

    lines = [
        *heading("Command line"),
        "``discreet -h`` and ``discreet COMMAND -h`` say the same.",
        "",
    ]
    for name, command in typer.main.get_command(app).commands.items():
        lines += described(name, command)
    return "\n".join(lines)


def write(*_: Any) -> None:
    """Write the page if it changed."""
    path = PAGES / "commands.rst"
    text = page()
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
