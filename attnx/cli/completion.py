"""Answers a shell's request for completions: commands, their words and flags; what can be chosen is Hydra's to say."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Sequence

from attnx.cli.flags import FLAGS
from attnx.cli.hydra import show
from attnx.config.compose import normalize
from attnx.config.groups import GROUPS, options

DATA_VERBS = ("list", "get", "check")


def complete(asked: Sequence[str], config_dir: str | None, commands: Sequence[str]) -> int:
    """Install completion or answer a query, whose line so far a shell puts into ``COMP_LINE``.

    Args:
        asked: the flag and its value, ``query=bash`` or ``install=bash``.
        config_dir: a folder of the user's own configuration files.
        commands: the commands that there are.
    """
    kind, _, shell = asked[-1].partition("=")
    if kind != "query":
        return show(asked, [], config_dir)
    program, *words = re.split(" +", os.environ.get("COMP_LINE", "").lstrip() or " ")
    *before, typed = words or [""]
    command = next(iter(before), "")
    if command in commands:
        offered = _words_of(command)
    elif typed.startswith("-"):
        offered = [*FLAGS, "--help", "--version"]
    else:
        offered = [*_choices(asked, [program, *before], typed, config_dir), *([] if before else commands)]
    fitting = [word for word in offered if word.startswith(typed)]
    # bash is told in one line, fish in a line each.
    print("\n".join(fitting) if shell == "fish" else " ".join(fitting))
    return 0


def _words_of(command: str) -> list[str]:
    """What can follow a command; nothing for those that take files and folders, which a shell completes itself."""
    if command == "data":
        from attnx.data.downloads.recipe import FOLDER

        return [*DATA_VERBS, *(file.stem for file in sorted(FOLDER.glob("*.yaml")))]
    if command in ("list", "draw", "check"):
        return [*GROUPS, *dict.fromkeys(name for group in GROUPS for name in options(group))]
    return []


def _choices(asked: Sequence[str], before: Sequence[str], typed: str, config_dir: str | None) -> list[str]:
    """What Hydra offers, also for a word that begins with a plus."""
    bare = typed.lstrip("+")
    plus = typed.removesuffix(bare)
    program, *words = before
    flags = [word for word in words if word in ("-m", "--multirun")]  # Hydra wants them first, and needs no other
    chosen = normalize([word for word in words if "=" in word and word[0] != "-"])
    os.environ["COMP_LINE"] = " ".join([program, *flags, *chosen, bare])
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        show(asked, [], config_dir)
    return [plus + word for word in heard.getvalue().split()]
