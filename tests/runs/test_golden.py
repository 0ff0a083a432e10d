"""Folders of every format there was can be read, checked and continued."""

import shutil
from pathlib import Path

import pytest
import torch

import fedamd
from fedamd.errors import FedamdError
from fedamd.report.stored import read_run
from fedamd.runs.verify import verify

GOLDEN = sorted(Path(__file__).with_name("golden").iterdir())


@pytest.mark.filterwarnings("ignore:.*the last bits may differ")
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_an_old_folder_goes_on(golden, tmp_path):
    folder = shutil.copytree(golden, tmp_path / "run")
    before = read_run(folder)
    assert verify(folder).wrong == []
    assert [record.round for record in before.records] == [-1, 0, 1, 2, 3]
    after = fedamd.resume(folder, rounds=6)
    assert [record.round for record in after.metrics] == [-1, 0, 1, 2, 3, 4, 5]
    assert after.metrics[:5] == before.records
    assert fedamd.resume(folder).metrics == after.metrics
    assert verify(folder).checkpoints


# --- a run with objects from Python, of the time when a config did not tell of them ---

OBJECTS = Path(__file__).with_name("golden_objects")


def objects():
    """What that run was given."""
    inputs = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
    targets = (inputs[:, 0] > 0).long()
    owners = fedamd.Partition.of([range(8), range(8, 16), range(16, 24)])
    torch.manual_seed(0)
    return {
        "dataset": fedamd.Dataset("mine", inputs, targets, inputs, targets, 2, owners),
        "model": torch.nn.Linear(3, 2),
        "algorithm": fedamd.FedAvg(eta_l=0.05, steps=2, small_batch=4),
    }


@pytest.mark.filterwarnings("ignore:.*the last bits may differ")
def test_an_old_run_with_objects_is_told_apart_and_continued_with_them_alone(tmp_path):
    folder = shutil.copytree(OBJECTS, tmp_path / "run")
    assert verify(folder).wrong == []
    stored = read_run(folder)
    assert [record.round for record in stored.records] == [-1, 0, 1, 2, 3]
    given = objects()
    with pytest.raises(FedamdError, match="was begun with"):
        fedamd.resume(folder, rounds=6)
    with pytest.raises(FedamdError, match=r"algorithm = FedAvg\(.*eta_l=0.05.*resume it with that"):
        fedamd.resume(folder, rounds=6, **(given | {"algorithm": fedamd.FedAvg(eta_l=0.3)}))
    with pytest.raises(FedamdError, match="an object from Python, Linear: give it as model="):
        fedamd.load_model(folder)
    assert isinstance(fedamd.load_model(folder, given["model"]), torch.nn.Linear)
    after = fedamd.resume(folder, rounds=6, **given)
    whole = fedamd.run({"clients": 3, "cohort": 2, "rounds": 6, "engine": "loop"}, **objects())
    torch.testing.assert_close(after.x, whole.x)
    page = fedamd.report(folder, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "FedAvg on mine" in page
