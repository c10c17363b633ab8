"""What surrounds the package is right: versions agree, images run the README's commands, promises name their tests."""

import ast
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

import attnx

ROOT = Path(__file__).parents[2]
# https://github.com/citation-file-format/citation-file-format/blob/1.2.0/schema-guide.md
CITATION_REQUIRED = {"authors", "cff-version", "message", "title"}
CITATION_OPTIONAL = {"abstract", "date-released", "keywords", "license", "repository-code", "type", "url", "version"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def readme_command(marker: str) -> str:
    command = re.search(rf"<!-- {marker} command -->\n```sh\n(.+)\n```\n", read("README.md"))
    assert command
    return command[1]


def image_instructions(stage: str) -> dict[str, str]:
    """The instructions of a stage of the Dockerfile, each of which it has once."""
    (lines,) = re.findall(rf"^FROM \S+ AS {stage}\n((?:[A-Z]+ .+\n)+)", read("Dockerfile"), re.MULTILINE)
    instructions = [line.split(" ", 1) for line in lines.splitlines()]
    assert len(dict(instructions)) == len(instructions)
    return dict(instructions)


def test_one_version_is_released():
    """The newest entry of the changelog is the package's version, and that which is to be cited."""
    version, date = re.findall(r"^## (\d\S*) - (\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.MULTILINE)[0]
    citation = yaml.safe_load(read("CITATION.cff"))
    assert version == attnx.__version__ == citation["version"]
    assert date == str(citation["date-released"])


def test_the_citation_has_the_keys_of_its_format():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert set(citation) >= CITATION_REQUIRED
    assert set(citation) <= CITATION_REQUIRED | CITATION_OPTIONAL


@pytest.mark.parametrize("marker", ["main", "test"])
def test_an_image_runs_a_command_of_the_readme(marker):
    """Its build is the first half, and what a container starts is the second."""
    stage = image_instructions(marker)
    words = [*yaml.safe_load(stage["ENTRYPOINT"]), *yaml.safe_load(stage["CMD"])]
    assert f"{stage['RUN']} && {shlex.join(words)}" == readme_command(marker)


def test_one_version_of_python_is_used():
    """By the README's commands, the images and the workflow."""
    version = readme_command("main").partition(" ")[0].removeprefix("python")
    assert re.findall(r"^FROM python:([\d.]+)-slim", read("Dockerfile"), re.MULTILINE) == [version]
    steps = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]["ci"]["steps"]
    assert [step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})] == [version]
    assert steps[-1] == {"run": "bash .ci/run"}


def test_oldest_and_newest_versions_are_tested():
    """The newest on each Python that pip installs attnx on, the oldest on the oldest one."""
    matrix = yaml.safe_load(read(".github/workflows/versions.yml"))["jobs"]["versions"]["strategy"]["matrix"]["include"]
    admitted = SpecifierSet(tomllib.loads(read("pyproject.toml"))["project"]["requires-python"])
    pythons = list(admitted.filter(f"3.{minor}" for minor in range(100)))
    assert [job["python"] for job in matrix if job["which"] == "newest"] == pythons
    assert [job["python"] for job in matrix if job["which"] == "oldest"] == pythons[:1]


def test_what_ci_left_in_the_background_ends_with_it(tmp_path):
    """The shells that it started there, and what runs in them."""
    head, trap, _ = re.split(r"^(trap .+)$", read(".ci/run"), maxsplit=1, flags=re.MULTILINE)
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    background = "(bash -c 'echo > begun; sleep 20; echo survived'; true) &\n"
    wait = "until [[ -e begun ]]; do sleep 0.1; done; exit 3\n"
    script.write_text(f"{head}{trap}\n{background}{wait}", encoding="utf-8")
    answer = subprocess.run(["bash", str(script)], stdout=subprocess.PIPE, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (3, "")


def test_every_promise_names_its_test():
    """And the test is there."""
    rows = re.findall(r"^\| [^-].+ \| (.+) \|$", read("SECURITY.md"), re.MULTILINE)[1:]
    assert len(rows) > 5
    for row in rows:
        tests = re.findall(r"`(tests/\S+\.py)::(\w+)`", row)
        assert tests, row
        for file, name in tests:
            functions = [node.name for node in ast.parse(read(file)).body if isinstance(node, ast.FunctionDef)]
            assert name in functions, f"{file} has no {name}"


def test_fields_of_an_issue_form_have_names():
    for name in ("bug", "feature"):
        form = yaml.safe_load(read(f".github/ISSUE_TEMPLATE/{name}.yml"))
        assert {"name", "description", "body"} <= set(form)
        names = [field["id"] for field in form["body"]]
        assert len(set(names)) == len(names)
        assert all(field["attributes"]["label"] for field in form["body"])


def builder(kind: str, root: Path) -> Any:
    """What builds a wheel or an sdist of the project in a folder."""
    module = pytest.importorskip(f"hatchling.builders.{kind}", reason="set up before hatchling belonged to attnx[test]")
    return getattr(module, f"{kind.title()}Builder")(str(root))


def packaged(kind: str, root: Path) -> set[str]:
    return {file.distribution_path for file in builder(kind, root).recurse_included_files()}


def test_the_wheel_is_marked_as_typed():
    """Without ``py.typed`` type checkers ignore what an installed package says of its types."""
    assert {"attnx/__init__.py", "attnx/py.typed", "attnx/conf/config.yaml"} <= packaged("wheel", ROOT)


def test_the_sdist_has_sources_and_no_outputs(tmp_path):
    """Whoever packages attnx tests it from there; what training wrote beside the sources stays out."""
    sources = ["LICENSE", "attnx/data/readers/cmudict/LICENSE", "conf/config.yaml", "docs/idea.md", "tests/conftest.py"]
    outputs = ["data/etth1/ETTh1.csv", "multirun/runs/a/run.json", ".benchmarks/gpu.json", "wandb/run", "dist/a.whl"]
    for name in ("pyproject.toml", ".gitignore", "README.md", *sources):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in outputs:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert packaged("sdist", tmp_path) == {"pyproject.toml", ".gitignore", "README.md", *sources}


def test_the_readme_of_the_package_has_absolute_links():
    links = re.compile(r"\]\(([^)\s]+)\)")
    text = builder("wheel", ROOT).metadata.core.readme
    assert len(links.findall(text)) == len(links.findall(read("README.md"))) > 30
    assert all(link.startswith("https://") for link in links.findall(text))
    assert f"/raw/v{attnx.__version__}/docs/alignments.png)" in text
