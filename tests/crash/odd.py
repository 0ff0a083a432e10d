"""Odd values, odd words, and ways to damage what was right."""

import copy
import random
from typing import Any

VALUES = (
    *(None, True, False, -1, 0, 1, 2, 2**31, 2**63, 2**70, -(2**70), 0.0, -0.0, 0.5, -1.5, 1e308, 1e-320),
    *(float("nan"), float("inf"), "", " ", "x", "0", "1.5", "nan", "a:b", "\x00", "\ud800", "ü" * 9, "a" * 3000),
    *([], {}, [[]], [None], {"": None}, {"name": 3}, [1, "a", None], {"a": {"b": {"c": []}}}, [[[[[[0]]]]]]),
)
WORDS = ("", " ", "0", "-1", "1e400", "nan", "inf", "x", "a.b.c", "..", "=", '"', "'", "\\", "\x00", "ü", "\ud800")


def odd(chance: random.Random) -> Any:
    return copy.deepcopy(chance.choice(VALUES))


def odd_text(chance: random.Random) -> str:
    return chance.choice(WORDS)


def bent(chance: random.Random, value: Any) -> Any:
    """The value with one or two places in it made odd, renamed or gone."""
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 2)):
        value = _bend(chance, value)
    return value


def _bend(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        how = chance.random()
        if how < 0.1:
            del value[key]
        elif how < 0.2:
            value[odd_text(chance)] = value.pop(key)
        else:
            value[key] = _bend(chance, value[key])
        return value
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        value[at] = _bend(chance, value[at])
        return value * 2 if chance.random() < 0.1 else value
    return odd(chance)


def damaged(chance: random.Random, content: bytes) -> bytes:
    """Some bytes changed, cut, doubled or put in."""
    raw = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw) + 1)
        how = chance.randrange(6)
        if how == 0:
            del raw[at:]
        elif how == 1:
            raw[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
        elif how == 2:
            raw[at:at] = raw[chance.randrange(len(raw) + 1) :][:50]
        elif how == 3:
            del raw[at : at + chance.randint(1, 20)]
        elif at < len(raw):
            raw[at] = chance.choice([0, 255, chance.randrange(256), raw[at] ^ (1 << chance.randrange(8))])
    return bytes(raw)
