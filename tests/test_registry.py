import sys

import pytest

from fedamd.errors import FedamdError
from fedamd.registry import Registry, check_options, choose, import_object, importable


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


def test_a_registry_has_names_and_takes_a_users_own_object():
    fruit = Registry("fruit", {"apple": 1}, adopt=lambda _, found: found + 100)
    fruit.register("pear", 2)
    assert (list(fruit), fruit["pear"], fruit.find("apple")) == (["apple", "pear"], 1 + 1, 1)
    assert fruit.find("errno:EPERM", "basket.fruit") == 101  # EPERM is 1
    with pytest.raises(FedamdError, match=r"basket: there is no 'aple' \(did you mean apple\?\);"):
        fruit.find("aple", "basket")
    with pytest.raises(FedamdError, match="it must be new and have no colon"):
        fruit.register("apple", 3)


def test_a_missing_module_is_told_with_the_places_looked_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    beside = tmp_path / "beside"
    beside.mkdir()
    importable(beside)
    with pytest.raises(FedamdError) as caught:
        import_object("no_such_module_here.inner:thing", "data.name")
    said = str(caught.value)
    assert "data.name: cannot import no_such_module_here.inner: there is no module no_such_module_here" in said
    assert str(tmp_path) in said
    assert str(beside) in said


def test_a_module_that_lacks_another_is_not_told_to_be_missing_itself(tmp_path, monkeypatch):
    (tmp_path / "leans_on_nothing.py").write_text("import no_such_module_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(FedamdError, match="cannot import leans_on_nothing: No module named 'no_such_module_there'"):
        import_object("leans_on_nothing:x", "model.name")


def test_two_modules_of_one_name_do_not_pass_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "namesake_module.py").write_text(f"number = {number}\n")
    importable(tmp_path / "one")
    assert import_object("namesake_module:number", "here") == 0
    importable(tmp_path / "two")
    with pytest.raises(FedamdError, match=r"two has a module namesake_module, but another of that name is in use"):
        import_object("namesake_module:number", "here")
