"""What a stream can show: a terminal redraws its lines; a file, a pipe, a notebook and a dumb terminal do not."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rich.console import Console


def can_redraw(console: Console) -> bool:
    """Whether a bar or a table can be drawn over itself, which takes control codes.

    ``TERM=dumb`` and ``TTY_INTERACTIVE=0`` refuse them. ``FORCE_COLOR`` has a pipe colored, but it is no terminal.
    """
    return console.is_interactive and console.file.isatty()


def show_waiting(console: Console, message: str) -> AbstractContextManager[object]:
    """A context that shows why the user waits; nothing where it could not be removed again."""
    return console.status(message) if can_redraw(console) else nullcontext()
