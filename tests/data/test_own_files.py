"""A user's own file from the configuration: a whole run on a CSV file whose clients are in one of its columns."""

import numpy as np
import pytest

import fedamd
from fedamd.errors import FedamdError


@pytest.fixture
def table(tmp_path):
    """Two classes that a line tells apart, at three sites of 20, 30 and 50 patients."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(100, 2))
    sites = np.repeat(["north", "south", "west"], [20, 30, 50])
    kinds = np.where(points.sum(1) > 0, "ill", "well")
    rows = [f"{a:.4f},{b:.4f},{site},{kind}" for (a, b), site, kind in zip(points, sites, kinds, strict=True)]
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(["a,b,site,outcome", *rows]))
    return path


def config(file, **data):
    return {
        "data": {"name": "csv", "path": str(file), "target": "outcome", "client": "site"} | data,
        "model": {"name": "softmax"},
        "algorithm": {"name": "fedavg", "eta_l": 0.5, "steps": 5},
        "cohort": 3,
        "rounds": 20,
    }


def test_a_run_on_a_table(table):
    result = fedamd.run(config(table, test_share=0.3))
    assert result.summary["final_accuracy"] > 0.9


def test_the_same_from_python(table):
    data = fedamd.Dataset.of(table, target="outcome", client="site", test_share=0.3, name="patients")
    assert data.clients.sizes == (14, 21, 35)
    plain = config(table)
    del plain["data"]
    given = fedamd.run(plain, dataset=data)
    assert given.x.tolist() == fedamd.run(config(table, test_share=0.3)).x.tolist()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"path": "none.csv"}, "there is no file none.csv"),
        ({"path": "none.npz"}, r"none\.npz is not a \.csv file"),
        ({"target": "outcme"}, "no column 'outcme'; it has a, b, site, outcome"),
        ({"test_share": 2}, "test_share must be above 0 and below 1"),
        ({"targt": "a"}, "no option targt .did you mean target"),
        ({"columns": ["a", "c"]}, "no column 'c'"),
    ],
)
def test_mistakes_are_sentences(table, data, sentence):
    with pytest.raises(FedamdError, match=sentence):
        fedamd.run(config(table, **data))


@pytest.mark.parametrize(("name", "told"), [("clients", "owners"), ("targets", "targets")])
def test_owners_and_targets_that_are_no_list_are_refused(name, told, tmp_path):
    path = tmp_path / "odd.npz"
    np.savez(path, **({"inputs": np.zeros((4, 2)), "targets": np.arange(4) % 2} | {name: np.array(3)}))
    with pytest.raises(FedamdError, match=f"the {told} of training samples must be a word or number for each"):
        fedamd.data.load("npz", path=str(path))
