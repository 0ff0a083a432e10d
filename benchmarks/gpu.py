"""How fast runs are on a GPU, and how exactly they repeat: the figures of docs/performance.md.

    python benchmarks/gpu.py --json benchmarks/results/gpu.json        # all parts, about 200 s
    python benchmarks/gpu.py --only resnet w                           # some parts
    python benchmarks/gpu.py --device cpu --tiny                       # whether it runs at all

Every part has its seconds, and what those before it have left of theirs: what has not begun when they are over is left
out, rounds end where they are, and the results say so.
"""

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gpu_bits
import gpu_precision
import gpu_resnet
import gpu_unequal
import gpu_w
import gpu_workloads
import torch
from timed_rounds import Bench, Row

Measurements = dict[str, Callable[[], Row]]  # name → takes it
PARTS: dict[str, tuple[Callable[[Bench], Measurements], float]] = {  # with their seconds
    "resnet": (gpu_resnet.measurements, 60),
    "w": (gpu_w.measurements, 22),
    "unequal": (gpu_unequal.measurements, 32),
    "bits": (gpu_bits.measurements, 20),
    "workloads": (gpu_workloads.measurements, 10),
    "precision": (gpu_precision.measurements, 60),
    "grid": (gpu_w.grid, 45),
}
HIDDEN = {"data", "rounds_s", "new_captures", "engine_s", "graphs", "gib_before_rounds", "gib_reserved", "accuracies"}
USUAL = [part for part in PARTS if part != "grid"]


def measure(part: str, bench: Bench, rows: dict[str, Row]) -> Iterator[None]:
    """Add all measurements of a part to the rows, one by one; one that fails does not stop the others."""
    for name, take in PARTS[part][0](bench).items():
        if bench.over:
            rows[name] = {"left out": "the time was over"}
        else:
            try:
                rows[name] = take()
            except Exception as error:
                traceback.print_exc()
                rows[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(f"{part:9s} {name:52s} {in_words(rows[name])}", flush=True)
        yield


def in_words(row: Row) -> str:
    """What is shown of a row; the rest is in the JSON."""
    first = {"first_round_s": row["rounds_s"][0]} if row.get("rounds_s") else {}
    shown = first | {key: value for key, value in row.items() if key not in HIDDEN}
    return "  ".join(f"{key} {in_short(value)}" for key, value in shown.items())


def in_short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def machine(device: str) -> dict[str, str]:
    """What the figures belong to."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    return {"device": name, "torch": torch.__version__, "triton": triton, "python": platform.python_version()}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=USUAL, default=USUAL, help="these parts")
    parser.add_argument("--grid", action="store_true", help="also W with 18 pairs of rates × 3 seeds in lockstep")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a few rounds on a few pictures: figures mean nothing")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args(words)
    parts: dict[str, dict[str, Row]] = {}
    about = {"machine": machine(options.device), "tiny": options.tiny}
    print(about["machine"], flush=True)
    deadline = time.perf_counter()
    for part in [*options.only, *(["grid"] if options.grid else [])]:
        begun, parts[part] = time.perf_counter(), {}
        deadline += PARTS[part][1]
        for _ in measure(part, Bench(options.device, options.tiny, deadline), parts[part]):
            if options.json:  # at once: whatever happens then, it is kept
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps(about | parts, indent=1) + "\n")
        print(f"{part:9s} took {time.perf_counter() - begun:.0f} s of {PARTS[part][1]:.0f}", flush=True)
    if failed := sum("failed" in row for rows in parts.values() for row in rows.values()):
        sys.exit(f"{failed} measurement{'s' * (failed > 1)} failed")


if __name__ == "__main__":
    main()
