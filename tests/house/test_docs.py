"""The documentation is right: commands compose, examples are parts, tables and links are correct."""

import ast
import doctest
import functools
import importlib
import itertools
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attnx import registry
from attnx.cli import suite
from attnx.cli.commands import COMMANDS, load_command
from attnx.cli.commands.suite import read_command
from attnx.cli.sweep import split_fresh
from attnx.cli.training_args import TrainingParser
from attnx.config.compose import canonicalize_overrides, compose
from attnx.config.groups import conf_folder
from attnx.laws.candidate import Candidate
from attnx.laws.check import check_part
from attnx.registry.source_scan import catalog
from attnx.sweeps.overrides import expand_sweep
from tests.runs.conftest import without_pictures

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("attnx/**/*.md")])
PAGES = [page for page in PAGES if not page.is_relative_to(ROOT / "docs" / "reference")]  # written by the site's build
FOUR = ("scorer", "scope", "query", "normalizer")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language, also those inside a list."""
    matches = re.findall(
        rf"^( *)```{language}\n(.*?)^\1```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [text for _, text in matches]


def commands_on(page: Path) -> Iterator[list[str]]:
    """Every use of the command ``attnx`` in a page's shell blocks: the words after it."""
    for line in "".join(blocks(page, "sh")).splitlines():
        for piece in re.split(r"&&|\|\|", line):
            words = shlex.split(piece, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words and Path(words[0]).name == "attnx":
                yield words[1:]


COMMANDS_BY_PAGE = {page: commands for page in PAGES if (commands := list(commands_on(page)))}


def plugins_of(page: Path) -> dict[str, str]:
    """The example plug-ins of a page, by file name."""
    texts = [*blocks(page, "python"), *blocks(page, r"\{code-cell\} ipython3")]
    headed_blocks = ((re.match(r"(?:#|%%writefile) plugins/(\w+\.py)\n", text), text) for text in texts)
    return {name[1]: text.removeprefix(name[0]) for name, text in headed_blocks if name}


@pytest.fixture
def with_plugins(tmp_path, monkeypatch):
    """A plug-in folder that is in force, beside the repository's own and its examples."""
    folder = tmp_path / "examples"
    folder.mkdir()
    monkeypatch.setenv(
        "ATTNX_PLUGINS", os.pathsep.join(map(str, [folder, ROOT / "plugins", ROOT / "docs" / "examples" / "plugins"]))
    )
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_the_readme_lists_the_parts():
    """Kind by kind the registry's own parts; plug-ins are not listed."""
    all_parts = catalog()
    lines = README.read_text(encoding="utf-8").splitlines()
    start = lines.index("| kind | question | names |") + 2
    shown = [line.split(" | ") for line in lines[start : lines.index("", start)]]
    core = {
        kind: [name for name in all_parts.names(kind) if all_parts.parts[kind, name].origin == "core"] for kind in FOUR
    }
    expected = [(f"| {kind}", ", ".join(f"`{name}`" for name in names) + " |") for kind, names in core.items()]
    assert [(row[0], row[2]) for row in shown] == expected, f"README.md's table of parts should list {expected}"


def test_there_are_commands_to_check():
    """The checks below look at something: the README alone shows eight commands, every page of docs/ some."""
    assert len(COMMANDS_BY_PAGE[README]) >= 8
    assert {ROOT / "docs" / f"{name}.md" for name in ("idea", "add-a-part", "runs")} <= COMMANDS_BY_PAGE.keys()


@pytest.mark.parametrize("page", COMMANDS_BY_PAGE, ids=lambda page: page.stem)
def test_documented_commands_compose(page, with_plugins, monkeypatch, subtests):
    """As a command would check it before anything is read, built or written."""
    plugins = plugins_of(page)
    write(with_plugins, plugins)
    assert not catalog().broken
    compose_here = functools.partial(compose_once, plugins=frozenset(plugins.values()))
    monkeypatch.setattr(suite, "compose", lambda job, _: compose_here(tuple(job)))
    for words in COMMANDS_BY_PAGE[page]:
        with subtests.test(shlex.join(words)):
            check_command(words, compose_here)


@functools.cache
def compose_once(job: tuple[str, ...], plugins: frozenset[str]) -> dict[str, Any]:
    """The pages share many commands, and commands of suites many runs."""
    return compose(job)


def check_command(words: list[str], compose_here: Callable[[tuple[str, ...]], object]) -> None:
    if words and words[0] in COMMANDS:
        assert load_command(words[0])[1].parse(words[1:])
        assert words[0] != "list" or len(words) == 1 or any(words[-1] in pair for pair in catalog().parts)
        if words[0] == "suite" and not words[-1].endswith((".csv", ".yaml")):  # files of the reader
            command = read_command(load_command("suite")[1].parse(words[1:]))
            # The challenger, or the first baseline: tests/known/test_confirm.py composes the others.
            command.mechanisms = dict([*command.mechanisms.items()][:1])
            command.check()
        return
    if words[:1] == ["--help"]:
        return
    arguments = TrainingParser().parse(words)
    overrides = arguments.overrides
    jobs = expand_sweep(split_fresh(canonicalize_overrides(overrides))[1]).jobs if arguments.multirun else [overrides]
    assert jobs
    for job in (jobs[0], jobs[-1]) if len(jobs) > 1 else jobs:  # the names of parts between them are registered ones
        compose_here(tuple(job))


@pytest.mark.usefixtures("new_parts_are_forgotten")
def test_the_documented_plug_ins_keep_the_laws(with_plugins):
    """An example of each kind, the scorer on the page and the others in a file, keeps its doctest and the laws."""
    write(with_plugins, plugins_of(ROOT / "docs" / "add-a-part.md"))
    parts = ("scorer", "capped"), ("scope", "wait"), ("query", "part_of_state"), ("normalizer", "tempered")
    for kind, name in parts:
        outcomes = check_part(Candidate(kind, name))
        assert not [outcome.failure.line for outcome in outcomes if outcome.failure]
        assert not all(outcome.skip_reason for outcome in outcomes), f"no law tried {name}"
        assert doctest.testmod(importlib.import_module(registry.describe(kind, name).module)).failed == 0


@pytest.mark.parametrize("file", sorted((ROOT / "plugins").glob("*.py")), ids=lambda file: file.stem)
def test_the_example_plug_in_passes_its_doctests(file, with_plugins):
    assert catalog() is not None  # puts the folders in force
    result = doctest.testmod(importlib.import_module(f"attnx.plugins.{file.stem}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_readme_from_python(tmp_path, monkeypatch):
    """Its block runs as it stands, on words of our own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNX_PLUGINS", "")
    letters = "abcdefinotu"
    lines = [f"{first}{second}\t{first} {second}" for first, second in product(letters, letters)]
    Path("words.tsv").write_text("\n".join(lines), encoding="utf-8")
    block = next(text for text in blocks(README, "python") if "import attnx" in text)
    namespace: dict[str, object] = {}
    with without_pictures():
        exec(compile(block, "README.md", "exec"), namespace)
    read, run = namespace["read"], namespace["run"]
    assert read.context.shape == (2, 5, 26)  # type: ignore[attr-defined]
    assert read.weights.shape == (2, 5, 7)  # type: ignore[attr-defined]
    assert (run.folder / "results.json").is_file()  # type: ignore[attr-defined]


def test_the_page_on_modules_is_a_script():
    namespace: dict[str, Any] = {}
    exec(compile("".join(blocks(ROOT / "docs" / "modules.md", "python")), "modules.md", "exec"), namespace)
    assert namespace["outputs"].shape == (2, 9, 32)
    assert not namespace["weights"][1, :, 4:].any(), "padding has no weight"


def test_the_rows_of_the_page_on_data_are_read(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(compile("".join(blocks(ROOT / "docs" / "data.md", "python")), "data.md", "exec"), namespace)
    assert [row.source.tolist() for row in map(namespace["rows"].__getitem__, range(2))] == [[4, 5], [5, 4]]


def test_python_blocks_are_python():
    for page in PAGES:
        for text in blocks(page, "python"):
            ast.parse(text, str(page))


def test_links_lead_to_files():
    links = [
        (page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert not [
        (page, link)
        for page, link in links
        if "://" not in link and not (page.parent / link.partition("#")[0]).exists()
    ]


def test_every_preset_is_documented():
    """Recipes and experiments are named in the pages that explain them."""
    for group, page in (("recipe", "idea.md"), ("experiment", "runs.md")):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for file in (conf_folder() / group).glob("*.yaml"):
            assert file.stem in text, f"docs/{page} does not mention {group}={file.stem}"


def test_the_page_on_pronunciation_has_the_defaults():
    """The settings of the first model with their values."""
    text = (ROOT / "docs" / "pronunciation.md").read_text(encoding="utf-8")
    defaults = compose([])
    rows = re.findall(r"^\| `(\w+)\.(\w+)` \| (\S+) \|$", text, re.MULTILINE)
    assert len(rows) > 10
    assert [(node, option, str(defaults[node][option])) for node, option, _ in rows] == rows


def test_a_number_is_of_one_decision():
    files = [file.name for file in (ROOT / "docs" / "decisions").glob("[0-9]*.md")]
    assert len({file[:4] for file in files}) == len(files) > 0


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in requirements}


def test_constraints_pin_every_requirement():
    """Each direct dependency has one pin within its range, torch first and without a build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    pinned = pins()
    assert next(iter(pinned)) == "torch"
    assert all(re.fullmatch(r"[\w.]+", version) for version in pinned.values())
    for requirement in map(Requirement, requirements):
        if requirement.name == "attnx":  # an extra that holds another
            continue
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):  # for another Python
            continue
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier


def test_every_supported_python_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: Python ::" in line]
    assert len(offered) >= 3
    header = (ROOT / "constraints.txt").read_text(encoding="utf-8").partition("torch==")[0]
    assert re.findall(r"\b3\.\d+\b", header) == offered
    assert f"Python {', '.join(offered[:-1])} or {offered[-1]}" in README.read_text(encoding="utf-8")


def test_the_two_commands_follow_their_markers():
    """.ci/run takes the test command from there: set up, then test, on one line."""
    text = README.read_text(encoding="utf-8")
    for marker, last in (("main", ".venv/bin/attnx"), ("test", "-m pytest")):
        command = re.search(rf"<!-- {marker} command -->\n```sh\n(.+)\n```\n", text)
        assert command, f"no {marker} command"
        made, installed, ran = command[1].split(" && ")
        assert made == "python3.11 -m venv .venv"
        assert installed.startswith(".venv/bin/pip install")
        assert "-c constraints.txt" in installed
        assert last in ran


def test_the_result_of_the_first_command_is_stated_once():
    """The README has its figures beside it; no other page has some of a run as short."""
    sentence = re.search(
        r"a phone error rate of ([\d.]+) % and a\s+word error rate of ([\d.]+) %", README.read_text("utf-8")
    )
    assert sentence, "the README does not say what its first command ends at"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page not in (README, ROOT / "CHANGELOG.md"):
            assert not re.search(r"(default run|four minutes)[^.|]*\d %", text), page
            assert not all(f"{figure} %" in text for figure in sentence.groups()), page


def test_every_experiment_names_its_measurement():
    """In one table of docs/runs.md; the page that is named there has a command or a row of the experiment."""
    page = ROOT / "docs" / "runs.md"
    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \| (.+?) \|$",
        page.read_text("utf-8").partition("## Longer experiments")[2],
        re.MULTILINE,
    )
    figures = {name: figure for names, figure in rows for name in re.findall(r"`(\w+)`", names)}
    assert sorted(figures) == sorted(file.stem for file in (ROOT / "conf" / "experiment").glob("*.yaml"))
    for name, figure in figures.items():
        if link := re.search(r"\]\(([\w-]+\.md)#", figure):
            assert re.search(rf"experiment={name}\b|\| `{name}", (page.parent / link[1]).read_text("utf-8")), name
        else:
            assert figure == "no" or "below" in figure
    for name in (name for name, figure in figures.items() if figure == "no"):
        for document in (ROOT / "docs").glob("*.md"):
            assert not re.search(rf"experiment={name}`?,? (seed|ended|is at)", document.read_text("utf-8")), document


def test_headings_descend_one_level_at_a_time():
    for page in PAGES:
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
        if not text.strip():  # it only includes another file
            continue
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(deeper <= level + 1 for level, deeper in pairwise(levels)), page
