"""Malformed inputs by the thousand, for every parser there is: each kind makes one from chance, and has it read.

A kind is a function of (chance, scratch) that raises a refusal (`REFUSED`), or understands what it reads. What is read
is broken in one of two ways: bytes that are damaged, and files that are whole but say what makes no sense.
"""

import contextlib
import gzip
import io
import json
import pickle
import random
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from safetensors.torch import save

import fedamd
from crash.odd import bent, damaged, odd, odd_text
from fedamd.algorithms.base import Batches
from fedamd.data import load
from fedamd.data.cifar import PIXELS, _binary, _pickled
from fedamd.data.idx import read_idx, read_labelled
from fedamd.data.partition import partitioner
from fedamd.engines.disk_store import DiskStore
from fedamd.flower.app import wire
from fedamd.flower.app.memory import Memory
from fedamd.participation import Devices, TraceSampler
from fedamd.report.stored import read_runs
from fedamd.report.write import report
from fedamd.runs import checkpoint
from fedamd.runs.config import Config, load_config, parse_setting, to_toml
from fedamd.runs.experiment import build_experiment
from fedamd.runs.model_file import load_weights
from fedamd.runs.sealed import Chain, read_json, sealed_json
from fedamd.runs.verify import verify
from fedamd.studies.paper.store import PaperStore

Kind = Callable[[random.Random, Path], object]
CONFIG: dict[str, Any] = {
    "data": {"name": "quadratic", "samples": 3, "dimension": 4},
    "partition": {"name": "natural"},
    "model": {"name": "quadratic"},
    "algorithm": {"name": "fedamd", "eta_l": 0.1, "eta_s": 1.0, "p": 0.5, "steps": 2, "small_batch": 1},
    "sampler": {"name": "markov", "comes": 0.5, "leaves": 0.1},
    "schedules": {"eta_l": {"name": "cosine"}},
    "stop": {"metric": "loss", "patience": 3},
    "devices": {"spread": 0.5},
    "metrics": ["mse"],
    "clients": 5,
    "cohort": 2,
    "rounds": 3,
    "seed": 1,
    "test_share": 0.3,
    "failure_rate": 0.1,
    "deadline": 9.0,
    "engine": "loop",
    "dtype": "float32",
    "client_store": "memory",
}
RUN = {key: CONFIG[key] for key in ("data", "model", "clients", "cohort", "rounds", "seed", "engine")}
METHODS = ("fedamd", "fedavg", "scaffold", "feddyn", "mime", "fedlin", "anchored", "fedadam", "vr-marina", "nothing")


# --- configs and settings ---


def made(config: Config) -> None:
    """Build what a config names, where that is little."""
    options = config.data.options
    sizes = [config.clients, *(options.get(name, 1) for name in ("samples", "dimension", "clients"))]
    if all(isinstance(size, int) and size < 200 for size in sizes):
        build_experiment(config)


def config_text(chance: random.Random, scratch: Path) -> None:
    """A TOML file with damage."""
    path = scratch / "config.toml"
    path.write_bytes(damaged(chance, to_toml(CONFIG).encode()))
    made(load_config(path))


def config_values(chance: random.Random, scratch: Path) -> None:  # noqa: ARG001
    """Settings of which some make no sense."""
    plain = bent(chance, CONFIG | {"algorithm": {"name": chance.choice(METHODS)}})
    made(load_config(plain if isinstance(plain, dict) else {"clients": plain}))


def setting(chance: random.Random, scratch: Path) -> None:  # noqa: ARG001
    """--set key=value."""
    sections = [name for name, value in CONFIG.items() if isinstance(value, dict)]
    key = chance.choice([*CONFIG, *(f"{name}.{odd_text(chance)}" for name in sections), "algorithm.p", "model.hidden"])
    value = chance.choice([odd_text(chance), json.dumps(odd(chance)), to_toml({"x": "y"}), "1" * 5000, "[" * 999])
    made(load_config(CONFIG, dict([parse_setting(chance.choice([f"{key}={value}", key, value]))])))


# --- data ---


