"""Type a source and see the output and the attention. Several runs answer
together. At the prompt, :help lists what can be changed; Ctrl-D ends.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from attnx.cli.args import Parser, add_checkpoint, decoding_override, split_overrides, whole_number
from attnx.cli.commands.predict import KEYS, UNKNOWN, add_unknown, runs_and_file
from attnx.cli.commands.predict.read import InputOptions, LineReader
from attnx.cli.commands.predict.write import hypotheses, labels, mean_weights, output_text
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError
from attnx.files.printable import print_line, printable

if TYPE_CHECKING:
    from attnx.inference.trained_run import TrainedRun

HELP = """\
:nbest N                        show the N best with their scores
:decoding NAME [OPTION=VALUE ...] decode in another way, such as :decoding beam beam_size=5
:tag TAG                        the language of the next sources
:unknown replace|refuse|keep    what to do with symbols that the run does not know
:grid on|off                    show the attention, or not
:help                           this list
:quit                           end, as Ctrl-D does
::text                          the source :text, which begins with a colon"""
SHADES = " ░▒▓█"
SPACE = "␣"
MAX_LABEL_CELLS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s RUN ... [decoding=NAME] [decoding.OPTION=VALUE ...] [FLAGS]"
    parser.add_argument("words", nargs="*", metavar="RUN", help="run folders")
    parser.add_argument("--nbest", metavar="N", type=whole_number, help="the N best for each, with their scores")
    parser.add_argument("--tag", help="the language, if the run knows several")
    add_unknown(parser)
    add_checkpoint(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answer what is typed."""
    names, overrides = split_overrides(arguments.words, KEYS)
    runs, file = runs_and_file(names, arguments.checkpoint, "attnx try RUN")
    if file is not None:
        raise UserError(f"{file}: is not a run folder; attnx predict reads files")
    default = runs[0].config["decoding"]
    name, options = decoding_override(overrides)
    choose_decoding(default, name, options, arguments.nbest)  # refuses a beam narrower than --nbest
    search = choose_decoding(default, name, options)
    try:
        from attnx.inference.load import open_ensemble

        opened = open_ensemble([run.path for run in runs], arguments.checkpoint, search)
        _loop(Prompt(opened, PromptSettings(search, arguments.nbest, arguments.tag or "", arguments.unknown)))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was being written") from None
    return 0


class PromptSettings(NamedTuple):
    """The settings of the prompt: the search without its N best, how many to show (None for all), and the flags."""

    search: dict[str, Any]
    nbest: int | None
    tag: str
    unknown: Any
    grid: str = "on"


def _command_parser() -> Parser:
    """The parser of the prompt's commands, which are flags that begin with a colon."""
    parser = Parser("the prompt", prefix_chars=":")
    parser.usage = ":help for all commands"
    parser.argument_default = argparse.SUPPRESS
    parser.add_argument(":nbest", type=whole_number)
    parser.add_argument(":decoding", nargs="*")
    parser.add_argument(":tag")
    parser.add_argument(":unknown", choices=UNKNOWN)
    parser.add_argument(":grid", choices=("on", "off"))
    for flag in (":help", ":quit"):
        parser.add_argument(flag, action="store_true", default=argparse.SUPPRESS)
    return parser


