"""Export the model as two ONNX programs, one that encodes a source and one that
takes a decoding step, for any batch size and length, with the vocabularies and
a short example.py that decodes greedily with numpy and onnxruntime. Before the
folder appears, the programs are given the run's outputs step by step, and their
log-probabilities are compared with the run's. Needs attnx[export].

Examples:
  attnx export multirun/runs/mine
  python multirun/runs/mine/export/onnx/example.py a t t e n t i o n
"""

from __future__ import annotations

import argparse
import os
import shlex
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from attnx.cli.args import add_checkpoint, whole_number
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.files.printable import print_line, show_waiting
from attnx.inference.validate import read_complete_run
from attnx.runs.layout import EXPORT, SOURCE_FEATURES, TAGS, VOCABULARY, refuse_links
from attnx.runs.predictions import has_symbol_predictions, read_predictions
from attnx.runs.run import Run

if TYPE_CHECKING:
    from attnx.data.examples import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN [--out FOLDER] [FLAGS]"
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="where to write (RUN/export/onnx)")
    compared = "how many outputs to compare (1000)"
    parser.add_argument("--examples", metavar="N", type=whole_number, default=1000, help=compared)
    add_checkpoint(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export the model and print how the files compare with it."""
    run = read_complete_run(arguments.run, arguments.checkpoint)
    refuse_links(run.path)
    folder = arguments.out or run.path / EXPORT / "onnx"
    if folder.exists():
        raise UserError(f"{folder}: is there already; remove it, or name another folder with --out")
    has_features = (run.path / VOCABULARY / SOURCE_FEATURES).is_file()
    from rich.console import Console

    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch's exporter to ONNX prints many warnings
    with show_waiting(Console(stderr=True), "writing the files, and comparing them with the run's model ..."):
        from attnx.export.folder import export

        checked = export(run.path, folder, _sources(run, arguments.examples, has_features), arguments.checkpoint)
    sources = " of random sources" if has_features else ""
    compared = f"at each step of {count_phrase(checked.outputs, 'output')}{sources}"
    print_line(f"{compared} the log-probabilities are within {checked.max_difference:.0e} of the run's")
    tag = "TAG " if (run.path / VOCABULARY / TAGS).is_file() else ""
    source = "MATRIX.npy" if has_features else "SYMBOL ..."
    print_line(f"{folder}: try {shlex.join(['python', str(folder / 'example.py')])} {tag}{source}")
    return 0


def _sources(run: Run, count: int, has_features: bool) -> list[Pair]:
    """Sources of the run's test split; it keeps none that are matrices, so these are random, of all tags in turn."""
    import numpy as np

    from attnx.data.examples import Pair
    from attnx.data.features import FeatureScaler
    from attnx.data.vocabulary import load_symbols

    if not has_features:
        if not has_symbol_predictions(run.path):
            reason = "has predicted no symbols that the files could be compared on"
            raise UserError(f"{run.path}: {reason}; train it to its end")
        predictions = read_predictions(run.path)[:count]
        return [Pair(item.source, ((),), item.tag) for item in predictions if item.source]
    folder, drawn = run.path / VOCABULARY, np.random.default_rng(0)
    source = FeatureScaler.load(folder / SOURCE_FEATURES)
    tags = cycle(load_symbols(folder / TAGS) if (folder / TAGS).is_file() else [""])
    matrices = [source.decode(drawn.standard_normal((size, source.width))) for size in drawn.integers(1, 20, count)]
    return [Pair(tuple(map(str, range(len(matrix)))), ((),), next(tags), features=matrix) for matrix in matrices]
