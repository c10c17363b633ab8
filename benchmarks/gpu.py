"""attnx on a GPU, in at most nine minutes: kernels, operators, training, decoding, idle time, and the main command.

Each section is a process of its own with a share of the time, so that a kernel that breaks the device, or a compiler
that hangs, costs its section alone. Aims stand beside the figures. Tables are printed and written as Markdown and JSON.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_sections.aims import Verdict, verdicts
from gpu_sections.cases import FAILED, Row, Setting, read_rows, write_rows
from gpu_sections.tables import all_tables, markdown, show
from peers.environments import ROOT, last_word
from peers.record import record
from rich.console import Console

SECTIONS = {
    "kernels": 50,
    "agreement": 25,
    "operators": 85,
    "main_run": 80,
    "decoding": 30,
    "idle": 90,
    "training": 165,
}
"""The seconds of each section, 525 in all; what a section leaves serves the next ones."""
START_SECONDS = 15
"""Of a section's time, what its process may need to start a last case and end."""
NO_GPU = "no GPU is available; --check proves the program on a CPU"


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add(
        "--out", type=Path, default=ROOT / ".benchmarks" / "gpu", metavar="FOLDER", help="folder of gpu.json and gpu.md"
    )
    add("--check", action="store_true", help="run every section at toy sizes, which a CPU can, to prove the program")
    add("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="only these")
    add("--measure", choices=SECTIONS, help=argparse.SUPPRESS)  # in the process of a section
    add("--folder", type=Path, help=argparse.SUPPRESS)
    add("--seconds", type=float, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def measure(section: str, setting: Setting, seconds: float) -> None:
    """Measure a section in this process, and write its rows."""
    deadline = time.monotonic() + seconds - START_SECONDS
    cases = importlib.import_module(f"gpu_sections.{section}").cases(setting)
    write_rows(cases, rows_file(setting.folder, section), deadline)


def rows_file(folder: Path, section: str) -> Path:
    """Where the process of a section writes its rows."""
    return folder / f"{section}.jsonl"


def run_section(section: str, folder: Path, is_check: bool, seconds: float) -> list[Row]:
    """Measure a section in a process of its own: its rows, and one that tells why it ended early if it did."""
    options = ["--measure", section, "--folder", folder, "--seconds", f"{seconds:.0f}", *["--check"] * is_check]
    command = [sys.executable, str(Path(__file__).resolve()), *map(str, options)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=seconds)
        reason = f"exit code {process.returncode}: {last_word(errors)}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the run that it may have started
        process.communicate()
        reason = f"stopped after its {seconds:.0f} s"
    rows = read_rows(rows_file(folder, section))
    return [*rows, Row(section, {}, f"{FAILED}{reason}")] if reason else rows


def run_sections(options: argparse.Namespace, console: Console) -> dict[str, list[Row]]:
    """Measure sections one after another, and write what is measured; each ends when the time of all so far is over."""
    start, limit, rows = time.monotonic(), 0.0, {}
    with tempfile.TemporaryDirectory() as folder:
        for section in options.sections:
            limit += SECTIONS[section]
            with console.status(section):
                rows[section] = run_section(section, Path(folder), options.check, start + limit - time.monotonic())
            console.print(f"{section}: {len(rows[section])} rows, {time.monotonic() - start:.0f} s so far")
            write(rows, options)
    return rows


@functools.cache
def describe_device() -> dict[str, Any]:
    """The device, its driver, and the commit of the repository."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "cuda": torch.version.cuda,
        "driver": first_line(query).rpartition(", ")[2],
        "commit": first_line(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
    }


def first_line(command: Sequence[str]) -> str:
    """The first line that a command prints; empty if it fails."""
    try:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return printed.partition("\n")[0]


def judge(rows: dict[str, list[Row]], options: argparse.Namespace) -> list[Verdict]:
    """The aims; toy sizes say nothing of them."""
    return verdicts({} if options.check else rows)


def write(rows: dict[str, list[Row]], options: argparse.Namespace) -> None:
    """Write the tables and the JSON file."""
    device, judged = describe_device(), judge(rows, options)
    packages = [name for name in ("torch", "triton", "lightning") if importlib.util.find_spec(name)]
    measurements = {
        "gpu": device,
        "aims": [item._asdict() for item in judged],
        "sections": {name: [row._asdict() for row in section] for name, section in rows.items()},
    }
    record(options.out / "gpu.json", {"check": options.check, "sections": options.sections}, measurements, packages)
    heading = "# attnx on a GPU\n\n" + ", ".join(f"{name} {value or 'unknown'}" for name, value in device.items())
    (options.out / "gpu.md").write_text(markdown(heading, all_tables(rows, judged)), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and return the exit code: 1 if a case failed, 2 without a GPU."""
    options, console = read_options(arguments), Console()
    if not options.check and not torch.cuda.is_available():
        print(NO_GPU, file=sys.stderr)
        return 2
    if options.measure:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        measure(options.measure, Setting(device, options.check, options.folder), options.seconds)
        return 0
    rows = run_sections(options, console)
    show(all_tables(rows, judge(rows, options)), console)
    console.print(f"written to {options.out / 'gpu.json'} and gpu.md", highlight=False)
    return int(any(row.note.startswith(FAILED) for section in rows.values() for row in section))


if __name__ == "__main__":
    sys.exit(main())
