"""Argument parsing: argparse with words in any order, and errors of one line with near misses and exit code 2."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from attnx.config.view import value_text
from attnx.errors import UserError, suggest
from attnx.files.parse_number import is_count

CHECKPOINT_CHOICES = ("best", "last", "average")


class Parser(argparse.ArgumentParser):
    """The parser of one command, and its page: a description, and behind the flags examples.

    The first word of the command line chooses it, and not argparse's own sub-parsers: they need the module of every
    command, and their words cannot come in any order.
    """

    def __init__(self, prog: str, page: str = "") -> None:
        description, heading, examples = page.partition("Examples:")
        super().__init__(
            prog,
            description=description,
            epilog=heading + examples,
            allow_abbrev=False,
            exit_on_error=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.color = False  # Python 3.14 would color the usage, which a message may quote

    @property
    def flags(self) -> list[str]:
        """Every spelling of every flag."""
        return [*self._option_string_actions]

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse words, which may come in any order; ``command_line`` of the result is all of them.

        Raises:
            UserError: an unknown flag, a wrong or missing value, an empty word, or flags that exclude each other.
        """
        command_line = f"{self.prog} {shlex.join(words)}"
        try:
            arguments, unknown = self.parse_known_intermixed_args(words, argparse.Namespace(command_line=command_line))
        except argparse.ArgumentError as error:
            if error.argument_name is None:  # that of no single argument, which older Pythons give to ``error``
                self.error(error.message)
            raise UserError(_plain_message(error)) from error
        if unknown:
            # Of several short flags in one word, Python 3.13 returns the ones that it does not know.
            ending = unknown[0].lstrip(self.prefix_chars)
            is_ended = [word.startswith(self.prefix_chars) and word.endswith(ending) for word in words]
            self.refuse(words, words.index(unknown[0]) if unknown[0] in words else is_ended.index(True))
        for flag, action in self._option_string_actions.items():
            if action.nargs != 0 and (f"{flag}=" in words or (flag, "") in pairwise(words)):
                raise UserError(f"{flag} needs a value")
        # If a flag is given twice, argparse would take the last value; some collect values.
        actions = [self._option_string_actions.get(word.partition("=")[0]) for word in words]
        for action in filter(None, actions):
            if action.nargs != 0 and not isinstance(action.default, list) and actions.count(action) > 1:
                raise UserError(f"{action.option_strings[-1]} is given twice; leave one out")
        if "" in words:
            raise UserError(f"an argument of {self.prog} is empty, perhaps from an unset variable")
        return arguments

    def refuse(self, words: Sequence[str], index: int) -> NoReturn:
        """Refuse a word that is no argument."""
        flag = words[index].partition("=")[0]
        if flag.startswith(self.prefix_chars):
            raise UserError(f"unknown flag {flag}{suggest(flag, self.flags)}")
        raise UserError(f"{self.prog} takes no argument {words[index]!r}; write {self._usage()}")

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            optional = [action.metavar for action in self._actions if action.nargs == "*"]  # argparse lists them, too
            needed = ", ".join(name for name in missing.split(", ") if name not in optional)
            raise UserError(f"{self.prog} needs {needed}; write {self._usage()}")
        raise UserError(f"{self.prog}: {message}")

    def _usage(self) -> str:
        words = " ".join(self.format_usage().removeprefix("usage: ").replace("[-h] ", "").split())
        return words.replace(f" {self.prog} ", f", or {self.prog} ")


def _plain_message(error: argparse.ArgumentError) -> str:
    """An error of argparse's in the words of attnx."""
    name = str(error.argument_name).rpartition("/")[2]
    if error.message.startswith("expected one argument"):
        return f"{name} needs a value"
    if value := re.fullmatch(r"ignored explicit argument (.*)", error.message):
        return f"{name} takes no value, but has {value[1]}"
    if value := re.fullmatch(r"invalid choice: '(.*)' \(choose from (.*)\)", error.message):
        choices = value[2].replace("'", "")
        return f"{name} {value[1]}: expected one of {choices}"
    if excluded := re.fullmatch(r"not allowed with argument (.*)", error.message):
        return f"{name} and {excluded[1].rpartition('/')[2]} cannot go together; leave one out"
    return f"{name} {error.message}"


def whole_number(value: str) -> int:
    """Convert the value of a flag: a whole number from 1."""
    if not is_count(value):
        raise argparse.ArgumentTypeError(f"{value}: expected a whole number, 1 or more")
    return int(value)


def number_of_jobs(value: str) -> int | str:
    """Convert the value of ``-j``: a whole number from 1, or ``auto``."""
    return value if value == "auto" else whole_number(value)


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add ``--checkpoint``."""
    help_text = "best (the default), last, or average: the mean of the best that were saved"
    parser.add_argument(
        "--checkpoint", metavar="NAME", choices=CHECKPOINT_CHOICES, default=CHECKPOINT_CHOICES[0], help=help_text
    )


def split_overrides(words: Sequence[str], keys: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Split words, in any order, into names and values by key; the key ``decoding.`` stands for every option of it.

    Raises:
        UserError: an unknown key, one that is set twice, or a value that cannot be read.
    """
    names, values = list[str](), dict[str, Any]()
    for word in words:
        key, equals, value = word.lstrip("+").partition("=")
        if equals and any(key == allowed or (allowed[-1] == "." and key.startswith(allowed)) for allowed in keys):
            if key in values:
                raise UserError(f"{key} is set twice; leave one out")
            values[key] = _parse_value(key, value)
        elif equals and not Path(word).exists():
            known_keys = [f"{allowed}OPTION" if allowed[-1] == "." else allowed for allowed in keys]
            raise UserError(f"unknown key {key!r}{suggest(key, known_keys)}")
        else:
            names.append(word)
    return names, values


def decoding_override(overrides: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The name of the search in overrides, None without one, and the values of its options.

    Raises:
        UserError: the name is not a word.
    """
    name = overrides.get("decoding")
    if "decoding" in overrides and not isinstance(name, str):
        raise UserError(f"decoding={value_text(name)}: expected the name of a decoding algorithm")
    options = {key.removeprefix("decoding."): value for key, value in overrides.items() if key.startswith("decoding.")}
    return name, options


def _parse_value(key: str, value: str) -> Any:
    """A value as Hydra parses it."""
    from hydra.errors import HydraException

    from attnx.config.hydra_errors import translate_hydra_error
    from attnx.config.hydra_internals import override_parser

    try:
        override = override_parser().parse_override(f"{key}={value}")
    except (HydraException, ValueError) as error:
        raise UserError(translate_hydra_error(error, [f"{key}={value}"])) from error
    if override.is_sweep_override():
        raise UserError(f"{key}={value} means several values; give one")
    return override.value()
