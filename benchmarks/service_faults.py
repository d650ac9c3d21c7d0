"""Kill -9 under load, many times: released counts and sums against acknowledged rewards.

python -m benchmarks.service_faults [--kills 1000] [--store postgresql://...]
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.service.conftest import ADMIN, free_port
from tests.service.processes import Parent
from tests.service.test_faults import Load, assert_totals, closed, definition, settled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--store", default=None, help="an SQLite file of its own by default")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    store = options.store or f"sqlite:///{folder}/store.db"
    port, secrets, rng = free_port(), folder / "secrets", random.Random(0)
    parent = Parent(folder, ADMIN)
    server = parent.server(store, secrets, port)
    client = server.client()
    client.create("b", definition(None))
    loads = [Load([port], seed) for seed in range(8)]
    began = time.monotonic()
    shown: list[dict[str, object]] = []
    for _ in range(options.kills):
        time.sleep(rng.uniform(0.0, 0.3))
        server.kill()
        server = parent.server(store, secrets, port)
        now = client.releases("b")
        assert now[: len(shown)] == shown
        shown = now
    counted = settled(loads, client)
    assert_totals(closed(client), counted)
    client.close()
    server.stop()
    parent.close()
    seconds = time.monotonic() - began
    print(f"{options.kills} kills in {seconds:.0f} s, {len(counted)} rewards, each counted once")


if __name__ == "__main__":
    main()
