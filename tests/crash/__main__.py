"""Crash states, faults and mutations by the thousand; each must end in the identical result, or in a refusal in words.

PYTHONPATH=src:tests python -m crash states --limit 5000
PYTHONPATH=src:tests python -m crash faults
PYTHONPATH=src:tests python -m crash mutations --limit 5000
PYTHONPATH=src:tests python -m crash kills --limit 500
PYTHONPATH=src:tests python -m crash malformed --limit 4400
PYTHONPATH=src:tests python -m crash races --limit 90
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from crash import shim


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash", description=__doc__)
    parser.add_argument("kind", choices=("states", "faults", "mutations", "kills", "malformed", "races"))
    parser.add_argument("--limit", type=int, default=5000, help="how many cases at most, over all workloads")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long, and tell what there is")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one workload, or one kind of malformed input")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        if given.kind in ("malformed", "races"):  # nothing to watch: no system call matters
            from crash.malformed import malformed
            from crash.races import races

            judge = malformed if given.kind == "malformed" else races
            return tell(judge(Path(scratch), given.limit, given.seed, given.only))
        if "LD_PRELOAD" not in os.environ:
            library = shim.build(Path(scratch))
            if library is None:
                print("no C compiler: the library that watches system calls cannot be built", file=sys.stderr)
                return 3
            command = [sys.executable, "-m", "crash", *sys.argv[1:]]
            return subprocess.run(command, env=shim.with_shim(library), check=False).returncode
        from crash import cases, kills

        cases.PATIENCE.seconds = given.seconds
        judge = kills.kills if given.kind == "kills" else getattr(cases, given.kind)
        return tell(judge(Path(scratch), given.limit, given.seed, given.only))


def tell(told: dict[str, Any]) -> int:
    """Print it; 1 where something was wrong."""
    print(json.dumps(told | {"wrong": told["wrong"][:5], "wrong_in_all": len(told["wrong"])}, indent=2))
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
