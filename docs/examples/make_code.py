"""Expressions, and the instructions that compute them on a stack machine: code.tsv."""

import random
from pathlib import Path

chance = random.Random(1)
OPERATORS = {"+": "add", "-": "sub", "*": "mul"}


def expression(depth: int) -> tuple[list[str], list[str]]:
    """The tokens of an expression, and the instructions for it."""
    if depth == 0 or chance.random() < 0.25:
        name = chance.choice("abcdefgh")
        return [name], [f"load_{name}"]
    (left, first), (right, second) = expression(depth - 1), expression(depth - 1)
    sign = chance.choice(list(OPERATORS))
    return ["(", *left, sign, *right, ")"], [*first, *second, OPERATORS[sign]]


lines = {"\t".join(" ".join(side) for side in expression(depth=3)) for _ in range(4000)}
Path("code.tsv").write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")
