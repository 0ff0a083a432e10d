"""TensorBoard events, read back with TensorBoard's own reader."""

import sys
from pathlib import Path
from typing import Any

import pytest

from fedamd.errors import FedamdError
from fedamd.report.tensorboard import TensorBoardListener
from fedamd.runs.api import resume, run

SMALL: dict[str, Any] = {"clients": 6, "cohort": 3, "rounds": 3}


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder)).Reload()
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_every_number_of_every_round(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    with TensorBoardListener(out / "tensorboard") as listen:
        result = run(SMALL, out=out, listen=listen)
    written = scalars(out / "tensorboard")
    accuracies = [(record.round + 1, pytest.approx(record.accuracy)) for record in result.metrics]
    assert written["measured/test accuracy"] == accuracies
    assert [step for step, _ in written["cost/gradient samples"]] == [1, 2, 3]  # none for the start-up
    assert written["cost/gradient samples"][-1][1] == result.summary["gradient_samples"]
    together = zip(written["clients/anchors"], written["clients/miners"], strict=True)
    assert [anchors[1] + miners[1] for anchors, miners in together] == [3, 3, 3]


def test_a_resumed_run_goes_on_in_the_same_place(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    with TensorBoardListener(out / "tensorboard") as listen:
        run(SMALL, out=out, listen=listen)
    with TensorBoardListener(out / "tensorboard") as listen:
        resume(out, listen=listen, rounds=5)
    assert [step for step, _ in scalars(out / "tensorboard")["measured/test loss"]] == [0, 1, 2, 3, 4, 5]


def test_without_the_package_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(FedamdError, match=r"pip install 'fedamd\[tensorboard\]'"):
        TensorBoardListener(tmp_path)
