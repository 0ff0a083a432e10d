"""Every kernel under the compiler's sanitizers: memory, undefined behaviour, races between threads."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedamd.oracles.native import build
from support import PYTHONPATH

LEVEL = (*build.runnable(), *build.LEVELS["x86_64"])[0]  # the best this CPU has
EXERCISE = """
import sys
from concurrent.futures import ThreadPoolExecutor
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
    nn.Sequential(nn.Conv2d(2, 17, 3), nn.ReLU(), nn.Conv2d(17, 8, (2, 4)), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                  nn.Linear(48, 3)),
    nn.Sequential(nn.Flatten(), nn.Linear(162, 3)),
]
for model in models:
    inputs, targets = torch.randn(40, 2, 9, 9), torch.randint(0, 3, (40,))
    oracle = NativeOracle(model, Dataset("random", inputs, targets, inputs[:33], targets[:33], 3), threads=2)
    x = torch.randn(3, oracle.dimension)
    for length in (1, 16, 37, 100, 300):
        batch = Batch(torch.randint(0, 40, (3, length)), torch.full((3, length), 1 / length))
        oracle.difference(x, x.flip(0), batch)
        oracle.gradient(x[0], Batch(batch.samples[0], batch.weights[0]))
        oracle.corrected(x, x, x.flip(0), batch)
        oracle.descend(x, torch.ones(3, 1), [batch] * 3)
        oracle.descend(x[0], torch.ones(1), [Batch(batch.samples[0], batch.weights[0])] * 3)
    with ThreadPoolExecutor(3) as callers:
        list(callers.map(lambda _: oracle.descend(x, torch.ones(3, 1), [batch] * 3), range(6)))
    oracle.evaluate(x)
for sizes, width in (([1], 1), ([600, 64, 1, 65], 64), ([30, 30], 30)):
    smallest(torch.arange(len(sizes)), sizes, width)
print("through")
"""


@dataclass(frozen=True)
class Sanitizer:
    """How a library is built with it, which libraries a process needs before all others, and how it is told to end."""

    flags: tuple[str, ...]
    preloaded: tuple[str, ...]
    options: str


SANITIZERS = {
    "address": Sanitizer(
        ("-fsanitize=address",),
        ("libasan.so", "libstdc++.so"),  # the second, or the sanitizer does not see torch's exceptions
        "ASAN_OPTIONS=detect_leaks=0",
    ),
    "undefined": Sanitizer(
        ("-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"),
        ("libubsan.so", "libstdc++.so"),
        "UBSAN_OPTIONS=print_stacktrace=1",
    ),
    "thread": Sanitizer(
        ("-fsanitize=thread",),
        ("libtsan.so", "libstdc++.so"),
        "TSAN_OPTIONS=halt_on_error=1:exitcode=66:ignore_noninstrumented_modules=1",
    ),
}


def built(name: str, folder: Path, source: Path | None = None) -> dict[str, str]:
    """Build the library with a sanitizer; the environment of a process that can load it."""
    command, sanitizer = build.compiler(), SANITIZERS[name]
    if command is None:
        pytest.skip("no C++ compiler")
    runtimes = [
        subprocess.run([command, f"-print-file-name={one}"], capture_output=True, text=True, check=True).stdout.strip()
        for one in sanitizer.preloaded
    ]
    if not all(Path(runtime).is_absolute() for runtime in runtimes):
        pytest.skip(f"the compiler has no {sanitizer.preloaded[0]}")
    if source is None:
        build.build(LEVEL, folder, extra_flags=("-O1", "-g", *sanitizer.flags))
    else:
        flags = ("-std=c++17", "-g", "-shared", "-fPIC", "-pthread", *sanitizer.flags)
        subprocess.run([command, *flags, str(source), "-o", str(folder / "wrong.so")], check=True, capture_output=True)
    option, _, value = sanitizer.options.partition("=")
    more = {"LD_PRELOAD": " ".join(runtimes), option: value, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"}
    return os.environ | more


def run(script: str, argument: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A process whose addresses are not randomised: the thread sanitizer needs them where it expects them."""
    fixed = ["setarch", platform.machine(), "-R"]
    command = [*fixed, sys.executable, "-c", script, str(argument)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=900)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="libraries are preloaded as Linux does it")
@pytest.mark.parametrize("name", SANITIZERS)
def test_every_kernel(name: str, tmp_path: Path) -> None:
    """On shapes with remainders in every direction, two threads at once, and several callers."""
    done = run(EXERCISE, tmp_path, built(name, tmp_path))
    assert "through" in done.stdout, done.stderr[-3000:]
    assert "ERROR: " not in done.stderr
    assert "WARNING: ThreadSanitizer" not in done.stderr
    assert "runtime error" not in done.stderr


WRONG = {
    "address": "char *p = new char[4]; p[k + 4] = 1;",
    "undefined": "int most = 2147483647; most += k + 1; *out = most;",
    "thread": "std::thread a([&] { *out += 1; }), b([&] { *out += 2; }); a.join(); b.join();",
}
CALL = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).wrong(0, ctypes.byref(ctypes.c_int())); print('through')"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="libraries are preloaded as Linux does it")
@pytest.mark.parametrize("name", SANITIZERS)
def test_what_is_wrong_would_be_found(name: str, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cpp"
    source.write_text(f'#include <thread>\nextern "C" void wrong(int k, int *out) {{ {WRONG[name]} }}\n')
    done = run(CALL, tmp_path / "wrong.so", built(name, tmp_path, source))
    assert "through" not in done.stdout
    assert "Sanitizer" in done.stderr or "runtime error" in done.stderr
