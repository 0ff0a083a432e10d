"""Docker files and workflows: what they copy is there, and what they run are commands that exist."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import typer
import yaml

from fedamd.cli.main import app

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTRUCTIONS = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}  # of Docker, those used here
TARGETS = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()


def parsed(words: list[str]) -> None:
    """Parse a command line of fedamd and run nothing: click says what is wrong with it."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    command = group.commands[words[0]]
    with click.Context(group) as context:
        command.make_context(words[0], list(words[1:]), parent=context)


def check_script(script: str) -> None:
    """Every `make` in it has a target, every `fedamd` a command with these options."""
    for line in re.split(r"\n|&&", script):
        match shlex.split(line):
            case ["make", *targets]:
                assert set(targets) <= set(TARGETS)
            case ["fedamd", *words]:
                parsed(words)


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """(instruction, what follows), with continued lines joined."""
    kept = [line for line in dockerfile.read_text().splitlines() if line and not line.startswith("#")]
    joined = "\n".join(kept).replace("\\\n", "").splitlines()
    return [(instruction, rest) for instruction, _, rest in (line.partition(" ") for line in joined)]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_copies_what_is_there(dockerfile: Path) -> None:
    stages: list[str] = []
    hidden = (ROOT / ".dockerignore").read_text().split()
    for instruction, rest in instructions(dockerfile):
        assert instruction in INSTRUCTIONS
        words = rest.split()
        if instruction == "FROM":
            assert words[0].startswith("python:3.")
            stages.append(words[2] if words[1:2] == ["AS"] else "")
        if instruction == "COPY" and words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages[:-1]
        elif instruction == "COPY":
            assert all((ROOT / source).exists() and source not in hidden for source in words[:-1])


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_runs_fedamd_as_its_first_line_says(dockerfile: Path) -> None:
    last = dict(instructions(dockerfile))
    assert last["USER"] != "root"
    assert last["ENTRYPOINT"] == '["fedamd"]'
    parsed(re.findall(r'"(\w+)"', last["CMD"]))
    build, run = dockerfile.read_text().splitlines()[0].partition(": ")[2].split(" && ")
    arguments = shlex.split(build)
    assert ROOT / arguments[arguments.index("-f") + 1] == dockerfile
    image = arguments[arguments.index("-t") + 1]
    words = shlex.split(run)
    parsed(words[words.index(image) + 1 :])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_exists(workflow: Path) -> None:
    content = yaml.safe_load(workflow.read_text())
    assert {"name", True, "jobs"} <= set(content)  # YAML reads the key `on` as a truth value
    for job in content["jobs"].values():
        assert set(job.get("needs", [])) <= set(content["jobs"])
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            check_script(step.get("run", ""))
            assert "@" in step.get("uses", "@")


def test_the_tests_of_a_wheel_and_the_declared_pythons() -> None:
    check_script(PROJECT["tool"]["cibuildwheel"]["test-command"].format(package="."))
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["quick"]["strategy"]["matrix"]
    declared = {name.rsplit(" ", 1)[1] for name in PROJECT["project"]["classifiers"] if "Python :: 3." in name}
    assert set(matrix["python"]) <= declared


@pytest.mark.parametrize("script", ["make nothing", "fedamd trian", "make test && fedamd run --ruonds 3"])
def test_a_slip_would_be_found(script: str) -> None:
    with pytest.raises((AssertionError, KeyError, click.UsageError)):
        check_script(script)


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_an_issue_form_is_whole(form: Path) -> None:
    content = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(content)
    assert all({"type", "attributes"} <= set(part) for part in content["body"])
