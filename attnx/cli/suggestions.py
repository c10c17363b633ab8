"""What to write instead of a word of the command line that attnx cannot read, told in one line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from attnx.config.groups import GROUPS, SCALARS, knob_keys, options
from attnx.errors import near_misses

KEYS = (*GROUPS, *SCALARS, "placement")
# Words of other programs, and what they are here.
TRAINING = ("attnx", "train", "fit", "run", "start", "learn", "main")
COMMANDS = {
    "attnx evaluate RUN": ("test", "eval", "validate", "score"),
    "attnx predict RUN FILE": ("infer", "inference", "generate", "translate", "decode", "pronounce"),
    "attnx list": ("ls", "show", "parts", "models", "options", "choices"),
    "attnx plot RUN": ("pictures", "visualize", "heatmaps"),
    "attnx stats RUN": ("alignments", "statistics"),
    "attnx gallery NAME": ("draw",),
    "attnx resume FOLDER": ("continue", "restart"),
    "attnx -m": ("sweep", "multirun", "tune", "grid", "hpo"),
    "attnx --cfg job": ("config", "cfg"),
    "attnx data get NAME": ("download", "get", "fetch"),
    "attnx --version": ("version",),
}
FLAGS = {
    "trainer.accelerator=gpu": ("gpu", "gpus", "cuda", "device"),
    "folder=FOLDER": ("o", "out", "output", "output_dir", "save_dir"),
    "--config-dir FOLDER": ("config", "config_path"),
    "--cfg job": ("dry_run", "print_config"),
    "-m": ("sweep",),
    "--version": ("v",),
}
QUOTES = "\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u201a"
DASHES = re.compile(r"^[\u2010-\u2015\u2212]+")  # hyphens and dashes of print, the minus sign
SPACES = re.compile(r"[\u00a0\u2000-\u200b\u202f\u3000]+")


def plain(word: str) -> str:
    """A word without the quotes, dashes and spaces of print, which a PDF or a web page puts in place of the plain ones.

    Quotes are those around a word or around its value: one inside may be part of a file's name.
    """
    word = SPACES.sub(" ", DASHES.sub(lambda dashes: "-" if len(word) == len(dashes[0]) + 1 else "--", word))
    return re.sub(rf"^(\+*[\w.]+=)[{QUOTES}]", r"\1", word.strip(QUOTES)).strip()


def refusal(words: Sequence[str], index: int, commands: Collection[str], flags: Collection[str]) -> str:
    """Say what a word is not, and what to write.

    Args:
        words: the command line.
        index: the place of the word in it.
        commands: the commands that there are.
        flags: the flags that there are.
    """
    word = words[index]
    if plain(word) != word:
        return f"{word!r} has quotes, dashes or spaces of print; write {shlex.join(plain(word).split(' '))}"
    return _flag(words, index, commands, flags) if word.startswith("-") else _bare(words, index, commands)


def _flag(words: Sequence[str], index: int, commands: Collection[str], flags: Collection[str]) -> str:
    given, equals, value = words[index].partition("=")
    name = given.lstrip("-").replace("-", "_")
    if name in commands:
        rest = [value] if value else words[index + 1 :]
        return f"unknown flag {given}; {name} is a command: write {shlex.join(['attnx', name, *rest])}"
    written = _key(name)
    if written:
        chosen = _assigned(written[0], value if equals else _value_after(words, index))
        others = f" (or {' or '.join(written[1:])})" if written[1:] else ""
        return f"unknown flag {given}; choices have no dashes: write {chosen}{others}"
    if meant := _meaning(name, FLAGS):
        return f"unknown flag {given}; write {meant}"
    return f"unknown flag {given}{near_misses(given, [*flags, '--help', '--version'])}"


def _bare(words: Sequence[str], index: int, commands: Collection[str]) -> str:
    word = words[index]
    if joined := _pulled_apart(words, index):
        return f"unknown command {word!r}; a choice is one word, key=value: write {joined}"
    if word in TRAINING:
        rest = [other for other in words if other != word]
        return f"unknown command {word!r}; attnx trains without one: write {shlex.join(['attnx', *rest])}"
    if meant := _meaning(word, COMMANDS):
        return f"unknown command {word!r}; write {meant}"
    if groups := [group for group in GROUPS if word in options(group)]:
        return f"unknown command {word!r}; a choice is written {' or '.join(f'{group}={word}' for group in groups)}"
    if key := _key(word.lstrip("+")):
        return f"unknown command {word!r}; {_with_value(key[0])}"
    return f"unknown command {word!r}" + (
        _path(word) or f"{near_misses(word, commands)}; a choice is written key=value, and attnx --help shows all"
    )


def _pulled_apart(words: Sequence[str], index: int) -> str:
    """A choice that stands in several words, or with a colon, as one word: ``scorer = dot``, ``query=[token, x]``."""
    word, before, after = words[index], " ".join(words[:index][-1:]), " ".join(words[index + 1 :][:2])
    if opened := re.search(r"\S+=[\[{][^\]}]*$", " ".join(words[:index])):
        closed = " ".join([opened[0], *words[index:]])
        return shlex.quote(closed[: closed.find("]" if "[" in opened[0] else "}") + 1] or closed)
    if re.fullmatch(r"\+*[\w.]+=", before):
        return _assigned(before[:-1], word)
    named, colon, value = word.partition(":")
    if not (keys := _key(named.lstrip("+"))):
        return ""
    key = keys[0]
    if colon:
        return _assigned(key, value or after.split(" ")[0])
    if spaced := re.match(r"= ?(\S+)", after):
        return _assigned(key, spaced[1])
    follows = after.split(" ")[0]
    return _assigned(key, follows) if follows and "=" not in follows and follows[0] not in "-+~" else ""


def _key(name: str) -> list[str]:
    """The keys that a name may mean: itself, or those of the parts that have a knob of this name."""
    return [name] if name.partition(".")[0] in KEYS else knob_keys(name)


def _with_value(key: str) -> str:
    if key in GROUPS:
        return f"{key} is a choice: write {key}=NAME; attnx list {key} shows them"
    return f"write {key}=VALUE"


def _assigned(key: str, value: str) -> str:
    return shlex.quote(f"{key}={value}") if value else f"{key}={'NAME' if key in GROUPS else 'VALUE'}"


def _value_after(words: Sequence[str], index: int) -> str:
    value = "".join(words[index + 1 :][:1])
    return "" if "=" in value or value.startswith("-") else value


def _meaning(word: str, meanings: Mapping[str, Collection[str]]) -> str:
    return next((meant for meant, names in meanings.items() if word in names), "")


def _path(word: str) -> str:
    """What to do with a file or a folder that is there."""
    path, shown = Path(word), shlex.quote(word)
    if path.is_dir():
        return (
            f", which is a folder; of a run write attnx predict {shown}, attnx evaluate {shown} or attnx resume {shown}"
        )
    return f", which is a file; to train on it write task.train={shown}" if path.is_file() else ""
