"""The ``attnx`` command. Everything heavy is imported late, so help and mistakes answer at once."""

from __future__ import annotations

import importlib
import keyword
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnx.allocator import keep_freed_memory
from attnx.causes import cannot_write, out_of_memory
from attnx.errors import Interrupted, RunFailed, UserError
from attnx.flags import resume_flags, side_by_side_asked, split_flags
from attnx.printable import printable


def main() -> None:
    """Run the command of ``sys.argv`` and exit.

    0 done, 1 failed, 2 a mistake in what was asked, 130 interrupted, 143 ended by SIGTERM: 128 and the signal.
    """
    # Threads that wait by spinning take the cores from those they wait for: beside one busy neighbour a step is then
    # many times slower. A very short spin costs no neighbour anything (docs/decisions/0013). OpenMP reads this once,
    # when torch is imported.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    keep_freed_memory()
    try:
        code = run(sys.argv[1:])
    except Interrupted as stopped:
        code = _stopped(stopped.number, f"go on with: attnx resume {shlex.quote(str(stopped.folder))}")
    except UserError as error:
        print(f"attnx: {printable(str(error))}", file=sys.stderr)
        code = 1 if isinstance(error, RunFailed) else 2
    except KeyboardInterrupt as stopped:
        code = _stopped(getattr(stopped, "number", signal.SIGINT), str(stopped) or "training had not begun")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        if not (said := _in_one_line(error)):
            raise
        print(f"attnx: {printable(said)}", file=sys.stderr)
        code = 1
    sys.exit(code)


def _stopped(number: int, told: str) -> int:
    """Say how to go on with what was asked to stop, or have SLURM do it; return the exit code."""
    from attnx.slurm import send_again

    by = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    again = send_again(number)
    print(f"attnx: {by}; {again + '; ' if again else ''}{printable(told)}", file=sys.stderr)
    return 128 + number


def _in_one_line(error: Exception) -> str:
    """What went wrong, if its traceback was kept elsewhere or would help nobody."""
    if out_of_memory(error):
        return "out of memory before training; choose a smaller model, or fewer data"
    notes = [note for note in getattr(error, "__notes__", []) if "attnx resume" in note]
    if notes:
        return f"{type(error).__name__}: {' '.join(str(error).split())}; {notes[-1]}"
    told = cannot_write(error)
    return told and f"{told}, then the same again"


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
    flags, overrides = split_flags(argv, COMMANDS)
    config_dir = flags.pop("--config-dir", None)
    side_by_side = side_by_side_asked(flags)
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
    from attnx.data.task_files import refuse_missing_files
    from attnx.folders import chosen_folder
    from attnx.kernels.ahead import compile_ahead
    from attnx.slurm import left_off

    earlier = left_off(overrides, config["folder"])
    if earlier is None:
        refuse_missing_files(config["task"])  # what is missing, or taken, is told before torch loads
        chosen_folder(config)
    compile_ahead(config)
    from attnx.fitting import fit, resume

    if earlier is None:
        fit(config, overrides)
    elif earlier.info.get("status") == "finished":
        print(f"{earlier.path}: finished before SLURM sent this job again")
    else:
        resume(earlier.path)
    return 0


def _warn_of_broken_plugins() -> None:
    from attnx.catalogue import catalogue

    for line in catalogue().broken:
        print(f"attnx: plug-in left out: {printable(line)}", file=sys.stderr)


def _list(words: list[str]) -> int:
    from attnx.help import show_parts

    _warn_of_broken_plugins()
    show_parts(words)
    return 0


def _resume(words: list[str]) -> int:
    flags, folders = resume_flags(words)
    if len(folders) != 1:
        raise UserError("say which run or sweep to resume: attnx resume FOLDER")
    from attnx.read_sweep import is_sweep

    _warn_of_broken_plugins()
    if is_sweep(folders[0]):
        from attnx.hydra_app import go_on

        side_by_side = side_by_side_asked({**flags, "--multirun": ""})
        return go_on(Path(folders[0]), side_by_side, flags.get("--config-dir"))
    if "--jobs" in flags:
        raise UserError("-j says how many jobs of a sweep run side by side, but this is a single run")
    if flags:
        raise UserError("--config-dir is part of how a sweep is composed, but a single run holds its configuration")
    from attnx.training.whole_run import FINISHED, is_finished, read_resumable

    run = read_resumable(Path(folders[0]))  # a wrong folder is told before torch loads
    if is_finished(run):
        print(FINISHED.format(folders[0]))
        return 0
    from attnx.data.task_files import refuse_missing_files

    refuse_missing_files(run.config["task"])
    from attnx.fitting import resume

    resume(folders[0])
    return 0


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
        if name not in PARTLESS:
            _warn_of_broken_plugins()
        return command(words)

    return run


OWN = ("predict", "try", "evaluate", "pictures", "page", "alignments", "export", "dashboard", "runs", "report", "check")
PARTLESS = ("runs",)  # use no part, and need not wait for the parts to be looked through
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "list": _list,
    "draw": _draw,
    "data": _data,
    "resume": _resume,
    "compare": _compare,
    **{name: _of_its_own(name) for name in OWN},
}
