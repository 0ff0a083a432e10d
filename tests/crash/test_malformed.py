"""Malformed input by the hundred: whatever is read is understood, or refused in one sentence; never a traceback."""

import contextlib
import json
import random
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedamd
from fedamd.data.base import Partition
from fedamd.data.idx import read_idx
from fedamd.engines.disk_store import DiskStore
from fedamd.errors import FedamdError
from fedamd.runs import checkpoint
from fedamd.runs.config import load_config, parse_setting
from fedamd.runs.metrics import Metrics
from fedamd.runs.sealed import read_json
from fedamd.studies.paper.store import PaperStore

fuzz = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    (
        *("data", "data.name", "data.samples", "partition", "model.hidden", "algorithm", "algorithm.p"),
        *("algorithm.eta_l", "clients", "cohort", "rounds", "seed", "engine", "dtype", "evaluate_every"),
        *("micro_batch", "x.y.z", "a..b"),
    )
)


@contextlib.contextmanager
def in_words():
    """A refusal is fine; anything else that is raised is not."""
    with contextlib.suppress(FedamdError):
        yield


@fuzz
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_files(content, tmp_path):
    """The same bytes as every kind of file."""
    path = tmp_path / "file"
    path.write_bytes(content)
    for read in (load_config, checkpoint.load, read_json, lambda p: read_idx(p, 1), lambda p: Metrics(p, True).read()):
        with in_words():
            read(path)
    (tmp_path / "held.sqlite").write_bytes(content)
    with in_words():
        DiskStore(tmp_path / "held.sqlite").rewind(1)
    for leftover in tmp_path.glob("held*"):
        leftover.unlink()


@fuzz
@given(changes=st.dictionaries(KEYS, values, max_size=3))
def test_configs(changes):
    with in_words():
        load_config({}, changes)


@fuzz
@given(text=st.text(max_size=60) | st.builds("{}={}".format, KEYS, st.text(max_size=40)))
def test_settings(text):
    with in_words():
        key, value = parse_setting(text)
        load_config({}, {key: value})


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000, "{a=" * 3000, '"' * 99, "\x00", "1e400", "nan", "-0"])
def test_settings_that_are_too_much(value):
    for key in ("rounds", "algorithm.eta_l", "data.samples"):
        with in_words():
            load_config({}, dict([parse_setting(f"{key}={value}")]))


@fuzz
@given(lines=st.lists(values.map(json.dumps) | st.text(max_size=30), max_size=4))
def test_metrics_and_stores_of_results(lines, tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(errors="surrogatepass"))
    for sealed in (False, True):
        with in_words():
            Metrics(path, sealed).until(2)
    with in_words():
        PaperStore(tmp_path)


@fuzz
@given(owned=st.lists(st.lists(st.integers(-3, 6) | st.floats() | st.booleans(), max_size=3), max_size=3))
def test_partitions(owned):
    """What is accepted has every sample once, from 0 on."""
    with in_words():
        samples = Partition.of(owned).order.tolist()
        assert min(samples) >= 0
        assert len(set(samples)) == len(samples)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    config = {"data": {"name": "quadratic", "dimension": 3, "samples": 2}, "clients": 4, "cohort": 2, "rounds": 3}
    fedamd.run(config, out=folder, checkpoint_every=1, client_store="disk", algorithm={"cache": "client"})
    sqlite3.connect(folder / "held.sqlite").close()
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


@fuzz
@given(seed=st.integers(0, 2**32))
def test_a_store_with_damage_is_read_as_it_was_or_refused(seed, finished, tmp_path):
    chance = random.Random(seed)
    content = bytearray(finished["held.sqlite"])
    for _ in range(chance.randint(1, 4)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    (tmp_path / "held.sqlite").write_bytes(content)
    with in_words():
        store = DiskStore(tmp_path / "held.sqlite")
        store.rewind(3)
        store.check()
    for leftover in tmp_path.glob("held*"):
        leftover.unlink()
