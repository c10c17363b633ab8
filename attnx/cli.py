"""The ``attnx`` command. Everything heavy is imported late, so help and mistakes answer at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from attnx.errors import UserError, near_misses

# Flags of Hydra's that take a value.
VALUED = {"--config-dir", "-cd", "--config-name", "-cn", "--config-path", "-cp", "--cfg", "-c", "--package", "-p",
          "--shell-completion", "-sc"}  # fmt: skip
# Flags that make Hydra itself answer; all others of its are refused with ours.
HYDRA = {"--cfg", "-c", "--info", "-i", "--shell-completion", "-sc", "--hydra-help", "--resolve", "--package", "-p"}
MULTIRUN = {"--multirun", "-m"}


def main() -> None:
    """Run the command of ``sys.argv`` and exit: 0 done, 1 failed, 2 a mistake in what was asked, 130 interrupted."""
    try:
        code = run(sys.argv[1:])
    except UserError as error:
        print(f"attnx: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("attnx: interrupted before training began; nothing was lost", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    """Carry out a command line and return the exit code.

    Raises:
        UserError: a mistake in what was asked.
    """
    if {"--help", "-h", "help"} & set(argv[:1]) or {"--help", "-h"} & set(argv):
        from attnx.help import show_help

        show_help()
        return 0
    if "--version" in argv:
        from attnx.version import __version__

        print(f"attnx {__version__}")
        return 0
    if argv and argv[0] in COMMANDS:
        return COMMANDS[argv[0]](list(argv[1:]))
    return _compose_and_run(argv)


def _compose_and_run(argv: Sequence[str]) -> int:
    from attnx.config import compose, normalise

    _warn_of_broken_plugins()
    flags, overrides = split_flags(argv)
    completing = {"--shell-completion", "-sc"} & set(flags)
    if completing:
        from attnx.hydra_app import complete

        return complete(flags, normalise(overrides))
    if MULTIRUN & set(flags):
        from attnx.hydra_app import sweep

        return sweep(flags, normalise(overrides))
    config = compose(overrides, _value_of(flags, "--config-dir", "-cd"))
    if HYDRA & set(flags):
        from attnx.hydra_app import show

        return show(flags, normalise(overrides))
    return train_one(config, overrides)


def train_one(config: dict[str, Any], overrides: Sequence[str]) -> int:
    """Train one composed configuration."""
    from attnx.fit import fit
    from attnx.training.train import Interrupted

    try:
        fit(config, overrides)
    except Interrupted as stopped:
        print(f"attnx: interrupted; go on with: attnx resume {stopped.folder}", file=sys.stderr)
        return 130
    return 0


def split_flags(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part flags from overrides, which may come in any order, as Hydra's own parser cannot.

    Raises:
        UserError: an unknown flag, or a word that is neither.
    """
    flags: list[str] = []
    overrides: list[str] = []
    words = iter(argv)
    for word in words:
        if word.startswith("-") and not word.startswith("-="):
            name = word.split("=", 1)[0]
            if name not in VALUED | HYDRA | MULTIRUN:
                raise UserError(f"unknown flag {name}{near_misses(name, [*VALUED, *HYDRA, *MULTIRUN, '--help'])}")
            flags.append(word)
            if name in VALUED and "=" not in word:
                flags.append(_next(words, name))
        elif "=" in word or word.startswith("~"):
            overrides.append(word)
        else:
            raise UserError(f"unknown command {word!r}{near_misses(word, COMMANDS)}; a choice is written key=value")
    return flags, overrides


def _next(words: Any, flag: str) -> str:
    value = next(words, None)
    if value is None:
        raise UserError(f"{flag} needs a value")
    return str(value)


def _value_of(flags: Sequence[str], *names: str) -> str | None:
    for number, flag in enumerate(flags):
        name, _, value = flag.partition("=")
        if name in names:
            return value or flags[number + 1]
    return None


def _warn_of_broken_plugins() -> None:
    from attnx.catalogue import catalogue

    for line in catalogue().broken:
        print(f"attnx: plug-in left out: {line}", file=sys.stderr)


def _list(words: list[str]) -> int:
    from attnx.help import show_parts

    _warn_of_broken_plugins()
    show_parts(words)
    return 0


def _resume(words: list[str]) -> int:
    if len(words) != 1:
        raise UserError("say which run to resume: attnx resume FOLDER")
    from attnx.fit import resume
    from attnx.training.train import Interrupted

    try:
        resume(words[0])
    except Interrupted as stopped:
        print(f"attnx: interrupted; go on with: attnx resume {stopped.folder}", file=sys.stderr)
        return 130
    return 0


def _compare(words: list[str]) -> int:
    if len(words) < 2:
        raise UserError("say which runs to compare: attnx compare FOLDER FOLDER ...")
    from rich.console import Console

    from attnx.reports.compare import compare

    Console().print(compare(words))
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {"list": _list, "resume": _resume, "compare": _compare}
