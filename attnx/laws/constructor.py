"""The parameters of a part's constructor that nothing reads."""

from __future__ import annotations

import ast

from attnx.registry.source_scan import Part


def unread_parameters(part: Part) -> tuple[str, ...]:
    """The parameters of a registered function, or of a registered class's constructor, that its body does not read.

    >>> from attnx import registry
    >>> unread_parameters(registry.describe("model", "transformer"))
    ()
    """
    tree = ast.parse(part.file.read_text(encoding="utf-8"))
    definition = next(node for node in tree.body if getattr(node, "name", None) == part.symbol)
    if isinstance(definition, ast.ClassDef):
        methods = (node for node in definition.body if isinstance(node, ast.FunctionDef))
        definition = next((method for method in methods if method.name == "__init__"), definition)
    if not isinstance(definition, ast.FunctionDef):
        return ()
    nodes = [node for statement in definition.body for node in ast.walk(statement)]
    reads = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    arguments = [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
    return tuple(argument.arg for argument in arguments if argument.arg not in {"self", *reads})
