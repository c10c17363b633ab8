"""The ``attnx`` command. Everything heavy is imported late, so help and mistakes answer at once."""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnx.allocator import keep_freed_memory
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
BESIDE_CFG = ("--package", "--resolve")


def main() -> None:
    """Run the command of ``sys.argv`` and exit: 0 done, 1 failed, 2 a mistake in what was asked, 130 interrupted."""
    # Threads that wait by spinning take the cores from those they wait for: beside one busy neighbour a step is then
    # many times slower. A very short spin costs no neighbour anything (docs/decisions/0013). OpenMP reads this once,
    # when torch is imported.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    keep_freed_memory()
    try:
        code = run(sys.argv[1:])
    except UserError as error:
        print(f"attnx: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt as stopped:
        print(f"attnx: interrupted; {str(stopped) or 'training had not begun'}", file=sys.stderr)
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

        if argv[0] in OWN:
            print(_module(argv[0]).USAGE)
        else:
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
    config_dir = flags.pop("--config-dir", None)
    side_by_side = _side_by_side(flags)
    words = [word for flag, value in flags.items() for word in (flag, value) if word]
    if "--shell-completion" in flags:
        from attnx.hydra_app import complete

        return complete(words, normalise(overrides), config_dir)
    if "--multirun" in flags:
        from attnx.hydra_app import sweep

        return sweep(words, normalise(overrides), config_dir, side_by_side)
    config = compose(overrides, config_dir)
    if flags == {"--cfg": "job"}:
        import yaml

        # What will run, knobs checked and filled in; Hydra would show what it composed before that.
        print(yaml.safe_dump(config, sort_keys=False), end="")
        return 0
    if flags:
        from attnx.hydra_app import show

        return show(words, normalise(overrides), config_dir)
    return train_one(config, overrides)


def train_one(config: dict[str, Any], overrides: Sequence[str]) -> int:
    """Train one composed configuration."""
    from attnx.kernels.ahead import compile_ahead

    compile_ahead(config)
    from attnx.fitting import fit
    from attnx.training.train import Interrupted

    try:
        fit(config, overrides)
    except Interrupted as stopped:
        print(f"attnx: interrupted; go on with: attnx resume {stopped.folder}", file=sys.stderr)
        return 130
    return 0


def split_flags(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Part flags (by their long names, with their values) from overrides, which may come in any order.

    Raises:
        UserError: an unknown flag or value of one, flags that exclude each other, or a word that is neither.
    """
    flags: dict[str, str] = {}
    overrides: list[str] = []
    words = iter(argv)
    for word in words:
        if word.startswith("-"):
            given, equals, value = word.partition("=")
            name = SHORT.get(given, given)
            if name not in FLAGS:
                raise UserError(f"unknown flag {given}{near_misses(given, [*FLAGS, *SHORT, '--help'])}")
            flags[name] = _checked(name, next(words, "") if name in VALUED and not equals else value)
        elif "=" in word.lstrip("+")[1:] or word.startswith("~"):
            overrides.append(word)
        else:
            raise UserError(f"unknown command {word!r}{near_misses(word, COMMANDS)}; a choice is written key=value")
    _refuse_together(flags)
    return flags, overrides


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


def _side_by_side(flags: dict[str, str]) -> int:
    """Take from the flags how many jobs run at a time."""
    if "--jobs" in flags and "--multirun" not in flags:
        raise UserError("-j says how many jobs of a sweep run side by side; add -m")
    number = flags.pop("--jobs", "1")
    if not number.isdecimal() or number == "0":
        raise UserError(f"-j {number}: expected a whole number, 1 or more")
    return int(number)


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
    flags, folders = _parted(words)
    if len(folders) != 1:
        raise UserError("say which run or sweep to resume: attnx resume FOLDER")
    from attnx.read_run import read_run
    from attnx.read_sweep import is_sweep

    if is_sweep(folders[0]):
        from attnx.hydra_app import go_on

        _warn_of_broken_plugins()
        return go_on(Path(folders[0]), _side_by_side({**flags, "--multirun": ""}))
    if flags:
        raise UserError("-j says how many jobs of a sweep run side by side, but this is a single run")
    read_run(folders[0])  # a wrong folder is told before torch loads
    from attnx.fitting import resume
    from attnx.training.train import Interrupted

    try:
        resume(folders[0])
    except Interrupted as stopped:
        print(f"attnx: interrupted; go on with: attnx resume {stopped.folder}", file=sys.stderr)
        return 130
    return 0


def _parted(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """How many jobs run at a time, if it is said, and the other words."""
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if SHORT.get(flag, flag) == "--jobs":
            rest = words[at + 1 :]
            return {"--jobs": value if equals else "".join(rest[:1])}, [*words[:at], *(rest if equals else rest[1:])]
    return {}, words


def _compare(words: list[str]) -> int:
    if len(words) < 2:
        raise UserError("say which runs to compare: attnx compare FOLDER FOLDER ...")
    from rich.console import Console

    from attnx.reports.compare import compare

    Console().print(compare(words))
    return 0


def _data(words: list[str]) -> int:
    from attnx.data_command import data

    return data(words)


def _draw(words: list[str]) -> int:
    from attnx.drawings.command import draw

    _warn_of_broken_plugins()
    for path in draw(words):
        print(path)
    return 0


def _module(name: str) -> Any:
    """The module of a command that has one of its own, and in it a function of its name and a help page."""
    return importlib.import_module(f"attnx.commands.{_python(name)}")


def _python(name: str) -> str:
    return name + "_" * keyword.iskeyword(name)


def _of_its_own(name: str) -> Callable[[list[str]], int]:
    def run(words: list[str]) -> int:
        command: Callable[[list[str]], int] = getattr(_module(name), _python(name))
        _warn_of_broken_plugins()
        return command(words)

    return run


OWN = ("predict", "try", "evaluate", "pictures", "page", "alignments", "export", "dashboard")
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "list": _list,
    "draw": _draw,
    "data": _data,
    "resume": _resume,
    "compare": _compare,
    **{name: _of_its_own(name) for name in OWN},
}
