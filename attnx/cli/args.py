"""Argument parsing: argparse with words in any order, and errors of one line with near misses and exit code 2."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from attnx.errors import UserError, suggest

CHECKPOINTS = ("best", "last", "average")


class Parser(argparse.ArgumentParser):
    """The parser of one command.

    The first word of the command line chooses it, and not argparse's own sub-parsers: they need the module of every
    command, and their words cannot come in any order.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog, allow_abbrev=False, exit_on_error=False, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    @property
    def flags(self) -> list[str]:
        """Every spelling of every flag."""
        return [*self._option_string_actions]

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse words, which may come in any order; ``command_line`` of the result is all of them.

        Raises:
            UserError: an unknown flag, a wrong or missing value, or flags that exclude each other.
        """
        command_line = f"{self.prog} {shlex.join(words)}"
        try:
            arguments, unknown = self.parse_known_intermixed_args(words, argparse.Namespace(command_line=command_line))
        except argparse.ArgumentError as error:
            raise UserError(_plain_message(error)) from error
        if unknown:
            self.refuse(words, words.index(unknown[0]))
        return arguments

    def refuse(self, words: Sequence[str], index: int) -> NoReturn:
        """Refuse a word that is no argument.

        Raises:
            UserError: always.
        """
        flag = words[index].partition("=")[0]
        if flag.startswith("-"):
            raise UserError(f"unknown flag {flag}{suggest(flag, self.flags)}")
        raise UserError(f"{self.prog} takes no argument {words[index]!r}; write {self._usage()}")

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print.

        Raises:
            UserError: always.
        """
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            raise UserError(f"{self.prog} needs {missing}; write {self._usage()}")
        raise UserError(f"{self.prog}: {message}")

    def _usage(self) -> str:
        return " ".join(self.format_usage().removeprefix("usage: ").replace("[-h] ", "").split())


def _plain_message(error: argparse.ArgumentError) -> str:
    """An error of argparse's in the words of attnx."""
    name = str(error.argument_name).rpartition("/")[2]
    if error.message.startswith("expected one argument"):
        return f"{name} needs a value"
    if value := re.fullmatch(r"ignored explicit argument (.*)", error.message):
        return f"{name} takes no value, but has {value[1]}"
    if excluded := re.fullmatch(r"not allowed with argument (.*)", error.message):
        return f"{name} and {excluded[1].rpartition('/')[2]} cannot go together; leave one out"
    return f"{name} {error.message}"


def text(value: str) -> str:
    """Convert the value of a flag: any text but an empty one."""
    if not value:
        raise argparse.ArgumentTypeError("needs a value")
    return value


def whole_number(value: str) -> int:
    """Convert the value of a flag: a whole number from 1."""
    if not (value.isascii() and value.isdecimal() and int(value) > 0):
        raise argparse.ArgumentTypeError(f"{value}: expected a whole number, 1 or more")
    return int(value)


def choice(*names: str) -> Callable[[str], str]:
    """Converter of a flag whose value is one of some names."""

    def convert(value: str) -> str:
        if value not in names:
            raise argparse.ArgumentTypeError(f"{value}: expected one of {', '.join(names)}")
        return value

    return convert


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add ``--checkpoint``."""
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        type=choice(*CHECKPOINTS),
        default=CHECKPOINTS[0],
        help="best (the default), last, or average: the mean of the best that were saved",
    )


def split_overrides(words: Sequence[str], keys: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Split words into names and overrides.

    Args:
        words: in any order.
        keys: the keys that can be set; ``decoding.`` stands for every knob of ``decoding``.

    Returns:
        the names in their order, and the values by their keys.

    Raises:
        UserError: an unknown key, one that is set twice, or a value that cannot be read.
    """
    names: list[str] = []
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.lstrip("+").partition("=")
        if equals and any(key == allowed or (allowed[-1] == "." and key.startswith(allowed)) for allowed in keys):
            if key in values:
                raise UserError(f"{key} is set twice; leave one out")
            values[key] = _parse_value(key, value)
        elif equals and not Path(word).exists():
            known_keys = [f"{allowed}KNOB" if allowed[-1] == "." else allowed for allowed in keys]
            raise UserError(f"unknown key {key!r}{suggest(key, known_keys)}")
        else:
            names.append(word)
    return names, values


def decoding_override(overrides: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The name of the search in overrides, None without one, and the values of its knobs.

    Raises:
        UserError: the name is not a word.
    """
    name = overrides.get("decoding")
    if name is not None and not isinstance(name, str):
        raise UserError(f"decoding={name}: expected the name of a decoding algorithm")
    knobs = {key.removeprefix("decoding."): value for key, value in overrides.items() if key.startswith("decoding.")}
    return name, knobs


def _parse_value(key: str, value: str) -> Any:
    """A value as Hydra parses it."""
    from hydra.errors import HydraException

    from attnx.config.hydra_errors import translate_hydra_error
    from attnx.config.hydra_internals import override_parser

    try:
        override = override_parser().parse_override(f"{key}={value}")
    except HydraException as error:
        raise UserError(translate_hydra_error(error, [f"{key}={value}"])) from error
    if override.is_sweep_override():
        raise UserError(f"{key}={value} means several values; give one")
    return override.value()
