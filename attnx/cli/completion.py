"""Shell completion: commands, their words and flags; Hydra completes the choices."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence

from attnx.cli.commands import COMMANDS, COMPLETE_PAGE, HELP, load_command
from attnx.cli.training_args import COMPLETION, TrainingParser
from attnx.config.groups import GROUPS, conf_folder, group_choices
from attnx.errors import UserError
from attnx.registry.part import CHECKED_KINDS

FLAG = "--shell-completion"
REQUESTS = ("install", "uninstall", "query")
SHELLS = ("bash", "zsh", "fish")


def complete(request: str, config_dir: str | None) -> int:
    """Install completion (``install=bash``, ``uninstall=bash``), or answer ``query=bash`` on the line of COMP_LINE.

    Files and folders the shell completes itself.
    """
    action, _, shell = request.partition("=")
    if action not in REQUESTS or shell not in SHELLS:
        raise UserError(f"{FLAG} {request}: expected {COMPLETION}")
    if action != "query":
        return _print_from_hydra(request, config_dir)
    program, *words = re.split(" +", os.environ.get("COMP_LINE", "").lstrip() or " ")
    *previous, typed = words or [""]
    command = next(iter(previous), "")
    if command in COMMANDS:
        kinds = {"list": GROUPS, "check": CHECKED_KINDS}.get(command, ())
        candidates = [*kinds, *dict.fromkeys(name for kind in kinds for name in group_choices(kind))]
        if typed.startswith("-"):
            candidates = load_command(command)[1].flags
        elif command == "data":
            from attnx.cli.commands.data import ACTIONS
            from attnx.data.downloads import SPEC_FOLDER

            candidates = [*ACTIONS, *(file.stem for file in sorted(SPEC_FOLDER.glob("*.yaml")))]
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


def _choices(request: str, previous: Sequence[str], typed: str, config_dir: str | None) -> list[str]:
    """Hydra's candidates, also for a word that begins with a plus."""
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
        _print_from_hydra(request, config_dir)
    return [plus + word for word in output.getvalue().split() if not word.endswith(".name=")]


def _print_from_hydra(request: str, config_dir: str | None) -> int:
    """Have Hydra print a script or candidates; return the exit code."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from attnx.config.hydra_errors import translate_hydra_error
    from attnx.config.hydra_internals import version_base
    from attnx.config.hydra_session import register_configs

    register_configs(config_dir)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing a traceback and exiting
    words = [FLAG, request]
    previous_argv, sys.argv = sys.argv, ["attnx", *words]
    try:
        main = hydra.main(config_path=str(conf_folder().resolve()), config_name="config", **version_base())
        main(lambda config: None)()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(translate_hydra_error(error, words)) from error
    finally:
        sys.argv = previous_argv
    return 0
