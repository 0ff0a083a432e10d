"""One SuperLink and up to 1,000 light clients: what the server can take, measured without torch on any client.

    python benchmarks/federation_fleet.py --clients 100 300 1000 --pause 3

Every client is a connection of Flower's own (registered, with a heartbeat, asking for messages every `--pause` seconds)
in one of a few processes. For each number of clients: the questions a second the SuperLink answers, how long one takes,
and the SuperLink's processor time and memory. Prints JSON.
"""

import argparse
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from federation import megabytes, processor_seconds

from fedamd.flower.local import processes
from fedamd.flower.local.loopback import Loopback

THREADS = 50  # clients of one process


def one_client(address: str, pause: float, begin: float, end: float, took: list[float], failed: list[str]) -> None:
    from fedamd.flower.node.private_flwr import http_request_response

    try:
        with http_request_response(address, True, None, None) as (_, receive, *_others):
            time.sleep(random.uniform(0, pause))
            while time.time() < end:
                started = time.perf_counter()
                receive()
                if time.time() > begin:
                    took.append(time.perf_counter() - started)
                time.sleep(pause * random.uniform(0.8, 1.2))
    except BaseException as error:  # a client that falls out is a result, not the end of the measurement
        failed.append(f"{type(error).__name__}: {error}")


def some_clients(count: int, address: str, pause: float, begin: float, end: float, results: Any) -> None:
    import logging

    logging.disable(logging.CRITICAL)
    took: list[float] = []
    failed: list[str] = []
    threads = [
        threading.Thread(target=one_client, args=(address, pause, begin, end, took, failed), daemon=True)
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, end - time.time()) + 0.5)
    results.put((took, failed))
    results.close()
    results.join_thread()
    os._exit(0)  # without a thousand farewells


def measure(clients: int, pause: float, seconds: float, file: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as temporary, Loopback(Path(temporary), 0, in_memory=not file) as up:
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        begin = time.time() + 10 + clients / 25  # registration takes its time
        end = begin + seconds
        sizes = [min(THREADS, clients - first) for first in range(0, clients, THREADS)]
        several = [
            context.Process(target=some_clients, args=(n, up.address, pause, begin, end, results)) for n in sizes
        ]
        for process in several:
            process.start()
        time.sleep(max(0.0, begin - time.time()))
        before = processor_seconds(processes.marked(up.mark))["SuperLink"]
        time.sleep(max(0.0, end - time.time()))
        used = processor_seconds(processes.marked(up.mark))["SuperLink"] - before
        memory = megabytes(processes.marked(up.mark))["SuperLink"]
        answers = [results.get(timeout=120) for _ in several]
        for process in several:
            process.join(30)
            process.kill()
    took = [one for part, _ in answers for one in part]
    failed = [one for _, part in answers for one in part]
    return {
        "clients": clients,
        "asked_every_seconds": pause,
        "wanted_per_second": round(clients / pause, 1),
        "answered_per_second": round(len(took) / seconds, 1),
        "median_seconds": round(statistics.median(took), 4) if took else None,
        "slowest_of_100": round(statistics.quantiles(took, n=100)[-1], 4) if len(took) > 1 else None,
        "superlink_processor_share": round(used / seconds, 2),
        "superlink_processor_ms_per_question": round(1000 * used / max(len(took), 1), 2),
        "superlink_megabytes": round(memory),
        "fallen_out": len(failed),
        "load_average": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--pause", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--file", action="store_true", help="the SuperLink's state in a file, not in memory")
    words = parser.parse_args()
    print(json.dumps([measure(n, words.pause, words.seconds, words.file) for n in words.clients], indent=2))
