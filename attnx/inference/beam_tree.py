"""The tree of the beginnings that a search continued."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attnx.data.special_tokens import BOS, EOS, PAD
from attnx.inference.step_recorder import Beginning
from attnx.reports.pages.decoding_trace import BeamNode

Tree = tuple[tuple[BeamNode, ...], tuple[tuple[int, ...], ...]]


def trace_beams(beginnings: Sequence[Beginning], outputs: Sequence[Sequence[int]], symbols: Sequence[str]) -> Tree:
    """The nodes of all beginnings and of outputs, and the nodes of each output; none if the search never branched.

    Args:
        beginnings: as recorded, the empty one first.
        outputs: the ids of each output, whose beginnings were recorded.
        symbols: the symbol of each id.
    """
    if all(len(beginning.next) <= 1 for beginning in beginnings):
        return (), ()
    nodes: list[BeamNode] = []
    node_of: dict[tuple[int, int], int] = {}  # by the index of a beginning and the id after it

    def node(index: int, token: int) -> int:
        if (index, token) not in node_of:
            before_it = beginnings[index]
            parent = node_of.get((before_it.parent, before_it.token), -1)
            node_of[index, token] = len(nodes)
            nodes.append(BeamNode(parent, symbols[token], float(before_it.prediction[token])))
        return node_of[index, token]

    for index in _possible(beginnings):
        node(beginnings[index].parent, beginnings[index].token)
    paths = [tuple(node(*step) for step in _steps(beginnings, output)) for output in outputs]
    return tuple(nodes), tuple(paths)


def _possible(beginnings: Sequence[Beginning]) -> list[int]:
    """The indices of beginnings that a search wants: it fills its beam with impossible ones, and those that ended."""
    possible = [0]
    for index, beginning in enumerate(beginnings[1:], start=1):
        parent = beginnings[beginning.parent]
        is_impossible = beginning.token in (PAD, BOS) or float(parent.prediction[beginning.token]) == -torch.inf
        if beginning.parent in possible and parent.token != EOS and not is_impossible:
            possible.append(index)
    return possible[1:]


def _steps(beginnings: Sequence[Beginning], output: Sequence[int]) -> list[tuple[int, int]]:
    """The index of the beginning before each symbol of an output, and the symbol's id."""
    steps, index = [], 0
    for token in output:
        steps.append((index, token))
        index = beginnings[index].next.get(token, 0)  # after the last symbol it is not read
    return steps