def idx(chance: random.Random, scratch: Path) -> None:
    """Images and labels, plain or zipped."""
    shapes = (chance.randrange(1, 5), 3, 2), (chance.randrange(1, 5),)
    paths = []
    for number, shape in enumerate(shapes):
        content = struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(int(np.prod(shape)))
        content = gzip.compress(content) if chance.random() < 0.4 else content
        paths.append(scratch / f"idx{number}")
        paths[-1].write_bytes(damaged(chance, content))
    read_labelled(*paths)
    read_idx(paths[0], chance.randrange(0, 4))


def cifar_binary(chance: random.Random, scratch: Path) -> None:
    path = scratch / "batch.bin"
    path.write_bytes(damaged(chance, bytes(2 * (PIXELS + 1))))
    _binary(chance.choice((1, 2)))(path)


def cifar_python(chance: random.Random, scratch: Path) -> None:
    """Pickles: damaged, or whole with other things in them."""
    content: Any = {b"data": np.zeros((2, PIXELS), np.uint8), b"labels": [1, 2]}
    if chance.random() < 0.5:
        content = chance.choice(
            [odd(chance), content | {b"data": odd(chance)}, content | {b"labels": [odd(chance)] * 2}]
        )
    path = scratch / "batch"
    path.write_bytes(damaged(chance, pickle.dumps(content, protocol=chance.randrange(2, 5))))
    _pickled("labels")(path)


def leaf(chance: random.Random, scratch: Path) -> None:
    user = {"x": [[0.0, 1.0], [1.0, 0.5]], "y": [0, 1]}
    content: Any = {"users": ["a", "b"], "num_samples": [2, 2], "user_data": {"a": user, "b": user}}
    for part in ("train", "test"):
        (scratch / "leaf" / part).mkdir(parents=True, exist_ok=True)
        text = json.dumps(bent(chance, content) if chance.random() < 0.6 else content).encode()
        (scratch / "leaf" / part / "all.json").write_bytes(damaged(chance, text) if chance.random() < 0.4 else text)
    load("leaf", path=str(scratch / "leaf"), shape=chance.choice([None, [2], [1, 2], odd(chance)]))


def csv(chance: random.Random, scratch: Path) -> None:
    path = scratch / "table.csv"
    rows = [[str(odd_text(chance) if chance.random() < 0.05 else k % 3) for k in range(n, n + 4)] for n in range(8)]
    between = chance.choice(";,\t")
    text = "\n".join(between.join(row) for row in [["a", "b", "c", "who"], *rows])
    raw = text.encode(chance.choice(["utf-8", "utf-8", "utf-16"]), errors="surrogatepass")
    path.write_bytes(damaged(chance, raw) if chance.random() < 0.5 else raw)
    load("csv", path=str(path), target=chance.choice(["a", "zz", ""]), client=chance.choice([None, "who", "b"]))


def npz(chance: random.Random, scratch: Path) -> None:
    arrays: dict[str, Any] = {"inputs": np.zeros((6, 2), np.float32), "targets": np.arange(6) % 2}
    if chance.random() < 0.5:
        name, value = chance.choice(["inputs", "targets", "clients", "test_inputs"]), odd(chance)
        kind = chance.choice([None, "f8", "i4", "U3", "c8", "M8[s]", "?"])
        try:
            arrays[name] = np.array([value] * chance.randrange(7), dtype=kind)
        except (TypeError, ValueError, OverflowError):
            arrays[name] = np.array(0)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path = scratch / "arrays.npz"
    path.write_bytes(damaged(chance, buffer.getvalue()) if chance.random() < 0.6 else buffer.getvalue())
    load("npz", path=str(path), tokens=chance.random() < 0.3)


def lists(chance: random.Random, scratch: Path) -> None:
    """A file that says who owns what."""
    path = scratch / "owners.json"
    path.write_bytes(damaged(chance, json.dumps(bent(chance, [[0, 1], [2], [3, 4]])).encode()))
    data = load("quadratic", clients=5, samples=3)
    partitioner("lists", source=path)(data, 3, 0)


def trace(chance: random.Random, scratch: Path) -> None:
    path = scratch / f"trace-{chance.random()}.csv"  # traces are read once
    rows = [f"{client},{client},9" for client in range(4)]
    rows[chance.randrange(4)] = ",".join(odd_text(chance) for _ in range(chance.randrange(5)))
    path.write_bytes(damaged(chance, "\n".join(["client,from,to", *rows]).encode(errors="surrogatepass")))
    sampler = TraceSampler(str(path))
    sampler.cohort(0, 0, 2, [1] * 4)
    path.unlink()


