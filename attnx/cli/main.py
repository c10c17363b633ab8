"""The ``attnx`` command; heavy modules are imported late, so that help and errors answer at once."""

from __future__ import annotations

import argparse
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any

from attnx.cli.commands import COMMANDS, COMPLETE_PAGE, HELP, load_command
from attnx.cli.steady_output import steady_output
from attnx.errors import (
    ExitCode,
    RunFailed,
    UserError,
    exit_code_for,
    explain_long_name,
    explain_write_error,
    is_out_of_memory,
    suggest,
    type_and_text,
)
from attnx.files.printable import printable
from attnx.registry.dependencies import require_core_packages
from attnx.registry.plugin_files import current_folder
from attnx.training.distributed.launched_rank import is_main_launch, launched_rank
from attnx.version import __version__

WITHOUT_PARTS = ("compare", "data", "runs")
"""Commands that use no part, and need not wait until the parts are scanned."""


def main() -> None:
    """Run the command of ``sys.argv`` and exit.

    Exit codes are in :class:`attnx.errors.ExitCode`; a signal ends with 128 and its number.
    """
    # Threads that spin while they wait take cores from the threads they wait for: beside one busy neighbor a pass of an
    # LSTM took 549 ms, and 77 ms so. A short spin costs nothing, ten times as long a one halves the speed beside a
    # neighbor. OpenMP reads this when torch is imported.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    # numpy's threads spin whatever OMP_WAIT_POLICY says, only statistics use them, and a process that has them cannot
    # fork its ranks. OpenBLAS reads this when numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files may be no UTF-8
    try:
        if not is_main_launch():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = run(sys.argv[1:])
        sys.stdout.flush()  # here a closed pipe is noticed
    except KeyboardInterrupt as stop:
        code = _report_signal(stop)
    except BaseException as error:  # of a plug-in, anything; its sys.exit() is no end of the command
        # What reads the output has ended, as `head` does; Rich makes a SystemExit of it.
        if isinstance(error.__context__ if isinstance(error, SystemExit) else error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(ExitCode.FAILED)
        if not (message := _one_line(error)):
            raise
        if prefix := _rank_prefix(error):
            print(f"{prefix}: {printable(message)}", file=sys.stderr)
        code = exit_code_for(error)
    sys.exit(code)


def _rank_prefix(error: BaseException) -> str:
    """The beginning of the line that reports an error; empty if another process on this machine reports the same."""
    try:
        launched = launched_rank()
    except UserError:
        launched = None
    if launched is None or launched.rank == 0:
        return "attnx"
    is_the_same_everywhere = isinstance(error, UserError) and not isinstance(error, RunFailed)
    if is_the_same_everywhere and launched.local_rank:
        return ""
    return f"attnx: process {launched.local_rank} of machine {launched.node_rank}"


def _report_signal(stop: KeyboardInterrupt) -> int:
    """Print how to continue a command that a signal ended, or requeue it in SLURM; return the exit code."""
    from attnx.training.distributed.slurm import requeue

    signum = getattr(stop, "signum", signal.SIGINT)
    if not is_main_launch():
        return 128 + signum
    message = str(stop) or "training had not begun"
    reason = "interrupted" if signum == signal.SIGINT else f"ended by {signal.Signals(signum).name}"
    print("attnx: " + "; ".join(filter(None, (reason, requeue(signum), printable(message)))), file=sys.stderr)
    return 128 + signum


def _one_line(error: BaseException) -> str:
    """The message of an error whose traceback is stored elsewhere or would not help; else empty."""
    if isinstance(error, UserError):
        return str(error)
    if too_long := explain_long_name(error):
        return too_long
    if is_out_of_memory(error):
        return "out of memory; choose a smaller model or batch, or fewer data"
    notes = [note for note in getattr(error, "__notes__", []) if "attnx resume" in note]
    if notes:
        return f"{type_and_text(error)}; {notes[-1]}"
    if message := explain_write_error(error):
        return f"{message}, then the same again"
    from attnx.registry.plugin_errors import find_plug_in

    return find_plug_in(error) or (type_and_text(error) if isinstance(error, SystemExit) else "")


def run(argv: Sequence[str]) -> int:
    """Run a command line and return the exit code; a mistake in it raises a UserError."""
    if argv[:1] == ["help"] or {"--help", "-h"} & set(argv):
        return _help([word for word in argv if word not in HELP])
    current_folder()
    require_core_packages()
    if argv and argv[0] in COMMANDS:
        return run_command(argv[0], argv[1:])
    return _compose_and_run(argv)


def run_command(name: str, words: Sequence[str]) -> int:
    """Parse the words after a command and run it."""
    command, parser = load_command(name)
    arguments = parser.parse(words)
    if name not in WITHOUT_PARTS:
        _warn_of_broken_plugins()
    return command.run(arguments)


def _help(words: Sequence[str]) -> int:
    """Print the page of a command, the complete page, or the short one."""
    name = next((word for word in words if word[:1] not in "-+~" and "=" not in word), None)
    if name is None:
        from attnx.cli.help import print_welcome

        print_welcome()
    elif name == COMPLETE_PAGE:
        from attnx.cli.help import print_complete_page

        print_complete_page()
    elif name in COMMANDS:
        load_command(name)[1].print_help()
    else:
        from attnx.config.groups import GROUPS, group_choices

        is_choice = name in GROUPS or any(name in group_choices(group) for group in GROUPS)
        hint = f"; write attnx list {name}" if is_choice else suggest(name, [*COMMANDS, COMPLETE_PAGE])
        raise UserError(f"no command {name!r}{hint}")
    return 0


def _compose_and_run(argv: Sequence[str]) -> int:
    """Train, sweep or show a configuration."""
    from attnx.cli.training_args import TrainingParser
    from attnx.config.compose import canonicalize_overrides, compose
    from attnx.inference.validate import refuse_equal_cost
    from attnx.runs.sweep import reject_repeated

    arguments = TrainingParser().parse(argv)
    if arguments.version:
        print(f"attnx {__version__}")
        return 0
    overrides, config_dir = arguments.overrides, arguments.config_dir
    if arguments.shell_completion:
        from attnx.cli.completion import complete

        return complete(arguments.shell_completion, config_dir)
    reject_repeated(overrides)
    _warn_of_broken_plugins()
    if arguments.multirun:
        from attnx.cli.sweep import SweepArgs, sweep

        with steady_output():
            return sweep(SweepArgs(canonicalize_overrides(overrides), config_dir, arguments.jobs or 1))
    if arguments.cfg:
        return _show_config(arguments)
    if launched_rank() and not any(re.match(r"[+~]*trainer(\.devices)?[=@]", word) for word in overrides):
        overrides = ["trainer=ddp", *overrides]
    config = compose(overrides, config_dir)
    refuse_equal_cost(config)
    if not overrides:
        four = " ".join(f"{kind}={config[kind]['name']}" for kind in ("task", "scorer", "scope", "normalizer"))
        print(f"attnx: training the default composition, {four}; attnx list shows the choices", flush=True)
    return train_one(config, overrides, arguments.verbose, config_dir)


def _show_config(arguments: argparse.Namespace) -> int:
    """Print the configuration that would run, checked and complete, or Hydra's own; or the part at ``-p KEY``."""
    import yaml

    from attnx.config.compose import compose
    from attnx.sweeps.overrides import hydra_config

    show = compose if arguments.cfg == "job" else hydra_config
    config: Any = show(arguments.overrides, arguments.config_dir)
    for key in arguments.package.split(".") if arguments.package else ():
        if not isinstance(config, dict) or key not in config:
            hint = suggest(key, config if isinstance(config, dict) else ())
            raise UserError(f"-p {arguments.package}: the configuration has no {key!r} there{hint}")
        config = config[key]
    print(yaml.safe_dump(config, sort_keys=False), end="")
    return 0


def train_one(
    config: dict[str, Any], overrides: Sequence[str], is_verbose: bool = False, config_dir: str | None = None
) -> int:
    """Train one composed configuration; the start table shows all of it if ``is_verbose``."""
    from attnx.inference.validate import check_named_files
    from attnx.runs.layout import chosen_folder
    from attnx.training.distributed.slurm import find_interrupted_run

    earlier = find_interrupted_run(overrides, config["folder"])
    if earlier is None:
        check_named_files(config)  # errors in files and names come before torch loads
        if is_main_launch():  # else the main process may have made it by now
            chosen_folder(config)
    from attnx.training.fit import fit, resume

    with steady_output():
        if earlier is None:
            fit(config, overrides, is_verbose=is_verbose, config_dir=config_dir)
        else:
            resume(earlier)
    return 0


def _warn_of_broken_plugins() -> None:
    from attnx.registry.source_scan import catalog

    for line in catalog().broken:
        print(f"attnx: plug-in left out: {printable(line)}", file=sys.stderr)
