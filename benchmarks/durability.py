"""What durability costs: the share of a round of W that goes into records, checkpoints and syncs.

    python benchmarks/durability.py [ROUNDS]

W is the workload of `fedamd bench` (LeNet-5, 100 clients × 600 images, 20 a round, 10 steps on 64), a checkpoint every
10 rounds, as `fedamd run` does it.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import fedamd
from fedamd.data import where
from fedamd.runs.folder import Folder


def main(rounds: int) -> None:
    spent: list[float] = []
    add = Folder.add

    def timed(*arguments: object) -> None:
        begun = time.perf_counter()
        add(*arguments)  # type: ignore[arg-type]
        spent.append(time.perf_counter() - begun)

    Folder.add = timed  # type: ignore[method-assign]
    data = "fashion-mnist" if where("fashion-mnist") else "digits"
    config = {"data": {"name": data}, "rounds": rounds, "algorithm": {"steps": 10, "small_batch": 64}}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        result = fedamd.run(config, out=Path(folder) / "run")
    each = statistics.median(record.seconds for record in result.metrics[1:])
    cost = sum(spent[1:]) / rounds
    print(json.dumps({"data": data, "round_s": each, "durability_s_per_round": cost, "share": cost / each}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
