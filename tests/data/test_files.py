"""CSV and NPZ files, good and bad."""

import os
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedamd.data import Dataset
from fedamd.data.files import read_csv, read_npz
from fedamd.errors import FedamdError

PATIENTS = """age,dose,site,outcome
30,1.5,north,ill
40,2.5,south,well
50,3.5,north,well
60,4.5,south,ill
"""


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_file(tmp_path, delimiter):
    path = written(tmp_path / "patients.csv", "\ufeff" + PATIENTS.replace(",", delimiter))
    data = Dataset.of(str(path), target="outcome", client="site", test_share=0.5)
    assert data.class_names == ("ill", "well")
    assert data.client_names == ("north", "south")
    assert data.clients.sizes == (1, 1)
    both = torch.cat([data.inputs, data.test_inputs])
    assert sorted(both.tolist()) == [[30, 1.5], [40, 2.5], [50, 3.5], [60, 4.5]]
    assert data.client_tests.owners.tolist() == [0, 1] or data.client_tests.owners.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "has no samples"),
        ("a,b\n", "has no samples"),
        ("a,a\n1,2\n", "names a column 'a', which is empty or there twice"),
        ("a,b\n1,2\n3\n", "row 2 has 1 values, and the header names 2 columns"),
        ("a,b\n1,2\n3, \n", "row 2 has no value in the column 'b'"),
        (b"a,b\n\xff\xfe,2\n", "not a CSV file in UTF-8"),
        ('a,b\n"1,2\n', "not a CSV file"),
        ("a,b\n1,nan\n1,2\n", "not finite"),
        ("a,label\nred,0\n1,1\n", "column 'a' holds 'red', and inputs are numbers"),
    ],
)
def test_csv_files_that_cannot_be(tmp_path, content, sentence):
    path = written(tmp_path / "bad.csv", content)
    with pytest.raises(FedamdError, match=sentence):
        Dataset.of(path, target="label" if b"label" in path.read_bytes() else "a", test=path)


def test_what_is_no_file(tmp_path):
    with pytest.raises(FedamdError, match="there is no file"):
        read_csv(tmp_path / "none.csv")
    with pytest.raises(FedamdError, match="is a folder"):
        read_csv(tmp_path)
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(FedamdError, match="no ordinary file"):
        read_npz(tmp_path / "pipe.npz")
    with pytest.raises(FedamdError, match=r"a \.csv or \.npz file is expected"):
        Dataset.of(tmp_path / "data.parquet")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_table_or_a_sentence(tmp_path_factory, content):
    path = written(tmp_path_factory.mktemp("fuzz") / "any.csv", content)
    try:
        table = read_csv(path)
    except FedamdError:
        return
    assert len({len(column) for column in table.values()}) == 1


def test_an_npz_file(tmp_path):
    inputs = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.savez(tmp_path / "own.npz", inputs=inputs, targets=[0, 1, 0, 1], clients=[0, 0, 1, 1])
    data = Dataset.of(tmp_path / "own.npz", test_share=0.5)
    assert data.clients.sizes == (1, 1)
    np.savez(tmp_path / "keras.npz", x_train=inputs, y_train=[0, 1, 0, 1], x_test=inputs[:1], y_test=[1])
    data = Dataset.of(tmp_path / "keras.npz")
    assert (len(data.inputs), len(data.test_inputs)) == (4, 1)
    np.savez(
        tmp_path / "all.npz",
        inputs=inputs,
        targets=[0, 1, 0, 1],
        clients=[0, 0, 1, 1],
        test_inputs=inputs[:1],
        test_targets=[1],
        test_clients=[1],
    )
    assert Dataset.of(tmp_path / "all.npz").client_tests.owners.tolist() == [1]


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_npz_files_that_cannot_be(tmp_path):
    trace = tmp_path / "executed"
    np.savez(tmp_path / "evil.npz", inputs=np.array([Evil(trace)], dtype=object), targets=[0])
    with pytest.raises(FedamdError, match="not an NPZ file of plain arrays"):
        Dataset.of(tmp_path / "evil.npz")
    written(tmp_path / "pickle.npz", pickle.dumps(Evil(trace)))
    with pytest.raises(FedamdError, match="not an NPZ file"):
        read_npz(tmp_path / "pickle.npz")
    assert not trace.exists()
    np.savez(tmp_path / "odd.npz", data=[1])
    with pytest.raises(FedamdError, match="holds data; the arrays inputs and targets are expected"):
        read_npz(tmp_path / "odd.npz")
    np.savez(tmp_path / "half.npz", inputs=[1], targets=[1], test_inputs=[1])
    with pytest.raises(FedamdError, match="both or none"):
        read_npz(tmp_path / "half.npz")
    whole = (tmp_path / "half.npz").read_bytes()
    for end in (0, 10, len(whole) // 2, len(whole) - 1):
        written(tmp_path / "cut.npz", whole[:end])
        with pytest.raises(FedamdError, match=r"cut\.npz"):
            read_npz(tmp_path / "cut.npz")
