"""Classes and functions as their source defines them: nothing is imported."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

from attnx.registry import plugin_files

DATACLASS = ("dataclass", "dataclasses.dataclass")  # spellings of the decorator


class Source(NamedTuple):
    """The source of a module."""

    module: str
    file: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package to which the module's relative imports are relative."""
        return plugin_files.package(self.module, self.file)


class Definition(NamedTuple):
    """A class or function, and where it is."""

    node: ast.ClassDef | ast.FunctionDef
    source: Source

    @property
    def place(self) -> str:
        """``file:line`` of the definition."""
        return f"{self.source.file}:{self.node.lineno}"

    @property
    def is_dataclass(self) -> bool:
        """Whether a class has the decorator of dataclasses."""
        return any(ast.unparse(decorator).startswith(DATACLASS) for decorator in self.node.decorator_list)


def parse(module: str, file: Path) -> Source:
    """The source of a module; a ValueError, ``file:line: problem``, if it is not Python."""
    try:
        tree = ast.parse(plugin_files.source(module, file).decode("utf-8"), filename=str(file))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}:1: not UTF-8 text ({error.reason})") from None
    except SyntaxError as error:
        raise ValueError(f"{file}:{error.lineno or 1}: {error.msg}") from None
    except (RecursionError, MemoryError):  # of the parser
        raise ValueError(f"{file}:1: expressions are nested too deeply") from None
    return Source(module, file, tree)
