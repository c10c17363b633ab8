"""Parts the words behind a command: names, flags with their values, and choices such as ``decoding=beam``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.config.hydra_errors import in_our_words
from attnx.errors import UserError, near_misses

CHECKPOINT = {"--checkpoint": "best, last or average"}
CHECKPOINTS = ("best", "last", "average")


class ParsedArgs(NamedTuple):
    """What stands behind a command.

    Attributes:
        named: words that are neither flags nor choices: folders and files, in order.
        chosen: choices by their keys, the values as they are in a configuration.
        flags: flags by their long names, with their values; "" for one without.
    """

    named: list[str]
    chosen: dict[str, Any]
    flags: dict[str, str]

    def number(self, flag: str) -> int | None:
        """The value of a flag that takes a whole number from 1; None if it is not there.

        Raises:
            UserError: it is none.
        """
        value = self.flags.get(flag)
        if value is not None and not (value.isascii() and value.isdecimal() and int(value) > 0):
            raise UserError(f"{flag} {value}: expected a whole number, 1 or more")
        return None if value is None else int(value)

    def one_of(self, flag: str, known: Sequence[str]) -> str:
        """The value of a flag that takes one of a few words, the first of them if it is not there.

        Raises:
            UserError: it is another.
        """
        value = self.flags.get(flag, known[0])
        if value not in known:
            raise UserError(f"{flag} {value}: expected one of {', '.join(known)}")
        return value

    def search(self) -> tuple[str | None, dict[str, Any]]:
        """The search that is asked for, if one is, and the values of its knobs.

        Raises:
            UserError: its name is no word.
        """
        name = self.chosen.get("decoding")
        if name is not None and not isinstance(name, str):
            raise UserError(f"decoding={name}: expected the name of a search")
        knobs = {
            key.removeprefix("decoding."): value for key, value in self.chosen.items() if key.startswith("decoding.")
        }
        return name, knobs


def split(words: Sequence[str], flags: Mapping[str, str], keys: Sequence[str]) -> ParsedArgs:
    """Part words, which may come in any order.

    Args:
        words: what follows the command.
        flags: known ones, with what their value is; "" for those that take none.
        keys: known keys of choices; ``search.`` stands for every knob of ``search``.

    Raises:
        UserError: an unknown flag or key, a missing value, or a key that is set twice.
    """
    found = ParsedArgs([], {}, {})
    rest = iter(words)
    for word in rest:
        key, equals, value = word.partition("=")
        bare = key.lstrip("+")
        if word.startswith("-") and word != "-":
            if key not in flags:
                raise UserError(f"unknown flag {key}{near_misses(key, [*flags, '--help'])}")
            found.flags[key] = _value(key, flags[key], value if equals else None, rest)
        elif equals and any(bare == known or (known[-1] == "." and bare.startswith(known)) for known in keys):
            if bare in found.chosen:
                raise UserError(f"{bare} is set twice; leave one out")
            found.chosen[bare] = _read(bare, value)
        elif equals and not Path(word).exists():
            known = [f"{key}KNOB" if key[-1] == "." else key for key in keys]
            raise UserError(f"unknown key {bare!r}{near_misses(bare, known)}")
        else:
            found.named.append(word)
    return found


def _value(flag: str, what: str, given: str | None, rest: Any) -> str:
    if not what:
        if given is not None:
            raise UserError(f"{flag} takes no value, but has {given!r}")
        return ""
    value = next(rest, "") if given is None else given
    if not value:
        raise UserError(f"{flag} needs a value: {what}")
    return str(value)


def _read(key: str, value: str) -> Any:
    """A value as Hydra reads it on any other command line of attnx."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(f"{key}={value}")
    except HydraException as error:
        raise UserError(in_our_words(error, [f"{key}={value}"])) from error
    if override.is_sweep_override():
        raise UserError(f"{key}={value} means several values; give one")
    return override.value()
