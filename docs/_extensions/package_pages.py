"""A page for each package of attnx: every public name with its docstring.

What a package offers under its own name (``attnx.fit``) comes first, then module by module what is public in it.
Commands have pages of their own, from their ``--help``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

from generated_pages import write_pages
from sphinx.application import Sphinx

import attnx

ROOT = Path(attnx.__file__).parent
FOLDER = "reference/packages"
UNLISTED = ("attnx.cli", "attnx.plugins")
"""Packages without public names: commands, and the home of plug-ins."""
INDEX = """\
Python
======

Every public name of every package, from its docstring. Most programs need :mod:`attnx` and :mod:`attnx.attention`
alone. A module imports from the layers below its own; :doc:`the architecture </architecture>` lists them.

.. toctree::
   :maxdepth: 1

{entries}
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages when a build begins."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    exports = {package: dict(_exported_names(package)) for package in packages()}
    texts = {f"{package}.rst": page(package, exports) for package in exports}
    write_pages(Path(app.srcdir) / FOLDER, texts)
    entries = "\n".join(f"   ../packages/{package}" for package in exports)
    write_pages(Path(app.srcdir) / "reference" / "python", {"index.rst": INDEX.format(entries=entries)})


def packages() -> Iterator[str]:
    """The packages, in alphabetical order."""
    for file in sorted(ROOT.rglob("__init__.py")):
        package = ".".join(["attnx", *file.parent.relative_to(ROOT).parts])
        if not package.startswith(UNLISTED):
            yield package


def _folder(package: str) -> Path:
    return ROOT.joinpath(*package.split(".")[1:])


def _exported_names(package: str) -> Iterator[tuple[str, str]]:
    """The names that a package has from its modules or from others, each with the module that defines it."""
    for node in ast.walk(ast.parse((_folder(package) / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnx."):
            for alias in node.names:
                if alias.asname == alias.name and not alias.name.startswith("_"):
                    yield alias.name, str(node.module)


def page(package: str, exports: Mapping[str, Mapping[str, str]]) -> str:
    """The page of a package, in reStructuredText; a name that a package exports is on that package's page alone."""
    parts = [_heading(package, "="), _module(package, exports)]
    for name in exports[package]:
        directive = "autoclass" if inspect.isclass(getattr(importlib.import_module(package), name)) else "autofunction"
        parts.append(f".. {directive}:: {package}::{name}" + "\n   :members:" * (directive == "autoclass"))
    for file in sorted(_folder(package).glob("[!_]*.py")):
        parts += [_heading(f"{package}.{file.stem}", "-"), _module(f"{package}.{file.stem}", exports)]
    return "\n\n".join(parts) + "\n"


def _heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


def _module(module: str, exports: Mapping[str, Mapping[str, str]]) -> str:
    """What a module defines, with links to those of its names that a package exports."""
    moved = {name: package for package, names in exports.items() for name, home in names.items() if home == module}
    lines = [f".. automodule:: {module}", "   :members:"]
    if moved:
        lines.append(f"   :exclude-members: {', '.join(moved)}")
    if f"{module.rpartition('.')[0]}.{module.rpartition('.')[2]}" in {f"{home}.{name}" for name, home in moved.items()}:
        lines.append("   :no-index:")  # a function of the same address
    elsewhere = [f":obj:`{package}.{name}`" for name, package in moved.items()]
    return "\n".join(lines) + (f"\n\nDefines {', '.join(elsewhere)}." if elsewhere else "")
