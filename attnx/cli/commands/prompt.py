"""What is set at the prompt of ``attnx try``, and the commands, ``:nbest 5`` and the like, that change it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnx.cli.commands.inputs import InputOptions, Reader
from attnx.cli.commands.request import KEYS, UNKNOWN
from attnx.cli.commands.words import split
from attnx.decoding.select import choose_search
from attnx.errors import UserError, near_misses

if TYPE_CHECKING:
    from attnx.inference.trained_run import OpenRun
    from attnx.training.lightning_module import Prediction

# Values at the prompt are checked as those of the flags of the same names.
FLAGS = {"--nbest": "a whole number from 1", "--unknown": "replace, refuse or keep"}
HELP = """\
:nbest N                        show the best N, with their scores
:search NAME [KNOB=VALUE ...]   search in another way, such as :search beam width=5
:tag TAG                        the language of what follows
:unknown replace|refuse|keep    what to do with symbols that the run does not know
:grid on|off                    show what was read, or not
:help                           this
:quit                           end, as Ctrl-D does
::text                          the source :text, which begins with a colon"""


@dataclass
class Prompt:
    """What is set at the prompt.

    Attributes:
        run: as it was opened.
        search: the search that is asked for at the moment, without the best N.
        asked: tag, and what to do with unknown symbols.
        nbest: how many outputs to show; None for as many as the search finds.
        grid: whether to show what was read.
    """

    run: OpenRun
    search: dict[str, Any]
    asked: InputOptions
    nbest: int | None = None
    grid: bool = True

    def __post_init__(self) -> None:
        """Make ready to answer."""
        self.set()

    def set(self, **changes: Any) -> None:
        """Change what is set, or nothing if it cannot be so.

        Raises:
            UserError: it cannot.
        """
        search, asked = changes.get("decoding", self.search), changes.get("asked", self.asked)
        nbest = changes.get("nbest", self.nbest)
        answering = self.run.searching(choose_search(search, nbest=nbest))
        if asked.unknown == "keep":
            self.run.check_copies()
        self.reader, self.answering = Reader(answering, asked), answering
        self.search, self.asked, self.nbest = search, asked, nbest

    def answer(self, text: str) -> Prediction:
        """What is written for a source.

        Raises:
            UserError: it cannot be read.
        """
        pair = self.reader.pair(text, self.asked.tag)
        return self.answering.decode([pair], need_weights=self.grid, copies=self.asked.unknown == "keep")[0]


def carry_out(prompt: Prompt, text: str) -> None:
    """Carry out a command, such as ``:nbest 5``.

    Raises:
        UserError: there is no such command, or it cannot be done; nothing was changed.
    """
    try:
        name, *words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{text}: {str(error).lower()}") from error
    if name not in COMMANDS:
        raise UserError(f"unknown command {name}{near_misses(name, [*COMMANDS, ':quit'])}")
    COMMANDS[name](prompt, words)


def _nbest(prompt: Prompt, words: list[str]) -> None:
    number = split([f"--nbest={_one(':nbest', words)}"], FLAGS, ()).number("--nbest")
    prompt.set(nbest=number)


def _search(prompt: Prompt, words: list[str]) -> None:
    if not words:
        raise UserError(":search needs the name of a search, and values of its knobs if need be")
    # Knobs may be written as on the command line, decoding.beam_size=5, or without their search before them.
    named = [f"search.{word}" if "=" in word and not word.startswith("decoding") else word for word in words]
    named = [word if "=" in word else f"decoding={word}" for word in named]
    prompt.set(search=choose_search(prompt.search, *split(named, {}, KEYS).search()))
    knobs = " ".join(f"{knob}={value}" for knob, value in prompt.answering.config["decoding"].items() if knob != "name")
    print(f"decoding={prompt.answering.config['decoding']['name']} {knobs}".strip(), flush=True)


def _tag(prompt: Prompt, words: list[str]) -> None:
    prompt.set(asked=prompt.asked._replace(tag=_one(":tag", words)))


def _unknown(prompt: Prompt, words: list[str]) -> None:
    value = split([f"--unknown={_one(':unknown', words)}"], FLAGS, ()).one_of("--unknown", UNKNOWN)
    prompt.set(asked=prompt.asked._replace(unknown=value))  # type: ignore[arg-type]


def _grid(prompt: Prompt, words: list[str]) -> None:
    value = _one(":grid", words)
    if value not in ("standard", "off"):
        raise UserError(f":grid {value}: expected on or off")
    prompt.grid = value == "on"


def _help(prompt: Prompt, words: list[str]) -> None:
    print(HELP, flush=True)


COMMANDS: dict[str, Callable[[Prompt, list[str]], None]] = {
    ":nbest": _nbest,
    ":search": _search,
    ":tag": _tag,
    ":unknown": _unknown,
    ":grid": _grid,
    ":help": _help,
}


def _one(name: str, words: list[str]) -> str:
    if len(words) != 1:
        raise UserError(f"{name} needs one word behind it")
    return words[0]
