"""What clients hold: the stores in memory and on disk behave as one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedamd.engines import client_store
from fedamd.engines.client_store import MemoryStore
from fedamd.engines.disk_store import DiskStore

LIKE = torch.zeros(3, dtype=torch.float64)
EVERYONE = range(6)


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1).repeat(1, 3)


def contents(held) -> dict[str, list[list[float]]]:
    return {name: held.read(name, EVERYONE, LIKE).tolist() for name in ("a", "b")}


writes = st.lists(
    st.tuples(
        st.lists(st.sampled_from(EVERYONE), min_size=1, max_size=6, unique=True),
        st.sampled_from([("a",), ("b",), ("a", "b")]),
        st.booleans(),
    ),
    max_size=8,
)


@pytest.mark.parametrize("on_host", [False, True])
@settings(deadline=None, max_examples=50)
@given(writes=writes)
def test_memory_and_disk_are_one(on_host, writes, tmp_path_factory):
    """Any sequence of writes of any names, committed now and then, against a dictionary."""
    memory, disk = MemoryStore(on_host), DiskStore(tmp_path_factory.mktemp("held") / "held.sqlite")
    model: dict[tuple[str, int], float] = {}
    for number, (clients, names, committed) in enumerate(writes, start=1):
        stack = rows(*(100.0 * number + client for client in clients))
        for held in (memory, disk):
            held.write(clients, dict.fromkeys(names, stack))
        model |= {(name, client): 100.0 * number + client for name in names for client in clients}
        if committed:
            disk.commit(number)
    expected = {name: [[model.get((name, client), 0.0)] * 3 for client in EVERYONE] for name in ("a", "b")}
    fresh = [all((name, client) not in model for name in ("a", "b")) for client in EVERYONE]
    for held in (memory, disk):
        assert contents(held) == expected
        assert held.fresh(EVERYONE) == fresh


@pytest.mark.parametrize("on_host", [False, True])
def test_a_store_restored_from_its_tensors_goes_on_like_the_first(on_host):
    first = MemoryStore(on_host)
    first.write([4, 1], {"a": rows(4, 1)})
    second = MemoryStore(on_host)
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    for held in (first, second):
        held.write([1, 0], {"a": rows(10, 20), "b": rows(5, 6)})
    assert contents(second) == contents(first)
    assert second.fresh(EVERYONE) == first.fresh(EVERYONE) == [False, False, True, True, False, True]


@pytest.mark.parametrize("on_host", [False, True])
def test_nobody_of_those_who_hold_something_may_be_here(on_host):
    """As on one of several processes that a checkpoint is divided among."""
    held = MemoryStore(on_host)
    held.restore({"clients": torch.tensor([], dtype=torch.int64), "a": rows()})
    assert held.tensors()["a"].shape == (0, 3)


def test_every_stack_of_a_checkpoint_has_a_row_for_every_client():
    """Also one of a name that later clients never wrote."""
    held = MemoryStore()
    held.write([3], {"a": rows(1), "b": rows(2)})
    held.write([5, 0], {"a": rows(10, 20)})
    tensors = held.tensors()
    assert tensors["clients"].tolist() == [3, 5, 0]
    assert tensors["a"][:, 0].tolist() == [1, 10, 20]
    assert tensors["b"][:, 0].tolist() == [2, 0, 0]


def test_large_vectors_take_the_room_they_need(monkeypatch):
    monkeypatch.setattr(client_store, "LARGE", 3)
    held = MemoryStore()
    for client in range(5):
        held.write([client, client + 1], {"a": rows(client, client)})
    assert contents(held)["a"] == [[float(value)] * 3 for value in (0, 1, 2, 3, 4, 4)]
    vectors = held._kept["a"]._vectors.values()
    assert sum(vector.untyped_storage().nbytes() for vector in vectors) == 6 * 3 * LIKE.element_size()


def test_what_is_read_is_a_copy():
    held = MemoryStore()
    held.write([0], {"a": rows(1)})
    held.read("a", [0], LIKE).zero_()
    assert held.read("a", [0], LIKE).tolist() == [[1, 1, 1]]
