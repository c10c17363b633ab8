"""Finds plug-ins, each a file or a package, and imports them as ``attnx.plugins.NAME``.

The folders are those in ``$ATTNX_PLUGINS`` and ``plugins/`` in the working folder, unless that is the folder of a run
or a sweep, whose copies may come from somebody else. A folder or a file counts only if the user owns it and others may
not write to it, since its code is run.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from attnx.errors import UserError

PACKAGE = "attnx.plugins"
INIT = "__init__.py"
OWN_FOLDER = "plugins"
RECORDS = ("run.json", "sweep.json")
"""What the folder of a run or of a sweep holds."""
# The source that each plug-in module was imported from; its file may have been written since.
_sources: dict[str, bytes] = {}


def is_module(path: Path) -> bool:
    """Whether a path is a Python file or a package."""
    return path.suffix == ".py" or os.path.isfile(path / INIT)


def find_modules(folder: Path, package: str, accepts: Callable[[Path], bool] = is_module) -> Iterator[tuple[str, Path]]:
    """The modules in a folder and in the packages there, ``package.NAME`` with its file, in alphabetical order.

    What begins with ``_`` is left to those that import it. A package comes before what lies in it.
    """
    for path in sorted(folder.glob("[!_.]*")):
        if accepts(path):
            module = f"{package}.{path.name.removesuffix('.py')}"
            yield module, path / INIT if path.is_dir() else path
            yield from find_modules(path, module, accepts)


def module_tree(module: str, file: Path) -> Iterator[tuple[str, Path]]:
    """A module with its file, then what lies in it if it is a package."""
    yield module, file
    if file.name == INIT:
        yield from find_modules(file.parent, module)


def search_folders(folders: Iterable[str]) -> tuple[dict[str, Path], list[str]]:
    """The file of each module in plug-in folders, those that exist, and a line on what is left out: why, what to do."""
    modules, left_out = dict[str, Path](), list[str]()

    def is_safe(path: Path) -> bool:
        try:
            status = path.stat()
            is_other = path.suffix == ".py" and not stat.S_ISREG(status.st_mode)
            reason = "it is no file" if is_other else distrust(status)
        except OSError as error:
            reason = str(error.strerror)
        if reason:
            left_out.append(f"{path}: {reason}")
        return not reason

    def accepts(path: Path) -> bool:
        if path.is_dir() and not is_module(path) and next(path.glob("*.py"), None):
            left_out.append(f"{path}: its Python files are plug-ins only beside an {INIT}; write an empty one")
        return is_module(path) and is_safe(path) and (path.suffix == ".py" or is_safe(path / INIT))

    places: dict[str, Path] = {}  # of the modules that are in no package
    existing = dict.fromkeys(folder.resolve() for folder in map(Path, folders) if folder.is_dir())
    for folder in filter(is_safe, existing):
        for module, file in find_modules(folder, PACKAGE, accepts):
            name, *inner = module.removeprefix(f"{PACKAGE}.").split(".")
            place = folder / file.relative_to(folder).parts[0]
            first = places.setdefault(name, place)
            if first == place:
                modules[module] = file
            elif not inner:
                left_out.append(f"{file}:1: {first} has the same name and comes first")
    return modules, left_out


def configured_folders() -> tuple[str, ...]:
    """The plug-in folders, whether or not they exist and are safe: ``$ATTNX_PLUGINS``, then ``plugins/``."""
    current, entries = current_folder(), filter(None, os.environ.get("ATTNX_PLUGINS", "").split(os.pathsep))
    return tuple(os.path.join(current, entry) for entry in (*entries, *([] if _is_in_record() else [OWN_FOLDER])))


def current_folder() -> str:
    """The folder that paths are relative to.

    Raises:
        UserError: it has been deleted.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UserError("the current folder has been deleted; change to another one") from None


def _is_in_record() -> bool:
    """Whether the working folder is that of a run or a sweep."""
    return any(map(os.path.isfile, RECORDS))


def folders() -> list[Path]:
    """The current plug-in folders that are safe."""
    existing = dict.fromkeys(folder.resolve() for folder in map(Path, configured_folders()) if folder.is_dir())
    return [folder for folder in existing if distrust(folder.stat()) is None]


def searched() -> str:
    """Where plug-ins were searched, for a message on one that was not found."""
    variable = os.environ.get("ATTNX_PLUGINS")
    places = f"$ATTNX_PLUGINS ({variable}) and plugins/" if variable else "plugins/, and $ATTNX_PLUGINS is not set"
    if _is_in_record():
        places = f"$ATTNX_PLUGINS ({variable or 'not set'}) alone, since this is the folder of a run or a sweep"
    return f"plug-ins were searched in {places}"


def distrust(status: os.stat_result) -> str | None:
    """Why code of a file or folder with this status may not be run, and what to do; None if it may."""
    if status.st_uid != os.getuid():
        return "it belongs to another user, and only what is yours is run; make a copy of your own"
    if status.st_mode & stat.S_IWOTH:
        return "anybody may write to it, and only what is yours alone is run; take that away by chmod o-w"
    return None


def locate(module: str) -> Path | None:
    """The file that ``import attnx.plugins.NAME`` would find now; None if there is none."""
    name, *inner = module.removeprefix(f"{PACKAGE}.").split(".")
    folder = next((folder for folder in folders() if module_file(folder / name)), None)
    return module_file(folder.joinpath(name, *inner)) if folder else None


def find_source(module: str) -> Path | None:
    """The file of a module of a plug-in folder or of an installed package, whose parents are not imported."""
    if module.startswith(f"{PACKAGE}."):
        return locate(module)
    top, *inner = module.split(".")
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    if inner:
        return module_file(origin.parent.joinpath(*inner))
    return origin if origin.is_file() else None


def module_file(place: Path) -> Path | None:
    """The file of a module at a place, a package's or ``place.py``; None if there is none."""
    return next((file for file in (place / INIT, place.with_name(f"{place.name}.py")) if file.is_file()), None)


def package(module: str, file: Path) -> str:
    """The package to which names in a module are relative: its own, or the module itself if it is a package."""
    return module if file.name == INIT else module.rpartition(".")[0]


def relative_place(module: str, file: Path) -> str:
    """The place of a module's file in its plug-in folder, ``mine/part.py``, or with its installed package."""
    place = module.removeprefix(f"{PACKAGE}.").replace(".", "/")
    return f"{place}/{INIT}" if file.name == INIT else f"{place}.py"


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


class _Finder(MetaPathFinder):
    """The import hook: finds ``attnx.plugins.NAME`` in the plug-in folders only."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        if file := locate(fullname):
            search_locations = [str(file.parent)] if file.name == INIT else None
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
