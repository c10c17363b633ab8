"""What a terminal, a pipe and a dumb terminal are shown, and commands whose output nobody reads."""

import io
import os
import pty
import sys
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
import torch
from rich.console import Console

from attnx.cli.steady_output import steady_output
from attnx.files.printable import can_redraw, show_waiting
from attnx.training.callbacks import progress
from attnx.training.callbacks.progress import LINE_INTERVAL_SECONDS, ProgressDisplay
from attnx.training.callbacks.throughput import Throughput

ESCAPE, RETURN, CURSOR_UP = "\x1b", "\r", "\x1b[1A"


@pytest.fixture
def pseudo_terminal():
    """A stream that is a terminal."""
    lead, follow = pty.openpty()
    with open(follow, "w", encoding="utf-8") as stream:
        yield stream
    os.close(lead)


def make_console(file: TextIO, **environment: str) -> Console:
    return Console(file=file, width=100, _environ={"TERM": "xterm", **environment})


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, True), ({"NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False), ({"TTY_INTERACTIVE": "0"}, False)],
    ids=str,
)
def test_a_terminal_with_a_cursor_is_redrawn(environment, expected, pseudo_terminal):
    assert can_redraw(make_console(pseudo_terminal, **environment)) is expected


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}], ids=str)
def test_a_pipe_is_never_redrawn(environment):
    console = make_console(io.StringIO(), **environment)
    assert not can_redraw(console)
    with show_waiting(console, "reading ..."):
        pass
    assert console.file.getvalue() == ""


class Training:
    """A run of twenty steps of ten seconds, with a validation after the tenth; what it prints on a console."""

    def __init__(self, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.seconds)
        names = ["valid_loss", "valid_perplexity", "valid_per", "valid_per_a", "valid_per_b", "valid_per_c"]
        metrics = {name: torch.tensor(0.5 + number) for number, name in enumerate(names)}
        trainer: Any = SimpleNamespace(global_step=0, max_steps=20, is_global_zero=True, callback_metrics=metrics)
        module: Any = SimpleNamespace()
        show = ProgressDisplay(console, Throughput(), "valid_per")
        show.on_train_start(trainer)
        for step in range(1, 21):
            trainer.global_step, self.seconds = step, self.seconds + 10
            module.step_loss = torch.tensor(step / 10)
            show.on_train_batch_end(trainer, module)
            if step == 10:
                show.on_validation_end(trainer)
        show.on_train_end()


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"TERM": "dumb", "FORCE_COLOR": "1"}], ids=str)
def test_progress_in_a_log_is_lines(environment, monkeypatch):
    """One at a validation, with two of many metrics, and one where there was none for thirty seconds."""
    output = io.StringIO()
    Training(make_console(output, NO_COLOR="1", **environment), monkeypatch)
    assert LINE_INTERVAL_SECONDS == 30
    plain = output.getvalue().replace(f"{ESCAPE}[1m", "").replace(f"{ESCAPE}[0m", "")
    assert not {ESCAPE, RETURN} & set(plain)
    assert [line.split("  ")[:-1] for line in plain.splitlines()] == [
        ["step 3/20", "train_loss 0.3"],
        ["step 6/20", "train_loss 0.6"],
        ["step 9/20", "train_loss 0.9"],
        ["step 10/20", "valid_loss 0.5", "valid_per 2.5"],
        ["step 13/20", "train_loss 1.3"],
        ["step 16/20", "train_loss 1.6"],
        ["step 19/20", "train_loss 1.9"],
    ]


def test_progress_in_a_log_has_no_codes(monkeypatch):
    output = io.StringIO()
    Training(make_console(output), monkeypatch)
    assert output.getvalue().count("\n") == 7
    assert not {ESCAPE, RETURN} & set(output.getvalue())


def test_a_closed_terminal_ends_nothing(monkeypatch):
    """As after a logout: what is written to it fails with EIO, not with EPIPE."""
    terminal, process = os.openpty()
    with os.fdopen(process, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        os.close(terminal)
        with steady_output():
            print("nobody reads this", flush=True)
            print("nor this", flush=True)


def test_a_command_without_standard_output_runs(monkeypatch):
    """As after ``attnx >&-``."""
    monkeypatch.setattr(sys, "stdout", None)
    with steady_output():
        print("nothing")
