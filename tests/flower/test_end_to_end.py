"""Real processes: a SuperLink and clients that stay on 127.0.0.1, and Flower's own SuperNodes beside them.

Everything that can go wrong in a client is tested without processes, in test_engine.py; here it is tested that the
processes are what the in-process federation says they are. What goes wrong with processes is in test_real_trouble.py.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from flower_support import simulate
from process_support import CLIENTS, Runner, raw_config

from fedamd.flower.local import processes
from fedamd.flower.local.certificates import write_client_key
from fedamd.flower.local.launch import run_on
from fedamd.flower.local.loopback import Loopback

pytestmark = [pytest.mark.flower, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedamd", "p": 0.5, "cache": "client"},
        {"name": "fedamd", "p": 0.5, "cache": "server", "start_up": "lazy"},
        {"name": "fedamd", "tau": 2, "cache": "server", "start_up": "lazy"},
        {"name": "scaffold", "start_up": "zeros"},
        {"name": "fedavg"},
    ],
    ids=lambda algorithm: algorithm["name"],
)
def test_real_processes_come_to_the_model_of_the_simulation(
    plain: Loopback, tmp_path: Path, algorithm: dict[str, Any]
) -> None:
    raw = raw_config(algorithm)
    runner = Runner(plain, tmp_path / "run")
    assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)


def test_a_failed_run_is_reported_as_failed(plain: Loopback, tmp_path: Path) -> None:
    """Nobody can be client 2 of 3 here, and all three are wanted."""
    runner = Runner(plain, tmp_path / "run")
    raw = raw_config({"name": "fedavg"}, clients=3, cohort=3)
    settings = runner.settings(raw, start_wait=0, min_replies=3, attempts=1)
    assert run_on(runner.link(), tmp_path / "a.toml", settings) == "finished:failed"


def test_a_model_of_ten_million_parameters_goes_through(plain: Loopback, tmp_path: Path) -> None:
    """mlp on 64 pixels and 10 classes has 75·hidden + 10 parameters."""
    model = {"name": "mlp", "hidden": 133_334}
    raw = raw_config({"name": "fedavg", "steps": 1}, rounds=1, model=model, oracle="autograd")
    runner = Runner(plain, tmp_path / "run")
    assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    assert runner.model().numel() == 10_000_060
    assert runner.records()[-1].extras["wire_bits_up"] > CLIENTS * 32 * 10**7


def test_compressed_replies_are_counted_compressed(plain: Loopback, tmp_path: Path) -> None:
    raw = raw_config({}) | {"algorithm": {"name": "vr-marina", "compressor": "rand-k", "fraction": 0.2}}
    runner = Runner(plain, tmp_path / "run")
    assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    reference = simulate(raw)
    torch.testing.assert_close(runner.model(), reference.state.x, atol=1e-6, rtol=0)
    assert runner.records()[-1].costs["bits_up"] == reference.ledger.bits_up


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_vectors_travel_in_half_the_bits(plain: Loopback, tmp_path: Path, kind: str) -> None:
    """mlp on 64 pixels and 10 classes has 75·100 + 10 parameters, 16 bits each."""
    raw = raw_config({"name": "fedavg"}, model={"name": "mlp", "hidden": 100})
    runner = Runner(plain, tmp_path / "run")
    settings = runner.settings(raw, wire_dtype=kind)
    assert run_on(runner.link(), tmp_path / "a.toml", settings) == "finished:completed"
    last = runner.records()[-1]
    assert last.costs["bits_up"] == 2 * CLIENTS * 16 * 7510
    assert last.costs["bits_up"] < last.extras["wire_bits_up"] < 1.2 * last.costs["bits_up"]
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=0.02, rtol=0)


def test_flowers_own_nodes_and_clients_that_stay_work_side_by_side(tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "p": 0.5, "cache": "client"})
    with Loopback(tmp_path / "federation", CLIENTS) as up:
        processes.end(up.nodes[1])
        up.stock = True
        up.start_client(1)
        runner = Runner(up, tmp_path / "run")
        assert run_on(runner.link(), tmp_path / "a.toml", runner.settings(raw)) == "finished:completed"
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)


def test_tls_and_keys(tmp_path: Path) -> None:
    raw = raw_config({"name": "fedamd", "tau": 2, "cache": "client", "start_up": "lazy"})
    with Loopback(tmp_path / "federation", CLIENTS, tls=True) as up:
        runner = Runner(up, tmp_path / "run")
        settings = runner.settings(raw)
        assert settings["federation.keys"] == str(up.keys)
        assert stranger_is_refused(up, tmp_path / "stranger")
        assert run_on(runner.link(), tmp_path / "a.toml", settings) == "finished:completed"
        mark = up.mark
    torch.testing.assert_close(runner.model(), simulate(raw).state.x, atol=1e-6, rtol=0)
    assert all(record.extras["refused"] == 0 for record in runner.records())
    assert processes.marked(mark) == []


def stranger_is_refused(up: Loopback, key: Path) -> bool:
    """A SuperNode whose key was never registered ends by itself, and says why."""
    write_client_key(key)
    certificate = ["--root-certificates", str(up.folder / "keys" / "ca.crt")]
    command = [sys.executable, "-m", "fedamd", "federation", "client", *certificate, "--superlink", up.address]
    command += ["--auth-supernode-private-key", str(key), "--max-retries", "2"]
    command += ["--node-config", f'partition-id=1 state-dir="{key.parent / "elsewhere"}"']
    log = up.folder / "logs" / "stranger.log"
    ended = processes.start(command, processes.environment(up.home, up.mark), log)
    return ended.wait(120) != 0 and "Failed to activate SuperNode" in log.read_text()
