import pytest

from fedamd.data.registry import check_options, look_up
from fedamd.errors import FedamdError


def make(size, colour="red"):
    return size, colour


def test_a_known_name_and_good_options_pass():
    assert look_up("fruit", "apple", {"apple": 1, "pear": 2}) == 1
    check_options("the fruit apple", make, {"size": 3})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aple", "there is no fruit 'aple'; there are apple, pear. Did you mean apple?"),
        ("xyz", "there is no fruit 'xyz'; there are apple, pear."),
    ],
)
def test_an_unknown_name_lists_the_known_ones(name, message):
    with pytest.raises(FedamdError) as caught:
        look_up("fruit", name, {"apple": 1, "pear": 2})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 1, "weight": 2}, "the fruit apple has no option weight; it takes size, colour"),
        ({"colour": "green"}, "the fruit apple needs the option size"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(FedamdError) as caught:
        check_options("the fruit apple", make, options)
    assert str(caught.value) == message
