"""The tree of the beginnings that a search continued."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attnx.data.special_tokens import BOS, EOS, PAD
from attnx.inference.step_recorder import Beginning, follow
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
            beginning = beginnings[index]
            parent = node_of.get((beginning.parent, beginning.token), -1)
            node_of[index, token] = len(nodes)
            nodes.append(BeamNode(parent, symbols[token], float(beginning.prediction[token])))
        return node_of[index, token]

    for index in _possible(beginnings):
        node(beginnings[index].parent, beginnings[index].token)
    paths = [tuple(map(node, follow(beginnings, output) or (), output)) for output in outputs]
    return tuple(nodes), tuple(paths)


def _possible(beginnings: Sequence[Beginning]) -> list[int]:
    """The indices of beginnings that a search wants: it fills its beam with impossible ones, and those that ended."""
    possible = {0: None}  # a dictionary: in order, and quick to look up
    for index, beginning in enumerate(beginnings[1:], start=1):
        parent = beginnings[beginning.parent]
        is_impossible = beginning.token in (PAD, BOS) or float(parent.prediction[beginning.token]) == -torch.inf
        if beginning.parent in possible and parent.token != EOS and not is_impossible:
            possible[index] = None
    return [*possible][1:]
