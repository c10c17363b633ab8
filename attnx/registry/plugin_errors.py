"""Which plug-in raised an exception, in one line: its code may raise anything, anywhere, and may call ``sys.exit``."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

from attnx.errors import UserError, type_and_text
from attnx.registry.part import BY_HAND, CHECKED_KINDS, Part
from attnx.registry.plugin_files import PACKAGE
from attnx.registry.source_scan import catalog

INTENDED = (KeyboardInterrupt, GeneratorExit, UserError)
"""What is raised on purpose: by the user's Ctrl-C, by Python as it closes a generator, by attnx, or by a part that
refuses its options."""


class PlugInError(UserError):
    """A plug-in raised something that it should not, its ``__cause__``: which, where and what, in one line."""


@contextmanager
def report_plug_in_errors(called: Part | None = None) -> Iterator[None]:
    """Convert what a plug-in raises, as by ``sys.exit``, into a PlugInError with the part, its file and line.

    A part that is ``called``, to import or build it, is named though no line of it ran.
    """
    try:
        yield
    except INTENDED:
        raise
    except BaseException as error:
        if not (line := find_plug_in(error, called)):
            raise
        raise PlugInError(line) from error


def find_plug_in(error: BaseException, called: Part | None = None) -> str:
    """The plug-in whose code raised an exception, where, and what it says; "" if none did.

    The place is the last line of the plug-in that ran, in whatever file of it; the part is the last one that was
    entered, or the one that was ``called`` where none of its own lines is in the traceback.
    """
    frames = _frames(error)
    if not frames and error.__cause__ is not None and called is None:
        return find_plug_in(error.__cause__)
    entered = [part for _, _, part in frames if part is not None]
    part = entered[-1] if entered else called
    if part is None and not frames:
        return ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    elif frames:
        code, line, _ = frames[-1]
        place = f"{code.co_filename}:{line}" + ("" if code.co_name == "<module>" else f" ({code.co_name})")
    else:  # its file may be no Python
        assert part is not None
        place = error_place(error, part)
    if part is None:
        return f"the plug-in {place}: {type_and_text(error)}"
    return f"the {part.kind} {part.name!r}, {place}: {type_and_text(error)}; {advice(part)}"


def advice(part: Part) -> str:
    """Where to read more about parts of this kind."""
    if part.kind not in CHECKED_KINDS:
        return "what it must do: docs/add-a-part.md"
    return f"all its laws: attnx check {part.kind}={part.name} (docs/add-a-part.md)"


def error_place(error: BaseException, part: Part) -> str:
    """``file:line`` of the last line in a part's file that ran before an exception, or of the part."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if _is_in(frame.f_code, part)]
    return f"{part.file}:{lines[-1]}" if lines else part.place


def _frames(error: BaseException) -> list[tuple[CodeType, int, Part | None]]:
    """The frames of plug-ins in a traceback: code, line, and the part in whose file they are, if one is in it."""
    plug_ins = [part for part in catalog().parts.values() if part.origin != "core"]
    packages = (PACKAGE, *{part.module.partition(".")[0] for part in plug_ins if part.origin != BY_HAND} - {"attnx"})
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        parts = sorted((part for part in plug_ins if _is_in(frame.f_code, part)), key=lambda part: part.line)
        above = [part for part in parts if part.line <= line]
        # The first one, too, for what is defined above it.
        part = above[-1] if above else next(iter(parts), None)
        module = str(frame.f_globals.get("__name__"))
        if part is not None or f"{module}.".startswith(tuple(f"{package}." for package in packages)):
            frames.append((frame.f_code, line, part))
    return frames


def _is_in(code: CodeType, part: Part) -> bool:
    return Path(code.co_filename) == part.file
