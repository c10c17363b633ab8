"""The command ``attnx data``: list, fetch and check public data sets, without torch."""

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

from attnx.cli.args import text
from attnx.data.downloads.download import Unreachable, download
from attnx.data.downloads.recipe import FOLDER, Recipe, RecipeFile, read_recipes
from attnx.data.paths import DEFAULT_FOLDER, VARIABLE, data_folders, locate
from attnx.errors import UserError, suggest

DESCRIPTION = """\
Public data sets. list: what they are, how large, whose, and whether they are
here. get: fetch the missing files of a set, checked by size and SHA-256.
check: read the files that are here, and print which of them are right.

Sets are looked for in the folder $ATTNX_DATA, if that is set, and then in the
folder data of the current one, also by the experiments that need them. get
writes to the first; an interrupted download continues with the next get."""
EPILOG = """\
examples:
  attnx data get multi30k && attnx experiment=multi30k_de_en
  attnx data get etth1 sigmorphon2020 --to /my/data"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.usage = "%(prog)s list|get|check [NAME ...] [--to FOLDER]"
    parser.add_argument("action", nargs="?", metavar="list|get|check")
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; list alone shows them")
    parser.add_argument("--to", metavar="FOLDER", type=text, help="use only this folder")


def run(arguments: argparse.Namespace) -> int:
    """List, fetch or check data sets.

    Raises:
        UserError: an unknown action or set, no connection, a wrong download, a folder that cannot be written.
    """
    action = arguments.action or ""
    if action not in ACTIONS:
        forms = " or ".join(f"attnx data {name} NAME" for name in ACTIONS)
        raise UserError(f"attnx data {action}".rstrip() + f": say {forms}; attnx data --help has more")
    folders = [Path(arguments.to).expanduser()] if arguments.to else data_folders()
    recipes = read_recipes(FOLDER)
    for name in arguments.names:
        if name not in recipes:
            raise UserError(f"unknown data set {name!r}{suggest(name, recipes)}")
    if action == "list" and not arguments.names:
        _table(list(recipes.values()), folders)
    elif not arguments.names:
        raise UserError(f"say which data set: attnx data {action} NAME{suggest('', recipes)}")
    for name in arguments.names:
        folder = locate(name, folders).parent
        try:
            ACTIONS[action](recipes[name], folder)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(f"{error.filename or folder}: {error.strerror or error}") from error
    return 0


def _table(recipes: list[Recipe], folders: list[Path]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what", "size", "license", "here"):
        table.add_column(column, overflow="fold", no_wrap=column in ("name", "size"))
    for recipe in recipes:
        folder = locate(recipe.name, folders).parent
        present_files = sum((folder / file.path).is_file() for file in recipe.files)
        presence = {0: "no", len(recipe.files): "yes"}.get(present_files, f"{present_files} of {len(recipe.files)}")
        size = decimal(sum(file.bytes for file in recipe.files))
        table.add_row(*map(Text, (recipe.name, recipe.what, size, recipe.license, presence)))
    Console().print(table)
    unset = "" if os.environ.get(VARIABLE) else f" (${VARIABLE} is not set)"
    print(f"\nHere: {', then '.join(map(str, folders))}{unset}")
    print("The files of one, with addresses and SHA-256: attnx data list NAME")


def _show(recipe: Recipe, folder: Path) -> None:
    print(f"{recipe.name}: {recipe.what}\nlicense: {recipe.license}\norigin: {recipe.origin}")
    if recipe.notes:
        print(f"notes: {recipe.notes}")
    for file in recipe.files:
        print(f"\n{folder / file.path}\n  url     {file.url}\n  bytes   {file.bytes}\n  sha256  {file.sha256}")
        if file.member:
            print(f"  member  {file.member}\n  sha256  {file.unpacked}")


def _check(recipe: Recipe, folder: Path) -> None:
    bad = 0
    for file in recipe.files:
        path = folder / file.path
        problem = file.wrong(path) if path.exists() else "missing"
        bad += bool(problem)
        print(f"{path}: {problem or 'right'}")
    if bad:
        raise UserError(
            f"{recipe.name}: {bad} of {len(recipe.files)} files are missing or wrong; attnx data get {recipe.name}"
        )


def _get(recipe: Recipe, folder: Path) -> None:
    missing = []
    for file in recipe.files:
        path = folder / file.path
        if not path.exists():
            missing.append(file)
        elif problem := file.wrong(path):
            raise UserError(f"{path} is there, but {problem}; move it away and ask again")
    try:
        _download(missing, folder)
    except Unreachable as error:
        missing_files = [file for file in missing if not (folder / file.path).exists()]
        for file in missing_files:
            print(_manual_instruction(file, folder))
        raise UserError(f"{error}; ask again later, or fetch what is listed above by other means") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"what has come is kept; go on with: attnx data get {recipe.name}") from None
    print(f"{recipe.name}: {len(recipe.files)} files are right, {len(missing)} of them new, in {folder / recipe.name}")
    print(f"license: {recipe.license}")
    export = f"export {VARIABLE}={shlex.quote(str(folder.resolve()))}"
    if folder not in data_folders():
        print(f"experiments find it with: {export}")
    elif folder == Path(DEFAULT_FOLDER):
        print(f"experiments that are started here find it; for those started elsewhere: {export}")


def _download(files: list[RecipeFile], folder: Path) -> None:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=sum(file.bytes for file in files))
        done = 0
        for file in files:
            progress.update(bar, description=file.path)

            def show_progress(received: int, offset: int = done) -> None:
                progress.update(bar, completed=offset + received)

            download(file, folder, show_progress)
            done += file.bytes


def _manual_instruction(file: RecipeFile, folder: Path) -> str:
    verb = "gzip" if file.path.endswith(".gz") else "take"
    member = f", {verb} its {file.member}" if file.member else ""
    return f"fetch {file.url}{member} to {folder / file.path}"


ACTIONS = {"list": _show, "get": _get, "check": _check}
