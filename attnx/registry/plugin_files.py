"""Which plug-in folders and files are in force, and how ``import attnx.plugins.NAME`` finds them.

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
    """The plug-in folders in force now: those of ``$ATTNX_PLUGINS``, then ``plugins/`` here; only what is safe."""
    return [folder for folder in _named() if distrust(folder.stat()) is None]


def files() -> list[Path]:
    """The plug-in files in force now, folder by folder, each in alphabetical order."""
    return [file for file in _found() if _why_left_out(file) is None]


def left_out() -> list[str]:
    """A line for each folder and file that is left out because it is not the user's alone: which, why, what to do."""
    untrusted = {folder: distrust(folder.stat()) for folder in _named()}
    untrusted |= {file: _why_left_out(file) for file in _found()}
    return [f"{path}: {reason}" for path, reason in untrusted.items() if reason]


def distrust(status: os.stat_result) -> str | None:
    """Say why a file or folder of this status may not be run, and what to do; None if it may."""
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return f"it belongs to {_user(status.st_uid)}, and only what is yours is run; make a copy of your own"
    if status.st_mode & stat.S_IWOTH:
        return "anybody may write to it, and only what is yours alone is run; take that away by chmod o-w"
    return None


def located(module: str) -> Path | None:
    """The file that ``import attnx.plugins.NAME`` would find now; None if there is none."""
    place = Path(*module.removeprefix(f"{PACKAGE}.").split("."))
    files = (folder / file for folder in folders() for file in (place / "__init__.py", Path(f"{place}.py")))
    return next((file for file in files if file.is_file()), None)


def source(module: str, file: Path) -> bytes:
    """The source of a module: what was run if it is imported, else what its file holds."""
    return _sources[module] if module in sys.modules and module in _sources else file.read_bytes()


def forget_changed() -> bool:
    """Let plug-ins be imported anew if a file is not what was imported of it any more; return whether one is not."""
    imported = {module: located(module) for module in _sources if module in sys.modules}
    if all(file is not None and file.read_bytes() == _sources[module] for module, file in imported.items()):
        return False
    for module in imported:
        above, _, name = module.rpartition(".")
        if above in sys.modules:  # where ``from attnx.plugins import NAME`` looks first
            vars(sys.modules[above]).pop(name, None)
        del sys.modules[module]
    return True


def install() -> None:
    """Have Python ask here for plug-ins."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _named() -> list[Path]:
    """The folders that are looked into, safe or not; a link counts as what it leads to."""
    named = [Path(entry) for entry in os.environ.get("ATTNX_PLUGINS", "").split(os.pathsep) if entry]
    return list(dict.fromkeys(folder.resolve() for folder in [*named, Path("plugins")] if folder.is_dir()))


def _found() -> list[Path]:
    return [file for folder in folders() for file in sorted(folder.glob("[!_.]*.py"))]


def _why_left_out(file: Path) -> str | None:
    try:
        status = file.stat()
    except OSError as error:
        return str(error.strerror)
    return distrust(status) if stat.S_ISREG(status.st_mode) else "it is no file"


def _user(number: int) -> str:
    import pwd  # which not every system has

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


class _Finder(MetaPathFinder):
    """Finds ``attnx.plugins.NAME`` in the folders in force, and nowhere else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        if file := located(fullname):
            within = [str(file.parent)] if file.name == "__init__.py" else None
            loader = _Loader(fullname, str(file))
            return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=within)
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


class _Loader(SourceFileLoader):
    """Runs a file's source as it is now: compiled code beside it may be older, or somebody else's."""

    def get_code(self, fullname: str) -> CodeType:
        with io.open_code(self.path) as file:
            if reason := distrust(os.fstat(file.fileno())):
                raise ImportError(f"{self.path}: {reason}", name=fullname, path=self.path)
            _sources[fullname] = file.read()
        code: CodeType = self.source_to_code(_sources[fullname], self.path)
        return code
