"""``attnx try``: answers with the N best and their weights; the grid is aligned."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from attnx.cli.commands import try_ as trying
from attnx.cli.commands.try_ import heatmap


@pytest.fixture
def run_try(runs: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Pipe lines into the prompt."""

    def give(*lines: str, words: tuple[str, ...] = ("one",), raw: bytes = b"") -> Any:
        data = raw or "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        return command("try", *words)

    return give


def predicted_text(word: str, **options: Any) -> str:
    return " ".join(attnx.open_run("one").predict([word], **options)[0].output)


def test_a_piped_line_is_answered_with_its_alignment(run_try: Callable[..., Any]) -> None:
    answer = run_try("dab", "", ":grid off", "kes", ":quit", "be")
    assert (answer.code, answer.err) == (0, "")
    first, head, *rows, last = answer.out.splitlines()
    (prediction,) = attnx.open_run("one").predict(["dab"], need_weights=True)
    assert (first, last) == (" ".join(prediction.output), predicted_text("kes"))
    assert head.split() == ["d", "a", "b"]
    assert [row.split()[0] for row in rows] == [*prediction.output, "</s>"]
    for row, weights in zip(rows, prediction.weights, strict=True):
        shades = [shade for shade in row[-5:] if shade != " "] if weights.max() > 0.9 else ["█"]
        assert shades[0] == "█"


def test_settings_at_the_prompt_persist(run_try: Callable[..., Any]) -> None:
    answer = run_try(":grid off", ":nbest 3", "dab", ":decoding beam beam_size=3", "dab", ":nbest 1", "dab", "::a")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    best = attnx.open_run("one").predict(["dab"], nbest=3)[0]
    expected = [
        f"{rank}  {item.score:.4f}  {' '.join(item.output)}" for rank, item in enumerate((best, *best.alternatives), 1)
    ]
    assert lines[:3] == expected
    assert lines[3].startswith("decoding=beam beam_size=3 nbest=3")  # wide enough for the best 3
    assert [line.split("  ")[2] for line in lines[4:7]] == [
        " ".join(item.output)
        for prediction in attnx.open_run("one").predict(["dab"], decoding=("beam", {"beam_size": 3, "nbest": 3}))
        for item in (prediction, *prediction.alternatives)
    ]
    assert lines[7:] == [
        predicted_text("dab", decoding=("beam", {"beam_size": 3})),
        predicted_text(":a", decoding=("beam", {"beam_size": 3})),
    ]


def test_a_mistake_is_reported_and_the_prompt_continues(run_try: Callable[..., Any]) -> None:
    mistakes = {
        ":nbst 3": "unknown flag :nbst; did you mean :nbest?",
        ":nbest": ":nbest needs a value",
        ":nbest many": ":nbest many: expected a whole number, 1 or more",
        ":decoding": ":decoding needs a name",
        ":decoding beem": "unknown decoding 'beem'; did you mean beam?",
        ":decoding beam beam_size=0": "decoding.beam_size=0: expected a whole number, 1 or more",
        ":decoding 'beam": ":decoding 'beam: no closing quotation",
        ":decoding greedy :nbest 3": "decoding=greedy finds one output for each source",
        ":decoding beam beam_size=2 :nbest 3": "decoding.beam_size=2 holds fewer than the 3 best",
        ":tag fr": "the tag 'fr' is not one of this run's: it has none",
        ":unknown copy": ":unknown copy: expected one of replace, refuse, keep",
        ":grid maybe": ":grid maybe: expected one of on, off",
    }
    answer = run_try(":grid off", *mistakes, ":unknown refuse", "daß", "dab", ":unknown keep", "daß", ":help")
    assert answer.code == 0
    messages = answer.err.splitlines()
    assert len(messages) == len(mistakes) + 1
    for line, message in zip(messages, [*mistakes.values(), "this run does not know 'ß'"], strict=True):
        assert line.startswith("attnx: ")
        assert message in line
    right, second, *helped = answer.out.splitlines()
    assert right == predicted_text("dab")
    assert "ß" in second
    assert helped[0].startswith(":nbest N")


def test_invalid_bytes_are_reported(run_try: Callable[..., Any]) -> None:
    answer = run_try(raw=b":grid off\nd\xffb\ndab\n")
    assert (answer.code, answer.out) == (0, f"{predicted_text('dab')}\n")
    assert answer.err == "attnx: the line is not UTF-8 text\n"


def test_several_runs_answer_as_an_ensemble(run_try: Callable[..., Any]) -> None:
    answer = run_try("dab", words=("one", "two", "decoding=beam", "--nbest", "2"))
    prediction = attnx.open_ensemble(["one", "two"]).predict(["dab"], decoding=("beam", {"beam_size": 5, "nbest": 2}))[
        0
    ]
    assert answer.out.splitlines()[:2] == [
        f"{rank}  {item.score:.4f}  {' '.join(item.output)}"
        for rank, item in enumerate((prediction, *prediction.alternatives), 1)
    ]


def test_a_terminal_shows_a_prompt(runs: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a pseudo-terminal: Ctrl-C leaves the line, Ctrl-D the prompt."""
    answer_ = trying._respond

    def press(prompt: Any, line: str) -> None:
        if line == "kes":
            raise KeyboardInterrupt
        answer_(prompt, line)

    monkeypatch.setattr(trying, "_respond", press)
    controller, terminal = os.openpty()
    os.write(controller, b":grid off\nkes\ndab\n\x04")
    with os.fdopen(terminal, encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        answer = command("try", "one")
    os.close(controller)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "one: type a source; :help for more, Ctrl-D ends",
        "> > ",
        f"> {predicted_text('dab')}",
        "> ",
    ]


def test_a_grid_is_aligned_by_display_width() -> None:
    """A Chinese character takes two cells, an accent of its own none, a space is seen, and what is long is cut."""
    weights = np.array([[0.0, 1.0, 0.3, 0.6], [0.9, 0.1, 0.5, 0.8]])
    assert list(heatmap(weights, ["字", "ab"], ["漢", "\u0301", "a" * 20, " "], width=60)) == [
        "   漢 \u25cc\u0301 aaaaaaaaaaa… ␣",
        "字    █ ░░░░░░░░░░░░ ▒",
        "ab ██   ▒▒▒▒▒▒▒▒▒▒▒▒ ▓",
    ]


def test_a_wide_grid_wraps() -> None:
    """Three cells for the labels and a space; then two cells a column, of which four fit into twelve."""
    weights = np.eye(5)
    assert list(heatmap(weights[:1], ["abc"], list("vwxyz"), width=12)) == [
        "    v w x y",
        "abc █",
        "    z",
        "abc",
    ]


def test_decoder_states_follow_a_bar() -> None:
    assert list(heatmap(np.eye(3)[1:], ["B", "C"], ["a", "b", "B"], width=40, decoder_columns=1)) == [
        "  a b│B",
        "B   █│",
        "C    │█",
    ]
