"""What is private in Flower, pinned: a version that changes one of these fails here, not in a hospital."""

import inspect
from pathlib import Path
from typing import Any

import flwr.supercore.constant
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.supercore import heartbeat
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.supernode import fleet_http_client, fleet_http_connection

from fedamd.errors import FedamdError
from fedamd.flower import version
from fedamd.flower.node import private_flwr
from fedamd.flower.node.private_flwr import WireMessage


def names(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_this_is_the_version_it_is_made_for() -> None:
    version.require()


def test_another_version_is_refused_and_the_slow_way_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "installed", lambda: "1.42.0")
    with pytest.raises(FedamdError, match=r"made for Flower 1\.41\.0, and 1\.42\.0 is installed.*flower-supernode"):
        version.require()


def test_the_connection() -> None:
    assert names(private_flwr.http_request_response) == [
        "server_address", "insecure", "root_certificates", "authentication_keys", "max_retries", "max_wait_time",
    ]  # fmt: skip
    for call in ("RegisterNode", "DeactivateNode", "PushMessages"):
        assert callable(getattr(private_flwr.FleetHttpClient, call))
    assert names(private_flwr.NodeAuthHttpInterceptor) == ["private_key", "public_key"]
    invoker = private_flwr.make_simple_http_retry_invoker()
    assert (invoker.max_tries, invoker.max_time) == (None, None)


def test_heartbeats_are_rare_and_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower reads these numbers when it uses them: in the activation, in the beat, and in the pause after it."""

    def answer(
        _: object, *, path: str, request: Any, response_type: Any, timeout: float | None = None, **__: Any
    ) -> Any:
        asked[path.rpartition("/")[2]] = (getattr(request, "heartbeat_interval", None), timeout)
        return response_type(success=True) if path.endswith("heartbeat") else response_type()

    asked: dict[str, tuple[float | None, float | None]] = {}
    for module in (fleet_http_connection, fleet_http_client, heartbeat):
        for name in ("HEARTBEAT_DEFAULT_INTERVAL", "HEARTBEAT_CALL_TIMEOUT"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(module, name))  # as it was, after this test
    monkeypatch.setattr(private_flwr.FleetHttpClient, "_unary_unary", answer)
    private_flwr.beat_patiently()
    with private_flwr.http_request_response("127.0.0.1:1", True, None, None, None, None):
        pass
    assert asked["activate-node"] == (61, None)
    assert asked["send-node-heartbeat"] == (61, 25)
    assert "HEARTBEAT_DEFAULT_INTERVAL" in inspect.getsource(heartbeat.HeartbeatSender._run)


def test_addresses() -> None:
    assert private_flwr.parse_address("fl.example.org:8000") == ("fl.example.org", 8000, None)
    assert private_flwr.parse_address("nonsense") is None


def test_the_node_configuration() -> None:
    config = private_flwr.parse_config_args(['partition-id=3 state-dir="/var/lib" watchdog=true'])
    assert config == {"partition-id": 3, "state-dir": "/var/lib", "watchdog": True}


def test_errors() -> None:
    codes = private_flwr.ErrorCode
    assert (codes.LOAD_CLIENT_APP_EXCEPTION, codes.CLIENT_APP_RAISED_EXCEPTION, codes.CLIENT_APP_CRASHED) == (1, 2, 8)


def test_the_servers_letter_box() -> None:
    grid = HttpGrid("127.0.0.1:1", insecure=True, token="t")
    assert grid.node.node_id == 1
    client = grid._runtime_client
    for call in ("PushMessages", "PullMessages", "PullObject", "ConfirmMessageReceived"):
        assert callable(getattr(client, call))
    grid.close()


def test_a_state_in_memory_has_a_name() -> None:
    assert flwr.supercore.constant.FLWR_IN_MEMORY_DB_NAME == ":flwr-in-memory:"


def message() -> Message:
    private_flwr.set_identity(7, 5)
    return Message(RecordDict({"a": ConfigRecord({"k": [1, 2], "b": b"\n\0"})}), dst_node_id=9, message_type="train")


def test_a_small_message_is_whole_in_one_piece() -> None:
    sent = message()
    parcel = WireMessage.of(sent, whole=True)
    assert (parcel.is_whole, parcel.parts, private_flwr.comes_whole(parcel.tree)) == (True, {}, True)
    got = WireMessage.from_frames(parcel.to_frames()).opened()
    assert dict(got.content["a"]) == {"k": [1, 2], "b": b"\n\0"}
    assert got.metadata.message_id == sent.metadata.message_id == parcel.tree.object_id
    assert parcel.size > 40
    assert not private_flwr.comes_whole(WireMessage.of(sent).tree)


def test_a_message_with_arrays_goes_in_pieces() -> None:
    private_flwr.set_identity(7, 5)
    large = RecordDict({"vectors": ArrayRecord({"x": Array("float32", (1,), "s", b"1234")})})
    assert not WireMessage.of(Message(large, dst_node_id=9, message_type="train"), whole=True).is_whole


def test_a_superlinks_database_keeps_the_content_of_a_message_that_comes_whole() -> None:
    from flwr.common.serde import recorddict_to_proto
    from flwr.server.superlink.linkstate.utils import dict_to_message, message_to_dict

    sent = message()
    kept = dict_to_message(message_to_dict(sent))
    assert recorddict_to_proto(kept.content) == recorddict_to_proto(sent.content)


def test_a_message_goes_to_another_process_and_its_reply_comes_back() -> None:
    sent = message()
    there = WireMessage.from_frames(WireMessage.of(sent).to_frames())
    got = there.opened()
    assert dict(got.content["a"]) == {"k": [1, 2], "b": b"\n\0"}
    assert got.metadata.message_id == sent.metadata.message_id
    assert (got.metadata.run_id, got.metadata.dst_node_id, got.metadata.ttl) == (7, 9, sent.metadata.ttl)
    reply = WireMessage.from_frames(WireMessage.of(Message(Error(8, "why"), reply_to=got)).to_frames())
    assert reply.message.error.reason == "why"
    assert reply.message.metadata.reply_to_message_id == sent.metadata.message_id


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # raised inside Flower
def test_an_app_is_loaded_from_what_flower_builds(tmp_path: Path) -> None:
    from flwr.cli.build import build_fab_from_disk

    from fedamd.flower.local.launch import write_app

    (tmp_path / "app").mkdir()
    write_app(Path("a.toml"), {"clients": 3, "algorithm.name": "fedavg"}, tmp_path / "app")
    fab = build_fab_from_disk(tmp_path / "app")
    (tmp_path / "own").mkdir()
    app = private_flwr.load_client_app(fab, "fedamd/a", "1.0.0", "ignored", tmp_path / "own")
    assert isinstance(app, private_flwr.ClientApp)
