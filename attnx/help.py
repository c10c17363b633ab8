"""The help page and the list of parts, from the catalogue: quick, and without torch."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnx.catalogue import SETS, Part, catalogue
from attnx.choices import CHOSEN, GROUPS, SCALARS, options
from attnx.drawings.choice import DRAWN
from attnx.errors import UserError, near_misses

CHOICES = {
    "task": "what is learned, and from which data",
    "scorer": "how relevant is a memory position to a query?",
    "scope": "which positions may be read?",
    "query": "what is compared with the memory? one or a set: +query=[token,last_context]",
    "normaliser": "how do scores become weights?",
    "attention": "on, or none for the baseline without it",
    "model": "the model around attention; model.feed=now|next|none",
    "encoder": "from source symbols to states",
    "decoder": "the recurrence that writes the target",
    "readout": "what the output layer sees",
    "output": "from there to what is written; output=copying copies from the source, too",
    "search": "how outputs are found",
    "optimiser": "how weights move",
    "lr_schedule": "how the learning rate moves",
    "trainer": "how long, how often, on what",
    "logger": "where else figures and pictures go: wandb, tensorboard, or a set",
    "recipe": "a paper's four choices by its name",
    "experiment": "a whole configuration with its claim",
}

USAGE = """\
attnx: compose an attention mechanism, train it, and see what it reads.

  attnx [choice=option ...] [part.knob=value ...]   train one composition
  attnx -m -j N choice=option,option ...            train every combination, N of them side by side
  attnx list [KIND] [NAME]                          the parts, with formula and knobs
  attnx draw [NAME ...]                             what a part does, as a picture
  attnx check NAME [KIND.KNOB=VALUE ...]            the laws of a part, yours too: which hold; attnx check --help
  attnx data list | get NAME | check NAME           public data sets, fetched and checked
  attnx resume FOLDER [-j N] [--config-dir DIR]     go on with an interrupted run or sweep
  attnx runs [FOLDER ...] [KEY=VALUE ...]           list and filter runs; also: runs diff, runs compare, runs prune
  attnx compare FOLDER FOLDER ...                   runs side by side, and how surely
  attnx report FOLDER FOLDER ... [out=FOLDER]       which won, how surely and why: a page, a table, a text
  attnx predict RUN [RUN ...] [FILE]                what it writes for each line; also: attnx predict --help
  attnx try RUN [RUN ...]                           a prompt: type a source, see what it writes and reads
  attnx evaluate RUN [task.test=FILE]               its scores and errors on any data
  attnx pictures RUN [--format svg]                 draw what a run read, again
  attnx page RUN [RUN2]                             a page to look into it, or two runs side by side
  attnx alignments RUN [--gold FILE]                how it read, in numbers
  attnx export RUN [--format onnx|torch]            the model as files that run without attnx
  attnx dashboard FOLDER|PROJECT                    a W&B workspace of a sweep or a project
  attnx --cfg job [choice=option ...]               show the configuration only

Choices:"""

EXAMPLES = """\
Examples:
  attnx +scorer=additive +scope=local          train with two parts chosen
  attnx scorer=mlp scorer.depth=2 seed=3       a part's knob; the plus is optional
  attnx '+query=[token,last_context]'          ask with a set of query inputs
  attnx -m +scorer=additive,dot +scope=global,local trainer.max_steps=200
                                               every combination, a process each
  attnx task.train=my.tsv recipe=bahdanau      your own words, a paper's attention

Plug-ins are the files in plugins/ and in the folders of $ATTNX_PLUGINS.
Runs land in multirun/. Hydra's own help: attnx --hydra-help"""


def show_help() -> None:
    """Print the page for people."""
    print(USAGE)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2))
    for kind in GROUPS:
        table.add_row(f"  {kind}", Text(" ".join(options(kind))), Text(CHOICES.get(kind, ""), style="dim"))
    Console().print(table)
    print(f"\nValues: {', '.join(SCALARS)}. A part's knobs: attnx list NAME.\n")
    print(EXAMPLES)


def show_parts(words: Sequence[str]) -> None:
    """Print all parts, those of a kind, or one in full.

    Raises:
        UserError: no such kind or part.
    """
    parts = list(catalogue().parts.values())
    for word in words:
        chosen = [part for part in parts if word in (part.kind, part.name, f"{part.kind}={part.name}")]
        if not chosen:
            raise UserError(
                f"no part or kind {word!r}{near_misses(word, {p.name for p in parts} | {p.kind for p in parts})}"
            )
        parts = chosen
    console = Console()
    if len(parts) == 1:
        _show_one(parts[0], console)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("kind", "name", "formula", "knobs", "source", "origin"):
        table.add_column(column, overflow="fold", no_wrap=column in ("kind", "name"))
    for part in parts:
        row = [part.kind, part.name, part.doc_line("Formula"), _knobs(part), part.doc_line("Source"), part.origin]
        table.add_row(*map(Text, row))
    console.print(table)


def _knobs(part: Part) -> str:
    return " ".join(f"{knob.name}={knob.default}" for knob in part.knobs)


def _show_one(part: Part, console: Console) -> None:
    chosen = part.kind in CHOSEN  # others are chosen by a knob of a task
    console.print(f"{part.kind}={part.name}" if chosen else f"{part.kind} {part.name}", style="bold", highlight=False)
    console.print(Text(part.doc.split(">>>")[0].strip()))
    for knob in part.knobs:
        place = f"{part.kind}.{part.name}" if part.kind in SETS else part.kind
        console.print(Text(f"  {place}.{knob.name}={knob.default}    {knob.type.phrase}"))
    if part.kind in DRAWN:
        console.print(Text(f"attnx draw {part.name} draws what it does"))
    console.print(Text(f"{part.origin}: {part.place}"), style="dim")
