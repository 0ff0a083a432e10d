"""What a round of a real federation costs on one machine: seconds, and processor time for a message.

    python benchmarks/federation.py --clients 4 --rounds 5 [--hidden 133334]

Starts a SuperLink and SuperNodes on 127.0.0.1, trains FedAvg on digits with everyone in every round, and reads the
processor time of all processes from /proc before they are ended. Prints JSON.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from fedamd.flower import processes
from fedamd.flower.launch import run_on, settings_for, up_in
from fedamd.flower.loopback import Loopback
from fedamd.flower.settings import flatten
from fedamd.runs.records import Folder


def measure(clients: int, rounds: int, hidden: int) -> dict[str, object]:
    """Run once and read the clocks."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        out = folder / "run"
        raw = {
            "clients": clients,
            "cohort": clients,
            "rounds": rounds,
            "oracle": "autograd",
            "partition": {"name": "iid"},
            "model": {"name": "mlp", "hidden": hidden},
            "algorithm": {"name": "fedavg", "steps": 5, "small_batch": 16},
            "federation": {"folder": str(out)},
        }
        with Loopback(folder / "up", clients) as up:
            status = run_on(up_in(up.folder), folder / "bench.toml", settings_for(up.folder, flatten(raw)))
            cpu = {
                name: seconds_of(processes.marked(up.mark), name) for name in ("supernode", "superlink", "superexec")
            }
        records = [record for record in Folder.open(out).metrics() if record["round"] >= 0]
    messages = clients * (rounds + 1)  # one more for everyone to say who it is
    return {
        "status": status,
        "seconds_per_round": round(statistics.median(record["seconds"] for record in records), 2),
        "each": [round(record["seconds"], 1) for record in records],
        "cpu_seconds": cpu,
        "cpu_seconds_per_message": round(sum(cpu.values()) / messages, 2),
        "megabytes_on_the_wire_per_message": round(records[-1]["wire_bits_up"] / 8e6 / (clients * rounds), 3),
    }


def seconds_of(pids: list[int], program: str) -> float:
    """Processor time of these processes and of the children they have waited for."""
    total = 0
    for pid in pids:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if program in command.split("\0")[1 if "python" in command.split("\0")[0] else 0]:
            total += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return round(total / os.sysconf("SC_CLK_TCK"), 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=100)
    print(json.dumps(measure(**vars(parser.parse_args())), indent=2))