class Prompt:
    """Answers sources and runs commands."""

    def __init__(self, run: TrainedRun, settings: PromptSettings) -> None:
        self.run, self.parser = run, _command_parser()
        self.set(settings)

    def set(self, settings: PromptSettings) -> None:
        """Change the settings; wrong ones are refused, and nothing changes."""
        decoder = self.run.with_decoding(choose_decoding(settings.search, nbest=settings.nbest))
        if settings.unknown == "keep":
            self.run.check_unk_replacement()
        self.reader = LineReader(decoder, InputOptions(tag=settings.tag, unknown=settings.unknown))
        self.decoder, self.settings = decoder, settings

    def answer(self, text: str) -> None:
        """Print the output for a source, the others of the N best, and the attention.

        Raises:
            UserError: the source cannot be read.
        """
        pair, has_grid = self.reader.pair(text, self.settings.tag), self.settings.grid == "on"
        prediction = self.decoder.decode([pair], need_weights=has_grid, copies=self.settings.unknown == "keep")[0]
        ranked, task = hypotheses(prediction), self.run.task
        if len(ranked) == 1:
            print(printable(output_text(prediction, task)))
        for rank, hypothesis in enumerate(ranked if len(ranked) > 1 else (), 1):
            print(f"{rank}  {hypothesis.score:.4f}  {printable(output_text(hypothesis, task))}")
        if has_grid and prediction.weights is not None:
            rows, columns = labels(prediction)
            width = shutil.get_terminal_size().columns
            for line in heatmap(mean_weights(prediction), rows, columns, width, prediction.num_decoder_states):
                print_line(line)
        sys.stdout.flush()

    def command(self, line: str) -> None:
        """Run a command, such as ``:nbest 5``.

        Raises:
            UserError: an unknown command, or a wrong value; nothing was changed.
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UserError(f"{line}: {str(error).lower()}") from error
        values = vars(self.parser.parse(words))
        changes = {name: value for name, value in values.items() if name in PromptSettings._fields}
        if "decoding" in values:
            changes["search"] = self._parse_decoding(values["decoding"], values.get("nbest", self.settings.nbest))
        self.set(self.settings._replace(**changes))
        if "decoding" in values:
            search = self.decoder.config["decoding"]
            options = " ".join(f"{option}={value}" for option, value in search.items() if option != "name")
            print_line(f"decoding={search['name']} {options}".strip(), flush=True)

    def _parse_decoding(self, words: Sequence[str], nbest: int | None) -> dict[str, Any]:
        if not words:
            raise UserError(":decoding needs a name, such as :decoding beam beam_size=5")
        # Options may be written as on the command line, decoding.beam_size=5, or without "decoding.".
        overrides = [f"decoding.{word}" if "=" in word and not word.startswith("decoding") else word for word in words]
        overrides = [word if "=" in word else f"decoding={word}" for word in overrides]
        name, options = decoding_override(split_overrides(overrides, KEYS)[1])
        choose_decoding(self.settings.search, name, options, nbest)  # refuses a search that cannot find the N best
        return choose_decoding(self.settings.search, name, options)


def _loop(prompt: Prompt) -> None:
    """Answer until the input ends; Ctrl-C leaves a line, not the prompt."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with contextlib.suppress(ImportError):  # Python may be built without it
            import readline  # noqa: F401 lets lines be edited and recalled
        print_line(f"{prompt.run.folder}: type a source; :help for more, Ctrl-D ends")
    while True:
        try:
            line = (input("> ") if is_terminal else _piped_line()).strip()
            if line == ":quit":
                return
            _respond(prompt, line)
        except EOFError:
            print(end="\n" * is_terminal)
            return
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print()
        except UserError as error:
            print(f"attnx: {printable(str(error))}", file=sys.stderr, flush=True)


def _respond(prompt: Prompt, line: str) -> None:
    if line == ":help":
        print_line(HELP, flush=True)
    elif line.startswith(":") and not line.startswith("::"):
        prompt.command(line)
    elif line:
        prompt.answer(line[line.startswith("::") :])


def _piped_line() -> str:
    raw = sys.stdin.buffer.readline()
    if not raw:
        raise EOFError
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError("the line is not UTF-8 text") from error


def heatmap(
    weights: Any, rows: Sequence[str], columns: Sequence[str], width: int, decoder_columns: int = 0
) -> Iterator[str]:
    r"""Lines of a heat map of weights (t, m) in five shades.

    Columns that do not fit the width, in cells, are wrapped into blocks. Labels are as wide as a terminal shows them: a
    Chinese character takes two cells, a combining accent none. A bar separates the last columns, of decoder states.

    >>> print("\n".join(heatmap([[1.0, 0.0], [0.3, 0.7]], ["B", "字"], ["b", "ab"], width=20)))
       b ab
    B  █
    字 ░ ▓▓
    """
    row_labels, column_labels = [_label(label) for label in rows], [_label(label) for label in columns]
    label_width = max(map(cell_len, row_labels), default=0)
    bar = len(column_labels) - decoder_columns if decoder_columns else None

    def line(label: str, cells: Iterable[str]) -> str:
        parts = ["│" + cell if column == bar else " " + cell for column, cell in zip(block, cells, strict=True)]
        return "".join([set_cell_size(label, label_width), *parts]).rstrip()

    for block in _blocks([cell_len(label) for label in column_labels], width - label_width):
        yield line("", (column_labels[column] for column in block))
        for row, label in zip(weights, row_labels, strict=False):
            yield line(label, (_shade(row[column]) * cell_len(column_labels[column]) for column in block))


def _blocks(widths: Sequence[int], room: int) -> Iterator[range]:
    """Ranges of columns that fit the room, with a space before each; at least one column each."""
    start, used = 0, 0
    for column, width in enumerate(widths):
        if column > start and used + width + 1 > room:
            yield range(start, column)
            start, used = column, 0
        used += width + 1
    if widths:
        yield range(start, len(widths))


def _shade(weight: float) -> str:
    return SHADES[min(max(round(float(weight) * (len(SHADES) - 1)), 0), len(SHADES) - 1)]


def _label(symbol: str) -> str:
    """A symbol with visible spaces, and combining accents on a circle."""
    shown = symbol.replace(" ", SPACE)
    shown = "".join(sign if sign.isprintable() else f"U+{ord(sign):04X}" for sign in shown)
    if shown and unicodedata.combining(shown[0]):
        shown = "\u25cc" + shown
    return shown if cell_len(shown) <= MAX_LABEL_CELLS else set_cell_size(shown, MAX_LABEL_CELLS - 1) + "…"
