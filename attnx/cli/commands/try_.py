"""The command ``attnx try``: a prompt that answers what is typed, with the best N and what was read."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from attnx.cli.ascii_heatmap import grid
from attnx.cli.commands.inputs import InputOptions
from attnx.cli.commands.outputs import hypotheses, labels, mean_weights, text_of
from attnx.cli.commands.prompt import Prompt, carry_out
from attnx.cli.commands.request import KEYS, UNKNOWN, runs_and_file
from attnx.cli.commands.words import CHECKPOINT, CHECKPOINTS, split
from attnx.decoding.select import choose_search
from attnx.errors import UserError
from attnx.files.printable import printable

USAGE = """\
attnx try RUN [RUN ...] [decoding=NAME] [decoding.KNOB=VALUE ...]

Type a source, see what the run writes and what it read. Several runs answer together.

  --nbest N             the best N for each, with their scores
  --tag TAG             the language, where the run knows several
  --unknown WHAT        source symbols that the run does not know: replace, refuse or keep
  --checkpoint WHICH    best, last, or average (the mean of the best that were kept)

At the prompt, :help lists what can be changed as you go; Ctrl-D ends."""

FLAGS = {
    "--nbest": "a whole number from 1",
    "--tag": "a language",
    "--unknown": "replace, refuse or keep",
    **CHECKPOINT,
}


def try_(words: Sequence[str]) -> int:
    """Carry out ``attnx try WORDS``.

    Raises:
        UserError: a mistake in what is asked; one at the prompt is told, and the prompt goes on.
    """
    asked = split(words, FLAGS, KEYS)
    checkpoint = asked.one_of("--checkpoint", CHECKPOINTS)
    runs, file = runs_and_file(asked.named, checkpoint, "attnx try RUN")
    if file is not None:
        raise UserError(f"{file}: is no run folder; attnx predict reads files")
    nbest = asked.number("--nbest")
    own = runs[0].config["decoding"]
    choose_search(own, *asked.search(), nbest)  # at the prompt a width gives way to :nbest, here it is refused
    search = choose_search(own, *asked.search())
    settings = InputOptions(tag=asked.flags.get("--tag", ""), unknown=asked.one_of("--unknown", UNKNOWN))  # type: ignore[arg-type]
    try:
        from attnx.inference.load import open_ensemble

        run = open_ensemble([run.path for run in runs], checkpoint, search)
        _loop(Prompt(run, search, settings, nbest))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was being written") from None
    return 0


def _loop(prompt: Prompt) -> None:
    """Answer until there is no more to read; Ctrl-C leaves a line, not the prompt."""
    typed = sys.stdin.isatty()
    if typed:
        _remember_lines()
        print(f"{prompt.run.folder}: type a source; :help for more, Ctrl-D ends")
    while True:
        try:
            line = input("> ") if typed else _piped()
            if line.strip() == ":quit":
                return
            _answer(prompt, line)
        except EOFError:
            if typed:
                print()
            return
        except KeyboardInterrupt:
            if not typed:
                raise
            print()
        except UserError as error:
            print(f"attnx: {printable(str(error))}", file=sys.stderr, flush=True)
        except UnicodeDecodeError:
            print("attnx: what was typed is not UTF-8 text", file=sys.stderr, flush=True)


def _piped() -> str:
    raw = sys.stdin.buffer.readline()
    if not raw:
        raise EOFError
    return raw.decode("utf-8").rstrip("\r\n")


def _remember_lines() -> None:
    """Let lines be edited and recalled, where Python was built with it."""
    try:
        import readline  # noqa: F401
    except ImportError:
        return


def _answer(prompt: Prompt, line: str) -> None:
    text = line.strip()
    if text.startswith(":") and not text.startswith("::"):
        carry_out(prompt, text)
    elif text:
        _show(prompt, text.removeprefix(":") if text.startswith("::") else text)


def _show(prompt: Prompt, text: str) -> None:
    """The answer, the others with their scores if there are any, and what was read."""
    prediction = prompt.answer(text)
    found = hypotheses(prediction)
    task = prompt.run.experiment.task
    if len(found) == 1:
        print(printable(text_of(prediction, task)))
    for rank, one in enumerate(found if len(found) > 1 else (), 1):
        print(f"{rank}  {one.score:.4f}  {printable(text_of(one, task))}")
    if prompt.grid and prediction.weights is not None:
        rows, columns = labels(prediction)
        width = shutil.get_terminal_size().columns
        for line in grid(mean_weights(prediction), rows, columns, width, prediction.own):
            print(line)
    sys.stdout.flush()
