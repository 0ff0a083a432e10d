import pytest

from fedamd.errors import FedamdError
from fedamd.registry import check_options, choose, import_object


def make(size, colour="red"):
    return size, colour


def test_a_known_name_and_good_options_pass():
    assert choose({"apple": 1, "pear": 2}, "apple", "fruit") == 1
    check_options("the fruit apple", make, {"size": 3})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aple", "fruit: there is no 'aple' (did you mean apple?); there are apple, pear"),
        ("xyz", "fruit: there is no 'xyz'; there are apple, pear"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(name, message):
    with pytest.raises(FedamdError) as caught:
        choose({"apple": 1, "pear": 2}, name, "fruit")
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


def test_a_module_with_a_slip_of_the_pen_is_named_with_the_line(tmp_path, monkeypatch):
    (tmp_path / "slip_of_the_pen.py").write_text("x = 1\ndef net(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(FedamdError, match=r"model\.name: cannot import slip_of_the_pen: .*slip_of_the_pen\.py, line 2"):
        import_object("slip_of_the_pen:net", "model.name")
