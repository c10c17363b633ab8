"""What runs cost, by context: operations and bytes of state of a decoded
token, as the runs counted them, and its time and memory, measured now: each
model decodes one row at a time, one model after another in this process, with
the run's accel and this machine's threads. It is the median of nine tokens.
The context is the length of the source, where attention reads the source, else
of what was decoded before. The measurements are kept in RUN/cost.json, where
attnx report finds them; earlier ones of another device, accel or number of
threads are replaced. FOLDER is a run, a sweep, or a folder of such.

Examples:
  attnx cost multirun/scorers
  attnx cost multirun/runs/mine --contexts 128 512
  attnx cost multirun/scorers --no-latency
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnx.cli.args import whole_number
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.files.printable import print_line, printable, show_waiting
from attnx.reports.significant_digits import format_count
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from attnx.runs.layout import COST, FORMAT, refuse_links
from attnx.runs.results import CONTEXTS, read_costs

HEAD = ("run", "parameters", "FLOPs a training token", "context", "FLOPs a token", "state, bytes", "ms", "memory, MB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s FOLDER [FOLDER ...] [--contexts N ...] [--no-latency]"
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="a run, a sweep, or a folder of such")
    choices = ", ".join(map(str, CONTEXTS))
    help_text = f"which to measure: of {choices} (all)"
    parser.add_argument("--contexts", nargs="+", type=whole_number, metavar="N", default=[*CONTEXTS], help=help_text)
    parser.add_argument("--no-latency", action="store_true", help="measure nothing: show what is known")


def run(arguments: argparse.Namespace) -> int:
    """Measure, write cost.json of each run, and print the table."""
    if unknown := [context for context in arguments.contexts if context not in CONTEXTS]:
        raise UserError(f"--contexts {unknown[0]}: choose from {', '.join(map(str, CONTEXTS))}")
    runs = [run for run in load_runs(arguments.folders) if run.status == RunStatus.FINISHED and run.path.is_dir()]
    if not runs:
        raise UserError(f"{' '.join(arguments.folders)}: holds no finished run to measure")
    if not arguments.no_latency:
        _measure(runs, sorted(set(arguments.contexts)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in HEAD:
        table.add_column(column, justify="left" if column == "run" else "right")
    for record in runs:
        results = record.results
        head = [record.label, f"{results.get('parameters', 0):,.0f}", _cell(results.get("train_flops"))]
        known = [context for context in CONTEXTS if any(name.endswith(f"_{context}") for name in results)]
        for context in known or [0]:  # a row for each context of which something is known, or one if nothing is
            names = ("decode_flops", "state_bytes")
            cells = [f"{context:,}" if context else "", *(_cell(results.get(f"{name}_{context}")) for name in names)]
            for name, digits in (("decode_ms", 3), ("decode_memory_mb", 0)):
                value = results.get(f"{name}_{context}")
                cells.append("" if value is None else f"{value:,.{digits}f}")
            table.add_row(*(Text(printable(cell)) for cell in (*head, *cells)))
            head = [""] * len(head)
    Console().print(table)
    return 0


def _measure(runs: Sequence[RunRecord], contexts: Sequence[int]) -> None:
    """Measure each run, and add the numbers to its results."""
    from attnx.inference.validate import read_complete_run

    for record in runs:  # before torch is imported
        refuse_links(record.path)
        read_complete_run(record.path)
    import torch

    from attnx.inference.decode_latency import measure_latency
    from attnx.inference.load import open_run
    from attnx.training.distributed.devices import training_device

    for number, record in enumerate(runs, 1):
        opened = open_run(record.path)
        device, numbers = training_device(opened.config["trainer"]), dict[str, float]()
        with show_waiting(Console(), f"measuring run {number} of {len(runs)}: {printable(str(record.path))}"):
            for measured in measure_latency(opened, contexts, device):
                numbers |= measured
        accel = opened.config.get("accel", "auto")
        setup = {"format": FORMAT, "device": str(device), "threads": torch.get_num_threads(), "accel": accel}
        earlier = read_costs(record.path)
        if setup.items() <= read_mapping(record.path / COST).items():
            numbers = earlier | numbers
        write_json(record.path / COST, setup | numbers)
        record.results = {name: value for name, value in record.results.items() if name not in earlier} | numbers
        place = f"{device}, {torch.get_num_threads()} thread(s), accel={accel}"
        print_line(f"{record.path}: measured on {place}", flush=True)


def _cell(count: float | None) -> str:
    return "" if count is None else format_count(count)
