"""Links from a page to a file of the repository outside docs/: pictures are copied in, others lead to their home."""

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

LINK = re.compile(r"\]\((?P<target>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
PICTURES = (".png", ".svg")
INSIDE = "repository"  # where the copies of pictures are
log = logging.getLogger("mkdocs.hooks.outside")


def on_files(files: Files, config: Any) -> Files:
    """Pictures that pages show from elsewhere in the repository become files of the site."""
    docs, found = Path(config.docs_dir), set()
    for page in files.documentation_pages():
        for target in LINK.finditer(page.content_string):
            path = _outside(docs, page.src_uri, target["target"])
            if path and path.suffix in PICTURES and path.is_file():
                found.add(path)
    for path in sorted(found):
        uri = f"{INSIDE}/{path.relative_to(docs.parent).as_posix()}"
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    docs, depth = Path(config.docs_dir), page.file.src_uri.count("/")

    def settled(link: re.Match[str]) -> str:
        path = _outside(docs, page.file.src_uri, link["target"])
        if path is None:
            return link[0]
        if not path.exists():
            log.warning("%s links to %s, which is not in the repository", page.file.src_uri, link["target"])
        inside = path.relative_to(docs.parent).as_posix()
        if path.suffix in PICTURES:
            return f"]({'../' * depth}{INSIDE}/{inside})"
        kind = "tree" if path.is_dir() else "blob"
        return f"]({config.repo_url.rstrip('/')}/{kind}/main/{inside}{link['anchor'] or ''})"

    return LINK.sub(settled, markdown)


def _outside(docs: Path, uri: str, target: str) -> Path | None:
    path = (docs / uri).parent.joinpath(target).resolve()
    return None if path.is_relative_to(docs) or not path.is_relative_to(docs.parent) else path