def devices(chance: random.Random, scratch: Path) -> None:
    path = scratch / "devices.csv"
    rows = [f"{client},10,1,1" for client in range(4)]
    rows[chance.randrange(4)] = ",".join(odd_text(chance) for _ in range(chance.randrange(3, 5)))
    text = "\n".join(["client,samples_per_second,mbit_up,mbit_down", *rows])
    path.write_bytes(damaged(chance, text.encode(errors="surrogatepass")))
    Devices.of(chance.choice([str(path), {"spread": odd(chance)}, {odd_text(chance): 1.0}]), 4, 0)


# --- what a run leaves ---


def finished(scratch: Path) -> Path:
    """A small run that is whole, made once; every case begins from a copy of what it changes."""
    folder = scratch / "run"
    if not folder.exists():
        options = {"checkpoint_every": 1, "client_store": "disk", "algorithm": {"name": "fedamd", "cache": "client"}}
        fedamd.run(RUN | options, out=folder)
    return folder


class Changed:
    """A file of the finished run for the time of a case."""

    def __init__(self, scratch: Path, name: str) -> None:
        self.path = finished(scratch) / name
        self.folder = self.path.parent
        self.good = self.path.read_bytes()

    def __enter__(self) -> "Changed":
        return self

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.good)


def looked_at(folder: Path, out: Path) -> None:
    """All that reads a folder and changes nothing in it."""
    verify(folder)
    read_runs([folder])
    report([folder], out / "report.html")


def checkpoints(chance: random.Random, scratch: Path) -> None:
    """Whole files with right checksums, and facts or tensors that make no sense."""
    with (
        Changed(scratch, "checkpoint.safetensors") as one,
        Changed(scratch, "checkpoint.previous.safetensors") as other,
    ):
        tensors, facts = checkpoint.load(one.path)
        if chance.random() < 0.5:
            facts = bent(chance, facts)
        else:
            name = chance.choice([*tensors, "state.other"])
            tensors[name] = chance.choice([torch.zeros(chance.randrange(5)), torch.ones(2, 2), torch.tensor(True)])
        checkpoint.save(one.path, tensors, facts if isinstance(facts, dict) else {"t": facts})
        other.path.unlink()  # there is no good one to go back to
        verify(one.folder)
        fedamd.resume(one.folder)


def checkpoint_bytes(chance: random.Random, scratch: Path) -> None:
    with Changed(scratch, "checkpoint.safetensors") as one:
        one.path.write_bytes(damaged(chance, one.good))
        checkpoint.load(one.path)


def metrics(chance: random.Random, scratch: Path) -> None:
    """Lines with right checksums that tell of no round."""
    with Changed(scratch, "metrics.jsonl") as one:
        chain = Chain()
        lines = [json.loads(line) for line in one.good.decode().splitlines()]
        for line in lines:
            line.pop("check")
        where = chance.randrange(len(lines))
        lines[where] = bent(chance, lines[where])
        kept = [chain.line(line) for line in lines if isinstance(line, dict)]
        one.path.write_bytes("".join(f"{line}\n" for line in kept).encode())
        looked_at(one.folder, scratch)


def described(chance: random.Random, scratch: Path) -> None:
    """summary.json and environment.json with right checksums."""
    with Changed(scratch, chance.choice(["summary.json", "environment.json"])) as one:
        told = bent(chance, read_json(one.path))
        one.path.write_text(sealed_json(told) if isinstance(told, dict) else json.dumps(told))
        looked_at(one.folder, scratch)


