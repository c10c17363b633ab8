"""Compute a run's scores by its task's metrics, and its errors, on its own test
part or on other data of the same kind. They are in RUN/evaluations/NAME,
named after the arguments; the same command again shows the saved result.
Several runs are evaluated as an ensemble, in the folder of the first.

  task.test=FILE           data to evaluate on, as in training
  trainer.test_examples=N  a random sample of N examples (null: all); as in
                           training for the run's own test split, else all

Examples:
  attnx evaluate multirun/runs/mine task.test=more.tsv decoding=beam
  attnx evaluate multirun/runs/one multirun/runs/two decoding=beam
  attnx compare multirun/runs/mine multirun/runs/mine/evaluations/more-beam
"""

from __future__ import annotations

import argparse
import itertools
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attnx import registry
from attnx.cli.args import CHECKPOINT_CHOICES, add_checkpoint, decoding_override, split_overrides, whole_number
from attnx.config.view import value_text
from attnx.data.paths import check_task_files
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError, report_interrupt
from attnx.files.atomic_files import atomic_folder, write_json
from attnx.files.printable import print_line
from attnx.inference.validate import (
    checkpoint_files,
    file_digest,
    read_complete_run,
    refuse_unlike,
    refuse_unlike_data,
)
from attnx.reports.run.evaluation import error_tables, terminal_tables, write_evaluation_readme, write_tables
from attnx.runs.layout import EVALUATION, EVALUATIONS, FORMAT, VOCABULARY, refuse_links
from attnx.runs.plugin_copies import changed_code_digest, current_code
from attnx.runs.predictions import Evaluation
from attnx.runs.run import Run

KEYS = ("task.test", "decoding", "decoding.", "trainer.test_examples")
MAX_NAME_BYTES = 200  # of a folder; file systems allow 255, and it has endings while it is written


class EvaluateArgs(NamedTuple):
    """The checked arguments of the command; the first run's data and folder are used."""

    runs: list[Run]
    test: str | list[str] | None
    decoding: dict[str, Any]
    examples: int | None
    checkpoint: str
    batch: int
    name: str
    command: str

    def settings(self, fingerprint: str) -> dict[str, Any]:
        """Everything that affects the scores; an evaluation with equal settings is not repeated."""
        weights = [file_digest(file) for run in self.runs for file in checkpoint_files(run.path, self.checkpoint)]
        settings = {"weights": weights, "decoding": self.decoding, "test_examples": self.examples, "data": fingerprint}
        plugins = {file: digest for run in self.runs for file, digest in current_code(run.config).items()}
        return {**settings, "plugins": plugins}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN [RUN ...] [task.test=FILE] [OVERRIDE ...] [FLAGS]"
    parser.add_argument("words", nargs="*", metavar="RUN", help="a run folder; several are an ensemble")
    batch = "sources decoded at once (128); changes no score"
    parser.add_argument("--batch", metavar="N", type=whole_number, default=128, help=batch)
    add_checkpoint(parser)


