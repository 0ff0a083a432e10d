"""Runs the code blocks of a page, in their order, in the current folder: `python blocks.py PAGE`.

    ```python              is executed; the blocks of a page share their names
    ```bash                is a script
    ```console             lines that begin with $ are commands, the rest is what they print
    ```toml title="x"      (or any language) is written into the file x
    <!-- not run: why -->  in the line before: is left alone

`pip install` is passed over: where this runs, things are installed. Needs nothing but Python, so that the
environment that a wheel was installed into can run it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"(?:<!-- not run: (?P<excuse>.+?) -->\n)?^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TITLE = re.compile(r'title="([^"]+)"')
RUN = ("python", "bash", "console")


@dataclass(frozen=True)
class Block:
    """A block of code, and the line of the page it begins in."""

    language: str
    code: str
    line: int
    title: str | None
    excuse: str | None

    @property
    def does_something(self) -> bool:
        return self.excuse is None and (self.title is not None or self.language in RUN)


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that have a language."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        title = TITLE.search(found["options"])
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(found["language"], found["code"], line, title[1] if title else None, found["excuse"])


def run(page: Path) -> None:
    """Run a page; its first mistake is an exception that names the line."""
    names: dict[str, object] = {"__name__": "__main__"}
    sys.path.insert(0, "")
    for block in blocks(page):
        if not block.does_something:
            continue
        place = f"{page.name}, line {block.line}"
        print(f"--- {place}: {block.title or block.language}", flush=True)
        if block.title:
            Path(block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
        else:
            shell(commands(block), place)


def commands(block: Block) -> str:
    lines = block.code.splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return "\n".join(line for line in lines if not line.startswith("pip install"))


def shell(script: str, place: str) -> None:
    """Run a script and go where it went."""
    here = Path(".where").resolve()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = f"set -euo pipefail\n{script}\npwd > '{here}'\n"
    done = subprocess.run(["bash", "-c", script], env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{place}: the commands ended with {done.returncode}")
    os.chdir(here.read_text().strip())
    here.unlink()


if __name__ == "__main__":
    run(Path(sys.argv[1]).resolve())
