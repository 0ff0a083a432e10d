"""Server restarts, and the invariant of client-held vectors: the server's total is the sum of the accepted versions."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from flower_support import Answer, Federation, config, same, simulate
from flwr.app import Message

from fedamd.errors import FedamdError
from fedamd.flower.app import client as client_module
from fedamd.flower.app.acknowledged import Acknowledged
from fedamd.flower.app.memory import Memory
from fedamd.runs import checkpoint
from fedamd.runs.folder import CHECKPOINT

Make = Callable[..., Federation]
HELD = {"name": "fedamd", "p": 0.6, "steps": 2, "small_batch": 16, "cache": "client"}


class Killed(BaseException):
    """The server's process is gone in the middle of whatever it was doing."""


def killing(_: Message, answer: Answer) -> None:
    answer()
    raise Killed


@pytest.mark.parametrize(
    "algorithm",
    [HELD, HELD | {"cache": "server"}, {"name": "scaffold", "steps": 2}, {"name": "fedavg", "server": "adam"}],
    ids=["held by clients", "held by the server", "scaffold", "fedavg with adam"],
)
@pytest.mark.parametrize("when", [-1, 0, 2])
def test_a_killed_server_goes_on_as_if_nothing_had_happened(
    federation: Make, algorithm: dict[str, Any], when: int
) -> None:
    """It dies after one client of a round has done its work, before others were asked: that round is done again."""
    raw = config(algorithm)
    one = federation(raw)
    one.grid.faults = {(when, client): killing for client in range(4)}
    for _ in range(10):
        try:
            run = one.lead()
            break
        except Killed:
            one.grid._replies.clear()
    assert same(run, simulate(raw))
    assert [record.round for record in run.records] == [-1, 0, 1, 2, 3]
    assert run.ledger == simulate(raw).ledger


def test_a_server_killed_between_two_exchanges_of_a_round_goes_back_to_versions_of_the_round_before(
    federation: Make,
) -> None:
    """BVR-L-SGD asks its clients for v_i twice in the first round of a period: the first answers are accepted, but in
    no checkpoint yet, when the server dies during the second exchange of round 2."""
    raw = config({"name": "bvr-l-sgd", "period": 2, "steps": 2}, cohort=4)
    one = federation(raw)

    def kills_in_the_second_exchange(message: Message, answer: Answer) -> Message | None:
        reply = answer()
        if message.content["header"]["stage"] == 1:
            raise Killed
        one.grid.faults[2, 3] = kills_in_the_second_exchange
        return reply

    one.grid.faults[2, 3] = kills_in_the_second_exchange
    with pytest.raises(Killed):
        one.lead()
    assert same(one.lead(), simulate(raw))


def test_ctrl_c_waits_for_the_end_of_the_round_and_the_run_goes_on_later(federation: Make) -> None:
    one = federation(config(HELD))

    def interrupts(_: Message, answer: Answer) -> Message | None:
        one.grid.faults.clear()
        signal.raise_signal(signal.SIGINT)
        return answer()

    one.grid.faults = {(1, client): interrupts for client in range(4)}
    assert one.lead().t == 2
    assert same(one.lead(), simulate(config(HELD)))
    assert list(one.metrics()) == [-1, 0, 1, 2, 3]


def test_starting_a_finished_run_again_changes_nothing(federation: Make) -> None:
    one = federation(config())
    first = one.lead()
    before, messages = one.metrics(), len(one.grid.instructions)
    assert same(one.lead(), first)
    assert one.metrics() == before
    assert len(one.grid.instructions) == messages


def test_more_rounds_can_be_added(federation: Make) -> None:
    one = federation(config(HELD))
    one.lead()
    one.settings["rounds"] = one.grid.run_config["rounds"] = 6
    assert same(one.lead(), simulate(config(HELD, rounds=6)))


