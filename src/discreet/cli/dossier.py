"""`discreet dossier`: the promise of one learner, on a page that can be signed and filed."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from discreet.cli.audit import attacked
from discreet.cli.options import Given, Workers, read_file

Sources = Annotated[
    list[str],
    Argument(
        metavar="FILE...",
        help="What learners, models or ledgers have saved; definitions of the service or "
        "guarantees (JSON); http://HOST/v1/bandits/NAME of a running bandit (its key in "
        "DISCREET_KEY).",
    ),
]
Page = Annotated[
    Path,
    Option("--out", "-o", metavar="PAGE", help="A page that does not exist yet (HTML, or .json)."),
]


def dossier(
    sources: Sources,
    out: Page,
    audit: Annotated[
        bool, Option("--audit", help="Run every attack that fits this configuration.")
    ] = False,
    runs: Annotated[
        int, Option(min=100, help="Of each attack, on each of two neighbouring streams.")
    ] = 2000,
    seed: Annotated[int, Option(min=0, help="Of the attacks' noise.")] = 0,
    workers: Workers = None,
    given: Given = None,
) -> None:
    """One page to print, sign and file: what is promised, by what, what was released and attacked.

    The page has the promise in words, the learner's definition, every
    release with its sensitivity and noise, what is not protected, and lines
    for signatures. Everything on it is public. The file is read and left as
    it is; a page that exists is never overwritten. With --audit the library
    attacks learners of this configuration, and leaves with status 1 if the
    promise is refuted. Several files are one dossier, which adds up what
    they promise together. As .json, of one file, it has an entry for the
    public registry of deployments and the questions of NIST SP 800-226, too.

    \b
      discreet dossier bandit.state -o dossier.html
      discreet dossier model.state -o dossier.html --audit --runs 10000
      discreet dossier welcome.json study.ledger -o dossier.html
      discreet dossier http://127.0.0.1:8360/v1/bandits/welcome -o dossier.html
    """
    from discreet.experiments.dossier import Dossier, html, not_shared, record
    from discreet.experiments.writing import assert_new, write_atomically

    assert_new(out)
    for_machines = out.suffix == ".json"
    if for_machines and len(sources) > 1:
        raise ValueError("a dossier as .json is of one file: write one for each")
    pages = []
    for source in sources:
        item, about = _read(source, given or [])
        audits = _audited(item, about["promise"], runs, seed, workers) if audit else None
        beside = not_shared(about["definition"])
        pages.append(Dossier(source=_named(source), audits=audits, beside=beside, **about))
    if for_machines:
        text = json.dumps(record(pages[0]), indent=1, ensure_ascii=False) + "\n"
    else:
        text = html(*pages)
    write_atomically(out, text, new=True)
    print(f"Dossier: {out}")
    _stop_if_refuted([each for page in pages for each in page.audits or ()])


def _stop_if_refuted(audits: list[Any]) -> None:
    broken = [each.attack.name for each in audits if each.verdict == "BROKEN"]
    if broken:
        print(f"discreet: the promise is REFUTED by {', '.join(broken)}", file=sys.stderr)
        raise Exit(1)


def _audited(item: Any, promise: Any, runs: int, seed: int, workers: int | None) -> Any:
    """What attacks prove of learners of this configuration."""
    from rich.console import Console

    from discreet.audit.attacks import attacks_on

    chosen = attacks_on(item, promise)
    return attacked(chosen, runs, seed, workers, Console(stderr=True)) if chosen else []


def _named(source: str) -> str:
    """A file by its name, which a page may show; a URL as it is."""
    return source if _is_url(source) else Path(source).name


def _is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _read(source: str, given: list[str]) -> tuple[Any, dict[str, Any]]:
    """The object, or None of a guarantee alone, and what a dossier says of it."""
    if _is_url(source):
        return _running(source)
    path = Path(source)
    with path.open("rb") as file:
        text = file.read(1) == b"{"
    if text:
        record = {}
        with suppress(ValueError):
            record = json.loads(path.read_bytes())
        if {"releases", "unprotected"} <= set(record):
            from discreet.privacy import Guarantee

            promise = Guarantee.from_dict(record)
            return None, {"kind": "a guarantee", "promise": promise, "definition": {}}
        return _defined(path.read_bytes(), source)
    saved = read_file(path, given)
    return saved.item, {
        "kind": saved.kind,
        "promise": saved.guarantee,
        "definition": saved.config,
        "written_by": saved.version,
        "run": saved.run,
    }


def _defined(raw: bytes, source: str) -> tuple[Any, dict[str, Any]]:
    """What the service would run by a definition."""

    from discreet.service.definitions import parsed
    from discreet.service.errors import Problem
    from discreet.service.server import tenant_of

    try:
        tenant = tenant_of(parsed(raw))
    except Problem as problem:
        raise ValueError(f"{source} is not a definition of the service: {problem}") from None
    definition = json.loads(parsed(raw).normalised())
    kind = f"{type(tenant.learner).__name__} of the decision service"
    return tenant.learner, {
        "kind": kind, "promise": tenant.guarantee(), "definition": definition
    }  # fmt: skip


def _running(url: str) -> tuple[Any, dict[str, Any]]:
    """A bandit that a service runs: its definition, and its promise with what it has released."""

    from discreet.privacy import Guarantee
    from discreet.service.client import Client

    server, mark, name = url.partition("/v1/bandits/")
    if not mark or not name or "/" in name:
        raise ValueError(f"{url}: expected http://HOST/v1/bandits/NAME")
    try:
        with Client(server, os.environ.get("DISCREET_KEY")) as client:
            definition = client.bandit(name)["definition"]
            promise = Guarantee.from_dict(client.guarantee(name))
    except ConnectionError as error:
        raise ValueError(f"{server} cannot be reached: {error.strerror}") from None
    learner, about = _defined(json.dumps(definition).encode(), url)
    return learner, about | {"promise": promise}
