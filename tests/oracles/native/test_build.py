"""The build: what the library is called, and what happens without a compiler."""

from pathlib import Path

import pytest

from fedamd.errors import FedamdError
from fedamd.oracles.native import available, build, library

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
