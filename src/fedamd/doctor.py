"""What this machine has of all that fedamd can use, and how to mend what is slow or missing."""

import importlib.metadata
import os
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedamd import __version__

PACKAGES = ("torch", "numpy", "safetensors", "pydantic", "typer", "rich", "matplotlib", "scikit-learn")
EXTRAS = {"flower": "flwr", "tensorboard": "tensorboard", "docs": "mkdocs", "test": "pytest"}  # extra → what it brings
SCARCE = 2 << 30  # bytes of disk below which a study may not end


@dataclass(frozen=True)
class Findings:
    """What was found, by subject; `advice` is what can be mended, most useful first."""

    versions: dict[str, str | None]
    cpu: dict[str, Any]
    gpu: dict[str, Any]
    data: dict[str, str | None]
    extras: dict[str, str | None]
    disk: dict[str, Any]
    advice: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def examine() -> Findings:
    """Look at everything; nothing is changed, and nothing is looked up on a network."""
    cpu, gpu, data, disk = _cpu(), _gpu(), _data(), _disk()
    basics: dict[str, str | None] = {
        "fedamd": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    return Findings(
        versions=basics | {package: version_of(package) for package in PACKAGES},
        cpu=cpu,
        gpu=gpu,
        data=data,
        extras={extra: version_of(package) for extra, package in EXTRAS.items()},
        disk=disk,
        advice=[*_cpu_advice(cpu), *_gpu_advice(gpu), *_data_advice(data), *_disk_advice(disk)],
    )


def version_of(package: str) -> str | None:
    """The version of an installed package, None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, Any]:
    import torch

    from fedamd.oracles.native import available, build, library
    from fedamd.oracles.native.oracle import visible_cpus

    unavailable = available()
    level = None if unavailable else library.level()
    return {
        "machine": platform.machine(),
        "cores": visible_cpus(),
        "torch_threads": torch.get_num_threads(),
        "levels": [level.name for level in build.runnable()],
        "native_library": level.name if level else None,
        "unavailable": unavailable,
        "compiler": build.compiler(),
    }


def _cpu_advice(cpu: dict[str, Any]) -> list[str]:
    if cpu["unavailable"] and cpu["levels"]:
        return [f"small networks train several times slower than they could: the native oracle's {_of(cpu)}"]
    if cpu["levels"] and cpu["native_library"] != cpu["levels"][0] and not os.environ.get("FEDAMD_CPU"):
        best, used = cpu["levels"][0], cpu["native_library"]
        return [f"the native library is for {used} and this CPU can do {best}: run `python -m fedamd.oracles.native`"]
    return []


def _of(cpu: dict[str, Any]) -> str:
    reason = str(cpu["unavailable"]).removeprefix("its ")
    return reason if cpu["compiler"] else f"{reason}; there is no compiler here: install g++ or clang++ first"


def _gpu() -> dict[str, Any]:
    import torch

    found = torch.cuda.is_available()
    return {
        "torch_built_for": torch.version.cuda or torch.version.hip or "cpu",
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if found else [],
        "triton": version_of("triton"),
        "driver": shutil.which("nvidia-smi"),
    }


def _gpu_advice(gpu: dict[str, Any]) -> list[str]:
    if gpu["devices"] and gpu["triton"] is None:
        return ["the GPU runs without its fused kernels: `pip install triton`"]
    if gpu["driver"] and gpu["torch_built_for"] == "cpu":
        return ["there is an NVIDIA driver, but this PyTorch is built for CPUs: install a CUDA build (pytorch.org)"]
    if gpu["driver"] and not gpu["devices"]:
        return ["there is an NVIDIA driver, but PyTorch sees no GPU: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES"]
    return []


def _data() -> dict[str, str | None]:
    from fedamd.data.locate import IDX_SETS, find

    found = {name: find(name) for name in IDX_SETS}
    return {name: str(files.train_images.parent) if files else None for name, files in found.items()}


def _data_advice(data: dict[str, str | None]) -> list[str]:
    missing = [name for name, place in data.items() if place is None]
    return [f"the paper's data is not here: `fedamd data fetch {name}`" for name in missing if name == "fashion-mnist"]


def _disk() -> dict[str, Any]:
    here = Path.cwd()
    return {"folder": str(here), "free_bytes": shutil.disk_usage(here).free, "writable": os.access(here, os.W_OK)}


def _disk_advice(disk: dict[str, Any]) -> list[str]:
    advice = []
    if not disk["writable"]:
        advice.append(f"{disk['folder']} cannot be written to: give runs another folder with --out")
    if disk["free_bytes"] < SCARCE:
        advice.append(f"only {disk['free_bytes'] / 1e9:.1f} GB are free in {disk['folder']}")
    return advice
