"""Grids: what --grid words mean, and folder names that tell every point apart."""

import pytest

from fedamd.campaigns.grid import Grid
from fedamd.errors import FedamdError


def test_values_are_read_as_settings_are():
    grid = Grid.parse(["algorithm.eta_l=0.1,1e-3", "algorithm.large_batch=full, 64", "seed = 0,1"])
    assert grid.axes == {"algorithm.eta_l": [0.1, 0.001], "algorithm.large_batch": ["full", 64], "seed": [0, 1]}
    assert [list(point.values()) for point in grid.points()[:3]] == [[0.1, "full", 0], [0.1, "full", 1], [0.1, 64, 0]]
    assert len(grid.points()) == 8


def test_values_with_commas_are_given_as_toml():
    grid = Grid.parse(['algorithm.pattern=["0,1", "0,0,1"]', "clients=[3, 4]"])
    assert grid.axes == {"algorithm.pattern": ["0,1", "0,0,1"], "clients": [3, 4]}
    assert Grid.parse(["algorithm.pattern=[[0, 1], [0.0, 0.5]]"]).axes["algorithm.pattern"] == [[0, 1], [0.0, 0.5]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "at least one --grid"),
        (["seed"], "--grid seed: expected key=value,value"),
        (["seed="], "expected key=value,value"),
        (["=1,2"], "expected key=value,value"),
        (["seed=1,,2"], "a value is missing between two commas"),
        (["seed=1,2,"], "a value is missing between two commas"),
        (["seed=[]"], "--grid seed has no values"),
        (["seed=1,2", "seed=3"], "--grid seed is given twice"),
        (["algorithm.eta_l=0.1,0.2,1e-1"], "--grid algorithm.eta_l has the value 0.1 twice"),
    ],
)
def test_bad_words_are_refused(words, says):
    with pytest.raises(FedamdError) as refused:
        Grid.parse(words)
    assert says in str(refused.value)


def test_names_say_the_settings():
    grid = Grid.parse(["algorithm.eta_l=0.1,0.03", "seed=0"])
    assert grid.names() == ["eta_l=0.1,seed=0", "eta_l=0.03,seed=0"]


def test_keys_that_end_alike_are_written_out():
    grid = Grid.parse(["algorithm.name=fedavg", "model.name=mlp", "seed=7"])
    assert grid.names() == ["algorithm.name=fedavg,model.name=mlp,seed=7"]


@pytest.mark.parametrize(
    "values",
    [
        ["a/b", "a b", "a_b", "../../x", "..", "a\\b"],
        ["0,1", "0;1", [0, 1], "[0; 1]"],
        [1, "1", "x" * 300, "x" * 301],
        ["a,b=1", "a", "é\n", "\x00"],
    ],
)
def test_no_two_points_share_a_folder(values, tmp_path):
    """Whatever the values, every point has one ordinary folder directly inside the sweep's."""
    grid = Grid({"algorithm.key": values, "b": [1, 2]})
    names = grid.names()
    assert len(set(names)) == len(names) == 2 * len(values)
    for name in names:
        (tmp_path / name).mkdir()
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    assert grid.names() == names
