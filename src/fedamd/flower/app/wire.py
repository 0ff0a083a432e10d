"""What travels: an instruction to a client and its reply, as Flower records.

A vector travels as the raw little-endian bytes of its numbers; what comes out of a compressor is packed (`packing`).
Reading one compares type, shape and length with what is expected before a byte is touched; nothing is ever unpickled.

Every object of a Flower message costs four HTTP requests on its way. So vectors travel inside the one record of a
message while they are small together, and as Flower's arrays (an object each, in pieces) when they are large.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.serde import recorddict_to_proto
from torch import Tensor

from fedamd.algorithms.base import Batches
from fedamd.flower.app.packing import RAW, pack, unpack

_TYPES = {"float16": "<f2", "bfloat16": "<i2", "float32": "<f4", "float64": "<f8"}  # numpy has no bfloat16
_SMALL = 1 << 20  # bytes of vectors that travel inside a record
_VECTOR = "vector."  # vector.<name>.type, .shape and .data are a vector inside a record; .way if it is packed
_NUMBER = "number."


class BadMessage(Exception):
    """A message that is not what was agreed."""


@dataclass(frozen=True)
class Header:
    """Everything in an instruction but its payload. `number` is unique in the run and grows with every instruction."""

    run: str  # the run's name, for what clients hold
    role: str
    client: int
    seed: int
    t: int
    stage: int
    number: int
    accepted: int  # the number of the last reply of this client that entered the server's state; 0: none
    durable: int  # the number of the last one that is in a checkpoint; 0: none
    deadline: float  # seconds


@dataclass(frozen=True)
class Instruction:
    """One client's part of an order."""

    header: Header
    batches: tuple[Batches, ...]
    payload: dict[str, Tensor | float]


@dataclass(frozen=True)
class Answer:
    """A client's reply, or why there is none."""

    number: int
    values: dict[str, Tensor]
    loss: float | None = None
    refusal: str = ""
    compressed: Collection[str] = ()  # the values that are worth packing


@dataclass(frozen=True)
class Form:
    """What a valid reply consists of: shape and type of every value, whether a loss comes with them, and which values
    may be packed."""

    values: Mapping[str, tuple[torch.Size, torch.dtype]]
    has_loss: bool
    compressed: Collection[str] = ()

    @property
    def most_bytes(self) -> int:
        """More than any valid reply takes on the wire."""
        vectors = sum(shape.numel() * dtype.itemsize for shape, dtype in self.values.values())
        return vectors + vectors // 64 + (1 << 16)


def write_payload(payload: Mapping[str, Tensor | float], batches: tuple[Batches, ...]) -> dict[str, Any]:
    """The part of an instruction that is the same for all clients of an order."""
    record: dict[str, Any] = {
        "counts": [asked.count for asked in batches],
        "sizes": [0 if asked.size == "full" else asked.size for asked in batches],
    }
    record |= {f"{_NUMBER}{name}": float(value) for name, value in payload.items() if not isinstance(value, Tensor)}
    return _packed("payload", record, {name: value for name, value in payload.items() if isinstance(value, Tensor)})


def write_instruction(header: Header, payload: Mapping[str, Any]) -> RecordDict:
    """The whole of it, for one client."""
    return RecordDict({**payload, "header": ConfigRecord(asdict(header))})


def read_instruction(content: RecordDict, device: str) -> Instruction:
    """What the client was sent; anything but an instruction is a `BadMessage`."""
    try:
        return _instruction(dict(content.items()), device)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadMessage(f"not an instruction: {error}") from None


def _instruction(records: dict[str, Any], device: str) -> Instruction:
    record = records["payload"]
    arrays = _unpacked(record, records.get("vectors"))
    vectors: dict[str, Tensor | float] = {name: _read(one, False).to(device) for name, one in arrays.items()}
    numbers = {key.removeprefix(_NUMBER): value for key, value in record.items() if key.startswith(_NUMBER)}
    header = Header(**records["header"])
    for one in fields(Header):
        if not isinstance(getattr(header, one.name), (int, float) if one.type is float else one.type):  # type: ignore[arg-type]
            raise BadMessage(f"the {one.name} of an instruction is {getattr(header, one.name)!r}")
    return Instruction(
        header,
        tuple(Batches(count, size or "full") for count, size in zip(record["counts"], record["sizes"], strict=True)),
        vectors | numbers,
    )


def write_answer(answer: Answer) -> RecordDict:
    reply: dict[str, Any] = {"number": answer.number, "refusal": answer.refusal}
    if answer.loss is not None:
        reply["loss"] = answer.loss
    return RecordDict(_packed("reply", reply, answer.values, answer.compressed))


