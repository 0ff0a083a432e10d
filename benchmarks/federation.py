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

from fedamd.flower.app.settings import flatten
from fedamd.flower.local import processes
from fedamd.flower.local.launch import run_on, settings_for, up_in
from fedamd.flower.local.loopback import Loopback
from fedamd.runs.folder import Folder


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
            cpu = processor_seconds(processes.marked(up.mark))
        records = [record for record in Folder.open(out).metrics() if record.round >= 0]
    messages = clients * (rounds + 1)  # one more for everyone to say who it is
    return {
        "status": status,
        "seconds_per_round": round(statistics.median(record.seconds for record in records), 2),
        "each": [round(record.seconds, 1) for record in records],
        "cpu_seconds": cpu,
        "cpu_seconds_per_message": round(sum(cpu.values()) / messages, 2),
        "megabytes_on_the_wire_per_message": round(records[-1].extras["wire_bits_up"] / 8e6 / (clients * rounds), 3),
    }


def processor_seconds(pids: list[int]) -> dict[str, float]:
    """Of Flower's own programs, and of the apps they have started and waited for (one process for every message)."""
    totals = dict.fromkeys(("flower-superlink", "flower-supernode", "flower-superexec", "apps"), 0.0)
    for pid in pids:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        program = next((name for name in totals if f"/{name}\0" in command), None)
        if program is not None:
            own, children = (sum(map(int, fields[at : at + 2])) / os.sysconf("SC_CLK_TCK") for at in (11, 13))
            totals[program] += own
            totals["apps"] += children if program == "flower-superexec" else 0
    return {name: round(total, 1) for name, total in totals.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=100)
    print(json.dumps(measure(**vars(parser.parse_args())), indent=2))
