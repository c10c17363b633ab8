"""Commands go on when nobody reads their output any more."""

import os
import sys

from attnx.cli.steady_output import steady_output


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
