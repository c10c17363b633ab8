"""The syntax trees of source files, each parsed once, and their nodes."""

import ast
import functools
from pathlib import Path


@functools.cache
def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree."""
    return tuple(ast.walk(parse(file)))


def called(node: ast.Call) -> str:
    """The last name of what is called: ``open`` of ``path.open(...)``."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
