"""The help page, from the catalog: quick, and without torch."""

from __future__ import annotations

import re
import textwrap

from rich.console import Console
from rich.text import Text

from attnx.config.groups import GROUPS, SCALARS, options

WIDEST_PAGE = 100
INDENT = " " * 15

CHOICES = {
    "task": "what is learned, and from which data",
    "scorer": "how relevant is a memory position to a query?",
    "scope": "which positions may be read?",
    "query": "what is compared with the memory? one or a set: +query=[token,last_context]",
    "normalizer": "how do scores become weights?",
    "attention": "on, or none for the baseline without it",
    "model": "the model around attention; model.feed=now|next|none",
    "encoder": "from source symbols to states",
    "decoder": "the recurrence that writes the target",
    "readout": "what the output layer sees",
    "output": "from there to what is written; output=copy copies from the source, too",
    "decoding": "how outputs are found",
    "optimizer": "how weights move",
    "lr_schedule": "how the learning rate moves",
    "trainer": "how long, how often, on what",
    "logger": "where else figures and pictures go: wandb, tensorboard, or a set",
    "recipe": "a paper's four choices by its name",
    "experiment": "a whole configuration with its claim",
}

USAGE = """\
attnx: compose an attention mechanism, train it, and see what it reads.

  attnx [choice=option ...]       train one composition, the default where
                                  nothing is chosen
  attnx -m choice=option,option   train every combination

Commands, each with a page of its own (attnx COMMAND --help):
  list [KIND] [NAME]              what can be chosen, with formulas and knobs
  draw [NAME ...]                 what a part does, as a picture
  check NAME                      the laws of a part, yours too: which hold
  data list | get | check         public data sets, fetched and checked
  resume FOLDER                   go on with an interrupted run or sweep
  runs [FOLDER ...] [KEY=VALUE]   list, filter, compare and prune runs
  compare FOLDER FOLDER ...       runs side by side, and how surely
  report FOLDER ...               which won, how surely and why: a page
  predict RUN [FILE]              what it writes for each line
  try RUN                         a prompt: type a source, see what it reads
  evaluate RUN                    its scores and errors on any data
  pictures RUN                    draw what a run read, again
  page RUN [RUN2]                 a page to look into it, or two side by side
  alignments RUN                  how it read, in numbers
  export RUN                      the model as files that run without attnx
  dashboard FOLDER|PROJECT        a W&B workspace of a sweep or a project

Flags:
  -m, --multirun                  every combination of choices with commas
  -j, --jobs N                    so many jobs of a sweep side by side
  -c, --cfg job|hydra|all         show the configuration, and train nothing
      -p, --package KEY           ... a part of it, as task or hydra.launcher
      --resolve                   ... with what its ${...} stand for
  -i, --info WHAT                 how Hydra made it: all, config, defaults,
                                  defaults-tree, plugins or searchpath
  -cd, --config-dir FOLDER        your own configuration files, read first
  -sc, --shell-completion WHAT    eval "$(attnx -sc install=bash)" lets bash
                                  complete what you type, uninstall=bash ends
                                  that; zsh and fish: docs/command-line.md
  -h, --help                      this page, or that of a command
      --hydra-help                what of Hydra can be used here
  -V, --version                   attnx's version

Choices:"""

EXAMPLES = """\
Examples:
  attnx +scorer=additive +scope=local
                                  train with two parts chosen
  attnx scorer=mlp scorer.depth=2 seed=3
                                  a part's knob; the plus is optional
  attnx '+query=[token,last_context]'
                                  ask with a set of query inputs
  attnx -m -j 2 +scorer=additive,dot +scope=global,local trainer.max_steps=200
                                  every combination, a process each
  attnx task.train=my.tsv recipe=bahdanau
                                  your own words, a paper's attention

Plug-ins are the files in plugins/ and in the folders of $ATTNX_PLUGINS.
Runs land in multirun/."""

HYDRA_PAGE = """\
attnx composes configurations with Hydra, https://hydra.cc, and hands sweeps to
it. Choices are Hydra's overrides: KEY=VALUE, +KEY=VALUE, ~KEY, lists [a,b], and
in sweeps a,b choice(a,b) range(1,4) glob(*) interval(0,1).

Of Hydra's flags attnx has:
  --multirun, -m                  a sweep
  --cfg, -c job|hydra|all         show what is composed
  --package, -p KEY               ... a part of it
  --resolve                       ... with interpolations filled in
  --info, -i WHAT                 how it was composed: all, config, defaults,
                                  defaults-tree, plugins or searchpath
  --config-dir, -cd FOLDER        your own files, read first
  --shell-completion, -sc WHAT    install=bash, uninstall=bash; also fish
  --hydra-help                    this page

Of its settings those of a sweep:
  hydra/launcher=NAME             where jobs run: processes, slurm, slurm_here;
                                  with their packages joblib and ray
  hydra/sweeper=NAME              who chooses the jobs: grid, or search (Optuna)
  hydra.launcher.KEY=VALUE        shown by attnx --cfg hydra -p hydra.launcher
  hydra.sweeper.KEY=VALUE         shown by attnx --cfg hydra -p hydra.sweeper

Folders are attnx's own: folder= names that of a run, name= that of a sweep."""


def show_help() -> None:
    """Print the page for people."""
    print(USAGE)
    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, WIDEST_PAGE)
    for kind in GROUPS:
        console.print(Text(_filled(f"  {kind:<13}", " ".join(options(kind)), width)))
        console.print(Text(_filled(INDENT, CHOICES[kind], width), style="dim"))
    print(f"\nValues: {', '.join(SCALARS)}. A part's knobs: attnx list NAME.\n")
    print(EXAMPLES)


def show_page(page: str) -> None:
    """Print a command's page: paragraphs are filled to fit a terminal, rows wrapped below their text."""
    width = Console().width
    print("\n\n".join(_block(block.splitlines(), width) for block in page.split("\n\n")))


def _block(lines: list[str], width: int) -> str:
    if any(line.startswith(("attnx ", " ")) for line in lines):
        return "\n".join(_wrapped(line, width) for line in lines)
    return textwrap.fill(" ".join(lines), min(width, WIDEST_PAGE), break_on_hyphens=False)


def _wrapped(row: str, width: int) -> str:
    text = re.match(r" *\S+( \S+)* {2,}| *", row)
    indent = " " * min(text.end() if text else 0, width // 2)
    return textwrap.fill(row, width, subsequent_indent=indent or "    ", break_on_hyphens=False)


def _filled(first: str, text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=INDENT, break_on_hyphens=False)
