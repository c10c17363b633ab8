"""The pages of ``attnx --help`` and, from the catalog of parts, of ``attnx --help all``; without torch."""

from __future__ import annotations

import textwrap

from attnx.cli.commands import COMMANDS, TOPICS

WIDEST_PAGE = 100
INDENT = " " * 15

CHOICES = {
    "task": "what is learned, and from which data",
    "scorer": "the relevance of a memory position to a query",
    "scope": "the positions that a query may read",
    "query": "what is compared with the memory, one or a set: +query=[token,last_context]",
    "normalizer": "from scores to weights",
    "attention": "standard, or none for the baseline without it",
    "model": "the network around attention; model.feed=now|next|none",
    "encoder": "from source symbols to states",
    "decoder": "the recurrence that predicts the target",
    "readout": "the input of the output layer",
    "output": "the output layer; output=copy copies from the source, too",
    "decoding": "greedy, beam search or sampling",
    "optimizer": "how gradients change the weights",
    "lr_schedule": "the learning rate over the steps",
    "trainer": "length, batches, checkpoints and devices of training",
    "logger": "where metrics and figures go besides the run folder: wandb, tensorboard, or a set",
    "callback": "plug-ins that training calls at its events, one or a set",
    "recipe": "a paper's four choices by its name",
    "experiment": "a whole configuration with its claim",
}

USAGE = """\
attnx [FLAGS] [OVERRIDES] trains; attnx COMMAND does everything else.

  attnx [CHOICE=NAME ...]         train one composition, the default where
                                  nothing is chosen
  attnx -m CHOICE=NAME,NAME       train every combination

Commands, each with a page of its own (attnx COMMAND --help):"""

EXAMPLES = """\
Examples:
  attnx +scorer=additive +scope=local
                                  train with two parts chosen
  attnx scorer=mlp scorer.depth=2 seed=3
                                  a part's option; the plus is optional
  attnx '+query=[token,last_context]'
                                  ask with a set of query inputs
  attnx -m -j 2 +scorer=additive,dot +scope=global,local trainer.max_steps=200
                                  every combination, a process each
  attnx task=sequences task.train=my.tsv recipe=bahdanau
                                  your own pairs of sequences, a paper's
                                  attention; task=g2p for words and phones
  eval "$(attnx -sc install=bash)"
                                  let bash complete what you type

Plug-ins are the files in plugins/ and in the folders of $ATTNX_PLUGINS.
Runs land in multirun/."""


def print_complete_page() -> None:
    """Print the page on all commands, flags and choices."""
    from rich.console import Console
    from rich.text import Text

    from attnx.cli.training_args import TrainingParser
    from attnx.config.groups import GROUPS, SCALARS, group_choices

    print(USAGE)
    for name, (arguments, purpose) in COMMANDS.items():
        print(f"  {name} {arguments}".ljust(34) + purpose)
    print()
    TrainingParser().print_help()
    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, WIDEST_PAGE)
    print("\nChoices:")
    for kind in GROUPS:
        names = " ".join(group_choices(kind)) or "(only plug-ins)"
        console.print(Text(filled(names, width, f"  {kind:<13}", INDENT)))
        console.print(Text(filled(CHOICES[kind], width, INDENT, INDENT), style="dim"))
    print(f"\nValues: {', '.join((*SCALARS, 'placement'))}.\nA part's options: attnx list NAME.\n")
    print(EXAMPLES)


def filled(text: str, width: int, first: str = "", indent: str = "") -> str:
    """Wrapped between words: a link longer than a line stays whole."""
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


WELCOME = """\
attnx composes attention, trains it, and shows what it reads.

An attention mechanism is four choices: a scorer, a scope, query inputs and a
normalizer. attnx puts one into a model, trains it on your data, tests it with
confidence intervals and plots its weights. A sweep trains every combination of
choices; its report ranks them and tests the differences. A run is a folder in
multirun/; after Ctrl-C, attnx resume FOLDER continues it.

Examples:
  attnx scorer=dot scope=local task.train=words.tsv
  attnx -m scorer=additive,dot,mlp seed=1,2,3 trainer.max_steps=500
  attnx predict multirun/runs/FOLDER words.txt

Commands, each with a page of its own (attnx COMMAND --help):"""

FURTHER = """
attnx list shows what can be chosen, attnx list NAME a choice in full.
attnx --help all is the complete page: flags, choices, more examples."""


def print_welcome() -> None:
    """Print the short page."""
    print(WELCOME)
    for topic, names in TOPICS.items():
        print(f"  {topic:<15} {', '.join(names)}")
    print(FURTHER)
