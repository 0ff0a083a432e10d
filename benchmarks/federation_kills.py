"""A federation under random kill −9 of workers, nodes and the server: rounds stay contiguous, nothing held is lost.

    python benchmarks/federation_kills.py --rounds 100 --every 4

The digits example with caching gradients held by the clients. Every few seconds, from the start-up on, a worker, a node
(started again at once, as a supervisor would) or the server (submitted again) is killed. At the end the server's sum of
the caching gradients is compared with the versions it has accepted, read from the clients' own disks. Prints JSON.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from fedamd.flower.app.memory import Memory
from fedamd.flower.local import processes
from fedamd.flower.local.launch import read_app, settings_for, up_in
from fedamd.flower.local.loopback import Loopback
from fedamd.runs import checkpoint
from fedamd.runs.folder import CHECKPOINT, SUMMARY, Folder

EXAMPLE = Path(__file__).parents[1] / "examples" / "flower_digits"


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


class Trouble:
    """Kills what it is told to, and brings back what nobody else would."""

    def __init__(self, up: Loopback, settings: dict[str, object], seed: int) -> None:
        self.killed: Counter[str] = Counter()
        self.early = 0
        self._up = up
        self._settings = settings
        self._chance = random.Random(seed)

    def submit(self) -> None:
        up_in(self._up.folder).submit(EXAMPLE, self._settings)

    def make(self) -> None:
        """A worker mostly, sometimes a node, rarely the server."""
        kind = self._chance.choices(["worker", "node", "server"], [80, 15, 5])[0]
        victims = self._found(kind)
        if not victims:
            return
        victim = self._chance.choice(victims)
        with contextlib.suppress(OSError):
            os.kill(victim, signal.SIGKILL)
        self.killed[kind] += 1
        if kind == "server":
            self.submit()
        time.sleep(0.5)
        self._up.revive()

    def _found(self, kind: str) -> list[int]:
        if kind == "node":
            return [process.pid for process in self._up.nodes.values()]
        commands = {pid: command_of(pid) for pid in processes.marked(self._up.mark)}
        if kind == "server":
            return [pid for pid, command in commands.items() if "flwr-serverapp" in command]
        forked = [pid for pid, command in commands.items() if "flower.node.forkserver" in command]
        return [pid for pid in forked if parent_of(pid) in forked]


def difference(out: Path, state: Path) -> tuple[float, int]:
    """|server's total − Σ accepted v| in the largest component, and how many clients have one."""
    tensors, _ = checkpoint.load(out / CHECKPOINT)
    name = json.loads((out / "federation.json").read_text())["run"]
    versions = dict(zip(tensors["held.clients"].tolist(), tensors["held.accepted"].tolist(), strict=True))
    held = torch.stack([Memory(state, client, name).read(number)["v"] for client, number in versions.items()])
    return float((tensors["state.total"] - held.sum(0)).abs().max()), len(versions)


def measure(clients: int, rounds: int, every: float, seed: int, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        out = folder / "run"
        own = {"clients": clients, "cohort": max(1, 3 * clients // 4), "rounds": rounds, "federation.deadline": 30}
        flat = dict(read_app(EXAMPLE)) | own | {"federation.folder": str(out), "federation.start_wait": 60}
        with processes.leaving_on_signals(), Loopback(folder / "up", clients) as up:
            trouble = Trouble(up, settings_for(up.folder, flat), seed)
            trouble.submit()
            began = time.monotonic()
            while not (out / SUMMARY).exists() and time.monotonic() - began < seconds:
                time.sleep(every)
                trouble.make()
                if len(Folder(out).metrics()) < 2:  # the start-up is a line of its own
                    trouble.early = trouble.killed.total()
            state = up.state
        records = Folder(out).metrics()
        away, held = difference(out, state)
    return {
        "rounds": len(records) - 1,
        "contiguous": [record.round for record in records] == list(range(-1, len(records) - 1)),
        "killed": dict(trouble.killed),
        "killed_before_the_first_round": trouble.early,
        "lost": sum(record.extras["lost"] for record in records),
        "missing": sum(record.missing for record in records),
        "clients_with_an_accepted_version": held,
        "largest_difference": away,
        "seconds": round(time.monotonic() - began),
        "load_average": os.getloadavg()[0],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--every", type=float, default=4.0, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=900.0, help="when to give up")
    print(json.dumps(measure(**vars(parser.parse_args())), indent=2))
