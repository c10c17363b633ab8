"""attnx on a GPU: operators, training, decoding, idle time, the main command, transformers, and several jobs.

Each section is a process of its own with a share of the time, so that a kernel that breaks the device, or a compiler
that hangs, costs its section alone. A row is in the file as soon as it is known; the aims are printed last.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import cast

import torch
from gpu_sections.cases import FAILED, START_SECONDS, Row, Section, Setting, measure_case, planned_seconds
from gpu_sections.ledger import NOT_RUN, entries
from gpu_sections.results import Results, describe_machine, read_results
from gpu_sections.tables import ledger_table, replace_ledger, row_text, section_tables
from peers.environments import ROOT, last_word

from attnx.errors import UserError

SECTIONS = ("operators", "training", "decoding", "idle", "main_run", "transformer", "mixers", "jobs")
"""In the order of their worth: what the time no longer allows is at the end."""
CALLS = (SECTIONS[:3], SECTIONS[3:6], SECTIONS[6:])
"""Sections that are measured by one command, so that none takes longer than ten minutes, and the first two fifteen."""
CPU_SECTIONS = ("main_cpu",)
"""They need no GPU, and no time of one."""
CHECK_SECONDS = 300.0
"""The time of a section at toy sizes, on a CPU that may be busy."""
RESULTS, PAGE = ROOT / "benchmarks" / "gpu_results", ROOT / "benchmarks" / "README.md"
"""The files of which the ledger is made, and the page that shows it."""
NO_GPU = "no GPU is available; --check proves the program on a CPU"


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    names = [*SECTIONS, *CPU_SECTIONS]
    add("sections", nargs="*", metavar="SECTION", help=f"{', '.join(names)}; without one, all but the last")
    add("--out", type=Path, default=ROOT / ".benchmarks" / "gpu.json", metavar="FILE", help="JSON file to write")
    add("--seconds", type=float, metavar="N", help="time of each section (default: what --plan says)")
    add("--only", default="", metavar="TEXT", help="only cases whose names have this text")
    add("--commit", help="of this copy of the repository (default: git's)")
    add("--check", action="store_true", help="measure at toy sizes, which a CPU can, to prove the program")
    add("--plan", action="store_true", help="print the commands of a complete measurement, and their seconds")
    add("--table", nargs="+", type=Path, metavar="FILE", help="print the tables of files, merged")
    add("--ledger", nargs="*", type=Path, metavar="FILE", help=f"keep files, and write {PAGE.name}'s ledger anew")
    add("--measure", choices=names, help=argparse.SUPPRESS)  # in the process of a section
    add("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(names):
        parser.error(f"no such section: {', '.join(unknown)}")
    options.sections = options.sections or list(SECTIONS)
    return options


def find_section(name: str) -> Section:
    """The module of a section."""
    return cast("Section", importlib.import_module(f"gpu_sections.{name}"))


def measure(section: str, setting: Setting, seconds: float, options: argparse.Namespace) -> None:
    """Measure a section in this process, and write the file after every case."""
    deadline, results = time.monotonic() + seconds - START_SECONDS, read_results(options.out)
    for case in find_section(section).cases(setting):
        if options.only in case.name:
            row = measure_case(section, case, deadline - time.monotonic())
            results = results.add(row)
            results.write(options.out)
            print(row_text(row), flush=True)
            gc.collect()
            if torch.cuda.is_available():  # what an operation that ran out of memory has allocated
                torch.cuda.empty_cache()


def run_section(section: str, folder: Path, options: argparse.Namespace, seconds: float) -> None:
    """Measure a section in a process of its own; a row tells why it ended early if it did."""
    words = ["--measure", section, "--folder", folder, "--out", options.out, "--seconds", f"{seconds:.0f}"]
    words += [f"--only={options.only}", *["--check"] * options.check]
    command = [sys.executable, str(Path(__file__).resolve()), *map(str, words)]
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, errors = process.communicate(timeout=seconds)
        reason = f"exit code {process.returncode}: {last_word(errors)}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the run that it may have started
        process.communicate()
        reason = f"stopped after its {seconds:.0f} s"
    if reason:
        row = Row(section, section, {}, f"{FAILED}{reason}", round(time.monotonic() - start, 1))
        read_results(options.out).add(row).write(options.out)
        print(row_text(row), flush=True)


def run_sections(options: argparse.Namespace) -> Results:
    """Measure sections one after another.

    Raises:
        UserError: the file is there already, or the commit is unknown.
    """
    if options.out.exists():
        raise UserError(f"{options.out} is there already; name another file, --table and --ledger merge them")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    Results(describe_machine(options.commit), options.check, []).write(options.out)
    with tempfile.TemporaryDirectory() as folder:
        for section in options.sections:
            seconds = options.seconds or (CHECK_SECONDS if options.check else plan_seconds(section))
            run_section(section, Path(folder), options, seconds)
    return read_results(options.out)


@functools.cache
def plan_seconds(section: str) -> float:
    """The time of a section on a GPU."""
    return planned_seconds(find_section(section), Setting(torch.device("cuda"), False, Path()))


def plan() -> str:
    """The commands of a complete measurement and their seconds."""
    lines = []
    for index, sections in enumerate(CALLS, 1):
        command = f"python benchmarks/gpu.py {' '.join(sections)} --out gpu-{index}.json --commit COMMIT"
        lines += [command, f"    {sum(map(plan_seconds, sections)):.0f} s"]
        lines += [f"    {section}: {plan_seconds(section):.0f} s" for section in sections]
    lines += [f"{sum(map(plan_seconds, SECTIONS)):.0f} s in all; COMMIT is `git rev-parse --short=12 HEAD`"]
    files = " ".join(f"gpu-{index}.json" for index, _ in enumerate(CALLS, 1))
    return "\n".join([*lines, f"afterwards: python benchmarks/gpu.py --ledger {files}"])


def show(measured: Sequence[Results]) -> None:
    """Print the rows, and last the lines of the ledger that have a figure; toy sizes say nothing of them."""
    print(section_tables([row for results in measured for row in results.rows]))
    real = [results for results in measured if not results.is_check]
    print(ledger_table(entry for entry in entries(real) if entry.verdict != NOT_RUN))


def keep_files(files: Sequence[Path], folder: Path) -> None:
    """Copy files to those of which the ledger is made.

    Raises:
        UserError: a file is of toy sizes, or not one of this program.
    """
    measured = [read_results(file) for file in files]
    for file, results in zip(files, measured, strict=True):
        if results.is_check:
            raise UserError(f"{file}: of --check, whose sizes are toy sizes")
    for file, results in zip(files, measured, strict=True):
        folder.mkdir(exist_ok=True)
        date = datetime.fromisoformat(results.machine["date"])
        shutil.copy(file, folder / f"{date:%Y%m%dT%H%M%S}.json")


def kept_ledger(folder: Path) -> str:
    """The table that the kept files give."""
    return ledger_table(entries([read_results(file) for file in sorted(folder.glob("*.json"))]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and return the exit code: 1 if a case failed, 2 without a GPU or with a mistake."""
    options = read_options(arguments)
    try:
        return act(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def act(options: argparse.Namespace) -> int:
    """Do what the options say."""
    if options.plan:
        print(plan())
    elif options.table:
        show([read_results(file) for file in options.table])
    elif options.ledger is not None:
        keep_files(options.ledger, RESULTS)
        replace_ledger(PAGE, kept_ledger(RESULTS))
    elif not (options.check or torch.cuda.is_available() or set(options.sections) <= set(CPU_SECTIONS)):
        raise UserError(NO_GPU)
    elif options.measure:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        measure(options.measure, Setting(device, options.check, options.folder), options.seconds, options)
    else:
        results = run_sections(options)
        show([results])
        print(f"written to {options.out}")
        return int(any(row.note.startswith(FAILED) for row in results.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
