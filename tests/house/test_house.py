"""House rules that a command can check: words, files, and imports."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnx.registry.part import KINDS
from attnx.registry.source_scan import catalog, read_parts
from tests.house.sources import called, nodes, parse

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "attnx"
FILES = sorted(HOUSE.rglob("*.py"))
PARTS = [info for info in catalog().parts.values() if info.origin == "core"]
# The kinds whose parts are one file each.
ATTENTION = ("scorer", "scope", "query", "normalizer")
AUTHORS = {"Bahdanau", "Bengio", "Cho", "Chorowski", "Gehring", "Graves", "Hieber", "Jaitly", "Luong", "Martins"}
AUTHORS |= {"Peters", "Schuster", "See", "Sukhbaatar", "Sutskever", "Vaswani", "Vinyals", "Weston", "Xu"}


@functools.cache
def imports_of(file: Path) -> set[str]:
    """Every module that a file imports at any depth: at its top, in a function, or for type checkers."""
    parts_of_module = ["attnx", *file.relative_to(HOUSE).with_suffix("").parts]
    names: set[str] = set()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = [*(parts_of_module[: -node.level] if node.level else []), *([node.module] if node.module else [])]
            names |= {".".join([*parent, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Call) and called(node).endswith("import_module") and node.args:
            names |= {ast.unparse(node.args[0]).strip("f'\"")}
    return names


def under(names: set[str], *packages: str) -> set[str]:
    return {name for name in names for package in packages if name == package or name.startswith(f"{package}.")}


def classes(file: Path) -> Iterator[str]:
    for node in nodes(file):
        if isinstance(node, ast.ClassDef):
            yield node.name


def files_of(*packages: str) -> list[Path]:
    return [file for file in FILES if file.relative_to(HOUSE).parts[0] in packages]


def test_a_part_has_a_word_as_name_and_states_its_formula_and_source():
    for info in PARTS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", info.name), info.place
        assert info.doc_line("Formula"), f"{info.place}: no Formula"
        assert info.doc_line("Source"), f"{info.place}: no Source"


def test_a_part_of_attention_has_a_doctest():
    """A doctest, and a source that can be looked up."""
    for info in PARTS:
        if info.kind in (*ATTENTION, "attention"):
            assert ">>> " in info.doc, f"{info.place}: no doctest"
            assert re.search(r"https?://\S+", info.doc_line("Source")), f"{info.place}: no link"


@pytest.mark.parametrize("kind", ATTENTION)
def test_each_file_registers_one_part(kind):
    """A file has exactly one part, which inherits from no other part. The file bears its name, with an underscore where
    Python needs the word."""
    folder = ROOT.joinpath(*KINDS[kind].split("."))
    files = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
    assert files
    for file in files:
        parts = read_parts(file, "", "core")
        assert [(info.kind, info.name) for info in parts] == [(kind, file.stem.removesuffix("_"))], file
        tree = parse(file)
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
        assert len(list(classes(file))) + len(functions) == 1, file
        bases = [ast.unparse(base) for node in tree.body if isinstance(node, ast.ClassDef) for base in node.bases]
        assert bases in ([], ["nn.Module"]), file


def test_files_are_short_and_described():
    """None is a lumber room, none is long, and each says in its first line what it is."""
    for file in FILES:
        assert file.stem not in ("utils", "util", "helpers", "helper", "base", "common", "misc"), file
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 300, file
        tree = parse(file)
        if tree.body:
            assert ast.get_docstring(tree), f"{file}: no docstring"
        if any(isinstance(node, ast.ClassDef | ast.FunctionDef) for node in tree.body):
            assert "from __future__ import annotations" in text, file


def test_no_class_is_named_after_a_paper_or_a_cell():
    """Papers are recipes, and GRU and LSTM are values of an option."""
    for file in FILES:
        for name in classes(file):
            words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
            assert not set(words) & AUTHORS, f"{file}: {name}"
            assert not re.search("gru|lstm", name, re.IGNORECASE), f"{file}: {name}"


def test_one_module_gives_hydra_its_configurations():
    knowing = {
        file.name
        for file in FILES
        if any("config_store" in name or "config_source" in name for name in imports_of(file))
    }
    assert knowing == {"hydra_session.py"}


# Reading the catalog and every part, composing, telling a mistake.
LIGHT = """\
import sys
import attnx, attnx.registry, attnx.models.planner, attnx.models.seq2seq.config, attnx.cli.main
from attnx.registry.part import KINDS

[attnx.registry.check(kind, name, {}) for kind in KINDS for name in attnx.registry.names(kind)]
attnx.compose(["scorer=dot"])
try:
    attnx.compose(["scorer=dto"])
except attnx.UserError as error:
    assert "did you mean dot" in str(error)
else:
    raise AssertionError
found = {"torch", "lightning", "wandb", "matplotlib"} & set(sys.modules)
assert not found, found
"""


def test_quick_commands_do_not_import_torch():
    ran = subprocess.run([sys.executable, "-c", LIGHT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def prints_raw(file: Path) -> Iterator[str]:
    """The calls of ``print`` with something else than a constant that no function makes safe for a terminal."""
    safe = {"printable", "printable_json", "text_for"}
    for node in nodes(file):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            calls = {
                ast.unparse(part.func) for arg in node.args for part in ast.walk(arg) if isinstance(part, ast.Call)
            }
            if not safe & calls and not all(isinstance(arg, ast.Constant) for arg in node.args):
                yield f"{file.relative_to(HOUSE)}:{node.lineno}: {ast.unparse(node)}"


def test_commands_print_what_is_safe_to_show():
    """By ``print_line``: a folder's name may hold what a terminal obeys."""
    files = [file for file in FILES if file.is_relative_to(HOUSE / "cli" / "commands")]
    assert not [line for file in files for line in prints_raw(file)]


# What writes a file in place: logs of processes, and a lock.
WRITES_IN_PLACE = {
    "data/encoded_corpus.py",  # into a folder that gets its name when it is complete
    "inference/decode_latency.py",  # to the system: a process resets its peak of memory
    "training/distributed/launcher.py",
}
WRITERS = {"write_text", "write_bytes", "savefig", "savez", "savez_compressed", "to_csv"}


def writes_in_place(file: Path) -> Iterator[str]:
    """The calls that write a file, or open one to write, other than the partial file of ``atomic_write``."""
    for node in nodes(file):
        if isinstance(node, ast.Call) and (name := called(node)) in {"open", "save", *WRITERS}:
            target = ast.unparse(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
            first = ast.unparse(node.args[0]) if node.args else ""
            modes = {part.value for arg in node.args for part in ast.walk(arg) if isinstance(part, ast.Constant)}
            is_opened = name == "open" and any(re.fullmatch("[wax]b?[+]?|r(b[+]|[+]b?)", str(mode)) for mode in modes)
            is_written = isinstance(node.func, ast.Attribute) and (name in WRITERS or (name, target) == ("save", "np"))
            if (is_opened or is_written) and "partial" not in (target, first) and first not in ("file", "opened"):
                yield f"{file.relative_to(HOUSE)}:{node.lineno}: {ast.unparse(node)}"


def test_files_are_written_atomically():
    """By :mod:`attnx.files.atomic_files`: a killed process or a full disk leaves the old file, or none."""
    places = [(str(file.relative_to(HOUSE)), line) for file in FILES for line in writes_in_place(file)]
    assert not [line for name, line in places if name not in WRITES_IN_PLACE]
    assert {name for name, _ in places} == WRITES_IN_PLACE