@pytest.mark.filterwarnings("ignore:going on from the checkpoint before")
@pytest.mark.parametrize("algorithm", [HELD, {"name": "scaffold", "steps": 2}], ids=["fedamd", "scaffold"])
def test_a_server_whose_last_checkpoint_is_damaged_goes_on_from_the_one_before(
    federation: Make, algorithm: dict[str, Any]
) -> None:
    """It dies when a client has worked in a round after that checkpoint; the client still has the version before."""
    raw = config(algorithm, rounds=6)
    one = federation(raw)
    for when in range(1, 6):
        one.grid.faults = {(when, client): killing for client in range(4)}
        with pytest.raises(Killed):
            one.lead()
        one.grid._replies.clear()
        (one.folder / CHECKPOINT).write_bytes(b"cut short")
    one.grid.faults = {}
    run = one.lead()
    assert same(run, simulate(raw))
    assert sum(record.extras.get("lost", 0) for record in run.records) == 0


def test_a_folder_with_another_run_is_left_alone(federation: Make) -> None:
    one = federation(config())
    one.lead()
    one.settings["seed"] = 3
    with pytest.raises(FedamdError, match=r"other settings \(seed\)"):
        one.lead()


def test_a_second_server_on_the_same_run_is_refused(federation: Make) -> None:
    one = federation(config())

    def starts_another(_: Message, answer: Answer) -> Message | None:
        with pytest.raises(FedamdError, match="another server is at work"):
            one.lead()
        return answer()

    one.grid.faults = {(0, client): starts_another for client in range(4)}
    assert same(one.lead(), simulate(config()))
    assert len(one.grid.faults) < 4


ORPHAN = """
import os, signal, sys, time
from fedamd.flower.app.server import _end_with
if os.fork():
    time.sleep(600)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(os.getpid(), flush=True)
_end_with(os.getppid(), pause=0.05, grace=0.1)
"""


def test_a_server_ends_when_flower_has_even_in_the_middle_of_a_round() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while Path(f"/proc/{server}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{server}").exists()
    parent.stdout.close()


def test_instruction_numbers_grow_over_restarts(federation: Make) -> None:
    one = federation(config(HELD))
    one.grid.faults[1, 2] = killing
    with pytest.raises(Killed):
        one.lead()
    one.lead()
    numbers = [message.content["header"]["number"] for message in one.grid.instructions]
    assert numbers == sorted(set(numbers))
    assert json.loads((one.folder / "federation.json").read_text())["epoch"] == 2


def accepted_versions(one: Federation) -> dict[int, int]:
    """client → version, from the server's checkpoint."""
    tensors, _ = checkpoint.load(one.folder / CHECKPOINT)
    return dict(zip(tensors["held.clients"].tolist(), tensors["held.accepted"].tolist(), strict=True))


def total_of_the_accepted(one: Federation) -> torch.Tensor:
    """Σ v^(i), each read from its client's own disk in the version the server has accepted."""
    name = json.loads((one.folder / "federation.json").read_text())["run"]
    versions = accepted_versions(one)
    return torch.stack([Memory(one.state, i, name).read(number)["v"] for i, number in versions.items()]).sum(0)


@pytest.mark.parametrize("seed", range(3))
def test_the_invariant_under_faults(federation: Make, seed: int) -> None:
    """20 rounds in which replies are lost or come late, clients and the server restart, and instructions overtake each
    other. At every instruction: were the server restarted now, its total would be the sum of what the clients hold."""
    chance = random.Random(seed)
    one = federation(config(HELD | {"start_up": "lazy"}, rounds=20), attempts=1, min_replies=1)
    kept: list[tuple[Message, Answer]] = []
    seen: list[str] = []

    def trouble(message: Message, answer: Answer) -> Message | None:
        kind = chance.choices(["good", "lost", "never", "later", "killed"], [50, 15, 10, 15, 10])[0]
        seen.append(kind)
        if (one.folder / CHECKPOINT).exists() and accepted_versions(one):
            tensors, _ = checkpoint.load(one.folder / CHECKPOINT)
            torch.testing.assert_close(tensors["state.total"], total_of_the_accepted(one), atol=1e-5, rtol=0)
        if chance.random() < 0.3:
            client_module._made.cache_clear()  # the client restarts: all it knows is on its disk
        if kept and chance.random() < 0.3:
            old, work = kept.pop()  # an instruction of an earlier round, or of before a restart, reaches its client now
            one.grid.deliver(old, work())
        if kind == "later":
            kept.append((message, answer))
        if kind in ("later", "never"):
            return None
        reply = answer()
        if kind == "killed":
            raise Killed
        return reply if kind == "good" else None

    for _ in range(200):
        one.grid.faults = {(t, client): trouble for t in range(20) for client in range(4)}
        try:
            run = one.lead()
            break
        except Killed:
            continue
        except FedamdError as stop:
            if "min_replies" not in str(stop):
                raise
    assert run.t == 20
    assert set(seen) == {"good", "lost", "never", "later", "killed"}
    torch.testing.assert_close(run.state.total, total_of_the_accepted(one), atol=1e-5, rtol=0)
    torch.testing.assert_close(run.state.bullseye, total_of_the_accepted(one) / len(accepted_versions(one)))


