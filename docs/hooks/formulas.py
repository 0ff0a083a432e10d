"""Formulas become MathML when the site is built: a browser sets them by itself, and no script is loaded."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<formula>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, **_: Any) -> str:
    return FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["open"] == "[" else "inline"
    return str(convert(html.unescape(found["formula"]), display=display))
