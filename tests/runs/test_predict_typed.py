"""``attnx predict`` at a terminal: each typed line is answered with its attention weights; the grid is aligned."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

import attnx
from attnx.cli.commands.predict.write import heatmap


@pytest.fixture
def type_lines(runs, command, monkeypatch):
    """Type lines through a pseudo-terminal, then Ctrl-D: the answer of ``attnx predict`` with these words."""
    controller, terminal = os.openpty()

    def give(data: bytes, *words: str) -> Any:
        os.write(controller, data + b"\x04")
        with os.fdopen(os.dup(terminal), encoding="utf-8") as typed:
            monkeypatch.setattr(sys, "stdin", typed)
            return command("predict", *words)

    yield give
    os.close(controller)
    os.close(terminal)


def test_a_typed_line_is_answered_with_its_attention(type_lines, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    answer = type_lines(b"dab\n\nkes\n", "one")
    assert answer.code == 0
    assert answer.err == "reading from the terminal, a line each; Ctrl-D ends\n"
    predictions = attnx.open_run("one").predict(["dab", "kes"], need_weights=True)
    lines = answer.out.splitlines()
    for prediction in predictions:
        output, head, *rows = (lines.pop(0) for _ in range(len(prediction.output) + 3))
        assert output == prediction.text
        assert head.split() == list(prediction.pair.source)
        assert [row.split()[0] for row in rows] == [*prediction.output, "</s>"]
        for row, weights in zip(rows, prediction.weights, strict=True):
            assert row.rstrip()[-1] == "█" or weights.max() < 0.9
        if lines:
            assert lines.pop(0) == ""  # of the empty line
    assert not lines


def test_without_a_terminal_to_read_there_are_no_weights(type_lines):
    """Of the N best, and of several runs, whose outputs go to a pipe."""
    answer = type_lines(b"dab\n", "one", "two", "--nbest", "2")
    (prediction,) = attnx.open_ensemble(["one", "two"]).predict(["dab"], nbest=2)
    ranked = enumerate((prediction, *prediction.alternatives), 1)
    assert answer.out.splitlines() == [f"1\t{rank}\t{item.score:.6f}\t{item.text}" for rank, item in ranked]


def test_a_typed_mistake_does_not_end_the_command(type_lines):
    answer = type_lines("daß\ndab\n".encode() + b"d\xffb\n", "one", "--unknown", "refuse")
    assert answer.code == 0
    assert answer.out == f"{attnx.open_run('one').predict(['dab'])[0].text}\n"
    unknown, invalid, count = answer.err.splitlines()[1:]
    assert unknown == "attnx: standard input:1: this run does not know 'ß'"
    assert invalid.startswith("attnx: standard input:3: byte 0xff at byte 2 of the line is not UTF-8")
    assert count == "attnx: 2 of 3 lines could not be read"


def test_a_grid_is_aligned_by_display_width():
    """A Chinese character takes two cells, an accent of its own none, a space is seen, and what is long is cut."""
    weights = np.array([[0.0, 1.0, 0.3, 0.6], [0.9, 0.1, 0.5, 0.8]])
    assert list(heatmap(weights, ["字", "ab"], ["漢", "\u0301", "a" * 20, " "], width=60)) == [
        "   漢 \u25cc\u0301 aaaaaaaaaaa… ␣",
        "字    █ ░░░░░░░░░░░░ ▒",
        "ab ██   ▒▒▒▒▒▒▒▒▒▒▒▒ ▓",
    ]


def test_a_wide_grid_wraps():
    """Three cells for the labels and a space; then two cells a column, of which four fit into twelve."""
    weights = np.eye(5)
    assert list(heatmap(weights[:1], ["abc"], list("vwxyz"), width=12)) == [
        "    v w x y",
        "abc █",
        "    z",
        "abc",
    ]


def test_decoder_states_follow_a_bar():
    assert list(heatmap(np.eye(3)[1:], ["B", "C"], ["a", "b", "B"], width=40, decoder_columns=1)) == [
        "  a b│B",
        "B   █│",
        "C    │█",
    ]
