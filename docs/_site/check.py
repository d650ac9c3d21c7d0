"""The built site holds together: `python docs/_site/check.py build/site`.

Every link inside it leads to a page and a place that exist, every public name has its place, and
nothing is loaded from elsewhere, so that it reads the same without a network.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}
UNLOADED = {"author", "canonical", "next", "prev", "search", "index"}  # kinds of <link> that lead


class Page(HTMLParser):
    """The places of a page, where it leads, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.leads: set[str] = set()
        self.loads: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        told = {name: value or "" for name, value in attrs}
        self.places |= {told[name] for name in ("id", "name") if name in told}
        if tag == "a" and "href" in told:
            self.leads.add(told["href"])
        elif tag in LOADED and LOADED[tag] in told and told.get("rel") not in UNLOADED:
            self.loads.add(told[LOADED[tag]])


def mistakes(site: Path, names: set[str]) -> Iterator[str]:
    """What is wrong with a built site that should describe these names."""
    found = (path for path in sorted(site.rglob("*.html")) if path.parent.name != "_static")
    pages = {path.resolve(): Page(path) for path in found}

    def has_place(path: Path, place: str) -> bool:
        return path not in pages or place in pages[path].places

    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for address in sorted(page.leads | page.loads):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme != "data":
                    yield f"{where} loads {address}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{where} leads to {address}, which is not there"
            elif parts.fragment and not has_place(target, unquote(parts.fragment)):
                yield f"{where} leads to {address}: that page has no such place"
    places = set().union(*(page.places for page in pages.values()))
    yield from (f"{name} is public and has no place" for name in sorted(names - places))


def public_names() -> set[str]:
    """Every name that a package lists, in full; packages themselves are pages."""
    import importlib
    from types import ModuleType

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from _site.reference import packages

    rooms = [importlib.import_module(room) for room in packages()]
    return {
        f"{room.__name__}.{name}"
        for room in rooms
        for name in room.__all__
        if not isinstance(getattr(room, name), ModuleType)
    }


def main(site: Path) -> int:
    """Print what is wrong; 1 if anything is."""
    names = public_names()
    found = list(mistakes(site, names))
    print(
        "\n".join(found) or f"{site}: links lead somewhere; {len(names)} public names are described"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
