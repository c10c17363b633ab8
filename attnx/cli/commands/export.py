"""The command ``attnx export``: a trained model as files that run without attnx."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnx.cli.commands.words import CHECKPOINT, CHECKPOINTS, split
from attnx.errors import UserError
from attnx.export.text_rules import EXPORTED_SEARCHES
from attnx.inference.validate import read_whole_run
from attnx.runs.layout import EXPORT
from attnx.runs.predictions import has_symbol_predictions, read_predictions
from attnx.runs.run import Run

if TYPE_CHECKING:
    from attnx.data.examples import Pair
    from attnx.export.folder import Checked

USAGE = """\
attnx export RUN [--format onnx|torch] [--out FOLDER]

The model as two programs, one that reads a source and one that takes a step, for any number of rows and any length,
with the vocabularies and a runner that needs numpy and onnxruntime (or torch) alone. Before the folder is there, its
runner has found, greedily and by a beam of 5, what the run itself finds for examples of its test part. The runner
prints what attnx predict prints; it knows FILE, --width, --nbest, --scores and --tag.

  --format KIND       onnx (needs attnx[export]), or torch for torch.jit.load
  --out FOLDER        where to (RUN/export/KIND)
  --examples N        compare so many examples of the run's predictions.tsv (1000)
  --checkpoint WHICH  best or last

  attnx export multirun/mine
  echo attention | python multirun/mine/export/onnx/run.py --width 5"""

FLAGS = {
    "--format": "onnx or torch",
    "--out": "a folder to make",
    "--examples": "a whole number from 1",
    **CHECKPOINT,
}
FORMATS = ("onnx", "torch")


def export(words: Sequence[str]) -> int:
    """Carry out ``attnx export WORDS``.

    Raises:
        UserError: a mistake in what is asked, or a model that cannot be exported.
    """
    asked = split(words, FLAGS, ())
    kind, checkpoint = asked.one_of("--format", FORMATS), asked.one_of("--checkpoint", CHECKPOINTS)
    count = asked.number("--examples") or 1000
    if len(asked.named) != 1:
        raise UserError("say which run to export: attnx export RUN" + "".join(f", not {name}" for name in asked.named))
    run = read_whole_run(asked.named[0], checkpoint)
    folder = Path(asked.flags.get("--out", run.path / EXPORT / kind))
    if folder.exists():
        raise UserError(f"{folder}: is there already; remove it, or name another folder with --out")
    from rich.console import Console

    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # its exporter to ONNX is full of warnings
    with Console(stderr=True).status("writing the files, and comparing what they find with what the run finds ..."):
        from attnx.export.folder import export as write

        checked = write(run.path, kind, folder, _compared(run, count), checkpoint)
    _show(folder, checked)
    if (search := run.config["decoding"]["name"]) not in EXPORTED_SEARCHES:
        print(f"decoding={search} is not exported; run.py searches greedily, or by a beam with --width")
    return 0


def _compared(run: Run, count: int) -> list[Pair]:
    """Sources of the run's test part; random ones where they are matrices, which a run does not keep."""
    from attnx.data.examples import Pair
    from attnx.data.features import Features
    from attnx.runs.layout import SOURCE_FEATURES, VOCABULARY

    scales = run.path / VOCABULARY / SOURCE_FEATURES
    if scales.is_file():
        return _random(Features.load(scales), min(count, 100))
    if not has_symbol_predictions(run.path):
        raise UserError(
            f"{run.path}: has predicted no symbols that the files could be compared on; train it to its end"
        )
    return [Pair(one.source, ((),), one.tag) for one in read_predictions(run.path)[:count] if one.source]


def _random(source: Any, count: int) -> list[Pair]:
    import numpy as np

    from attnx.data.examples import Pair

    drawn = np.random.default_rng(0)
    sizes = drawn.integers(1, 20, count)
    matrices = [source.decode(drawn.standard_normal((size, source.width))) for size in sizes.tolist()]
    return [Pair(tuple(map(str, range(len(matrix)))), ((),), features=matrix) for matrix in matrices]


def _show(folder: Path, checked: Sequence[Checked]) -> None:
    from rich.console import Console

    console = Console()
    for one in checked:
        search = "greedily" if one.width == 1 else f"by a beam of {one.width}"
        console.print(
            f"{search}: {one.same} of {one.outputs} outputs are the run's, log-probabilities within {one.farthest:.0e}",
            highlight=False,
        )
    console.print(f"{folder}: try python {folder / 'run.py'}", highlight=False, soft_wrap=True, markup=False)
