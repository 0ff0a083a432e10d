"""What a method's hyper-parameters are is told where `help()` shows it."""

import dataclasses
import pydoc

import pytest

from fedamd import Algorithm, FedAvg, param
from fedamd.algorithms import ALGORITHMS
from fedamd.algorithms.parameters import HEADING, with_parameters

METHODS = sorted({method.make for method in ALGORITHMS.values()}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_every_hyper_parameter_of_every_method_is_described_in_its_help(kind):
    fields = [field.name for field in dataclasses.fields(kind)]
    assert [name for name in fields if not kind.parameters.get(name)] == []
    assert set(kind.parameters) == set(fields)
    shown = pydoc.plain(pydoc.render_doc(kind))
    assert shown.count(HEADING) == 1
    for name, description in kind.parameters.items():
        assert f"{name:<{max(map(len, fields))}}  {description}" in shown


def test_the_papers_symbols():
    described = ALGORITHMS["fedamd"].make.parameters
    symbols = {"eta_l": "η_l", "eta_s": "η_s", "steps": "K", "small_batch": "b'", "large_batch": "b", "tau": "τ"}
    assert {name: symbol in described[name] for name, symbol in symbols.items()} == dict.fromkeys(symbols, True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Own(FedAvg):
    """One's own."""

    eta_l: float = 0.5  # another default of what is described already
    share: float = param(0.25, "s, the share")
    plain: int = 3


def test_a_method_of_ones_own():
    assert (Own().share, Own(share=0.5).share, Own().eta_l, Own().plain) == (0.25, 0.5, 0.5, 3)
    assert Own.parameters == FedAvg.parameters | {"share": "s, the share"}
    assert Own.__doc__.startswith("One's own.\n\n")
    assert "s, the share" not in FedAvg.__doc__


def test_where_nothing_is_described_a_docstring_is_left_alone():
    class Bare(Algorithm):
        """Bare."""

        def round(self, state, turn):  # noqa: ARG002
            yield from ()

    assert Bare.__doc__ == "Bare."
    assert with_parameters(None, {}) is None
    assert with_parameters(None, {"a": "one"}) == "    Hyper-parameters:\n        a  one"


def test_slots_change_nothing():
    @dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
    class Slotted(Algorithm):
        """With slots."""

        a: float = param(0.1, "a, a share")

        def round(self, state, turn):  # noqa: ARG002
            yield from ()

    assert (Slotted().a, Slotted.parameters) == (0.1, {"a": "a, a share"})
    assert Slotted.__doc__.count("a, a share") == 1
