"""What a round of a real federation costs on one machine: seconds, processor time for a message, and memory.

    python benchmarks/federation.py                           the digits example: 4 clients, 3 of them in a round
    python benchmarks/federation.py --tls                     … with TLS and a key for every client
    python benchmarks/federation.py --stock --rounds 4        … with Flower's own SuperNodes
    python benchmarks/federation.py --clients 20
    python benchmarks/federation.py --clients 2 --hidden 133334 --rounds 6      10⁷ parameters, FedAvg
    python benchmarks/federation.py --bars                    all of these but --stock, as a table of what is aimed at
    (--file keeps the SuperLink's state in a file instead of in memory; --requests counts the requests it gets, which
    makes it write a line for each)

Starts a SuperLink and clients on 127.0.0.1. Seconds are the median over the rounds after the second; processor time is
read from /proc at the end of the second round and at the end of the run. Memory is told twice: the proportional share
(PSS) of all processes at the end, where what several share is counted once, and the largest resident size (RSS) that
any process of a kind ever had. The load average says how quiet the machine was. Prints JSON.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from fedamd.flower.app.settings import flatten
from fedamd.flower.local import processes
from fedamd.flower.local.launch import read_app, run_on, settings_for, up_in
from fedamd.flower.local.loopback import Loopback
from fedamd.runs.folder import Folder

EXAMPLE = Path(__file__).parents[1] / "examples" / "flower_digits"
LARGEST = re.compile(r"VmHWM:\s+(\d+) kB")
REQUEST = re.compile(r'"POST /v1/([a-z/-]+) HTTP')
SKIPPED = 2  # rounds in which data and models are still being loaded
PROGRAMS = {  # a word of its command line → what it is called here
    "flower-superlink": "SuperLink",
    "flwr-serverapp": "server",
    "flower-superexec": "executor",
    "flower-supernode": "SuperNode",
    "flwr-clientapp": "worker",
    "flower.node.forkserver": "worker",
    "federation\0client": "node",
}


BARS: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    ("4 clients", {}, {"seconds_per_round": 0.5, "missing": 0, "cpu_seconds_per_message": 0.3}),
    ("4 clients, TLS and keys", {"tls": True}, {"seconds_per_round": 0.6, "missing": 0}),
    ("20 clients", {"clients": 20}, {"seconds_per_round": 2.5, "missing": 0, "megabytes_per_client": 400}),
    ("10⁷ parameters, 2 clients", {"clients": 2, "hidden": 133_334, "rounds": 8}, {"seconds_per_round": 5}),
]


def settings(clients: int, rounds: int, hidden: int | None, out: Path) -> dict[str, Any]:
    """The digits example, or FedAvg on a network of any size with everybody in every round."""
    own = {"clients": clients, "rounds": rounds, "federation.folder": str(out), "federation.deadline": 300}
    if hidden is None:
        return dict(read_app(EXAMPLE)) | {"cohort": max(1, 3 * clients // 4)} | own
    raw = {
        "cohort": clients,
        "oracle": "autograd",
        "partition": {"name": "iid"},
        "model": {"name": "mlp", "hidden": hidden},
        "algorithm": {"name": "fedavg", "steps": 1, "small_batch": 16},
    }
    return flatten(raw) | own


def measure(
    clients: int = 4,
    rounds: int = SKIPPED + 20,
    hidden: int | None = None,
    tls: bool = False,
    stock: bool = False,
    file: bool = False,
    requests: bool = False,
) -> dict[str, Any]:
    """Run once and read the clocks."""
    if requests:
        os.environ["FLWR_LOG_LEVEL"] = "DEBUG"
    on_clients = ("node", "worker", *(("SuperNode", "executor") if stock else ()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        out = folder / "run"
        source = EXAMPLE if hidden is None else folder / "bench.toml"
        with (
            processes.leaving_on_signals(),
            Loopback(folder / "up", clients, tls, stock=stock, in_memory=not file) as up,
            Watcher(up, out) as watcher,
        ):
            wanted = settings_for(up.folder, settings(clients, rounds, hidden, out))
            status = run_on(up_in(up.folder), source, wanted, lambda _: None)
            cpu, messages = watcher.spent()
            memory = megabytes(processes.marked(up.mark))
            asked = watcher.requests()
        records = [record for record in Folder.open(out).metrics() if record.round >= SKIPPED]
    return {
        "status": status,
        "clients": clients,
        "seconds_per_round": round(statistics.median(record.seconds for record in records), 2),
        "quartiles": [round(q, 2) for q in statistics.quantiles([record.seconds for record in records], n=4)[::2]],
        "missing": sum(record.missing for record in records),
        "cpu_seconds_per_message": round(sum(cpu.values()) / max(messages, 1), 3),
        "cpu_seconds_per_message_by_program": {name: round(t / max(messages, 1), 3) for name, t in cpu.items()},
        "megabytes_per_client": round(sum(memory[name] for name in on_clients) / clients),
        "megabytes": {name: round(total) for name, total in memory.items()},
        "largest_resident_megabytes": {name: round(size) for name, size in watcher.largest.items()},
        **({"requests_per_round": {path: round(n / len(records), 1) for path, n in asked}} if requests else {}),
        "load_average": os.getloadavg()[0],
    }


class Watcher:
    """Reads the processor's clocks in the background, so that those of processes that end are known, too."""

    def __init__(self, up: Loopback, out: Path) -> None:
        self._mark = up.mark
        self._log = f"{up.folder}/logs/superlink.log"
        self._out = out
        self._last: dict[int, tuple[str, float]] = {}
        self._start: Counter[str] = Counter()
        self._from = self._log_from = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.largest: dict[str, float] = {}

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def requests(self) -> list[tuple[str, int]]:
        """To the SuperLink since the second round, by what was asked."""
        return Counter(REQUEST.findall(read(self._log)[self._log_from :])).most_common()

    def spent(self) -> tuple[Counter[str], int]:
        """Processor seconds by program since the second round, and how many messages were answered in them."""
        self._look()
        now = self._totals()
        return Counter({name: now[name] - self._start[name] for name in now}), answered(self._out) - self._from

    def _watch(self) -> None:
        begun = False
        while not self._stop.wait(0.3):
            self._look()
            if not begun and (self._out / "metrics.jsonl").exists() and len(Folder(self._out).metrics()) > SKIPPED:
                begun, self._from, self._start = True, answered(self._out), self._totals()
                self._log_from = len(read(self._log))

    def _look(self) -> None:
        for pid in processes.marked(self._mark):
            for program, seconds in processor_seconds([pid]).items():
                self._last[pid] = (program, seconds)
                peak = LARGEST.search(read(f"/proc/{pid}/status"))
                self.largest[program] = max(self.largest.get(program, 0), int(peak[1]) / 1024 if peak else 0)

    def _totals(self) -> Counter[str]:
        totals: Counter[str] = Counter()
        for name, seconds in list(self._last.values()):
            totals[name] += seconds
        return totals


