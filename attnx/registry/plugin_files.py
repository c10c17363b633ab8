"""Finds plug-in files and imports them as ``attnx.plugins.NAME``.

The folders are those in ``$ATTNX_PLUGINS`` and ``plugins/`` in the working folder. A folder or a file counts only if
the user owns it and others may not write to it, since its code is run.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

PACKAGE = "attnx.plugins"
# The source that each plug-in module was imported from; its file may have been written since.
_sources: dict[str, bytes] = {}


def folders() -> list[Path]:
    """The current plug-in folders that are safe: those of ``$ATTNX_PLUGINS``, then ``plugins/``."""
    return [folder for folder in _configured_folders() if distrust(folder.stat()) is None]


def find_files() -> tuple[list[Path], list[str]]:
    """The current plug-in files that are safe, folder by folder in alphabetical order, and why the others are left out.

    The messages name folders and files that others may write to, and what to do.
    """
    files, messages = [], []
    for folder in _configured_folders():
        if reason := distrust(folder.stat()):
            messages.append(f"{folder}: {reason}")
            continue
        for file in sorted(folder.glob("[!_.]*.py")):
            if reason := _reason_ignored(file):
                messages.append(f"{file}: {reason}")
            else:
                files.append(file)
    return files, messages


def searched() -> str:
    """Where plug-ins were searched, for a message on one that was not found."""
    variable = os.environ.get("ATTNX_PLUGINS")
    places = f"$ATTNX_PLUGINS ({variable}) and plugins/" if variable else "plugins/, and $ATTNX_PLUGINS is not set"
    return f"plug-ins were searched in {places}"


def distrust(status: os.stat_result) -> str | None:
    """Why code of a file or folder with this status may not be run, and what to do; None if it may."""
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return "it belongs to another user, and only what is yours is run; make a copy of your own"
    if status.st_mode & stat.S_IWOTH:
        return "anybody may write to it, and only what is yours alone is run; take that away by chmod o-w"
    return None


def locate(module: str) -> Path | None:
    """The file that ``import attnx.plugins.NAME`` would find now; None if there is none."""
    place = Path(*module.removeprefix(f"{PACKAGE}.").split("."))
    files = (folder / file for folder in folders() for file in (place / "__init__.py", Path(f"{place}.py")))
    return next((file for file in files if file.is_file()), None)


def source(module: str, file: Path) -> bytes:
    """The source of a module: what was run if it is imported, else what its file holds."""
    return _sources[module] if module in sys.modules and module in _sources else file.read_bytes()


def unload_changed() -> bool:
    """Forget the imported plug-ins if a file changed after its import; return whether one did."""
    imported = {module: locate(module) for module in _sources if module in sys.modules}
    if all(file is not None and file.read_bytes() == _sources[module] for module, file in imported.items()):
        return False
    unload()
    return True


def unload() -> None:
    """Forget the imported plug-ins; the next import of one runs its file again."""
    for module in _sources.keys() & sys.modules.keys():
        above, _, name = module.rpartition(".")
        if above in sys.modules:  # where ``from attnx.plugins import NAME`` looks first
            vars(sys.modules[above]).pop(name, None)
        del sys.modules[module]


def install() -> None:
    """Install the import hook."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _configured_folders() -> list[Path]:
    """The plug-in folders, safe or not, with links resolved."""
    folders = [Path(entry) for entry in os.environ.get("ATTNX_PLUGINS", "").split(os.pathsep) if entry]
    return list(dict.fromkeys(folder.resolve() for folder in [*folders, Path("plugins")] if folder.is_dir()))


def _reason_ignored(file: Path) -> str | None:
    try:
        status = file.stat()
    except OSError as error:
        return str(error.strerror)
    return distrust(status) if stat.S_ISREG(status.st_mode) else "it is no file"


class _Finder(MetaPathFinder):
    """The import hook: finds ``attnx.plugins.NAME`` in the plug-in folders only."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        if file := locate(fullname):
            search_locations = [str(file.parent)] if file.name == "__init__.py" else None
            loader = _Loader(fullname, str(file))
            return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=search_locations)
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


class _Loader(SourceFileLoader):
    """Runs the current source of a file; compiled code in its folder may be older or somebody else's."""

    def get_code(self, fullname: str) -> CodeType:
        with io.open_code(self.path) as file:
            folder = Path(self.path).parent
            for path, status in ((folder, folder.stat()), (self.path, os.fstat(file.fileno()))):
                if reason := distrust(status):
                    raise ImportError(f"{path}: {reason}", name=fullname, path=self.path)
            _sources[fullname] = file.read()
        code: CodeType = self.source_to_code(_sources[fullname], self.path)
        return code
