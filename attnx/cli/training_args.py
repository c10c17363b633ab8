"""The command line without a command, which trains: its flags, those of Hydra that attnx has, and overrides."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from attnx.cli.args import Parser, number_of_jobs
from attnx.cli.commands import COMMANDS
from attnx.config.groups import GROUPS, SCALARS, group_choices, option_keys
from attnx.errors import UserError, suggest
from attnx.registry.synonyms import known_as

CONFIGS = ("job", "hydra")
COMPLETION = "install=bash or uninstall=bash; also zsh and fish"


class TrainingParser(Parser):
    """The parser of ``attnx [FLAGS] [OVERRIDES]``."""

    def __init__(self) -> None:
        super().__init__("attnx")
        self.usage = "%(prog)s [FLAG ...] [OVERRIDE ...]"
        add = self.add_argument
        add("overrides", nargs="*", help=argparse.SUPPRESS)
        add("-j", "--jobs", metavar="N", type=number_of_jobs, help="jobs of a sweep that run at a time, or auto (1)")
        add("-p", "--package", metavar="KEY", help="with --cfg: a part, task or hydra.launcher")
        add("-cd", "--config-dir", metavar="FOLDER", help="your configuration files, read first")
        add = self.add_mutually_exclusive_group().add_argument
        add("-m", "--multirun", action="store_true", help="every combination of choices with commas")
        add("-v", "--verbose", action="store_true", help="show every option of a run as it starts")
        add("-c", "--cfg", metavar="WHAT", choices=CONFIGS, help=f"show the configuration: {', '.join(CONFIGS)}")
        add("-sc", "--shell-completion", metavar="WHAT", help=COMPLETION)
        self.add_argument("-V", "--version", action="store_true", help="print the version")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse a command line without a command.

        Raises:
            UserError: an unknown flag or value, flags that do not go together, or a word that is no override.
        """
        arguments = super().parse(words)
        for word in arguments.overrides:
            if "=" not in word.lstrip("+")[1:] and not word.startswith("~"):  # it is no override
                self.refuse(words, words.index(word))
        if arguments.package and not arguments.cfg:
            raise UserError("--package says which part of a configuration --cfg shows; add --cfg job")
        if arguments.jobs and not arguments.multirun:
            raise UserError("-j says how many jobs of a sweep run at a time; add -m")
        return arguments

    def refuse(self, words: Sequence[str], index: int) -> NoReturn:
        """Refuse a word, and name the likely one: a choice, else a flag or a command."""
        name, _, value = words[index].partition("=")
        word = name.lstrip("-+").replace("-", "_")
        keys = [word] if word in (*GROUPS, *SCALARS) else option_keys(word)
        parts = [f"{group}={word}" for group in GROUPS if word in group_choices(group)]
        choices = [f"{key}={value or 'VALUE'}" for key in keys] or parts or known_as(word)
        hint = f"; did you mean {' or '.join(choices)}?" if choices else ""
        if name.startswith("-"):
            raise UserError(f"unknown flag {name}{hint or suggest(name, {*self.flags, '--help', '--version'})}")
        advice = f"{hint or suggest(name, COMMANDS)}; attnx trains without a command, by key=value"
        raise UserError(f"unknown command {words[index]!r}{advice}")
