"""Instructions and replies as records, and what is refused. Replies with garbage are tested in test_engine.py."""

import pytest
import torch
from flwr.app import Array
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedamd.algorithms.base import Batches
from fedamd.flower.app import wire
from fedamd.flower.app.wire import (
    Answer,
    BadMessage,
    Form,
    Header,
    read_answer,
    read_instruction,
    write_answer,
    write_instruction,
    write_payload,
)

HEADER = Header("run", "module:role", 3, 2**62, -1, 1, 2**40, 7, 5, 60.0)


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["vectors beside the record", "vectors in the record"])
def test_an_instruction_arrives_as_it_was_sent(monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(wire, "_SMALL", small)
    x = torch.tensor([1 / 3, -0.0, 1e-38])
    batches = (Batches(2, 16), Batches(1, "full"))
    sent = wire.write_instruction(HEADER, wire.write_payload({"x": x, "eta_l": 0.1, "k": 3}, batches))
    got = wire.read_instruction(sent, "cpu")
    assert got.header == HEADER
    assert got.batches == batches
    assert got.payload.keys() == {"x", "eta_l", "k"}
    assert torch.equal(got.payload["x"], x)
    assert (got.payload["eta_l"], got.payload["k"]) == (0.1, 3.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_reply_arrives_as_it_was_sent(dtype: torch.dtype) -> None:
    form = Form({"v": (torch.Size([3]), dtype), "fresh": (torch.Size([1]), dtype)}, has_loss=True)
    answer = Answer(9, {"v": torch.tensor([1 / 3, 2, 3], dtype=dtype), "fresh": torch.ones(1, dtype=dtype)}, 0.25)
    got = wire.read_answer(wire.write_answer(answer), 9, form)
    assert (got.number, got.loss) == (9, 0.25)
    assert all(torch.equal(got.values[name], answer.values[name]) for name in ("v", "fresh"))


@pytest.mark.parametrize("loss", [None, float("nan"), float("inf")])
def test_a_loss_must_be_a_finite_number(loss: float | None) -> None:
    form = Form({"v": (torch.Size([1]), torch.float32)}, has_loss=True)
    with pytest.raises(BadMessage, match="loss"):
        wire.read_answer(wire.write_answer(Answer(9, {"v": torch.ones(1)}, loss)), 9, form)


def test_a_loss_nobody_asked_for_is_left_out() -> None:
    form = Form({"v": (torch.Size([1]), torch.float32)}, has_loss=False)
    assert wire.read_answer(wire.write_answer(Answer(9, {"v": torch.ones(1)}, 1.0)), 9, form).loss is None


def test_a_refusal_needs_no_values() -> None:
    form = Form({"v": (torch.Size([1]), torch.float32)}, has_loss=True)
    assert wire.read_answer(wire.write_answer(Answer(9, {}, refusal="Lost: 3")), 9, form).refusal == "Lost: 3"


def test_a_length_that_does_not_fit_its_shape_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(BadMessage, match="8 bytes for 1152921504606846976 numbers"):
        wire._read(Array("float32", (1 << 60,), "fedamd.raw", bytes(8)), may_be_packed=False)
    with pytest.raises(BadMessage):
        wire._read(Array("float32", (-1, -2), "fedamd.raw", bytes(8)), may_be_packed=False)


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["vectors beside the record", "vectors in the record"])
def test_a_compressed_value_is_packed_and_only_where_the_form_says_so(
    monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """100 numbers, one of which is not zero: a width, a gap and the number are 6 bytes instead of 400."""
    monkeypatch.setattr(wire, "_SMALL", small)
    values = {"v": torch.zeros(100).index_fill(0, torch.tensor([41]), 1 / 3)}
    content, plain = (write_answer(Answer(1, values, compressed=names)) for names in (("v",), ()))
    assert 360 < wire.size(plain) - wire.size(content) < 400
    form = Form({"v": (torch.Size([100]), torch.float32)}, has_loss=False)
    packable = Form(form.values, has_loss=False, compressed={"v"})
    assert read_answer(content, 1, packable).values["v"].equal(values["v"])
    assert read_answer(plain, 1, packable).values["v"].equal(values["v"])
    with pytest.raises(BadMessage, match=r"written as fedamd\.sparse"):
        read_answer(content, 1, form)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_packed_number_must_be_finite(bad: float) -> None:
    form = Form({"v": (torch.Size([100]), torch.float32)}, has_loss=False, compressed={"v"})
    values = {"v": torch.zeros(100).index_fill(0, torch.tensor([41]), bad)}
    with pytest.raises(BadMessage, match="not finite"):
        read_answer(write_answer(Answer(1, values, compressed=("v",))), 1, form)


def test_packed_bytes_that_are_no_vector_are_refused() -> None:
    form = Form({"v": (torch.Size([100]), torch.float32)}, has_loss=False, compressed={"v"})
    content = write_answer(Answer(1, {"v": torch.zeros(100)}, compressed=("v",)))
    for way, data in (("fedamd.sparse", b"\1\xff" + bytes(4)), ("fedamd.palette", bytes(9)), (7, b""), ("zip", b"")):
        content["reply"]["vector.v.way"], content["reply"]["vector.v.data"] = way, data  # type: ignore[index]
        with pytest.raises(BadMessage):
            read_answer(content, 1, form)


def test_small_vectors_cost_no_object_of_their_own() -> None:
    """A message's content and its one record; with large vectors also their record, an array and its piece."""
    small, large = (wire.write_answer(Answer(1, {"v": torch.zeros(n)})) for n in (1000, 10**6))
    assert len(get_all_nested_objects(small)) == 2
    assert len(get_all_nested_objects(large)) == 5


def test_the_size_is_that_of_the_numbers_and_little_else() -> None:
    """10⁶ floats are 4·10⁶ bytes; names, shapes and hashes take less than 2,000."""
    content = wire.write_answer(Answer(1, {"v": torch.rand(10**6)}, 0.5))
    assert 4 * 10**6 < wire.size(content) < 4 * 10**6 + 2000


def test_no_valid_reply_is_larger_than_the_limit() -> None:
    values = {"v": torch.rand(3 * 10**6), "w": torch.rand(10), "fresh": torch.ones(1)}
    form = Form({name: (value.shape, value.dtype) for name, value in values.items()}, has_loss=True)
    assert wire.size(wire.write_answer(Answer(2**62, values, 0.5))) < form.most_bytes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_one_number_that_is_not_finite_is_one_too_many(dtype: torch.dtype, bad: float) -> None:
    values = torch.ones(50, dtype=dtype)
    form = Form({"v": (values.shape, dtype)}, has_loss=False)
    assert wire.read_answer(wire.write_answer(Answer(1, {"v": values})), 1, form).values["v"].equal(values)
    values[17] = bad
    with pytest.raises(BadMessage, match="not finite"):
        wire.read_answer(wire.write_answer(Answer(1, {"v": values})), 1, form)


@pytest.mark.parametrize("shape", [["a"], [1.5], "x", 3, []])
def test_a_shape_that_is_none_is_refused(shape: object) -> None:
    content = write_answer(Answer(7, {"delta": torch.ones(3)}, 0.5))
    content["reply"]["vector.delta.shape"] = shape  # type: ignore[index]
    with pytest.raises(BadMessage):
        read_answer(content, 7, Form({"delta": (torch.Size([3]), torch.float32)}, has_loss=True))


def test_a_deadline_in_whole_seconds_is_one() -> None:
    header = Header("run", "miner", 0, 1, 2, 0, 3, 1, 1, 60)
    content = write_instruction(header, write_payload({"x": torch.ones(3)}, (Batches(1, 2),)))
    assert read_instruction(content, "cpu").header.deadline == 60


def test_what_is_no_instruction_is_refused() -> None:
    header = Header("run", "miner", 0, 1, 2, 0, 3, 1, 1, 9.0)
    content = write_instruction(header, write_payload({"x": torch.ones(3)}, (Batches(1, 2),)))
    content["header"]["number"] = "seven"  # type: ignore[index]
    with pytest.raises(BadMessage, match="the number of an instruction is 'seven'"):
        read_instruction(content, "cpu")
    del content["payload"]
    with pytest.raises(BadMessage, match="not an instruction"):
        read_instruction(content, "cpu")
