"""One SuperLink and up to 1,000 light clients: what a server can take, measured without torch on any client.

    python benchmarks/federation_fleet.py --clients 50 200 1000 --rounds 5
    python benchmarks/federation_fleet.py --clients 50 200 --file       (the SuperLink's state in a file, not in memory)

The server is the real one, and so are the clients but for their work: each is a node as `fedamd federation client` runs
it (registered, with a heartbeat, asking at its own pace), a hundred of them in a process; it answers every instruction
at once with a stored reply. Ten join in a second. All clients are in every round of FedAvg (650 parameters). For each
number of clients: seconds a round, messages a second, and processor time and memory of SuperLink and server, as JSON.
"""

import argparse
import contextlib
import json
import logging
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from federation import megabytes, processor_seconds

from fedamd.errors import FedamdError
from fedamd.flower.local import processes
from fedamd.flower.local.loopback import Loopback

if TYPE_CHECKING:
    from fedamd.flower.local.launch import SuperLink

THREADS = 100  # clients of one process
JOINING = 10.0  # clients a second, at the start
FIRST = 1  # rounds that are not counted
HERE = ("SuperLink", "server")


class LightWorkers:
    """What a node asks for replies: no process, no work."""

    folder = Path("apps")

    def __init__(self, client: int, stored: dict[str, Any]) -> None:
        self._client = client
        self._stored = stored

    def ask(self, job: Any, fab: bytes, parcel: Any, seconds: float) -> Any:  # noqa: ARG002
        from flwr.app import ConfigRecord

        from fedamd.flower.node.private_flwr import Message, RecordDict, WireMessage

        whole, message = parcel.is_whole, parcel.opened()
        if message.metadata.message_type == "query":
            content = {"hello": ConfigRecord({"client": self._client, "samples": 10})}
        else:
            content = {"reply": ConfigRecord(self._stored | {"number": message.content["header"]["number"]})}
        return WireMessage.of(Message(RecordDict(content), reply_to=message), whole)

    def end_idle(self) -> None:
        """There is nothing to end."""


def one_client(client: int, address: str, folder: Path, stored: dict[str, Any], failed: list[str]) -> None:
    from fedamd.flower.metrics import Page
    from fedamd.flower.node.link import NodeIdentity, Options, connected
    from fedamd.flower.node.node import Node
    from fedamd.flower.node.pace import Pace

    try:
        identity = NodeIdentity(folder, f"client-{client}", None)
        with connected(Options(address, insecure=True), identity) as link:
            Node(link, LightWorkers(client, stored), {}, Pace(), Page("client"), None).serve()  # type: ignore[arg-type]
    except BaseException as error:  # a client that falls out is a result, not the end of the measurement
        failed.append(f"{type(error).__name__}: {error}")


def some_clients(
    clients: range, address: str, folder: Path, stored: dict[str, Any], failures: Any, pause: float
) -> None:
    processes.end_with_parent()
    logging.disable(logging.CRITICAL)
    failed: list[str] = []
    for client in clients:
        words = (client, address, folder, stored, failed)
        threading.Thread(target=one_client, args=words, daemon=True).start()
        time.sleep(pause)
    while True:
        time.sleep(1)
        failures.value = len(failed)


def settings(clients: int, rounds: int, out: Path) -> dict[str, Any]:
    from fedamd.flower.app.settings import flatten

    raw = {
        "clients": clients,
        "cohort": clients,
        "rounds": rounds,
        "model": {"name": "softmax"},
        "partition": {"name": "iid"},
        "algorithm": {"name": "fedavg", "steps": 1, "small_batch": 1, "eta_l": 1e-6},
        "federation": {"folder": str(out), "deadline": 300, "start_wait": 900},
    }
    return flatten(raw)


def stored_reply(folder: Path) -> dict[str, Any]:
    """What a client of this run answers, taken from one that computes."""
    from fedamd.flower.app.mailbox import Mailbox
    from fedamd.flower.app.server import lead
    from fedamd.flower.local.inprocess import InProcessGrid, participants

    class Listening(InProcessGrid):
        def answer(self, message: Any) -> Any:
            reply = super().answer(message)
            if reply is not None and "reply" in reply.content:
                found.append(dict(reply.content["reply"]))
            return reply

    found: list[dict[str, Any]] = []
    plain = settings(1, 1, folder / "rehearsal")
    lead(Mailbox(Listening(participants([0], lambda _: str(folder / "state")), plain)), plain)
    return found[-1]


def measure(clients: int, rounds: int, file: bool) -> dict[str, object]:
    from fedamd.flower.local.launch import settings_for, up_in
    from fedamd.runs.folder import SUMMARY, Folder

    with tempfile.TemporaryDirectory() as temporary, processes.leaving_on_signals():
        folder = Path(temporary)
        stored = stored_reply(folder)
        with Loopback(folder / "up", 0, in_memory=not file) as up:
            context = multiprocessing.get_context("spawn")
            groups = [range(first, min(first + THREADS, clients)) for first in range(0, clients, THREADS)]
            failures = [context.Value("i", 0) for _ in groups]
            words = (up.address, folder / "fleet", stored)
            fleet = [
                context.Process(target=some_clients, args=(group, *words, count, len(groups) / JOINING), daemon=True)
                for group, count in zip(groups, failures, strict=True)
            ]
            for process in fleet:
                process.start()
            out = folder / "run"
            begun = time.monotonic()
            superlink = up_in(up.folder)
            run = superlink.submit(folder / "fleet.toml", settings_for(up.folder, settings(clients, rounds, out)))
            until(lambda: len(Folder(out).metrics()) > FIRST, superlink, run)
            first, before = time.monotonic(), processor_seconds(processes.marked(up.mark))
            until(lambda: len(Folder(out).metrics()) > rounds or (out / SUMMARY).exists(), superlink, run)
            seconds, after = time.monotonic() - first, processor_seconds(processes.marked(up.mark))
            memory = megabytes(processes.marked(up.mark))
            records = [record for record in Folder(out).metrics() if record.round >= FIRST]
            for process in fleet:
                process.kill()
    answered = sum(sum(record.roles.values()) for record in records)
    median = statistics.median(record.seconds for record in records)
    return {
        "clients": clients,
        "state": "file" if file else "memory",
        "seconds_until_the_first_round_is_done": round(first - begun),
        "seconds_per_round": round(median, 2),
        "messages_per_second": round(clients / median, 1),
        "missing": sum(record.missing for record in records),
        "processor_share": {name: round((after[name] - before[name]) / seconds, 2) for name in HERE},
        "processor_ms_per_message": {
            name: round(1000 * (after[name] - before[name]) / max(answered, 1), 1) for name in HERE
        },
        "megabytes": {name: round(memory[name]) for name in HERE},
        "fallen_out": sum(count.value for count in failures),
        "load_average": round(os.getloadavg()[0], 1),
    }


def until(done: Callable[[], bool], superlink: "SuperLink", run: str, seconds: float = 1800.0) -> None:
    """Wait; a run that Flower has ended meanwhile is told with its log."""
    end, looked = time.monotonic() + seconds, time.monotonic()
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"not done after {seconds:.0f} s")
        if time.monotonic() > looked + 60:
            looked = time.monotonic()
            with contextlib.suppress(FedamdError):  # too busy to say
                if (status := superlink.status(run)).startswith("finished") and not done():
                    superlink.follow(run, print)
                    raise RuntimeError(status)
        time.sleep(0.2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--file", action="store_true", help="the SuperLink's state in a file, not in memory")
    words = parser.parse_args()
    for number in words.clients:
        print(json.dumps(measure(number, words.rounds, words.file), indent=2), flush=True)
