"""Who owns which classes."""

from pathlib import Path

import fedamd
from fedamd.report.clients import client_bars, client_sections
from fedamd.report.page import Bars, Curves, PageSection, Table, Text
from fedamd.report.stored import StoredRun, read_runs
from fedamd.runs.clients_file import SHOWN
from fedamd.runs.config import Config, load_config


def bars_of(*configs: Config) -> list[PageSection]:
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


def test_every_client_has_a_row_with_what_was_measured_on_its_own_tests(tmp_path):
    fedamd.run(
        {"algorithm": {"name": "fedavg"}, "clients": 10, "cohort": 3, "rounds": 2, "test_share": 0.2},
        evaluate_clients_every=2,
        out=tmp_path / "run",
    )
    run = read_runs([tmp_path / "run"])[0]
    curves, table, bars = client_sections([run])
    assert isinstance(curves, Curves)
    assert isinstance(table, Table)
    assert isinstance(bars, Bars)
    assert table.columns == ["client", "loss", "accuracy", "samples", "largest classes"]
    assert [row[0].value for row in table.rows] == list(range(10))
    assert table.note.startswith("After round 2. loss: median ")
    owned = [sum(stack["values"][client] for stack in bars.stacks) for client in range(10)]
    assert [row[3].value for row in table.rows] == owned
    first = {stack["label"].removeprefix("class "): stack["values"][0] / owned[0] for stack in bars.stacks}
    shares = sorted(((share, label) for label, share in first.items() if share), key=lambda pair: -pair[0])
    assert table.rows[0][4].text == ", ".join(f"{label}: {share:.0%}" for share, label in shares)
    spread = run.records[-1].clients["accuracy"]
    median, tenth = curves.lines
    assert (median["label"], tenth["label"]) == ("median", "10th percentile")
    assert median["points"]["accuracy"]["x"] == {"rounds": [0, 2]}
    drawn = [median["points"]["accuracy"][key][-1] for key in ("low", "mean", "high")]
    assert [*drawn, tenth["points"]["accuracy"]["mean"][-1]] == [spread[key] for key in ("min", "median", "max", "p10")]


def test_without_tests_of_their_own_clients_have_no_table(tmp_path):
    fedamd.run({"algorithm": {"name": "fedavg"}, "rounds": 1}, out=tmp_path / "run")
    assert [type(section) for section in client_sections(read_runs([tmp_path / "run"]))] == [Bars]
