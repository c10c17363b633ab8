"""The command ``attnx resume``: go on with a run or a sweep that was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnx.cli.flags import resume_flags, side_by_side_asked
from attnx.errors import UserError
from attnx.runs.sweep import is_sweep

USAGE = """\
attnx resume FOLDER [-j N] [--config-dir FOLDER]

Go on with a run that was interrupted or killed, from its last checkpoint, to the end that it would have had; or with a
sweep: jobs that are done stay, the others go on or are begun.

  -j N                  so many jobs of a sweep side by side
  --config-dir FOLDER   your own configuration files, of a sweep that was begun with them

  attnx resume multirun/mine
  attnx resume multirun/scorers -j 2"""


def resume(words: Sequence[str]) -> int:
    """Carry out ``attnx resume WORDS``.

    Raises:
        UserError: a mistake in what is asked, or a folder that is neither a run nor a sweep.
    """
    flags, folders = resume_flags(list(words))
    if len(folders) != 1:
        raise UserError("say which run or sweep to resume: attnx resume FOLDER")
    if is_sweep(folders[0]):
        from attnx.cli.hydra import go_on

        side_by_side = side_by_side_asked({**flags, "--multirun": ""})
        return go_on(Path(folders[0]), side_by_side, flags.get("--config-dir"))
    if "--jobs" in flags:
        raise UserError("-j says how many jobs of a sweep run side by side, but this is a single run")
    if flags:
        raise UserError("--config-dir is part of how a sweep is composed, but a single run holds its configuration")
    from attnx.inference.validate import FINISHED, is_finished, read_resumable

    run = read_resumable(Path(folders[0]))  # a wrong folder is told before torch loads
    if is_finished(run):
        print(FINISHED.format(folders[0]))
        return 0
    from attnx.data.task_files import refuse_missing_files

    refuse_missing_files(run.config["task"])
    from attnx.training.fit import resume as resume_run

    resume_run(folders[0])
    return 0
