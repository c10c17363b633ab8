"""Messages on words of the command line that attnx cannot parse, with what to write instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from attnx.cli.commands import COMMANDS
from attnx.config.groups import GROUPS, SCALARS, group_choices, option_keys
from attnx.errors import suggest

KEYS = (*GROUPS, *SCALARS, "placement")
# Words of other programs, and their equivalents.
TRAINING = ("attnx", "train", "fit", "run", "start", "learn", "main")
SYNONYMS = {
    "attnx evaluate RUN": ("test", "eval", "validate", "score"),
    "attnx predict RUN FILE": ("infer", "inference", "generate", "translate", "decode", "pronounce"),
    "attnx list": ("ls", "show", "parts", "models", "options", "choices"),
    "attnx plot RUN": ("draw", "pictures", "visualize", "heatmaps"),
    "attnx stats RUN": ("alignments", "statistics"),
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
}
QUOTES = "\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u201a"
DASHES = re.compile(r"^[\u2010-\u2015\u2212]+")  # hyphens and dashes of print, the minus sign
SPACES = re.compile(r"[\u00a0\u2000-\u200b\u202f\u3000]+")


def plain(word: str) -> str:
    """A word with typographic quotes, dashes and spaces, as in a PDF or a web page, replaced by plain ones.

    Only quotes around a word or its value are removed: a quote inside may be part of a file's name.
    """
    word = SPACES.sub(" ", DASHES.sub(lambda dashes: "-" if len(word) == len(dashes[0]) + 1 else "--", word))
    return re.sub(rf"^(\+*[\w.]+=)[{QUOTES}]", r"\1", word.strip(QUOTES)).strip()


def explain_word(words: Sequence[str], index: int, flags: Collection[str]) -> str:
    """The message on a word of a command line that is neither a flag nor an override."""
    word = words[index]
    if plain(word) != word:
        return f"{word!r} has quotes, dashes or spaces of print; write {shlex.join(plain(word).split(' '))}"
    return _flag(words, index, flags) if word.startswith("-") else _bare(words, index)


def _flag(words: Sequence[str], index: int, flags: Collection[str]) -> str:
    flag, equals, value = words[index].partition("=")
    name = flag.lstrip("-").replace("-", "_")
    if name in COMMANDS:
        remaining = [value] if value else words[index + 1 :]
        return f"unknown flag {flag}; {name} is a command: write {shlex.join(['attnx', name, *remaining])}"
    if written := _key(name):
        next_word = "".join(words[index + 1 : index + 2])
        is_value = "=" not in next_word and not next_word.startswith("-")
        override = _assigned(written[0], value if equals else next_word * is_value)
        alternatives = f" (or {' or '.join(written[1:])})" if written[1:] else ""
        return f"unknown flag {flag}; choices have no dashes: write {override}{alternatives}"
    if meaning := _lookup(name, FLAGS):
        return f"unknown flag {flag}; write {meaning}"
    return f"unknown flag {flag}{suggest(flag, [*flags, '--help', '--version'])}"


def _bare(words: Sequence[str], index: int) -> str:
    word = words[index]
    if joined := _joined_choice(words, index):
        return f"unknown command {word!r}; a choice is one word, key=value: write {joined}"
    if word in TRAINING:
        remaining = [item for item in words if item != word]
        return f"unknown command {word!r}; attnx trains without one: write {shlex.join(['attnx', *remaining])}"
    if meaning := _lookup(word, SYNONYMS):
        return f"unknown command {word!r}; write {meaning}"
    if groups := [group for group in GROUPS if word in group_choices(group)]:
        return f"unknown command {word!r}; a choice is written {' or '.join(f'{group}={word}' for group in groups)}"
    if key := _key(word.lstrip("+")):
        hint = f"{key[0]} is a choice: write {key[0]}=NAME; attnx list {key[0]} shows them"
        return f"unknown command {word!r}; {hint if key[0] in GROUPS else f'write {key[0]}=VALUE'}"
    return f"unknown command {word!r}" + (
        _path(word) or f"{suggest(word, COMMANDS)}; a choice is written key=value, and attnx --help all shows all"
    )


def _joined_choice(words: Sequence[str], index: int) -> str:
    """An override written as several words or with a colon, as one word: ``scorer = dot``, ``query=[token, x]``."""
    word, previous, next_words = words[index], " ".join(words[:index][-1:]), " ".join(words[index + 1 :][:2])
    if opened := re.search(r"\S+=[\[{][^\]}]*$", " ".join(words[:index])):
        closed = " ".join([opened[0], *words[index:]])
        return shlex.quote(closed[: closed.find("]" if "[" in opened[0] else "}") + 1] or closed)
    if re.fullmatch(r"\+*[\w.]+=", previous):
        return _assigned(previous[:-1], word)
    key_part, colon, value = word.partition(":")
    if not (keys := _key(key_part.lstrip("+"))):
        return ""
    key = keys[0]
    if colon:
        return _assigned(key, value or next_words.split(" ")[0])
    if spaced := re.match(r"= ?(\S+)", next_words):
        return _assigned(key, spaced[1])
    next_word = next_words.split(" ")[0]
    return _assigned(key, next_word) if next_word and "=" not in next_word and next_word[0] not in "-+~" else ""


def _key(name: str) -> list[str]:
    """The keys that a name may mean: itself, or options of this name."""
    return [name] if name.partition(".")[0] in KEYS else option_keys(name)


def _assigned(key: str, value: str) -> str:
    return shlex.quote(f"{key}={value}") if value else f"{key}={'NAME' if key in GROUPS else 'VALUE'}"


def _lookup(word: str, meanings: Mapping[str, Collection[str]]) -> str:
    return next((meaning for meaning, names in meanings.items() if word in names), "")


def _path(word: str) -> str:
    """What to write for an existing file or folder."""
    path, shown = Path(word), shlex.quote(word)
    if path.is_dir():
        uses = " or ".join(f"attnx {name} {shown}" for name in ("predict", "evaluate", "resume"))
        return f", which is a folder; of a run write {uses}"
    return f", which is a file; to train on it write task.train={shown}" if path.is_file() else ""
