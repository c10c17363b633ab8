"""The page of ``attnx --help``: what attnx is, three examples, and its commands by topic."""

from __future__ import annotations

from attnx.cli.commands import TOPICS

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
