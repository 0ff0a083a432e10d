"""Who owns which classes."""

from pathlib import Path

from fedamd.report.clients import client_bars
from fedamd.report.page import Bars, Section, Text
from fedamd.report.stored import StoredRun
from fedamd.runs.clients_file import SHOWN
from fedamd.runs.config import Config, load_config


def bars_of(*configs: Config) -> list[Section]:
    return client_bars([StoredRun(Path("nowhere"), config, [], {}, None) for config in configs])


def test_two_classes_for_every_client() -> None:
    (bars,) = bars_of(load_config({"clients": 10, "cohort": 2, "partition": {"classes_per_client": 2}}))
    assert isinstance(bars, Bars)
    columns = list(zip(*(stack["values"] for stack in bars.stacks), strict=True))
    assert len(columns) == 10
    assert all(sum(count > 0 for count in column) == 2 for column in columns)
    assert [stack["label"] for stack in bars.stacks] == [f"class {label}" for label in range(10)]


def test_one_chart_for_a_federation_whatever_the_seeds() -> None:
    configs = [load_config({"seed": seed, "clients": clients}) for clients in (20, 30) for seed in (3, 4)]
    notes = [section.note for section in bars_of(*configs)]
    assert notes == [f"Training samples of all {clients} clients, for seed 3." for clients in (20, 30)]


def test_many_clients_and_no_classes() -> None:
    (bars,) = bars_of(load_config({"data": {"name": "quadratic"}, "clients": SHOWN + 1}))
    assert isinstance(bars, Bars)
    (stack,) = bars.stacks
    assert (stack["label"], len(stack["values"])) == ("samples", SHOWN)
    assert f"first {SHOWN} of {SHOWN + 1}" in bars.note


def test_clients_that_cannot_be_rebuilt_are_said_to_be_missing() -> None:
    """Two clients of two classes each cannot own ten classes."""
    (section,) = bars_of(load_config({"clients": 2, "cohort": 1}))
    assert isinstance(section, Text)
    assert section.note.startswith("Not shown: 2 clients with 2 classes each")
