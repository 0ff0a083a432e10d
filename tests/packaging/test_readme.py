"""The README is the front page on PyPI as well: its links are absolute, and lead to what is in the repository."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKS = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
HOMES = {  # where a link leads → where that is here
    "https://github.com/fedamd/fedamd/blob/main/": "",
    "https://raw.githubusercontent.com/fedamd/fedamd/main/": "",
    "https://fedamd.github.io/fedamd/": "docs/",
}
MADE = {"reference/config", "reference/commands", "reference/python"}  # pages made from the code


@pytest.mark.parametrize("link", LINKS)
def test_leads_somewhere(link: str) -> None:
    assert link.startswith("https://")
    for home, folder in HOMES.items():
        if link.startswith(home):
            place = link.removeprefix(home).partition("#")[0].strip("/")
            page = ROOT / folder / (f"{place or 'index'}.md" if folder else place)
            assert page.exists() or place in MADE