def answered(out: Path) -> int:
    """Messages answered in the rounds that are recorded; the start-up is not among them."""
    return sum(sum(record.roles.values()) for record in Folder(out).metrics() if record.round >= 0)


def processor_seconds(pids: list[int]) -> Counter[str]:
    """By program; with what its children have used that it has waited for."""
    totals: Counter[str] = Counter()
    for pid in pids:
        fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if (program := name_of(pid)) and fields:
            totals[program] += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return totals


def megabytes(pids: list[int]) -> Counter[str]:
    """Proportional set size by program."""
    totals: Counter[str] = Counter()
    for pid in pids:
        lines = [line for line in read(f"/proc/{pid}/smaps_rollup").splitlines() if line.startswith("Pss:")]
        if (program := name_of(pid)) and lines:
            totals[program] += int(lines[0].split()[1]) / 1024
    return totals


def name_of(pid: int) -> str | None:
    command = read(f"/proc/{pid}/cmdline")
    return next((name for word, name in PROGRAMS.items() if word in command), None)


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:  # ended meanwhile
        return ""


def bars() -> None:
    """What is aimed at, and what was measured."""
    print("| what | bar | measured | load average |\n|---|---:|---:|---:|", flush=True)
    for what, options, limits in BARS:
        found = measure(**options)
        for name, limit in limits.items():
            row = f"| {what}: {name.replace('_', ' ')} | ≤ {limit} | {found[name]} | {found['load_average']:.1f} |"
            print(row, flush=True)
        if "hidden" in options:
            sizes = ", ".join(f"{name} {size}" for name, size in found["largest_resident_megabytes"].items())
            print(f"| {what}: largest resident megabytes | – | {sizes} | |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=SKIPPED + 20)
    parser.add_argument("--hidden", type=int, default=None)
    for flag in ("--tls", "--stock", "--file", "--requests", "--bars"):
        parser.add_argument(flag, action="store_true")
    words = vars(parser.parse_args())
    if words.pop("bars"):
        bars()
    else:
        print(json.dumps(measure(**words), indent=2))
