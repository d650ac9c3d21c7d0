"""`discreet dossier`: the promise of one learner, on a page that can be signed and filed."""

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from discreet.cli.audit import attacked
from discreet.cli.options import Given, Workers, read_file


def dossier(
    source: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="What a learner or model has saved, or a definition of the service (JSON).",
        ),
    ],
    out: Annotated[
        Path,
        Option(
            "--out", "-o", metavar="PAGE", help="A page that does not exist yet (HTML, or .json)."
        ),
    ],
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
    promise is refuted. As .json it has an entry for the public registry of
    deployments and the questions of NIST SP 800-226, too.

    \b
      discreet dossier bandit.state -o dossier.html
      discreet dossier model.state -o dossier.html --audit --runs 10000
      discreet dossier welcome.json -o dossier.html
    """
    from discreet.experiments.dossier import Dossier, html, not_shared, record
    from discreet.experiments.pages import assert_new, write_new

    assert_new(out)
    item, about = _read(source, given or [])
    audits = None
    if audit:
        from rich.console import Console

        from discreet.audit.attacks import attacks_on

        chosen = attacks_on(item, about["promise"])
        console = Console(stderr=True)
        audits = attacked(chosen, runs, seed, workers, console) if chosen else []
    page = Dossier(
        source=source.name, audits=audits, beside=not_shared(about["definition"]), **about
    )
    if out.suffix == ".json":
        import json

        write_new(out, json.dumps(record(page), indent=1, ensure_ascii=False) + "\n")
    else:
        write_new(out, html(page))
    print(f"Dossier: {out}")
    broken = [each.attack.name for each in audits or () if each.verdict == "BROKEN"]
    if broken:
        print(f"discreet: the promise is REFUTED by {', '.join(broken)}", file=sys.stderr)
        raise Exit(1)


def _read(source: Path, given: list[str]) -> tuple[Any, dict[str, Any]]:
    """The object, and what a dossier says of it."""
    with source.open("rb") as file:
        text = file.read(1) == b"{"
    if text:
        import json

        from discreet.service.definitions import parsed
        from discreet.service.errors import Problem
        from discreet.service.server import tenant_of

        raw = source.read_bytes()
        try:
            tenant = tenant_of(parsed(raw))
        except Problem as problem:
            raise ValueError(f"{source} is not a definition of the service: {problem}") from None
        definition = json.loads(parsed(raw).normalised())
        kind = f"{type(tenant.learner).__name__} of the decision service"
        about = {"kind": kind, "promise": tenant.guarantee(), "definition": definition}
        return tenant.learner, about
    saved = read_file(source, given)
    return saved.item, {
        "kind": saved.kind,
        "promise": saved.guarantee,
        "definition": saved.config,
        "written_by": saved.version,
        "run": saved.run,
    }