def read_answer(content: RecordDict, number: int, form: Form) -> Answer:
    """A reply to instruction `number`; anything else in it than the form says is a `BadMessage`."""
    if size(content) > form.most_bytes:
        raise BadMessage(f"{size(content)} bytes, where a reply takes at most {form.most_bytes}")
    reply, large = content.get("reply"), content.get("vectors")
    if set(content) - {"vectors"} != {"reply"} or not isinstance(large, ArrayRecord | None):
        raise BadMessage("not a reply")
    if not isinstance(reply, ConfigRecord) or reply.get("number") != number:
        raise BadMessage("it answers another instruction")
    if refusal := reply.get("refusal"):
        return Answer(number, {}, refusal=str(refusal)[:200])
    arrays = _unpacked(reply, large)
    if set(arrays) != set(form.values):
        raise BadMessage(f"values named {', '.join(arrays) or 'nothing'} instead of {', '.join(form.values)}")
    values = {
        name: _checked(arrays[name], *expected, name in form.compressed) for name, expected in form.values.items()
    }
    if not form.has_loss:
        return Answer(number, values)
    loss = reply.get("loss")
    if not isinstance(loss, float) or not math.isfinite(loss):
        raise BadMessage("its loss is not a finite number")
    return Answer(number, values, loss)


def size(content: RecordDict) -> int:
    """Bytes of a message's content on the wire, without what Flower adds to send it in pieces. Large vectors are not
    touched for it."""
    large = [(name, array) for record in content.array_records.values() for name, array in record.items()]
    small = RecordDict({name: record for name, record in content.items() if not isinstance(record, ArrayRecord)})
    return int(recorddict_to_proto(small).ByteSize()) + sum(_array_size(name, array) for name, array in large)


def _array_size(name: str, array: Array) -> int:
    return len(array.data) + len(name) + len(array.dtype) + len(array.stype) + 8 * len(array.shape)


def _packed(
    name: str, record: dict[str, Any], vectors: Mapping[str, Tensor], compressed: Collection[str] = ()
) -> dict[str, Any]:
    """The record under its name, with small vectors in it and large ones beside it."""
    arrays = {one: _array(vector, one in compressed) for one, vector in vectors.items()}
    if sum(len(array.data) for array in arrays.values()) > _SMALL:
        return {name: ConfigRecord(record), "vectors": ArrayRecord(arrays)}
    for one, array in arrays.items():
        key = f"{_VECTOR}{one}"
        record |= {f"{key}.type": array.dtype, f"{key}.shape": list(array.shape), f"{key}.data": array.data}
        if array.stype != RAW:
            record[f"{key}.way"] = array.stype
    return {name: ConfigRecord(record)}


def _unpacked(record: Mapping[str, Any], large: ArrayRecord | None) -> dict[str, Array]:
    """The vectors of a record, wherever they are; what is in them is still to be checked."""
    if large is not None:
        return dict(large)
    found: dict[str, Array] = {}
    for key in record:
        if key.startswith(_VECTOR) and key.endswith(".data"):
            one = key.removesuffix(".data")
            kind, shape, data = record.get(f"{one}.type"), record.get(f"{one}.shape"), record[key]
            way = record.get(f"{one}.way", RAW)
            if not (
                isinstance(kind, str) and isinstance(shape, list) and isinstance(data, bytes) and isinstance(way, str)
            ):
                raise BadMessage(f"{one} is not a vector")
            if not all(type(length) is int for length in shape):
                raise BadMessage(f"{one} has the shape {shape}")
            found[one.removeprefix(_VECTOR)] = Array(kind, tuple(shape), way, data)
    return found


def _array(vector: Tensor, compressed: bool) -> Array:
    kind = str(vector.dtype).removeprefix("torch.")
    plain = vector.detach().cpu().contiguous()
    values: np.ndarray[Any, Any] = (plain.view(torch.int16) if kind == "bfloat16" else plain).numpy()
    numbers = values.astype(_TYPES[kind], copy=False)
    way, data = pack(numbers.reshape(-1)) if compressed else (RAW, numbers.tobytes())
    return Array(kind, tuple(values.shape), way, data)


def _read(array: Array, may_be_packed: bool) -> Tensor:
    """The tensor of an array that has the length its type and shape ask for."""
    if array.dtype not in _TYPES or (array.stype != RAW and not may_be_packed):
        raise BadMessage(f"an array of type {array.dtype} written as {array.stype}")
    if min(array.shape, default=0) < 0:
        raise BadMessage(f"an array of shape {array.shape}")
    kind = np.dtype(_TYPES[array.dtype])
    try:
        numbers = unpack(array.stype, array.data, math.prod(array.shape), kind)
    except ValueError as error:
        raise BadMessage(str(error)) from None
    values = numbers.astype(kind.newbyteorder("="))  # a copy, in the machine's own byte order
    tensor = torch.from_numpy(values.reshape(array.shape))
    return tensor.view(torch.bfloat16) if array.dtype == "bfloat16" else tensor


def _checked(array: Array, shape: torch.Size, dtype: torch.dtype, may_be_packed: bool) -> Tensor:
    if tuple(array.shape) != tuple(shape) or array.dtype != str(dtype).removeprefix("torch."):
        raise BadMessage(f"an array of shape {tuple(array.shape)} and type {array.dtype}, expected {tuple(shape)}")
    values = _read(array, may_be_packed)
    if values.numel() and not torch.stack(values.aminmax()).isfinite().all():  # NaN is both; nothing is copied
        raise BadMessage("numbers that are not finite")
    return values