def test_a_client_that_lost_its_disk_says_so_and_the_mean_keeps_its_last_vector(federation: Make) -> None:
    """Client 2's disk is replaced before round 1, in which it is an anchor; its v of the start-up stays in the mean."""
    raw = config(HELD | {"p": 0.99})
    one = federation(raw, renew=False)

    def disk_replaced(_: Message, answer: Answer) -> Message | None:
        (one.state / "client-2.sqlite").unlink()
        return answer()

    one.grid.faults[1, 2] = disk_replaced
    run = one.lead()
    lost = {t for t, record in one.metrics().items() if record.extras["lost"]}
    assert lost
    assert min(lost) == 1
    assert same(run, simulate(raw, {(t, 2) for t in lost}))


@pytest.mark.parametrize("algorithm", [HELD, {"name": "scaffold", "steps": 2}, {"name": "feddyn", "steps": 2}])
def test_a_client_that_lost_its_disk_has_a_way_back(federation: Make, algorithm: dict[str, Any]) -> None:
    """Client 2's disk is replaced in round 1. Whenever the server learns of it, all clients begin anew after that
    round, once: then the server's memory is what a run that started at that model would have, and all versions are
    there."""
    one = federation(config(algorithm, rounds=8, cohort=4))

    def disk_replaced(_: Message, answer: Answer) -> Message | None:
        (one.state / "client-2.sqlite").unlink(missing_ok=True)
        return answer()

    one.grid.faults[1, 2] = disk_replaced
    run = one.lead()
    assert run.t == 8
    records = one.metrics()
    assert list(records) == [-1, *range(8)], "the second start-up has no line of its own"
    first = min(t for t, record in records.items() if record.extras["lost"])
    assert {t: record.extras["renewed"] for t, record in records.items() if record.extras["renewed"]} == {first + 1: 1}
    assert not any(record.extras["lost"] for t, record in records.items() if t > first)
    if algorithm is HELD:
        torch.testing.assert_close(run.state.total, total_of_the_accepted(one), atol=1e-5, rtol=0)
        assert len(accepted_versions(one)) == 4
        whole = records[-1].gradient_samples
        reference = simulate(config(algorithm, rounds=8, cohort=4)).ledger.gradient_samples
        assert run.ledger.gradient_samples >= reference + whole - 4 * 1800, "the pass is in the run's costs"


def test_a_client_whose_disk_keeps_nothing_makes_the_others_begin_anew_once(federation: Make) -> None:
    one = federation(config(HELD | {"p": 0.99}, rounds=8, cohort=4))

    def disk_replaced(_: Message, answer: Answer) -> Message | None:
        (one.state / "client-2.sqlite").unlink(missing_ok=True)
        return answer()

    one.grid.faults = {(t, 2): disk_replaced for t in range(8)}
    assert one.lead().t == 8
    assert sum(record.extras["renewed"] for record in one.metrics().values()) == 1
    assert sum(record.extras["lost"] for record in one.metrics().values()) > 3


def test_acknowledged_versions_survive_a_checkpoint() -> None:
    held = Acknowledged()
    held.accept(3, (1 << 40) + 1)
    assert (held.accepted(3), held.durable(3), held.accepted(0)) == ((1 << 40) + 1, 0, 0)
    held.saved()
    held.accept(3, (1 << 40) + 2)
    assert (held.accepted(3), held.durable(3)) == ((1 << 40) + 2, (1 << 40) + 1)
    again = Acknowledged()
    again.restore(held.tensors())
    assert (again.accepted(3), again.durable(3)) == ((1 << 40) + 2, (1 << 40) + 2)
    assert again.fresh([3, 4]) == [False, True]
