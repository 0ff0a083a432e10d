"""Folders of every format there was can be read, checked and continued."""

import shutil
from pathlib import Path

import pytest

import fedamd
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
