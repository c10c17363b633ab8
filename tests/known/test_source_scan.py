"""The catalog reads from source what Python would say, and isolates broken plug-ins."""

import ast
import importlib.metadata
import importlib.util
import inspect
import os
import py_compile
import re
import struct
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from attnx import registry
from attnx.errors import UserError
from attnx.registry import plugin_files
from attnx.registry.part import Part
from attnx.registry.python_parts import describe_class
from attnx.registry.source_scan import catalog, entry_points, scan_files

OWNED = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
pytestmark = pytest.mark.usefixtures("no_plugins")

EVERY = sorted(catalog().parts)
CORE = {key for key, info in catalog().parts.items() if info.origin == "core"}


def part_of(item: Any, info: Part) -> list[tuple[str, Any, Any]]:
    """What ``inspect`` says of a constructor: names, types and defaults in order."""
    lineage = item.__mro__ if isinstance(item, type) else ()
    if lineage and not any("__init__" in vars(owner) for owner in lineage if owner.__module__.startswith("attnx.")):
        return []
    return [
        (
            parameter.name,
            ast.unparse(ast.parse(parameter.annotation, mode="eval").body),
            list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default,
        )
        for parameter in inspect.signature(item).parameters.values()
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of libraries, at their first import
def test_source_and_signature_describe_the_same_options(monkeypatch):
    """For every part: its options, what is supplied, what it declares, its docstring and its place."""
    monkeypatch.chdir(Path(__file__).parents[2])  # where the plug-ins among EVERY come from
    for kind, name in EVERY:
        info, item = registry.describe(kind, name), registry.find(kind, name)
        signature = part_of(item, info)
        options = [(option.name, option.annotation, option.default) for option in info.options]
        assert options == [entry for entry in signature if entry[2] is not inspect.Parameter.empty]
        assert list(info.injected_params) == [
            name for name, _, default in signature if default is inspect.Parameter.empty
        ]
        assert all(
            type(option.default) is type(entry[2])
            for option, entry in zip(info.options, signature[-len(options) :], strict=False)
        )
        assert {word: getattr(item, word) for word in info.declarations} == info.declarations
        assert info.module == item.__module__
        assert info.doc == inspect.getdoc(item)
        definition = info.file.read_text().splitlines()[info.line - 1]
        assert definition.startswith((f"class {item.__name__}", f"def {item.__name__}"))


def test_every_default_is_accepted(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    for kind, name in EVERY:
        info = registry.describe(kind, name)
        assert registry.check(kind, name, {}) == {option.name: option.default for option in info.options}
        assert registry.check(kind, name, registry.check(kind, name, {})) == registry.check(kind, name, {})


def test_a_docstring_is_parsed():
    """The text after a word, over as many indented lines as it takes."""
    info = catalog().parts["scope", "local"]
    assert info.doc_line("Formula").startswith("allowed: |s - round(p_t)| <= window; monotonic")
    assert info.doc_line("Formula").endswith("sigma = window / 2")
    assert "https://arxiv.org/abs/1508.04025" in info.doc_line("Source")
    assert info.doc_line("Nothing") == ""


GOOD = '''
    from attnx.registry import register

    @register("scorer", "sound")
    class Sound:
        """It is well."""

        requires_equal_dims = False
        about: int = 3

        def __init__(self, query_size: Size, width: PositiveInt = 5, *, kinds: list[Literal["a", "b"]] = ["a"]): ...
'''


def test_a_plug_in_is_read_without_execution(write_plugin):
    file = write_plugin("sound_a.py", GOOD + "\n    raise RuntimeError('run')\n")
    info = catalog().parts["scorer", "sound"]
    assert [(option.name, option.annotation, option.default) for option in info.options] == [
        ("width", "PositiveInt", 5),
        ("kinds", "list[Literal['a', 'b']]", ["a"]),
    ]
    assert info.injected_params == ("query_size",)
    assert info.declarations == {"requires_equal_dims": False, "about": 3}
    assert info.origin == "plug-in sound_a.py"
    assert info.module == "attnx.plugins.sound_a"
    assert info.place == f"{file}:5"
    assert info.doc == "It is well."
    assert catalog().names("scorer")[-1] == "sound"


def option(parameter: str) -> str:
    """A plug-in whose option stands on line 6."""
    head = 'from attnx.registry import register\n\n@register("scorer", "bad")\nclass Bad:\n'
    return f"{head}    def __init__(self, query_size,\n                 {parameter}): ...\n"


def part(keywords: str = "", body: str = " ...") -> str:
    """A plug-in of a class alone, on line 2."""
    return f"@register('scorer', 'a'{keywords})\nclass A:{body}\n"


WIDTH = "option 'width': "
BROKEN = {
    "syntax error": ("def f(:\n", 1, "invalid syntax"),
    "default that is no literal": (option("width: int = 2 * size"), 6, f"{WIDTH}needs a literal default"),
    "missing annotation": (option("width=3"), 6, f"{WIDTH}needs a type, such as width: int = ..."),
    "unknown type": (option("width: dict = 3"), 6, f"{WIDTH}an option cannot have the type dict"),
    "default of another type": (option("width: int = 'x'"), 6, f"{WIDTH}its default 'x' is not a whole number"),
    "default out of range": (option("width: PositiveInt = 0"), 6, f"{WIDTH}its default 0 is not a whole number, 1"),
    "an option called name": (option("name: str = 'x'"), 6, "option 'name': is where the configuration names the part"),
    "unknown kind": ("@register('scorrer', 'bad')\nclass A: ...\n", 1, "there is no kind 'scorrer'; the kinds are sco"),
    "a name that is no literal": ("@register('scorer', NAME)\nclass A: ...\n", 1, "with two plain strings"),
    "a name of two words": ("@register('scorer', 'a b')\nclass A: ...\n", 1, "not 'a b'"),
    "a name that YAML reads as nothing": ("@register('scorer', 'null')\nclass A: ...\n", 1, "none of null, true"),
    "deep nesting": (f"x = {20_000 * '-'}1\n", 1, "expressions are nested too deeply"),
    "a literal that is computed": (
        part(body="\n    def __init__(self, cap: Literal[X.a] = 1): ..."),
        3,
        "option 'cap': Literal[X.a] takes words and numbers as they are written",
    ),
    "one argument": ("@register('scorer')\nclass A: ...\n", 1, "with two plain strings"),
    "a taken name": ("@register('scorer', 'dot')\nclass A: ...\n", 2, "the scorer 'dot' is already registered at"),
    "a condition on no option": (
        part(", read_if={'cap': 'form=x'}", "\n    def __init__(self, cap: int = 1): ..."),
        2,
        "read_if names 'form', which is no option",
    ),
    "a condition that is none": (
        part(body="\n    read_if = {'cap': 'cap>1'}\n\n    def __init__(self, cap: float = 1.0): ..."),
        2,
        "read_if has 'cap>1'; write OPTION=VALUE",
    ),
    "a condition that is no word": (part(", read_if={'cap': 3}"), 2, "read_if has '3'"),
    "conditions of no options": (part(body="\n    read_if = ('cap',)"), 2, "expected conditions by option"),
    "a null byte": ("x = '\0'\n", 1, "null byte"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of libraries, at their first import
def test_a_part_registered_in_python_has_the_same_description():
    """What Python says of a class is what is read from its source, of every part that there is."""
    for kind, name in CORE:
        descriptions = (registry.describe(kind, name), describe_class(kind, name, registry.find(kind, name)))
        read, described = (
            (
                [(option.name, option.annotation, option.type.phrase, option.default) for option in part.options],
                (part.injected_params, part.declarations, part.doc, part.module),
            )
            for part in descriptions
        )
        assert described == read


@pytest.mark.parametrize(("text", "line", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plug_in_leaves_the_rest_usable(write_plugin, text, line, message):
    """One line says where and what; the rest of the folder and the core work on."""
    write_plugin("sound_b.py", GOOD)
    file = write_plugin("broken.py", text)
    parts = catalog()
    (broken_part,) = parts.broken
    assert broken_part.startswith(f"{file}:{line}: ")
    assert message in broken_part
    assert "\n" not in broken_part
    assert "sound" in parts.names("scorer")
    assert {key for key, info in parts.parts.items() if info.origin == "core"} == CORE


def test_an_unhashable_attribute_is_no_declaration(write_plugin):
    write_plugin("odd.py", "@register('scorer', 'odd')\nclass Odd:\n    x = {[]: 1}\n    requires_equal_dims = True\n")
    assert catalog().broken == []
    assert catalog().parts["scorer", "odd"].declarations == {"requires_equal_dims": True}


def test_a_plug_in_that_is_not_text_is_broken(write_plugin):
    file = write_plugin("latin.py", "x = 1\n")
    file.write_bytes("x = 'é'\n".encode("latin-1"))
    (broken_part,) = catalog().broken
    assert broken_part.startswith(f"{file}:1: not UTF-8 text")


def test_a_plug_in_may_be_a_folder(write_plugin):
    """The package, its files and the packages in it; what begins with an underscore is left to those that import it."""
    for place in ("pack/__init__", "pack/part", "pack/deep/__init__", "pack/deep/part", "pack/_shared", "_kept/part"):
        write_plugin(f"{place}.py", GOOD.replace("sound", place.replace("/", "_").strip("_")))
    parts = {key: part for key, part in catalog().parts.items() if part.origin != "core"}
    assert not catalog().broken
    assert {(part.name, part.module, part.origin, part.package) for part in parts.values()} == {
        ("pack___init", "attnx.plugins.pack", "plug-in pack/__init__.py", "attnx.plugins.pack"),
        ("pack_part", "attnx.plugins.pack.part", "plug-in pack/part.py", "attnx.plugins.pack"),
        ("pack_deep___init", "attnx.plugins.pack.deep", "plug-in pack/deep/__init__.py", "attnx.plugins.pack.deep"),
        ("pack_deep_part", "attnx.plugins.pack.deep.part", "plug-in pack/deep/part.py", "attnx.plugins.pack.deep"),
    }


def test_a_folder_of_python_files_needs_an_init(write_plugin):
    """It is told what is missing; a folder of other files is none of ours."""
    folder = write_plugin("pack/part.py", GOOD).parent
    write_plugin("data/words.tsv", "")
    assert catalog().broken == [
        f"{folder}: its Python files are plug-ins only beside an __init__.py; write an empty one"
    ]
    write_plugin("pack/__init__.py", "")
    assert not catalog().broken
    assert "sound" in catalog().names("scorer")


@OWNED
@pytest.mark.parametrize("open_place", ["pack", "pack/deep", "pack/deep/__init__.py", "pack/deep/part.py"])
def test_what_others_may_write_to_in_a_folder_is_left_out(write_plugin, open_place):
    """With all that lies in it; importing it by its name is refused, too."""
    write_plugin("pack/__init__.py", "")
    write_plugin("pack/deep/__init__.py", "")
    folder = write_plugin("pack/deep/part.py", GOOD).parents[2]
    (folder / open_place).chmod(0o777)
    assert "sound" not in catalog().names("scorer")
    (broken_part,) = catalog().broken
    assert broken_part.startswith(f"{folder / open_place}: anybody may write to it")
    with pytest.raises(ImportError, match=f"{re.escape(str(folder / open_place))}: anybody may write to it"):
        importlib.import_module("attnx.plugins.pack.deep.part")


def test_a_folder_and_a_file_of_one_name_are_reported(write_plugin, tmp_path):
    """As Python does, the first folder's comes first, and there the package; nothing of the others is offered."""
    write_plugin("pack/__init__.py", "")
    write_plugin("pack/part.py", GOOD)
    file = write_plugin("pack.py", GOOD.replace("sound", "loud"))
    other = tmp_path / "other" / "pack"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "further.py").write_text(textwrap.dedent(GOOD).replace("sound", "loud"))
    os.environ["ATTNX_PLUGINS"] += f"{os.pathsep}{other.parent}"
    assert catalog().broken == [
        f"{place}:1: {file.parent / 'pack'} has the same name and comes first"
        for place in (file, other / "__init__.py")
    ]
    assert catalog().names("scorer")[-1] == "sound"
    assert plugin_files.locate("attnx.plugins.pack.further") is None


def test_folders_are_searched_again_when_asked_to(write_plugin):
    """Not by every question for a part; but for one that nobody knows."""
    part = write_plugin("pack/part.py", GOOD)
    write_plugin("pack/__init__.py", "")
    assert catalog() is catalog()
    part.write_text(textwrap.dedent(GOOD).replace("sound", "loud"))
    assert "loud" not in catalog().names("scorer")
    assert registry.describe("scorer", "loud").file == part
    part.unlink()
    registry.forget_changed()
    assert "loud" not in catalog().names("scorer")


def test_two_plug_ins_of_one_name_clash(write_plugin):
    """The first file stays, in alphabetical order; the line names both."""
    first, second = write_plugin("a_first.py", GOOD), write_plugin("b_second.py", GOOD)
    parts = catalog()
    assert parts.parts["scorer", "sound"].file == first
    assert parts.broken == [f"{second}:5: the scorer 'sound' is already registered at {first}:5; rename one"]


def test_one_name_may_serve_two_kinds(write_plugin):
    write_plugin("both.py", GOOD + textwrap.dedent(GOOD).replace('"scorer"', '"scope"').replace("\n", "\n    "))
    assert not catalog().broken
    assert "sound" in catalog().names("scorer")
    assert "sound" in catalog().names("scope")


def test_files_with_an_underscore_are_skipped(write_plugin):
    write_plugin("_shared.py", GOOD)
    assert "sound" not in catalog().names("scorer")


def test_other_functions_called_register_are_ignored(write_plugin):
    """A plug-in may use decorators of that name that have nothing to do with parts."""
    shown = "@functools.singledispatch\ndef shown(value): ...\n\n@shown.register(int)\ndef _(value): ...\n"
    write_plugin("dispatching.py", f"{textwrap.dedent(GOOD)}\nimport functools\n\n{shown}")
    assert not catalog().broken
    assert "sound" in catalog().names("scorer")


def test_several_folders_are_searched(tmp_path, monkeypatch):
    """``$ATTNX_PLUGINS`` is a list as ``$PATH`` is; what is empty, twice or not there does not matter."""
    first, second = folders = [tmp_path / f"folder{number}" for number in (1, 2)]
    for number, folder in enumerate(folders, 1):
        folder.mkdir()
        (folder / f"plugin{number}.py").write_text(textwrap.dedent(GOOD).replace("sound", f"sound{number}"))
    entries = map(str, (first, "", tmp_path / "nowhere", second, first))
    monkeypatch.setenv("ATTNX_PLUGINS", os.pathsep.join(entries))
    assert plugin_files.folders() == folders
    assert catalog().names("scorer")[-2:] == ["sound1", "sound2"]


@pytest.mark.parametrize(("mode", "loaded"), [(0o755, True), (0o700, True), (0o777, False), (0o757, False)])
def test_the_local_plugins_folder_must_be_private(tmp_path, monkeypatch, mode, loaded):
    """``plugins/`` of the working folder counts unless everybody may write to it."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "here.py").write_text(textwrap.dedent(GOOD))
    (tmp_path / "plugins").chmod(mode)
    monkeypatch.chdir(tmp_path)
    assert ("sound" in catalog().names("scorer")) is loaded


@OWNED
def test_a_folder_must_belong_to_the_user(tmp_path, monkeypatch):
    """Somebody else's folder is not loaded for being where one happens to be, nor for being named; a line says so."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "here.py").write_text(textwrap.dedent(GOOD))
    monkeypatch.chdir(tmp_path)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    for folder_name in ("", "plugins"):
        monkeypatch.setenv("ATTNX_PLUGINS", folder_name)
        assert plugin_files.folders() == []
        (broken_part,) = catalog().broken
        assert broken_part.startswith(f"{folder}: it belongs to another user, ")


@OWNED
def test_a_world_writable_file_is_left_out(write_plugin):
    write_plugin("fine.py", GOOD)
    file = write_plugin("open.py", GOOD.replace('"sound"', '"loud"'))
    file.chmod(0o646)
    parts = catalog()
    assert parts.names("scorer")[-1] == "sound"
    assert parts.broken == [
        f"{file}: anybody may write to it, and only what is yours alone is run; take that away by chmod o-w"
    ]
    file.chmod(0o644)
    registry.forget_changed()
    assert "loud" in catalog().names("scorer")
    assert not catalog().broken


@OWNED
def test_a_file_of_another_user_is_left_out(write_plugin, monkeypatch):
    """In a folder of one's own, too."""
    write_plugin("fine.py", GOOD)
    foreign_file = write_plugin("theirs.py", GOOD.replace('"sound"', '"loud"'))
    stat = Path.stat

    def stat_of_another_user(path: Path, **how: bool) -> os.stat_result:
        mode, *remaining = stat(path, **how)
        return os.stat_result((mode, *remaining[:3], os.getuid() + (path == foreign_file), *remaining[4:]))

    monkeypatch.setattr(Path, "stat", stat_of_another_user)
    parts = catalog()
    assert "sound" in parts.names("scorer")
    (broken_part,) = parts.broken
    assert broken_part.startswith(f"{foreign_file}: it belongs to ")


@OWNED
def test_imports_of_a_plug_in_obey_the_same_rule(write_plugin):
    write_plugin("outer.py", "from attnx.plugins._inner import ONE\n" + textwrap.dedent(GOOD))
    inner = write_plugin("_inner.py", "ONE = 1\n")
    inner.chmod(0o666)
    with pytest.raises(UserError, match=f"outer.py:1: ImportError: {re.escape(str(inner))}: anybody may write to it"):
        registry.find("scorer", "sound")


def test_cached_bytecode_of_a_plug_in_is_not_run(write_plugin):
    """It may be outdated or foreign: here it claims to fit and has other code."""
    file, second_file = write_plugin("cached.py", "VALUE = 'source'\n"), write_plugin("_other.py", "VALUE = 'cached'\n")
    compiled = Path(py_compile.compile(str(second_file), importlib.util.cache_from_source(str(file))))
    data, status = bytearray(compiled.read_bytes()), file.stat()
    data[8:16] = struct.pack("<II", int(status.st_mtime), status.st_size)
    compiled.write_bytes(data)
    catalog()
    assert importlib.import_module("attnx.plugins.cached").VALUE == "source"
    del sys.modules["attnx.plugins.cached"]


@pytest.fixture
def forget_installed():
    """What is installed is looked for once; not so around these tests."""

    def forget() -> None:
        scan_files.cache_clear()
        entry_points.cache_clear()

    forget()
    yield forget
    forget()


def test_an_installed_package_offers_parts(tmp_path, monkeypatch, forget_installed):
    """A module named by an entry point is read where it lies; its package is not imported for it."""
    package = tmp_path / "lib" / "foreign_attention"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "parts.py").write_text(textwrap.dedent(GOOD))
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    for offered in ("foreign_attention.parts", "foreign_attention"):  # a module, or the package with all in it
        points = {"attnx.plugins": [importlib.metadata.EntryPoint(name="mine", value=offered, group="attnx.plugins")]}
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group, points=points: points.get(group, []))
        info = catalog().parts["scorer", "sound"]
        assert (info.module, info.origin) == ("foreign_attention.parts", "package foreign_attention")
        forget_installed()
