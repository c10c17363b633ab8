"""The command ``attnx try``: a prompt that shows the output for a source, the N best, and the attention."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attnx.cli.args import add_checkpoint, choice, decoding_override, split_overrides, text, whole_number
from attnx.cli.ascii_heatmap import heatmap
from attnx.cli.commands.predict.args import KEYS, UNKNOWN, add_unknown, runs_and_file
from attnx.cli.commands.predict.read import InputOptions, LineReader
from attnx.cli.commands.predict.write import hypotheses, labels, mean_weights, output_text
from attnx.decoding.select import choose_decoding
from attnx.errors import UserError, suggest
from attnx.files.printable import printable

if TYPE_CHECKING:
    from attnx.inference.trained_run import TrainedRun

DESCRIPTION = """\
Type a source and see the output and the attention. Several runs answer
together. At the prompt, :help lists what can be changed; Ctrl-D ends."""
HELP = """\
:nbest N                        show the N best with their scores
:decoding NAME [KNOB=VALUE ...] decode in another way, such as :decoding beam beam_size=5
:tag TAG                        the language of the next sources
:unknown replace|refuse|keep    what to do with symbols that the run does not know
:grid on|off                    show the attention, or not
:help                           this list
:quit                           end, as Ctrl-D does
::text                          the source :text, which begins with a colon"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.description = DESCRIPTION
    parser.usage = "%(prog)s RUN [RUN ...] [decoding=NAME] [decoding.KNOB=VALUE ...] [FLAGS]"
    parser.add_argument("words", nargs="*", metavar="RUN", help="run folders")
    parser.add_argument("--nbest", metavar="N", type=whole_number, help="the N best for each, with their scores")
    parser.add_argument("--tag", type=text, help="the language, if the run knows several")
    add_unknown(parser)
    add_checkpoint(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answer what is typed.

    Raises:
        UserError: a wrong argument; a mistake at the prompt is printed, and the prompt continues.
    """
    names, overrides = split_overrides(arguments.words, KEYS)
    runs, file = runs_and_file(names, arguments.checkpoint, "attnx try RUN")
    if file is not None:
        raise UserError(f"{file}: is not a run folder; attnx predict reads files")
    default = runs[0].config["decoding"]
    choose_decoding(default, *decoding_override(overrides), arguments.nbest)  # refuses a beam narrower than --nbest
    search = choose_decoding(default, *decoding_override(overrides))
    try:
        from attnx.inference.load import open_ensemble

        opened = open_ensemble([run.path for run in runs], arguments.checkpoint, search)
        options = InputOptions(tag=arguments.tag or "", unknown=arguments.unknown)
        _loop(Prompt(opened, search, options, arguments.nbest))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was being written") from None
    return 0


class Prompt:
    """The settings of the prompt.

    Args:
        run: the loaded run.
        search: the decoding algorithm and its knobs, without the N best.
        options: the tag, and what to do with unknown symbols.
        nbest: outputs to show; None for as many as the search finds.
    """

    def __init__(self, run: TrainedRun, search: dict[str, Any], options: InputOptions, nbest: int | None) -> None:
        self.run, self.has_heatmap = run, True
        self.set(search, options, nbest)

    def set(self, search: dict[str, Any], options: InputOptions, nbest: int | None) -> None:
        """Change the settings, or nothing if they are wrong.

        Raises:
            UserError: they are.
        """
        decoder = self.run.with_decoding(choose_decoding(search, nbest=nbest))
        if options.unknown == "keep":
            self.run.check_unk_replacement()
        self.reader, self.decoder = LineReader(decoder, options), decoder
        self.search, self.options, self.nbest = search, options, nbest

    def answer(self, text: str) -> None:
        """Print the output for a source, the others of the N best, and the attention.

        Raises:
            UserError: the source cannot be read.
        """
        pair, copies = self.reader.pair(text, self.options.tag), self.options.unknown == "keep"
        prediction = self.decoder.decode([pair], need_weights=self.has_heatmap, copies=copies)[0]
        ranked, task = hypotheses(prediction), self.run.task
        if len(ranked) == 1:
            print(printable(output_text(prediction, task)))
        for rank, hypothesis in enumerate(ranked if len(ranked) > 1 else (), 1):
            print(f"{rank}  {hypothesis.score:.4f}  {printable(output_text(hypothesis, task))}")
        if self.has_heatmap and prediction.weights is not None:
            rows, columns = labels(prediction)
            width = shutil.get_terminal_size().columns
            for line in heatmap(mean_weights(prediction), rows, columns, width, prediction.num_decoder_states):
                print(line)
        sys.stdout.flush()

    def command(self, line: str) -> None:
        """Run a command, such as ``:nbest 5``.

        Raises:
            UserError: an unknown command, or a wrong value; nothing was changed.
        """
        try:
            name, *words = shlex.split(line)
        except ValueError as error:
            raise UserError(f"{line}: {str(error).lower()}") from error
        search, options, nbest = self.search, self.options, self.nbest
        match name:
            case ":help":
                print(HELP, flush=True)
            case ":grid":
                self.has_heatmap = _value(name, words, choice("on", "off")) == "on"
            case ":nbest":
                self.set(search, options, _value(name, words, whole_number))
            case ":tag":
                self.set(search, options._replace(tag=_value(name, words, str)), nbest)
            case ":unknown":
                self.set(search, options._replace(unknown=_value(name, words, choice(*UNKNOWN))), nbest)
            case ":decoding":
                self._set_decoding(words)
            case _:
                commands = (":help", ":grid", ":nbest", ":tag", ":unknown", ":decoding", ":quit")
                raise UserError(f"unknown command {name}{suggest(name, commands)}")

    def _set_decoding(self, words: Sequence[str]) -> None:
        if not words:
            raise UserError(":decoding needs a name, such as :decoding beam beam_size=5")
        # Knobs may be written as on the command line, decoding.beam_size=5, or without "decoding.".
        overrides = [f"decoding.{word}" if "=" in word and not word.startswith("decoding") else word for word in words]
        overrides = [word if "=" in word else f"decoding={word}" for word in overrides]
        override = decoding_override(split_overrides(overrides, KEYS)[1])
        self.set(choose_decoding(self.search, *override), self.options, self.nbest)
        search = self.decoder.config["decoding"]
        knobs = " ".join(f"{knob}={value}" for knob, value in search.items() if knob != "name")
        print(f"decoding={search['name']} {knobs}".strip(), flush=True)


def _value(name: str, words: Sequence[str], convert: Callable[[str], Any]) -> Any:
    """The one value after a command of the prompt."""
    if len(words) != 1:
        raise UserError(f"{name} needs one word after it")
    try:
        return convert(words[0])
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{name} {error}") from error


def _loop(prompt: Prompt) -> None:
    """Answer until the input ends; Ctrl-C leaves a line, not the prompt."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        _enable_line_editing()
        print(f"{prompt.run.folder}: type a source; :help for more, Ctrl-D ends")
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
    if line.startswith(":") and not line.startswith("::"):
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


def _enable_line_editing() -> None:
    """Let lines be edited and recalled, if Python was built with readline."""
    try:
        import readline  # noqa: F401
    except ImportError:
        return
