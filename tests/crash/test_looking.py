"""Looking at a folder of somebody else runs none of its code, wherever in its config that code is named."""

import sys
import urllib.request
from threading import Thread

import pytest
from typer.testing import CliRunner

import fedamd
from fedamd.cli.main import app
from fedamd.errors import FedamdError
from fedamd.report.watch import address, watch_server
from fedamd.runs.sealed import sealed_toml

SMALL = {"data": {"name": "quadratic", "samples": 2, "dimension": 3}, "clients": 4, "cohort": 2, "rounds": 2}
EVIL = "from pathlib import Path\nPath({trace!r}).touch()\ndef part(*_, **__): return None\nname = part\n"
SLOTS = {
    "data": '[data]\nname = "quadratic"',
    "partition": '[partition]\nname = "natural"',
    "model": '[model]\nname = "quadratic"',
    "algorithm": '[algorithm]\nname = "fedamd"',
    "sampler": '[sampler]\nname = "uniform"',
}
ADDED = {
    "metrics": 'metrics = ["evil:part"]',
    "callbacks": 'callbacks = ["evil:part"]',
    "oracle": 'oracle = "evil:part"',
    "schedules": '[schedules.eta_l]\nname = "evil:part"',
    "an option of the algorithm": '[algorithm]\np = "evil:part"',
    "an option of the data": '[data]\nname = "quadratic"\nsamples = "evil:part"',
    "an option of the partition": '[partition]\nsource = "evil:part"',
    "an option of the sampler": '[sampler]\nname = "uniform"\ngroups = "evil:part"',
    "an option of the model": '[model]\nname = "quadratic"\nhidden = "evil:part"',
    "devices": 'devices = "evil:part"',
    "stop": '[stop]\nmetric = "evil:part"',
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The current folder, with a module that leaves a trace when it is imported; all keys are of another user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fedamd.run(SMALL, out=tmp_path / "all" / "run")
    for folder in (tmp_path, tmp_path / "all", tmp_path / "all" / "run"):
        (folder / "evil.py").write_text(EVIL.format(trace=str(tmp_path / "trace")))
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return tmp_path


def named(place, slot: str) -> None:
    """The config of the run names the evil module in this slot, and carries a right checksum."""
    path = place / "all" / "run" / "config.toml"
    lines = path.read_text().rpartition("# check: ")[0]
    if slot in SLOTS:
        kept = [part for part in lines.split("\n\n") if not part.startswith(f"[{slot}]")]
        lines = "\n\n".join([*kept, f'[{slot}]\nname = "evil:part"\n'])
    else:
        head = ADDED[slot].partition("\n")[0]
        sections = lines.split("\n\n")
        if head.startswith("["):
            sections = [*(part for part in sections if not part.startswith(head)), ADDED[slot] + "\n"]
        else:
            key = head.partition(" =")[0]
            sections[0] = "\n".join([*(one for one in sections[0].split("\n") if not one.startswith(f"{key} =")), head])
        lines = "\n\n".join(sections)
    path.write_text(sealed_toml(lines))
    assert "evil:part" in path.read_text()


@pytest.mark.parametrize("slot", [*SLOTS, *ADDED])
def test_looking_runs_nobodys_code(slot, place):
    named(place, slot)
    for words in (["verify", "all/run"], ["report", "all"], ["plot", "all/run"], ["list", "models"]):
        CliRunner().invoke(app, words)  # some of these configs are refused, which is fine
        assert not (place / "trace").exists(), words
    try:
        with watch_server(place / "all" / "run", 0) as server:
            serving = Thread(target=server.serve_forever)
            serving.start()
            try:
                with urllib.request.urlopen(address(server)) as answer:
                    answer.read()
            finally:
                server.shutdown()
                serving.join()
    except (FedamdError, OSError):
        pass
    assert not (place / "trace").exists()


@pytest.mark.parametrize("slot", [*SLOTS, "metrics", "callbacks", "oracle", "schedules", "an option of the algorithm"])
def test_going_on_asks_for_trust(slot, place):
    named(place, slot)
    config = "all/run/config.toml"
    for words in (
        ["run", "--resume", "all/run", "--rounds", "3"],
        ["run", config, "--out", "other"],
        ["compare", config, "--out", "other"],
        ["sweep", config, "--grid", "seed=0,1", "--out", "other"],
        ["plan", "--estimate", config],
        ["tune", config, "--out", "other"],
    ):
        refused = CliRunner().invoke(app, words)
        assert "made elsewhere and names code of its own (evil:part)" in str(refused.exception), words
        assert not (place / "trace").exists(), words
    with pytest.raises(FedamdError, match="made elsewhere"):
        fedamd.load_model(place / "all" / "run")
    CliRunner().invoke(app, ["run", config, "--out", "other", "--trust"])
    assert (place / "trace").exists()  # so it would have been seen