@report_interrupt("nothing was written; run the same command again")
def run(arguments: argparse.Namespace) -> int:
    """Evaluate the run, or the ensemble, write the result and print it."""
    request = read_request(arguments)
    from attnx.data.sample import sample_examples
    from attnx.inference.evaluate import evaluate as evaluate_run
    from attnx.inference.evaluate import fingerprint_of, open_evaluation, trained_notes
    from attnx.inference.load import open_ensemble
    from attnx.inference.write_results import save_evaluation
    from attnx.reports.run.task_declarations import task_drawing

    run = open_ensemble([run.path for run in request.runs], request.checkpoint, request.decoding)
    run, pairs = open_evaluation(run, request.test, request.runs[0].info)
    pairs = sample_examples(pairs, request.examples)
    notes = list(dict.fromkeys([*run.data.unknown_notes("test", pairs), *run.task.notes]))
    settings = request.settings(fingerprint_of(pairs))
    folder = _evaluation_folder(request, settings)
    if folder.is_dir():
        return _show(folder, f"{folder}: exists already, with the same weights, decoding and data")
    notes += trained_notes(run, pairs) if request.test is not None else []
    result = evaluate_run(run, pairs, request.batch)
    notes += run.cut_notes(result.predictions)
    while not (folder := _evaluation_folder(request, settings)).is_dir():  # another process may take this name first
        with atomic_folder(folder) as partial:
            names = [member.name for member in request.runs]
            info = {"format": FORMAT, "run": names[0], "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            words = {"command": request.command, "runs": names, "checkpoint": request.checkpoint, "test": request.test}
            write_json(partial / EVALUATION, {**info, **words, "notes": notes, "settings": settings})
            save_evaluation(partial, run.task, run.tags, result)
            run.task.save_sources(partial / VOCABULARY, [item.pair for item in result.predictions])
            if draw := task_drawing(request.runs[0], "predictions"):
                draw(partial, "png")
            write_tables(partial, error_tables(partial))
            write_evaluation_readme(partial, folder.resolve().name)
    return _show(folder, f"{folder}: start with README.md")


def read_request(arguments: argparse.Namespace) -> EvaluateArgs:
    """Check the arguments.

    Raises:
        UserError: one of them is wrong; the data are not read.
    """
    names, overrides = split_overrides(arguments.words, KEYS)
    if not names:
        raise UserError("name a run: attnx evaluate RUN; name data by task.test=FILE")
    if data := [name for name in names[1:] if not Path(name).is_dir()]:
        raise UserError(f"{data[0]}: is not a run folder; name data by task.test={data[0]}")
    runs = [read_complete_run(name, arguments.checkpoint) for name in names]
    refuse_unlike(runs)
    refuse_unlike_data(runs)
    run = runs[0]
    refuse_links(run.path)
    test = overrides.get("task.test")
    if "task.test" in overrides:
        task, options = registry.parse_spec("task", run.config["task"])
        registry.check("task", task, {**options, "test": test})
        if test is None:
            raise UserError("task.test=null: leave it out to evaluate on the run's own test split")
        check_task_files({"name": task, "test": test})
    default = run.config["trainer"].get("test_examples") if test is None else None
    count = overrides.get("trainer.test_examples", default)
    if count is not None and (type(count) is not int or count < 1):
        raise UserError(f"trainer.test_examples={count}: expected a whole number, 1 or more, or null")
    search, search_options = decoding_override(overrides)
    decoding = choose_decoding(run.config["decoding"], search, search_options)
    code = "+".join(dict.fromkeys(filter(None, map(changed_code_digest, runs))))
    name = evaluation_name(overrides, arguments.checkpoint, code, len(runs))
    return EvaluateArgs(
        runs, test, decoding, count, arguments.checkpoint, arguments.batch, name, arguments.command_line
    )


def evaluation_name(overrides: Mapping[str, Any], checkpoint: str, code: str = "", num_runs: int = 1) -> str:
    """The folder's name: the data (``test`` for the run's own test split), the decoding, and the other options.

    ``code``, the digest of plug-in code that has changed since the run was trained, is part of it, and so is the number
    of runs of an ensemble.

    >>> evaluation_name({"task.test": "data/more.tsv.gz", "decoding": "beam", "decoding.beam_size": 5}, "best")
    'more-beam-beam_size=5'
    >>> evaluation_name({"decoding": "beam", "decoding.beam_size": 5}, "best", num_runs=3)
    'test-ensemble=3-beam-beam_size=5'
    """
    files = overrides.get("task.test") or "test"
    files = files if isinstance(files, list) else [files]
    parts = [re.sub(r"(\.gz|\.tsv|\.txt|\.csv)+$", "", Path(str(file)).name) for file in files]
    parts += [f"ensemble={num_runs}"] if num_runs > 1 else []
    parts += [str(overrides["decoding"])] if "decoding" in overrides else []
    options = sorted((key, value) for key, value in overrides.items() if key.startswith("decoding."))
    parts += [f"{key.removeprefix('decoding.')}={value}" for key, value in options]
    if "trainer.test_examples" in overrides:
        parts.append(f"examples={value_text(overrides['trainer.test_examples'])}")
    parts += [checkpoint] if checkpoint != CHECKPOINT_CHOICES[0] else []
    parts += [f"code={code}"] if code else []
    name = re.sub(r"[^\w.=+-]+", "_", "-".join(parts)).lstrip(".")
    return name.encode()[:MAX_NAME_BYTES].decode(errors="ignore") or "test"


def _evaluation_folder(request: EvaluateArgs, settings: Mapping[str, Any]) -> Path:
    """The folder of an evaluation with equal settings if it exists; else the first free one of NAME, NAME-2 ..."""
    folder = first_folder = request.runs[0].path / EVALUATIONS / request.name
    for count in itertools.count(2):
        is_evaluation = (folder / EVALUATION).is_file()
        if not folder.exists() or (is_evaluation and Evaluation(folder).info.get("settings") == settings):
            break
        folder = first_folder.with_name(f"{request.name}-{count}")
    return folder


def _show(folder: Path, message: str) -> int:
    from rich.console import Console

    for note in Evaluation(folder).info.get("notes", ()):
        print_line(f"note: {note}")
    console = Console()
    for table in terminal_tables(folder, error_tables(folder)):
        console.print(table)
        console.print()
    print_line(message)
    return 0
