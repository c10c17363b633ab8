"""What ``attnx predict`` is asked for: its words, checked as far as that can be before torch is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.cli.commands.inputs import InputOptions, reads_files
from attnx.cli.commands.outputs import Form, check_alignments
from attnx.cli.commands.words import CHECKPOINT, CHECKPOINTS, ParsedArgs
from attnx.decoding.select import choose_search
from attnx.errors import UserError
from attnx.inference.validate import digest, read_whole_run, refuse_unlike, weights_of
from attnx.runs.plugin_copies import code_now
from attnx.runs.run import Run

FLAGS = {
    "--column": "a whole number from 1",
    "--tag": "a language",
    "--tag-column": "a whole number from 1",
    "--out": "a file to write",
    "--nbest": "a whole number from 1",
    "--scores": "",
    "--alignments": "a file to write",
    "--batch": "a whole number from 1",
    "--unknown": "replace, refuse or keep",
    "--on-error": "stop, skip or keep",
    **CHECKPOINT,
}
KEYS = ("decoding", "decoding.")
UNKNOWN, ON_ERROR = ("replace", "refuse", "keep"), ("stop", "skip", "keep")
WINDOW = 16  # batches that are read, sorted by length and written together


class PredictArgs(NamedTuple):
    """What is asked for, checked as far as that can be without torch."""

    runs: list[Run]
    asked: InputOptions
    search: dict[str, Any]
    checkpoint: str
    form: Form
    out: Path | None
    alignments: Path | None
    batch: int
    on_error: str

    @property
    def features(self) -> bool:
        """Whether sources are files of features."""
        return reads_files(self.runs[0].config)

    @property
    def decisive(self) -> dict[str, Any]:
        """What decides the output: a half-written one is gone on with only if all of this is the same."""
        asked = {name: value for name, value in self.asked._asdict().items() if name != "file"}
        return {
            "weights": [digest(file) for run in self.runs for file in weights_of(run.path, self.checkpoint)],
            "decoding": self.search,
            **asked,
            **self.form._asdict(),
            "on_error": self.on_error,
            "alignments": self.alignments and str(self.alignments),
            "plugins": [code_now(run.config) for run in self.runs],
        }

    @property
    def window(self) -> int:
        """How many lines are read at once: few where somebody waits for each answer."""
        return 1 if self.batch == 1 or (self.asked.file is None and sys.stdin.isatty()) else WINDOW * self.batch


def read_request(words: ParsedArgs) -> PredictArgs:
    """Check what is asked for.

    Raises:
        UserError: anything that is wrong with it, but for what only the opened run can tell.
    """
    checkpoint = words.one_of("--checkpoint", CHECKPOINTS)
    runs, file = runs_and_file(words.named, checkpoint, "attnx predict RUN [FILE]")
    search = choose_search(runs[0].config["decoding"], *words.search(), words.number("--nbest"))
    form = Form(several=search.get("nbest", 1) > 1 or "--nbest" in words.flags, scores="--scores" in words.flags)
    asked = InputOptions(
        file=file,
        column=words.number("--column"),
        tag=words.flags.get("--tag", ""),
        tag_column=words.number("--tag-column"),
        unknown=words.one_of("--unknown", UNKNOWN),  # type: ignore[arg-type]
    )
    if asked.tag and asked.tag_column:
        raise UserError("--tag and --tag-column are both given; leave one out")
    out, alignments = (Path(words.flags[flag]) if flag in words.flags else None for flag in ("--out", "--alignments"))
    if alignments:
        check_alignments(alignments)
        if any(run.config["attention"]["name"] == "none" for run in runs):
            raise UserError(f"--alignments {alignments}: this run has no attention (attention=none); leave it out")
        if alignments == out:
            raise UserError(f"--out and --alignments both name {out}; name two files")
    batch = words.number("--batch") or 128
    return PredictArgs(
        runs, asked, search, checkpoint, form, out, alignments, batch, words.one_of("--on-error", ON_ERROR)
    )


def runs_and_file(named: Sequence[str], checkpoint: str, usage: str) -> tuple[list[Run], Path | None]:
    """The runs come first; what is no folder behind them is the file, ``-`` being standard input."""
    if not named:
        raise UserError(f"say which run is meant: {usage}")
    folders = [named[0], *(name for name in named[1:] if Path(name).is_dir())]
    files = [name for name in named[1:] if not Path(name).is_dir()]
    if len(files) > 1:
        raise UserError(f"{files[0]} and {files[1]} are both no folders; name one file to read")
    if files and named[-1] != files[0]:
        raise UserError(f"{files[0]}: is no run folder; the file to read stands behind the runs")
    file = Path(files[0]) if files and files[0] != "-" else None
    runs = [read_whole_run(folder, checkpoint) for folder in folders]
    refuse_unlike(runs)
    if file is not None and not file.exists():
        raise UserError(f"{file}: no such file")
    return runs, file
