"""Simulated seconds."""

from pathlib import Path

import pytest

from fedamd.errors import FedamdError
from fedamd.participation import Devices


def test_seconds_are_transfers_and_gradients() -> None:
    """10⁷ bits down at 50 Mbit/s: 0.2 s; 640 samples at 1000/s: 0.64 s; 10⁶ bits up at 10 Mbit/s: 0.1 s."""
    device = Devices.of({}, clients=1, seed=0)[0]
    assert device.seconds(640, 10_000_000, 1_000_000) == pytest.approx(0.2 + 0.64 + 0.1)


def test_without_spread_all_devices_are_alike() -> None:
    devices = Devices.of({"samples_per_second": 5.0}, clients=3, seed=0)
    assert {devices[client] for client in range(3)} == {devices[0]}
    assert devices[0].samples_per_second == 5.0


def test_a_spread_leaves_the_median() -> None:
    """The median of exp(z) is 1: of 999 devices about half are slower than the median."""
    devices = Devices.of({"spread": 1.0}, clients=999, seed=0)
    slower = sum(devices[client].samples_per_second < 1000.0 for client in range(999))
    assert 440 < slower < 560


def test_a_file_gives_every_client_its_own(tmp_path: Path) -> None:
    path = tmp_path / "devices.csv"
    path.write_text("client,samples_per_second,mbit_up,mbit_down\n1,20,2,4\n0,10,1,2\n")
    devices = Devices.of(str(path), clients=2, seed=0)
    assert (devices[0].samples_per_second, devices[1].mbit_down) == (10.0, 4.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("client,samples_per_second,mbit_up,mbit_down\n0,1,1,1\n", "no line for client 1"),
        ("client,samples_per_second,mbit_up,mbit_down\n0,1,1,1\n1,1,1,1\n2,1,1,1\n", "names client 2"),
        ("client,samples_per_second,mbit_up,mbit_down\n0,0,1,1\n", "line 2: samples_per_second must be a finite"),
        ("client,samples_per_second,mbit_up,mbit_down\n0,a,1,1\n", "line 2: every column must hold a number"),
    ],
)
def test_a_bad_file_is_refused_in_words(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "devices.csv"
    path.write_text(text)
    with pytest.raises(FedamdError, match=sentence):
        Devices.of(str(path), clients=2, seed=0)


def test_unknown_keys_and_bad_numbers_are_named() -> None:
    with pytest.raises(FedamdError, match=r"devices.sped: unknown key \(did you mean spread"):
        Devices.of({"sped": 1}, clients=2, seed=0)
    with pytest.raises(FedamdError, match=r"devices.mbit_up must be a finite number above 0"):
        Devices.of({"mbit_up": 0}, clients=2, seed=0)


def test_a_spread_beyond_all_speeds_is_refused():
    with pytest.raises(FedamdError, match=r"devices\.spread is 1e\+308"):
        Devices.of({"spread": 1e308}, 3, 0)
