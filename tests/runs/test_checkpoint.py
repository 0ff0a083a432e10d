"""Checkpoints: whole or not at all, and nothing but tensors and JSON in them."""

import pytest
import torch
from safetensors.torch import save_file

from fedamd.errors import FedamdError
from fedamd.runs import checkpoint


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_what_is_saved_is_loaded(tmp_path, dtype):
    tensors = {"a": torch.arange(6).reshape(2, 3).to(dtype), "empty": torch.zeros(0, 3, dtype=dtype)}
    facts = {"t": 3, "status": "running", "nested": {"x": [1, None, "ü"]}}
    checkpoint.save(tmp_path / "c", tensors, facts)
    loaded, told = checkpoint.load(tmp_path / "c")
    assert told == facts
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensors[name]) and loaded[name].dtype == dtype for name in tensors)


def test_tensors_that_share_memory_are_saved_apart(tmp_path):
    """A method may keep x under two names, or a view of a larger stack."""
    x = torch.arange(6.0)
    checkpoint.save(tmp_path / "c", {"x": x, "previous": x, "part": x[:3], "tail": x[3:], "turned": x.view(2, 3).T}, {})
    loaded, _ = checkpoint.load(tmp_path / "c")
    assert loaded["x"].tolist() == loaded["previous"].tolist() == [0, 1, 2, 3, 4, 5]
    assert loaded["part"].tolist() == [0, 1, 2]
    assert loaded["tail"].tolist() == [3, 4, 5]
    assert loaded["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    checkpoint.save(tmp_path / "c", {"x": torch.ones(2)}, {"t": 1})
    with pytest.raises(TypeError):
        checkpoint.save(tmp_path / "c", {"x": torch.zeros(2)}, {"t": object()})
    with pytest.raises(FileNotFoundError), checkpoint.replacing(tmp_path / "c"):
        pass  # nothing was written that could take its place
    tensors, facts = checkpoint.load(tmp_path / "c")
    assert (tensors["x"].tolist(), facts) == ([1, 1], {"t": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("keep", [0, 4, 60, -1])
def test_a_file_cut_short_is_refused(tmp_path, keep):
    checkpoint.save(tmp_path / "c", {"x": torch.ones(50)}, {"t": 1})
    whole = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(whole[:keep])
    with pytest.raises(FedamdError, match=r"cannot be read \(damaged or cut short\?\)"):
        checkpoint.load(tmp_path / "c")


def test_foreign_and_missing_files_are_refused(tmp_path):
    save_file({"x": torch.ones(2)}, tmp_path / "foreign")
    with pytest.raises(FedamdError, match="foreign is not a checkpoint of this program"):
        checkpoint.load(tmp_path / "foreign")
    with pytest.raises(FedamdError, match="cannot be read"):
        checkpoint.load(tmp_path / "nowhere")
    (tmp_path / "text").write_text("hello " * 100)
    with pytest.raises(FedamdError, match="cannot be read"):
        checkpoint.load(tmp_path / "text")
