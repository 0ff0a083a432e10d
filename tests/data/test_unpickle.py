"""Pickles of arrays are read; pickles that want to execute something are not."""

import io
import os
import pickle
import pickletools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedamd.data.unpickle import read_plain_pickle
from fedamd.errors import FedamdError

PIXELS = np.arange(12, dtype=np.uint8).reshape(3, 4)


def written(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_bytes_in_every_protocol(tmp_path, protocol):
    path = written(tmp_path / "batch", pickle.dumps({b"data": PIXELS, "labels": [1, 2, 3]}, protocol))
    found = read_plain_pickle(path)
    assert found["data"].tolist() == PIXELS.tolist()
    assert found["labels"] == [1, 2, 3]


def python_2(shape=b"(I3\nI4\nt", content=bytes(range(12))):
    """As Python 2 wrote CIFAR: {'data': array}, protocol 0 with a string of bytes."""
    text = b"S" + repr(content)[1:].encode() + b"\n"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    dtype = b"cnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
    return b"(dS'data'\n" + array + b"(I1\n" + shape + dtype + b"I00\n" + text + b"tbs."


def test_as_python_2_wrote_them(tmp_path):
    assert read_plain_pickle(written(tmp_path / "old", python_2()))["data"].tolist() == PIXELS.tolist()


class Evil:
    def __init__(self, call, *arguments):
        self.reduced = (call, arguments)

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_wants_to_execute_is_refused(tmp_path, protocol):
    trace = tmp_path / "executed"
    for evil in (Evil(os.mkdir, str(trace)), Evil(eval, f"open({str(trace)!r}, 'w')"), Evil(getattr, "word", "format")):
        path = written(tmp_path / "evil", pickle.dumps({"data": evil}, protocol))
        with pytest.raises(FedamdError, match=r"evil was not read: it wants to use \w+\.\w+, and data needs no such"):
            read_plain_pickle(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (pickle.dumps([1]), "holds a list, not a dictionary"),
        (pickle.dumps({1: 2}), "the key 1, which is no word"),
        (pickle.dumps({"data": PIXELS.astype(np.float32)}), "not of unsigned bytes"),
        (pickle.dumps({"data": np.array([{}], dtype=object)}), "not of unsigned bytes"),
        (python_2(shape=b"(I3\nI5\nt"), r"shape \(3, 5\) with 12 bytes"),
        (python_2(shape=b"(I-3\nI-4\nt"), "is not a pickle, or|was not read"),
        (b"", "is not a pickle, or is cut off"),
        (pickle.dumps({"data": PIXELS})[:-9], "is not a pickle, or is cut off"),
        (b"\x80\x04" + b"r\xff\xff\xff\x7f" + b".", "is not a pickle, or is cut off"),
        (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x0f.", "is not a pickle, or is cut off"),
    ],
)
def test_what_is_no_data(tmp_path, content, sentence):
    with pytest.raises(FedamdError, match=sentence):
        read_plain_pickle(written(tmp_path / "bad", content))


GOOD = pickle.dumps({"data": PIXELS, "labels": [1, 2, 3]}, 4)


@given(st.one_of(st.binary(max_size=100), st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255))))
def test_any_bytes_are_a_dictionary_or_a_sentence(tmp_path_factory, change):
    content = change
    if isinstance(change, tuple):
        content = GOOD[: change[0]] + bytes([change[1]]) + GOOD[change[0] + 1 :]
    try:
        found = read_plain_pickle(written(tmp_path_factory.mktemp("fuzz") / "any", content))
    except FedamdError:
        return
    assert all(isinstance(key, str) for key in found)
    list(pickletools.genops(io.BytesIO(content)))
