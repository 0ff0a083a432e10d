"""The build: what the library is called, what happens without a compiler, and that the code stays inside its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedamd.errors import FedamdError
from fedamd.oracles.native import available, build, library
from support import PYTHONPATH

LEVEL = (*build.runnable(), *build.LEVELS["x86_64"])[0]  # the best this CPU has
BROKEN = "#!/bin/sh\necho 'no such flag' >&2\nexit 1\n"


def compiler_that_fails(folder: Path) -> str:
    script = folder / "broken"
    script.write_text(BROKEN)
    script.chmod(0o755)
    return str(script)


def cpu_with(features: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.platform, "machine", lambda: machine)
    monkeypatch.setattr(build, "cpu_features", lambda: frozenset(features.split()))


def names(levels: tuple[build.Level, ...]) -> list[str]:
    return [level.name for level in levels]


V2 = "cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2"
V3 = f"{V2} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("x86_64", "sse sse2", []),
        ("x86_64", V2, ["v2"]),
        ("AMD64", f"{V3} avx512f", ["v3", "v2"]),  # AVX-512 in part is not v4
        ("x86_64", V4, ["v4", "v3", "v2"]),
        ("x86_64", V4.replace(" fma", ""), ["v2"]),  # a hypervisor may mask one feature of a lower level
        ("aarch64", "fp asimd", ["neon"]),
        ("arm64", "", ["neon"]),  # macOS lists nothing
        ("riscv64", "", []),
    ],
)
def test_levels_a_cpu_can_run(
    machine: str, features: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu_with(features, machine, monkeypatch)
    assert names(build.runnable()) == expected


def test_the_best_level_that_is_built_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cpu_with(V3, "x86_64", monkeypatch)
    monkeypatch.delenv("FEDAMD_CPU", raising=False)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    assert library.level() is None
    for level in build.levels():  # v4 comes first, and this CPU cannot run it
        (tmp_path / build.library_name(level)).touch()
    assert library.level() == build.runnable()[0]
    assert library.level().name == "v3"
    monkeypatch.setenv("FEDAMD_CPU", "v2")
    assert library.level().name == "v2"


def test_a_level_the_cpu_cannot_run_is_not_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_with(V3, "x86_64", monkeypatch)
    monkeypatch.setenv("FEDAMD_CPU", "v4")
    with pytest.raises(FedamdError, match="FEDAMD_CPU=v4: this CPU cannot run that level; it can run: v3, v2"):
        available.__wrapped__()


def test_name_changes_with_level_and_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    v4, v3 = map(build.library_name, build.LEVELS["x86_64"][:2])
    monkeypatch.setattr(build, "FLAGS", ("-O0",))
    assert len({v4, v3, build.library_name(build.LEVELS["x86_64"][0])}) == 3


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "there-is-no-such-compiler")
    with pytest.raises(build.BuildError, match="there is no C\\+\\+ compiler"):
        build.build(LEVEL, tmp_path)


def test_a_failing_compiler_leaves_the_folder_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / f"_native-{LEVEL.name}-old.so").touch()
    monkeypatch.setenv("CXX", compiler_that_fails(tmp_path))
    with pytest.raises(build.BuildError, match="no such flag"):
        build.build(LEVEL, folder)
    assert [file.name for file in folder.iterdir()] == [f"_native-{LEVEL.name}-old.so"]


@pytest.mark.skipif(not build.runnable(), reason="the kernels do not run on this CPU")
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ((), "is not built; `python -m fedamd.oracles.native` builds it"),
        (("_native-other-0123.so",), "built for other CPUs than"),
        ((build.library_name(LEVEL),), "does not load"),
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
    build.build(LEVEL, tmp_path, extra_flags=("-O1", "-g", "-fsanitize=address"))
    environment = os.environ | {
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": PYTHONPATH,
    }
    done = subprocess.run(
        [sys.executable, "-c", EXERCISE, str(tmp_path)], capture_output=True, text=True, env=environment, check=False
    )
    assert "through" in done.stdout, done.stderr[-3000:]
