"""Pictures: the format follows the file's ending, and what was drawn can be found in an SVG."""

import re
from pathlib import Path

import pytest

from fedamd.errors import FedamdError
from fedamd.metrics import Measure, Target
from fedamd.report.curves import USUAL, Curve, Point
from fedamd.report.figures import draw_costs, draw_measures

PLACES = USUAL[:3]  # without devices there is no simulated time


def curve(label: str, seeds: tuple[int, ...] = (0,), measure: str = "accuracy") -> Curve:
    points = [Point(dict.fromkeys(PLACES, float(t)), 0.1 * t, 0.09 * t, 0.12 * t) for t in range(5)]
    return Curve(label, seeds, 0, {measure: points, "test_loss": points})


def paths(picture: Path) -> int:
    return len(re.findall(r"<path ", picture.read_text()))


def test_png(tmp_path: Path) -> None:
    assert draw_measures([curve("a")], tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")


def test_three_cost_panels_and_the_target(tmp_path: Path) -> None:
    without = draw_costs([curve("a"), curve("b")], tmp_path / "without.svg")
    with_target = draw_costs([curve("a"), curve("b")], tmp_path / "with.svg", target=Target(Measure(), 0.3))
    assert without.read_text().count('<g id="axes_') == 3
    assert paths(with_target) == paths(without) + 3


def test_several_seeds_have_a_band(tmp_path: Path) -> None:
    one = draw_costs([curve("a")], tmp_path / "one.svg")
    two = draw_costs([curve("a", seeds=(0, 1))], tmp_path / "two.svg")
    assert two.read_text().count("FillBetweenPolyCollection") == one.read_text().count("FillBetweenPolyCollection") + 3


def test_where_nothing_is_classified_the_loss_is_drawn(tmp_path: Path) -> None:
    assert draw_costs([curve("a", measure="loss")], tmp_path / "a.svg", measure="loss").exists()


def test_a_curve_that_diverged_does_not_set_the_scale(tmp_path: Path) -> None:
    """Values up to 0.12·4 give ticks up to 40%; with 10⁹ in the range there would be none of these."""
    away = Point(dict.fromkeys(PLACES, 5.0), 1e9, 1e9, 1e9)
    diverged = Curve("b", (0,), 1, {"accuracy": [away]})
    picture = draw_costs([curve("a"), diverged], tmp_path / "a.svg")
    assert "40%" in picture.read_text()


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match=r"use \.png, \.svg or \.pdf"):
        draw_measures([curve("a")], tmp_path / "a.docx")
    with pytest.raises(FedamdError, match="nothing to draw yet"):
        draw_measures([Curve("a", (0,), 0, {})], tmp_path / "a.png")
    (tmp_path / "file").touch()
    with pytest.raises(FedamdError, match="cannot write the picture"):
        draw_measures([curve("a")], tmp_path / "file" / "a.png")
