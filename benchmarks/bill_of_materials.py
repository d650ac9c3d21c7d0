"""What an installed discreet pulls in, as CycloneDX: the bill of materials of `make dist`.

    python benchmarks/bill_of_materials.py > discreet.cdx.json

It needs the environment to describe and nothing else, and holds no time: the same environment, the
same text.
"""

import json
import re
from importlib.metadata import distribution

BEGIN = "discreet"


def closure() -> dict[str, list[str]]:
    """Each installed package that is needed without extras, and what it needs."""
    found: dict[str, list[str]] = {}
    waiting = [BEGIN]
    while waiting:
        name = waiting.pop()
        if name not in found:
            needed = distribution(name).requires or []
            plain = [each for each in needed if ";" not in each]
            found[name] = sorted(re.split(r"[^\w.-]", each)[0].lower() for each in plain)
            waiting += found[name]
    return found


def part(name: str) -> dict[str, object]:
    """One package."""
    about = distribution(name).metadata
    version = about["Version"]
    terms = about.get("License-Expression") or (about.get("License") or "").split("\n")[0]
    licence = {"licenses": [{"license": {"name": terms}}]} if terms else {}
    purl = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version,
            "purl": purl, **licence}  # fmt: skip


if __name__ == "__main__":
    needs = closure()
    parts = {name: part(name) for name in sorted(needs)}
    refs = {name: str(each["bom-ref"]) for name, each in parts.items()}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": parts.pop(BEGIN)},
        "components": list(parts.values()),
        "dependencies": [
            {"ref": refs[name], "dependsOn": [refs[each] for each in needs[name]]}
            for name in sorted(needs)
        ],
    }
    print(json.dumps(bill, indent=1))
