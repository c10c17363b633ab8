"""Shell completion: commands, their words and flags; Hydra completes the choices."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Sequence

from attnx.cli.args import Parser
from attnx.cli.commands import COMMANDS, COMPLETE_PAGE, HELP, load_command
from attnx.cli.hydra_main import print_from_hydra
from attnx.cli.training_args import COMPLETION, TrainingParser
from attnx.config.compose import canonicalize_overrides
from attnx.config.groups import GROUPS, group_options
from attnx.errors import UserError
from attnx.runs.find import run_folders
from attnx.runs.naming import SWEEPS
from attnx.runs.sweep import is_sweep

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
        return print_from_hydra([FLAG, request], [], config_dir)
    program, *words = re.split(" +", os.environ.get("COMP_LINE", "").lstrip() or " ")
    *previous, typed = words or [""]
    command = next(iter(previous), "")
    if command in COMMANDS:
        candidates = _flags(command) if typed.startswith("-") else _command_words(command)
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


def _flags(command: str) -> list[str]:
    """The flags of a command."""
    parser = Parser(f"attnx {command}")
    load_command(command).add_arguments(parser)
    return [*parser.flags]


def _command_words(command: str) -> list[str]:
    """The words that can follow a command; other files and folders the shell completes itself."""
    if command in ON_RUNS:
        return _run_folders()
    if command == "data":
        from attnx.cli.commands.data import ACTIONS
        from attnx.data.downloads.dataset_spec import SPEC_FOLDER

        return [*ACTIONS, *(file.stem for file in sorted(SPEC_FOLDER.glob("*.yaml")))]
    if command in ("list", "check"):
        return [*GROUPS, *dict.fromkeys(name for group in GROUPS for name in group_options(group))]
    return []


def _run_folders() -> list[str]:
    """The sweeps and runs below multirun; names with spaces are left to the shell, which quotes them."""
    runs = list(run_folders(SWEEPS))
    sweeps = {run.parent for run in runs if is_sweep(run.parent)}
    return [text for text in map(str, sorted({*runs, *sweeps})) if text == "".join(text.split())]


def _choices(request: str, previous: Sequence[str], typed: str, config_dir: str | None) -> list[str]:
    """Hydra's candidates, also for a word that begins with a plus."""
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
