"""The files of examples/deployment are what the programs that read them take."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FILES = Path(__file__).parents[2] / "examples" / "deployment"
COMPOSE = FILES / "compose.yaml"


def test_every_client_of_the_compose_file_has_a_number_a_key_and_a_folder_of_its_own() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    clients = {name: one for name, one in services.items() if name.startswith("client-")}
    assert len(clients) == 3
    for name, one in clients.items():
        number = name.removeprefix("client-")
        assert f'--node-config=partition-id={number} state-dir="/state"' in one["command"]
        assert f"--auth-supernode-private-key=/keys/{name}" in one["command"]
        assert f"{name}:/state" in one["volumes"]
        assert one["restart"] == "always"
    assert "--enable-supernode-auth" in services["superlink"]["command"]
    assert not any("ports" in one for one in services.values()), "nothing is reached from outside"


def test_the_commands_of_the_compose_file_are_ours_and_take_these_options() -> None:
    from typer.testing import CliRunner

    from fedamd.cli.main import app

    shown = CliRunner().invoke(app, ["federation", "client", "--help"], env={"COLUMNS": "200"}).stdout
    for option in re.findall(r"- (--[a-z-]+)=", COMPOSE.read_text()):
        assert option in shown


def test_docker_reads_the_compose_file() -> None:
    if shutil.which("docker") is None:
        pytest.skip("there is no docker here")
    done = subprocess.run(
        ["docker", "compose", "-f", str(COMPOSE), "config", "--quiet"], capture_output=True, text=True, check=False
    )
    if "is not a docker command" in done.stderr or "unknown" in done.stderr:
        pytest.skip("this docker has no compose")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["fedamd-superlink.service", "fedamd-client.service"])
def test_systemd_takes_the_units(tmp_path: Path, name: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    for program in ("fedamd", "flower-superlink"):  # systemd wants them to be there
        (tmp_path / program).write_text("#!/bin/sh\n")
        os.chmod(tmp_path / program, 0o755)
    text = (FILES / name).read_text()
    assert "/opt/fedamd/bin/" in text
    (tmp_path / name).write_text(text.replace("/opt/fedamd/bin/", f"{tmp_path}/").replace("User=fedamd", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if name in line]
    assert not ours, ours


def test_the_guide_shows_the_units_as_they_are() -> None:
    guide = (FILES.parents[1] / "docs" / "deployment.md").read_text()
    for name in ("fedamd-superlink.service", "fedamd-client.service"):
        assert (FILES / name).read_text().strip() in guide
