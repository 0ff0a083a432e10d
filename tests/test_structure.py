"""The shape of the code: short files, no cycle between packages, one place that drives runs; a guide that runs."""

import ast
import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import fedamd
from fedamd.algorithms import ALGORITHMS

ROOT = Path(fedamd.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def imported(path):
    """The modules of this package that a file imports when it is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fedamd."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("fedamd."))


def package(module):
    return module.split(".")[1]


def test_no_file_is_longer_than_400_lines():
    assert [path.name for path in FILES if len(path.read_text(encoding="utf-8").splitlines()) > 400] == []


def test_packages_do_not_import_each_other_in_circles():
    graph = {}
    for path in FILES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.name != "__init__.py" or len(parts) > 1:
            graph.setdefault(parts[0], set()).update(map(package, imported(path)))
    graph = {name: others - {name} for name, others in graph.items()}
    while free := [name for name, others in graph.items() if not others & graph.keys()]:
        for name in free:
            del graph[name]
    assert graph == {}


def test_public_classes_have_names_of_their_own():
    """Whoever reads a class's name knows which one it is."""
    homes = {}
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_runs_are_driven_from_one_place():
    importing = re.compile(r"rounds import .*\bdrive\b")
    users = [path.relative_to(ROOT).as_posix() for path in FILES if importing.search(path.read_text(encoding="utf-8"))]
    assert users == ["runs/session.py"]


def named_in(path):
    """Words that a file's code uses: names, attributes, imports and whole strings, but no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_what_runs_methods_names_none_of_them():
    """A method's own quirks are behind hooks of `Algorithm`. The package itself bears a method's name."""
    of_the_package = {"runs/environment.py", "runs/trust.py", "engines/factory.py"}  # versions, a folder, a logger
    methods = {*ALGORITHMS, *(method.make.__name__ for method in ALGORITHMS.values())}
    found = {
        (path.relative_to(ROOT).as_posix(), word)
        for room in ("runs", "campaigns", "engines")
        for path in (ROOT / room).rglob("*.py")
        for word in named_in(path)
        if word in methods
    }
    assert found == {(path, "fedamd") for path in of_the_package}


def test_the_guide_to_methods_runs_as_printed(capsys):
    text = (ROOT.parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 3
    exec(compile("\n".join(blocks), "extending.md", "exec"), {"__name__": "extending"})
    assert 0 < float(capsys.readouterr().out.splitlines()[-1]) <= 1


def test_scripts_import_what_there_is():
    """Benchmarks and examples are run by hand: a name that has moved would go unnoticed."""
    for room in ("benchmarks", "examples"):
        for path in sorted((ROOT.parents[1] / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fedamd":
                    module = importlib.import_module(node.module)
                    missing = [one.name for one in node.names if not hasattr(module, one.name)]
                    assert [name for name in missing if not find_spec(f"{node.module}.{name}")] == [], path
