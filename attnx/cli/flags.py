"""The command line's flags: which there are, which exclude each other, and what values they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnx.cli.suggestions import plain, refusal
from attnx.errors import UserError, near_misses

# Those of Hydra's flags that attnx has: some take a value, of which two must be one of a few.
CHOICES = {
    "--cfg": ("job", "hydra", "all"),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}
VALUED = (*CHOICES, "--config-dir", "--package", "--shell-completion", "--jobs")
FLAGS = (*VALUED, "--multirun", "--resolve", "--hydra-help")
SHORT = {
    "-m": "--multirun",
    "-cd": "--config-dir",
    "-c": "--cfg",
    "-p": "--package",
    "-i": "--info",
    "-sc": "--shell-completion",
    "-j": "--jobs",
}
# Those that are answered instead of training once, and those that only go with --cfg.
ANSWERED = ("--multirun", "--cfg", "--info", "--hydra-help", "--shell-completion")
# Those of `attnx resume`, of a sweep.
RESUMING = ("--jobs", "--config-dir")
BESIDE_CFG = ("--package", "--resolve")


def split_flags(argv: Sequence[str], commands: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Part flags (by their long names, with their values) from overrides, which may come in any order.

    Raises:
        UserError: an unknown flag or value of one, flags that exclude each other, or a word that is neither.
    """
    flags: dict[str, str] = {}
    overrides: list[str] = []
    words = enumerate(argv)
    for index, word in words:
        given, equals, value = word.partition("=")
        name = SHORT.get(given, given)
        if name in FLAGS:
            flags[name] = _checked(name, next(words, (0, ""))[1] if name in VALUED and not equals else value)
        elif _is_override(word) and plain(word) == word:
            overrides.append(word)
        else:
            raise UserError(refusal(argv, index, [*commands], [*FLAGS, *SHORT]))
    _refuse_together(flags)
    return flags, overrides


def _is_override(word: str) -> bool:
    return not word.startswith("-") and ("=" in word.lstrip("+")[1:] or word.startswith("~"))


def _checked(flag: str, value: str) -> str:
    """The value of a flag, if it is one that the flag can have."""
    if flag in VALUED and not value:
        raise UserError(f"{flag} needs a value")
    if flag not in VALUED and value:
        raise UserError(f"{flag} takes no value, but has {value!r}")
    if flag in CHOICES and value not in CHOICES[flag]:
        raise UserError(f"{flag} {value}: expected one of {', '.join(CHOICES[flag])}")
    return value


def _refuse_together(flags: dict[str, str]) -> None:
    answered = [flag for flag in flags if flag in ANSWERED]
    if len(answered) > 1:
        raise UserError(f"{answered[0]} and {answered[1]} cannot go together; leave one out")
    for flag in BESIDE_CFG:
        if flag in flags and "--cfg" not in flags:
            raise UserError(f"{flag} says how --cfg shows a configuration; add --cfg job")


def side_by_side_asked(flags: dict[str, str]) -> int:
    """Take from the flags how many jobs run at a time."""
    if "--jobs" in flags and "--multirun" not in flags:
        raise UserError("-j says how many jobs of a sweep run side by side; add -m")
    number = flags.pop("--jobs", "1")
    if not number.isdecimal() or number == "0":
        raise UserError(f"-j {number}: expected a whole number, 1 or more")
    return int(number)


def resume_flags(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Part what ``attnx resume`` is asked into its flags, by their long names, and folders.

    Raises:
        UserError: a flag that it does not have, or one without a value.
    """
    flags: dict[str, str] = {}
    folders: list[str] = []
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            folders.append(word)
            continue
        given, equals, value = word.partition("=")
        name = SHORT.get(given, given)
        if name not in RESUMING:
            raise UserError(f"attnx resume has no flag {given}{near_misses(given, RESUMING)}")
        flags[name] = _checked(name, value if equals else next(words, ""))
    return flags, folders
