"""LEAF's JSON files, made small."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedamd.data import load
from fedamd.errors import FedamdError


def user(labels, start=0.0, width=784):
    return {"x": [[start + row] * width for row in range(len(labels))], "y": labels}


def write(folder, part, *files):
    (folder / part).mkdir(parents=True, exist_ok=True)
    for number, users in enumerate(files):
        content = {"users": list(users), "num_samples": [len(one["y"]) for one in users.values()], "user_data": users}
        (folder / part / f"all_data_{number}.json").write_text(json.dumps(content))


def test_every_writer_is_a_client_with_tests_of_its_own(tmp_path):
    write(tmp_path / "data", "train", {"f001": user([61, 0]), "f000": user([5])}, {"f002": user([7, 8, 9])})
    write(tmp_path / "data", "test", {"f002": user([1]), "f000": user([2])})
    data = load("femnist", path=str(tmp_path))
    assert data.inputs.shape == (6, 1, 28, 28)
    assert data.classes == 62
    assert data.client_names == ("f000", "f001", "f002")
    assert data.clients.sizes == (1, 2, 3)
    assert data.targets[data.clients.samples(1)].tolist() == [61, 0]
    assert data.test_targets.tolist() == [1, 2]
    assert data.client_tests.owners.tolist() == [2, 0]


def test_3400_writers(tmp_path):
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, 3400)
    users = {f"f{number:04}": user([number % 62] * int(size), width=4) for number, size in enumerate(sizes)}
    write(tmp_path, "train", users)
    data = load("leaf", path=str(tmp_path), classes=62, test_share=0.3)
    assert len(data.clients) == 3400
    assert list(data.clients.sizes) == [size - 1 for size in sizes]
    assert (data.targets[data.clients.samples(100)] == 100 % 62).all()


def test_test_users_that_are_no_clients(tmp_path):
    write(tmp_path, "train", {"a": user([0, 1])})
    write(tmp_path, "test", {"b": user([1])})
    assert load("femnist", path=str(tmp_path)).client_tests is None


@pytest.mark.parametrize(
    ("users", "sentence"),
    [
        ({"a": {"x": [[1.0]], "y": [1, 2]}}, r"user a: x has the shape \(1, 1\) and y \(2,\), not a row for each y"),
        ({"a": {"x": [[1.0], [1.0, 2.0]], "y": [1, 2]}}, "user a: x is not a list of equally long lists of numbers"),
        ({"a": {"x": [["one"]], "y": [1]}}, "x is not a list of equally long"),
        ({"a": {"x": [], "y": []}}, "not a row for each y"),
        ({"a": {"x": [[1.0]], "y": [{}]}}, "values of the types dict"),
        ({"a": {"x": [[1.0]], "y": [62]}}, "holds the label 62; with classes = 62"),
        ({"a": {"x": [[float("nan")]], "y": [1]}}, "not finite"),
        ({"a": {"x": [[1.0]]}}, "is not a file of LEAF"),
        ({"a": {"x": [[1.0]], "y": [1]}, "b": {"x": [[1.0, 2.0]], "y": [1]}}, "all must be equal"),
    ],
)
def test_files_that_cannot_be(tmp_path, users, sentence):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "one.json").write_text(json.dumps({"user_data": users}))
    with pytest.raises(FedamdError, match=sentence):
        load("leaf", path=str(tmp_path), classes=62)


def test_folders_that_cannot_be(tmp_path):
    with pytest.raises(FedamdError, match="no JSON files of LEAF"):
        load("femnist", path=str(tmp_path))
    write(tmp_path, "train", {"a": user([1])}, {"a": user([1])})
    with pytest.raises(FedamdError, match="the user a is in another file"):
        load("femnist", path=str(tmp_path))
    write(tmp_path, "train", {"a": user([1])}, {"b": user([1], width=9)})
    with pytest.raises(FedamdError, match=r"inputs of shape \(9,\) cannot take the shape"):
        load("femnist", path=str(tmp_path))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyab"), inner, max_size=3),
    max_leaves=8,
)


@given(st.one_of(st.binary(max_size=60), VALUES, st.fixed_dictionaries({"user_data": VALUES})))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_data_or_a_sentence(tmp_path, content):
    (tmp_path / "train").mkdir(exist_ok=True)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tmp_path / "train" / "any.json").write_bytes(raw)
    try:
        data = load("leaf", path=str(tmp_path))
    except FedamdError:
        return
    assert len(data.inputs) == len(data.targets)
