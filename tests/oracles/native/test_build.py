"""The build: what the library is called, what happens without a compiler, and that the code stays inside its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedamd.oracles.native import available, build, library
from support import PYTHONPATH

BROKEN = "#!/bin/sh\necho 'no such flag' >&2\nexit 1\n"


def compiler_that_fails(folder: Path) -> str:
    script = folder / "broken"
    script.write_text(BROKEN)
    script.chmod(0o755)
    return str(script)


def test_name_changes_with_cpu_and_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    name = build.library_name()
    monkeypatch.setattr(build, "_cpu", lambda: "another")
    other_cpu = build.library_name()
    monkeypatch.setattr(build, "FLAGS", ("-O0",))
    assert len({name, other_cpu, build.library_name()}) == 3


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "there-is-no-such-compiler")
    with pytest.raises(build.BuildError, match="there is no C\\+\\+ compiler"):
        build.build(tmp_path)


def test_a_failing_compiler_leaves_the_folder_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "_native-old.so").touch()
    monkeypatch.setenv("CXX", compiler_that_fails(tmp_path))
    with pytest.raises(build.BuildError, match="no such flag"):
        build.build(folder)
    assert [file.name for file in folder.iterdir()] == ["_native-old.so"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ((), "is not built; `python -m fedamd.oracles.native` builds it"),
        (("_native-0123.so",), "another CPU or from other sources"),
        ((build.library_name(),), "does not load"),
    ],
)
def test_reasons_it_is_not_available(
    files: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for file in files:
        (tmp_path / file).write_text("not a library")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(library, "load", library.load.__wrapped__)  # it may have been loaded before
    assert reason in str(available.__wrapped__())


EXERCISE = """
import sys
from pathlib import Path

import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.oracles.base import Batch
from fedamd.oracles.native import build
from fedamd.oracles.native.batches import smallest
from fedamd.oracles.native.oracle import NativeOracle

build.FOLDER = Path(sys.argv[1])
models = [
    nn.Sequential(nn.Conv2d(2, 7, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(7, 5, 2, padding=1), nn.Flatten(),
                  nn.Linear(80, 17), nn.ReLU(), nn.Linear(17, 3)),
    nn.Sequential(nn.Conv2d(2, 3, (2, 6), stride=2), nn.MaxPool2d((1, 2)), nn.Flatten(), nn.Linear(12, 3)),
    nn.Sequential(nn.Flatten(), nn.Linear(162, 3)),
]
for model in models:
    inputs, targets = torch.randn(40, 2, 9, 9), torch.randint(0, 3, (40,))
    oracle = NativeOracle(model, Dataset("random", inputs, targets, inputs[:33], targets[:33], 3), threads=2)
    x = torch.randn(3, oracle.dimension)
    for length in (1, 16, 37, 100):
        batch = Batch(torch.randint(0, 40, (3, length)), torch.full((3, length), 1 / length))
        oracle.difference(x, x.flip(0), batch)
        oracle.gradient(x[0], Batch(batch.samples[0], batch.weights[0]))
        oracle.corrected(x, x, x.flip(0), batch)
        oracle.step(x, torch.ones(3, 1), batch)
    oracle.evaluate(x)
for sizes, width in (([1], 1), ([600, 64, 1, 65], 64), ([30, 30], 30)):
    smallest(torch.arange(len(sizes)), sizes, width)
print("through")
"""


@pytest.mark.slow
def test_stays_inside_its_memory(tmp_path: Path) -> None:
    """Every kernel under AddressSanitizer, on shapes with remainders in every direction."""
    command = build.compiler()
    if command is None:
        pytest.skip("no C++ compiler")
    runtimes = [
        subprocess.run([command, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")  # the second, or the sanitizer does not see torch's exceptions
    ]
    if not all(Path(runtime).is_absolute() for runtime in runtimes):
        pytest.skip("the compiler has no AddressSanitizer")
    build.build(tmp_path, extra_flags=("-O1", "-g", "-fsanitize=address"))
    environment = os.environ | {
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": PYTHONPATH,
    }
    done = subprocess.run(
        [sys.executable, "-c", EXERCISE, str(tmp_path)], capture_output=True, text=True, env=environment, check=False
    )
    assert "through" in done.stdout, done.stderr[-3000:]
