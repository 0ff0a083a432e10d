"""Who is which client, and who is refused."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from flower_support import Clock, Federation, config
from flwr.app import ConfigRecord, Error, Message, RecordDict

from fedamd.errors import FedamdError
from fedamd.flower.app.mailbox import Mailbox
from fedamd.flower.app.roster import Roster, Sizes, read_keys
from fedamd.flower.local.certificates import write_client_key
from fedamd.flower.local.inprocess import InProcessGrid
from fedamd.flower.version import HEARTBEAT


class SayingGrid(InProcessGrid):
    """Nodes that say whatever they are told to, each with a public key."""

    def __init__(self, claims: dict[int, dict[str, object]], keys: dict[int, bytes] | None = None) -> None:
        super().__init__(claims, {})
        self.keys = keys or {}
        self.questions = 0
        self.beats: dict[int, float] = {}  # seconds between heartbeats

    def answer(self, message: Message) -> Message | None:
        self.questions += 1
        claim = self.nodes[message.metadata.dst_node_id]
        if claim.get("silent"):
            return None
        if "error" in claim:
            code, why = claim["error"]
            return Message(Error(code, why), reply_to=message)
        return Message(RecordDict({"hello": ConfigRecord(dict(claim))}), reply_to=message)

    def get_nodes(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                node_id=node, public_key=self.keys.get(node, b""), heartbeat_interval=self.beats.get(node, 30)
            )
            for node in self.nodes
        ]


def roster_of(grid: InProcessGrid, keys: dict[int, bytes] | None = None) -> Roster:
    clock = Clock()
    roster = Roster(Mailbox(grid, clock.now, clock.sleep), 4, keys)
    roster.refresh()
    return roster


def claim(client: object, samples: object = 10) -> dict[str, object]:
    return {"client": client, "samples": samples}


def test_a_node_that_reads_whole_messages_is_known_by_its_heartbeat_before_it_is_asked() -> None:
    grid = SayingGrid({77: claim(2), 55: claim(0)})
    grid.beats = {77: HEARTBEAT}
    assert roster_of(grid)._mailbox.read_whole == {77}


def test_nodes_are_asked_once_and_known_by_what_they_say() -> None:
    grid = SayingGrid({77: claim(2, 30), 55: claim(0, 20)})
    roster = roster_of(grid)
    roster.refresh()
    assert roster.present() == {2: 77, 0: 55}
    assert (roster.sizes[0], roster.sizes[2]) == (20, 30)
    assert grid.questions == 2


def test_a_node_that_leaves_is_gone_and_one_that_comes_is_there() -> None:
    grid = SayingGrid({77: claim(2), 55: claim(0)})
    roster = roster_of(grid)
    del grid.nodes[77]
    grid.nodes[88] = claim(3)
    roster.refresh()
    assert roster.present() == {0: 55, 3: 88}


def test_the_first_to_claim_a_client_keeps_it_while_it_is_connected() -> None:
    grid = SayingGrid({77: claim(2)})
    roster = roster_of(grid)
    grid.nodes[88] = claim(2)
    roster.refresh()
    roster.refresh()
    assert roster.present() == {2: 77}
    assert roster.refused == 1
    del grid.nodes[77]
    roster.refresh()
    assert roster.present() == {2: 88}


def test_a_live_replacement_is_preferred_to_a_node_that_let_a_deadline_pass() -> None:
    """Without keys a killed client comes back as another node, while the SuperLink still counts the first as there."""
    grid = SayingGrid({77: claim(2)})
    roster = roster_of(grid)
    roster.silent.add(77)
    assert roster.present() == {2: 77}, "there is no other"
    grid.nodes[88] = claim(2)
    roster.refresh()
    assert roster.present() == {2: 88}
    assert roster.refused == 0


@pytest.mark.parametrize("wrong", [claim(4), claim(-1), claim("0"), claim(1, 0), claim(1, -5), claim(1.0), {}], ids=str)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    roster = roster_of(SayingGrid({77: wrong}))
    assert roster.present() == {}
    assert roster.refused == 1


def test_with_a_list_of_keys_only_the_owner_of_a_key_is_its_client() -> None:
    keys = {77: b"key of 2", 88: b"key of 3", 99: b"unknown"}
    grid = SayingGrid({88: claim(2), 99: claim(1), 77: claim(2)}, keys)
    roster = roster_of(grid, {2: b"key of 2", 3: b"key of 3"})
    assert roster.present() == {2: 77}
    assert roster.refused == 2


def test_a_client_cannot_write_the_entry_of_another(federation: Callable[..., Federation]) -> None:
    """A fifth node says it is client 0: the run is what it is without it, and the node is counted."""
    one = federation(config({"name": "fedamd", "p": 0.5, "steps": 2, "cache": "client"}))
    honest = one.lead()
    other = Federation(one.folder.parent / "other", one.raw)
    other.grid.nodes |= {1: {"partition-id": 0, "state-dir": str(other.state / "intruder")}}
    run = other.lead()
    assert run.state.x.equal(honest.state.x)
    assert other.metrics()[-1].extras["refused"] == 1
    assert not (other.state / "intruder").exists()


def test_a_size_is_known_once_and_asked_for_in_a_sentence() -> None:
    sizes = Sizes(2)
    sizes.learn(0, 5)
    sizes.learn(0, 7)
    assert sizes[0] == 5
    with pytest.raises(FedamdError, match="client 1 has not been connected"):
        sum(sizes)
    sizes.learn(1, 3)
    assert sum(sizes) == 8
    assert sizes[0:2] == [5, 3]


def test_a_silent_node_is_waited_for_until_the_time_is_over() -> None:
    clock = Clock()
    grid = SayingGrid({77: claim(2), 55: {"silent": True}})
    assert Roster(Mailbox(grid, clock.now, clock.sleep), 4).wait_for(2, seconds=20) == 1
    assert clock.time == pytest.approx(20)
    assert grid.questions == 2, "it was asked once"


@pytest.mark.parametrize(("code", "times"), [(1, [0, 30, 90, 210]), (2, [0, 30, 90, 210]), (8, [0, 2, 6, 14])])
def test_a_node_that_cannot_take_part_is_asked_ever_more_rarely_and_told_of_once(
    caplog: pytest.LogCaptureFixture, code: int, times: list[int]
) -> None:
    """Codes 1 and 2: its app cannot be loaded, or raises; 8: its worker died, and there is a new one."""
    clock, grid = Clock(), SayingGrid({77: claim(2), 55: {"error": (code, "there is no data")}})
    roster = Roster(Mailbox(grid, clock.now, clock.sleep), 4)
    asked = []
    with caplog.at_level(logging.WARNING, logger="fedamd.flower"):
        for second in range(211):
            before, clock.time = grid.questions, float(second)
            roster.refresh()
            asked += [second] * (grid.questions > before)
    assert asked[:4] == times
    assert caplog.text.count("there is no data") == 1
    grid.nodes[55] = {"error": (code, "no such model")}
    clock.time += 4000
    with caplog.at_level(logging.WARNING, logger="fedamd.flower"):
        roster.refresh()
    assert "no such model" in caplog.text
    grid.nodes[55] = claim(3)
    clock.time += 4000
    roster.refresh()
    assert roster.present() == {2: 77, 3: 55}, "what was mended takes part"


@pytest.mark.parametrize(("code", "seconds"), [(2, 0), (8, 20)])
def test_a_client_that_says_why_it_cannot_take_part_is_not_waited_for(code: int, seconds: float) -> None:
    clock, grid = Clock(), SayingGrid({77: claim(2), 55: {"error": (code, "why")}})
    roster = Roster(Mailbox(grid, clock.now, clock.sleep), 4)
    assert roster.wait_for(2, seconds=20) == 1
    assert clock.time == pytest.approx(seconds)


def test_a_stranger_shortens_no_wait() -> None:
    clock, grid = Clock(), SayingGrid({77: claim(2), 55: {"error": (2, "why")}}, {77: b"key of 2", 55: b"unknown"})
    assert Roster(Mailbox(grid, clock.now, clock.sleep), 4, {2: b"key of 2"}).wait_for(2, seconds=20) == 1
    assert clock.time == pytest.approx(20)


def test_keys_are_read_in_the_form_in_which_flower_reports_them(tmp_path: Path) -> None:
    public = write_client_key(tmp_path / "node")
    (tmp_path / "keys").write_text(f"# the clients\n\n2 {public} comment\n")
    keys = read_keys(tmp_path / "keys")
    assert keys.keys() == {2}
    assert keys[2].startswith(b"-----BEGIN PUBLIC KEY-----")


@pytest.mark.parametrize("line", ["2 rubbish", "x ssh-ed25519 AAAA", "2"])
def test_a_line_that_is_no_key_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "keys").write_text(f"\n{line}\n")
    with pytest.raises(FedamdError, match="line 2"):
        read_keys(tmp_path / "keys")
    with pytest.raises(FedamdError, match="cannot read"):
        read_keys(tmp_path / "nowhere")
