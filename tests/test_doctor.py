"""`fedamd doctor`: that it tells what is there, and advises where something is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedamd import __version__, doctor
from fedamd.cli.main import app


def cpu(**found: Any) -> dict[str, Any]:
    return {"levels": ["v3", "v2"], "native_library": "v3", "unavailable": None, "compiler": "/usr/bin/c++"} | found


def gpu(**found: Any) -> dict[str, Any]:
    return {"torch_built_for": "13.0", "devices": ["one"], "triton": "3.6", "driver": "nvidia-smi"} | found


def test_json_holds_all_subjects() -> None:
    told = CliRunner().invoke(app, ["doctor", "--json"])
    found = json.loads(told.stdout)
    assert found["versions"]["fedamd"] == __version__
    assert set(found) == {"versions", "cpu", "gpu", "data", "extras", "disk", "advice"}


def test_words_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_cpu_advice", lambda _: ["turn it [off] and on"])
    told = CliRunner().invoke(app, ["doctor"])
    assert "to mend: turn it [off] and on" in told.stdout
    assert __version__ in told.stdout


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        (cpu(), None),
        (cpu(levels=[], native_library=None, unavailable="its kernels …"), None),  # nothing can be done about that
        (cpu(native_library="v2"), "is for v2 and this CPU can do v3"),
        (cpu(native_library=None, unavailable="its library is not built"), "native oracle's library is not built"),
        (cpu(native_library=None, unavailable="its library …", compiler=None), "install g[+][+]"),
    ],
)
def test_advice_on_the_cpu(found: dict[str, Any], advice: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDAMD_CPU", raising=False)
    check(doctor._cpu_advice(found), advice)


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        (gpu(), None),
        (gpu(torch_built_for="cpu", devices=[], driver=None), None),
        (gpu(triton=None), "pip install triton"),
        (gpu(torch_built_for="cpu", devices=[]), "CUDA build"),
        (gpu(devices=[]), "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_advice_on_the_gpu(found: dict[str, Any], advice: str | None) -> None:
    check(doctor._gpu_advice(found), advice)


def test_advice_on_the_disk(tmp_path: Path) -> None:
    assert doctor._disk_advice({"folder": str(tmp_path), "free_bytes": 9 << 30, "writable": True}) == []
    advice = doctor._disk_advice({"folder": "/there", "free_bytes": 1_500_000_000, "writable": False})
    assert ["cannot be written" in advice[0], "only 1.5 GB" in advice[1]] == [True, True]


def check(advice: list[str], expected: str | None) -> None:
    assert (advice == []) if expected is None else any(expected.replace("[+]", "+") in one for one in advice)
