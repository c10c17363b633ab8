"""The command ``attnx data``: which public sets there are, bring one here, check what lies here. Without torch."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from attnx.data.downloads.download import Unreachable, download
from attnx.data.downloads.recipe import FOLDER, Recipe, RecipeFile, read_recipes
from attnx.data.paths import DEFAULT_FOLDER, VARIABLE, data_folders, locate
from attnx.errors import UserError, near_misses

USAGE = """\
attnx data list [NAME ...]       public data sets: what they are, how large, whose, and whether they are here
attnx data get NAME [NAME ...]   fetch what is missing of a set, checked by size and SHA-256
attnx data check NAME [...]      read the files that are here, and say which of them are right

Sets are looked for in the folder $ATTNX_DATA, if that is set, and then in the folder data of the current one. So do the
experiments that need them. What get fetches goes to the first; a download that was cut goes on with the next get.

  --to FOLDER           this folder alone

  attnx data get multi30k && attnx experiment=multi30k_de_en
  attnx data get etth1 sigmorphon2020 --to /my/data"""


def data(words: Sequence[str], recipes: Path = FOLDER) -> int:
    """Carry out ``attnx data WORDS``.

    Args:
        words: what follows ``attnx data``.
        recipes: the folder of the recipes.

    Raises:
        UserError: an unknown word or set, nothing to reach, a wrong download, a folder that cannot be written.
    """
    named, folders = _split(words)
    verb, *names = named or [""]
    if verb not in VERBS:
        forms = " or ".join(f"attnx data {known} NAME" for known in VERBS)
        raise UserError(f"attnx data {verb}".rstrip() + f": say {forms}; attnx data --help has more")
    known = read_recipes(recipes)
    for name in names:
        if name not in known:
            raise UserError(f"unknown data set {name!r}{near_misses(name, known)}")
    if verb == "list" and not names:
        _table(list(known.values()), folders)
    elif not names:
        raise UserError(f"say which data set: attnx data {verb} NAME{near_misses('', known)}")
    for name in names:
        folder = locate(name, folders).parent
        try:
            VERBS[verb](known[name], folder)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(f"{error.filename or folder}: {error.strerror or error}") from error
    return 0


def _split(words: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Part ``--to FOLDER`` from the other words; without it the folders are those in which experiments look."""
    named: list[str] = []
    folders = data_folders()
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag == "--to":
            folder = value if equals else next(rest, "")
            if not folder:
                raise UserError("--to needs a value: the folder to put data sets in")
            folders = [Path(folder).expanduser()]
        elif flag.startswith("-"):
            raise UserError(f"unknown flag {flag}{near_misses(flag, ['--to', '--help'])}")
        else:
            named.append(word)
    return named, folders


def _table(recipes: list[Recipe], folders: list[Path]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what", "size", "license", "here"):
        table.add_column(column, overflow="fold", no_wrap=column in ("name", "size"))
    for recipe in recipes:
        folder = locate(recipe.name, folders).parent
        there = sum((folder / file.path).is_file() for file in recipe.files)
        here = {0: "no", len(recipe.files): "yes"}.get(there, f"{there} of {len(recipe.files)}")
        size = decimal(sum(file.bytes for file in recipe.files))
        table.add_row(*map(Text, (recipe.name, recipe.what, size, recipe.license, here)))
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
        place = folder / file.path
        wrong = file.wrong(place) if place.exists() else "missing"
        bad += bool(wrong)
        print(f"{place}: {wrong or 'right'}")
    if bad:
        raise UserError(
            f"{recipe.name}: {bad} of {len(recipe.files)} files are missing or wrong; attnx data get {recipe.name}"
        )


def _get(recipe: Recipe, folder: Path) -> None:
    missing = []
    for file in recipe.files:
        place = folder / file.path
        if not place.exists():
            missing.append(file)
        elif wrong := file.wrong(place):
            raise UserError(f"{place} is there, but {wrong}; move it away and ask again")
    try:
        _download(missing, folder)
    except Unreachable as error:
        left = [file for file in missing if not (folder / file.path).exists()]
        for file in left:
            print(_by_hand(file, folder))
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

            def tell(come: int, before: int = done) -> None:
                progress.update(bar, completed=before + come)

            download(file, folder, tell)
            done += file.bytes


def _by_hand(file: RecipeFile, folder: Path) -> str:
    verb = "gzip" if file.path.endswith(".gz") else "take"
    member = f", {verb} its {file.member}" if file.member else ""
    return f"fetch {file.url}{member} to {folder / file.path}"


VERBS = {"list": _show, "get": _get, "check": _check}
