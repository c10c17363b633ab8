"""Public data sets. list: content, size, license, and whether they are here.
get: download the missing files of a set; size and SHA-256 are checked.
check: check size and SHA-256 of the files that are here.

Data sets are searched in the folder $ATTNX_DATA, if that is set, and then in
./data; experiments search there too. Downloads go to the first.

Examples:
  attnx data get multi30k && attnx experiment=multi30k_de_en
  attnx data get etth1 sigmorphon2020 --to /my/data
"""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from attnx.data.downloads import SPEC_FOLDER, DatasetFile, DatasetSpec, Unreachable, download, read_dataset_specs
from attnx.data.paths import DATA_VARIABLE, DEFAULT_FOLDER, data_folders, find_in_folders
from attnx.errors import UserError, report_interrupt, suggest
from attnx.files.printable import can_redraw, print_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s list|get|check [NAME ...] [--to FOLDER]"
    parser.add_argument("action", nargs="?", metavar="list|get|check")
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; list alone shows them")
    parser.add_argument("--to", metavar="FOLDER", help="use only this folder")


def run(arguments: argparse.Namespace) -> int:
    """List, fetch or check data sets."""
    action = arguments.action or ""
    if action not in ACTIONS:
        forms = " or ".join(f"attnx data {name} NAME" for name in ACTIONS)
        raise UserError(f"attnx data {action}".rstrip() + f": use {forms}; see attnx data --help")
    folders = [Path(arguments.to).expanduser()] if arguments.to else data_folders()
    if arguments.to and folders[0].exists() and not folders[0].is_dir():
        raise UserError(f"--to {arguments.to}: is not a folder")
    datasets = read_dataset_specs(SPEC_FOLDER)
    for name in arguments.names:
        if name not in datasets:
            raise UserError(f"unknown data set {name!r}{suggest(name, datasets)}")
    if action == "list" and not arguments.names:
        _print_table(list(datasets.values()), folders)
    elif not arguments.names:
        raise UserError(f"name a data set: attnx data {action} NAME{suggest('', datasets)}")
    for name in arguments.names:
        folder = find_in_folders(name, folders).parent
        try:
            ACTIONS[action](datasets[name], folder)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(f"{error.filename or folder}: {error.strerror or error}") from error
    return 0


def _print_table(datasets: list[DatasetSpec], folders: list[Path]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what", "size", "license", "here"):
        table.add_column(column, overflow="fold", no_wrap=column in ("name", "size"))
    for dataset in datasets:
        folder = find_in_folders(dataset.name, folders).parent
        count = sum((folder / file.path).is_file() for file in dataset.files)
        is_here = {0: "no", len(dataset.files): "yes"}.get(count, f"{count} of {len(dataset.files)}")
        size = decimal(sum(file.bytes for file in dataset.files)) if all(file.bytes for file in dataset.files) else "?"
        table.add_row(*map(Text, (dataset.name, dataset.what, size, dataset.license, is_here)))
    Console().print(table)
    unset = "" if os.environ.get(DATA_VARIABLE) else f" (${DATA_VARIABLE} is not set)"
    print_line(f"\nHere: {', then '.join(map(str, folders))}{unset}")
    print("Files, addresses and SHA-256 of a data set: attnx data list NAME")


def _show(dataset: DatasetSpec, folder: Path) -> None:
    print_line(f"{dataset.name}: {dataset.what}\nlicense: {dataset.license}\norigin: {dataset.origin}")
    if dataset.notes:
        print_line(f"notes: {dataset.notes}")
    for file in dataset.files:
        digest = f"git     {file.git_blob}" if file.git_blob else f"bytes   {file.bytes}\n  sha256  {file.sha256}"
        print_line(f"\n{folder / file.path}\n  url     {file.url}\n  {digest}")
        if file.member:
            print_line(f"  member  {file.member}\n  sha256  {file.unpacked}")


def _check(dataset: DatasetSpec, folder: Path) -> None:
    paths = {folder / file.path: file for file in dataset.files}
    errors = {
        path: file.content_error(path.read_bytes()) if path.exists() else "missing" for path, file in paths.items()
    }
    for path, error in errors.items():
        print_line(f"{path}: {error or 'right'}")
    if bad := sum(map(bool, errors.values())):
        count = f"{bad} of {len(errors)} files are missing or wrong"
        raise UserError(f"{dataset.name}: {count}; attnx data get {dataset.name}{_folder_flag(folder)}")


def _get(dataset: DatasetSpec, folder: Path) -> None:
    missing = []
    for file in dataset.files:
        path = folder / file.path
        if not path.exists():
            missing.append(file)
        elif error := file.content_error(path.read_bytes()):
            raise UserError(f"{path} exists, but {error}; move it away and run the command again")
    again = f"attnx data get {dataset.name}{_folder_flag(folder)}"
    try:
        with report_interrupt(f"complete files are kept; continue with: {again}"):
            _download(missing, folder)
    except Unreachable as error:
        for file in missing:
            if not (folder / file.path).exists():
                verb = "gzip" if file.path.endswith(".gz") else "extract"
                member = f", {verb} its {file.member}" if file.member else ""
                print_line(f"download {file.url}{member} to {folder / file.path}")
        raise UserError(f"{error}; try again later, or download the files listed above by other means") from error
    count = f"{len(dataset.files)} files are right, {len(missing)} of them new"
    print_line(f"{dataset.name}: {count}, in {folder / dataset.name}\nlicense: {dataset.license}")
    export = f"export {DATA_VARIABLE}={shlex.quote(str(folder.resolve()))}"
    if folder not in data_folders():
        print_line(f"for experiments to find it: {export}")
    elif folder == Path(DEFAULT_FOLDER):
        print_line(f"experiments started in this folder find it; for others: {export}")


def _folder_flag(folder: Path) -> str:
    """The flag for a folder that is not looked in without it."""
    return "" if folder in data_folders() else f" --to {shlex.quote(str(folder))}"


def _download(files: list[DatasetFile], folder: Path) -> None:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not can_redraw(console)) as progress:
        bar = progress.add_task("", total=sum(file.bytes for file in files) or None)
        done = 0
        for file in files:
            progress.update(bar, description=file.path)

            def show_bytes(received: int, start: int = done) -> None:
                progress.update(bar, completed=start + received)

            download(file, folder, show_bytes)
            done += file.bytes


ACTIONS = {"list": _show, "get": _get, "check": _check}