def store(chance: random.Random, scratch: Path) -> None:
    """What clients hold: rows of other types, or a damaged file."""
    path = scratch / "held.sqlite"
    path.write_bytes((finished(scratch) / "held.sqlite").read_bytes())
    if chance.random() < 0.6:
        with contextlib.suppress(sqlite3.IntegrityError), sqlite3.connect(path) as file:
            columns = [f"vectors SET {name}" for name in ("client", "round", "name", "dtype", "checksum", "vector")]
            where = chance.choice([*columns, "marks SET round", "marks SET rows", "marks SET digest"])
            value = chance.choice([None, -1, 2**62, 1.5, "x", b"\xff", "\x00"])
            file.execute(f"UPDATE OR REPLACE {where} = ?", (value,))
        file.close()
    else:
        path.write_bytes(damaged(chance, path.read_bytes()))
    held = DiskStore(path)
    held.check()
    held.rewind(chance.choice([None, 1, 3]))
    held.read("bullseye", [0, 1], torch.zeros(4))


def memory(chance: random.Random, scratch: Path) -> None:
    """What a Flower client holds."""
    path = scratch / "client-0.sqlite"
    path.unlink(missing_ok=True)
    held = Memory(scratch, 0, "run")
    held.write(1, {"v": torch.zeros(3)}, 0, 0)
    path.write_bytes(damaged(chance, path.read_bytes()))
    for number in held.numbers():
        held.read(number)
    held.write(9, {"v": torch.ones(3)}, 1, 1)


def results(chance: random.Random, scratch: Path) -> None:
    """The paper's store."""
    line = {"hash": "a", "label": "x", "costs": [[1, 2]], "rounds_cost": [0, 0], "accuracy": [0.1, 0.2], "status": "x"}
    (scratch / "paper").mkdir(exist_ok=True)
    raw = f"{json.dumps(bent(chance, line))}\n".encode()
    (scratch / "paper" / "table2.jsonl").write_bytes(damaged(chance, raw) if chance.random() < 0.4 else raw)
    PaperStore(scratch / "paper")


def weights(chance: random.Random, scratch: Path) -> None:
    path = scratch / "w.safetensors"
    path.write_bytes(damaged(chance, save({"0.weight": torch.zeros(2, 2), "0.bias": torch.zeros(chance.randrange(3))})))
    load_weights(torch.nn.Sequential(torch.nn.Linear(2, 2)), path)


# --- what comes over the network ---

FORM = wire.Form({"delta": (torch.Size([3]), torch.float32)}, has_loss=True)


def _record(chance: random.Random, plain: dict[str, Any]) -> ConfigRecord:
    other: list[Any] = [0, -1, 1.5, "x", b"\xff", True, [1, -2], [], [1.5], ["a"]]
    kept = {key: value for key, value in plain.items() if chance.random() > 0.05}
    return ConfigRecord({key: chance.choice(other) if chance.random() < 0.2 else one for key, one in kept.items()})


def answer(chance: random.Random, scratch: Path) -> None:  # noqa: ARG001
    """A client's reply, which may be anything."""
    content = wire.write_answer(wire.Answer(7, {"delta": torch.ones(3)}, 0.5))
    records: dict[str, Any] = {"reply": _record(chance, dict(content["reply"]))}
    if chance.random() < 0.4:
        kinds, shape = ["float32", "float64", "bfloat16", "object", ""], (chance.randrange(-2, 5),)
        records["vectors"] = ArrayRecord(
            {"delta": Array(chance.choice(kinds), shape, chance.choice(["fedamd.raw", "numpy.ndarray"]), bytes(12))}
        )
    if chance.random() < 0.1:
        records[chance.choice(["", "x", "reply ", "\x00"])] = ConfigRecord({"a": 1})
    wire.read_answer(RecordDict(records), 7, FORM)


def instruction(chance: random.Random, scratch: Path) -> None:  # noqa: ARG001
    """What a server that is none may send."""
    header = wire.Header("run", "miner", 0, 1, 2, 0, 3, 1, 1, 9.0)
    payload = wire.write_payload({"x": torch.ones(3), "lr": 0.1}, (Batches(1, 2),))
    content = wire.write_instruction(header, payload)
    records = {name: _record(chance, dict(record)) for name, record in content.items() if chance.random() > 0.05}
    wire.read_instruction(RecordDict(records), "cpu")


KINDS: dict[str, Kind] = {
    one.__name__: one
    for one in (
        *(config_text, config_values, setting, idx, cifar_binary, cifar_python, leaf, csv, npz, lists, trace, devices),
        *(checkpoints, checkpoint_bytes, metrics, described, store, memory, results, weights, answer, instruction),
    )
}
