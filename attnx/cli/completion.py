"""Shell completion: commands, their words and flags; Hydra completes the choices."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from attnx.cli.args import Parser
from attnx.cli.commands import COMMANDS, COMPLETE_PAGE, HELP, load_command
from attnx.cli.training_args import COMPLETION, TrainingParser
from attnx.config.groups import GROUPS, group_choices
from attnx.errors import UserError
from attnx.files.file_lock import is_lock_held
from attnx.registry.part import CHECKED_KINDS
from attnx.runs.find import run_folders
from attnx.runs.layout import RUN_LOCK
from attnx.runs.naming import SWEEPS
from attnx.runs.run import Run
from attnx.runs.sweep import is_locked, is_sweep, read_sweep

FLAG = "--shell-completion"
REQUESTS = ("install", "uninstall", "query")
SHELLS = ("bash", "zsh", "fish")
ON_RUNS = tuple(name for name, (words, _) in COMMANDS.items() if "RUN" in words or "FOLDER" in words)
"""The commands on runs and sweeps."""


def complete(request: str, config_dir: str | None) -> int:
    """Install completion (``install=bash``, ``uninstall=bash``), or answer ``query=bash`` on the line of COMP_LINE."""
    action, _, shell = request.partition("=")
    if action not in REQUESTS or shell not in SHELLS:
        raise UserError(f"{FLAG} {request}: expected {COMPLETION}")
    if action != "query":
        from attnx.cli.hydra_main import print_from_hydra

        return print_from_hydra([FLAG, request], [], config_dir)
    program, *words = re.split(" +", os.environ.get("COMP_LINE", "").lstrip() or " ")
    *previous, typed = words or [""]
    command = next(iter(previous), "")
    if command in COMMANDS:
        parser = Parser(f"attnx {command}")
        load_command(command).add_arguments(parser)
        candidates = [*parser.flags] if typed.startswith("-") else _command_words(command)
    elif command in HELP:
        candidates = [COMPLETE_PAGE, *COMMANDS]
    elif typed.startswith("-"):
        candidates = TrainingParser().flags
    else:
        candidates = _choices(request, [program, *previous], typed, config_dir) + ([] if previous else [*COMMANDS])
    matches = [word for word in candidates if word.startswith(typed)]
    # bash reads one line, fish a line for each candidate.
    print("\n".join(matches) if shell == "fish" else " ".join(matches))
    return 0


def _command_words(command: str) -> list[str]:
    """The words that can follow a command; other files and folders the shell completes itself."""
    if command in ON_RUNS:
        runs = list(run_folders(SWEEPS))
        sweeps = {run.parent for run in runs if is_sweep(run.parent)}
        # The shell quotes names with spaces, so they are left to it.
        folders = [path for path in sorted({*runs, *sweeps}) if str(path) == "".join(str(path).split())]
        return list(map(str, filter(_is_resumable, folders) if command == "resume" else folders))
    if command == "data":
        from attnx.cli.commands.data import ACTIONS
        from attnx.data.downloads.dataset_spec import SPEC_FOLDER

        return [*ACTIONS, *(file.stem for file in sorted(SPEC_FOLDER.glob("*.yaml")))]
    kinds = {"list": GROUPS, "check": CHECKED_KINDS}.get(command, ())
    return [*kinds, *dict.fromkeys(name for kind in kinds for name in group_choices(kind))]


def _is_resumable(folder: Path) -> bool:
    """Whether something is left to do in a run or a sweep that no process runs."""
    try:
        if is_sweep(folder):
            return not (read_sweep(folder).is_done or is_locked(folder))
        return not (Run(folder).is_finished or is_lock_held(folder / RUN_LOCK))
    except UserError:  # resume would refuse it
        return False


def _choices(request: str, previous: Sequence[str], typed: str, config_dir: str | None) -> list[str]:
    """Hydra's candidates, also for a word that begins with a plus."""
    from attnx.cli.hydra_main import print_from_hydra
    from attnx.config.compose import canonicalize_overrides

    bare = typed.lstrip("+")
    plus = typed.removesuffix(bare)
    program, *words = previous
    flags = [word for word in words if word in ("-m", "--multirun")]  # the only flags that Hydra needs, first
    overrides = canonicalize_overrides([word for word in words if "=" in word and word[0] != "-"])
    os.environ["COMP_LINE"] = " ".join([program, *flags, *overrides, bare])
    output = io.StringIO()
    # What cannot be read has no candidates: the line is not finished.
    with contextlib.redirect_stdout(output), contextlib.suppress(UserError):
        print_from_hydra([FLAG, request], [], config_dir)
    return [plus + word for word in output.getvalue().split() if not word.endswith(".name=")]
