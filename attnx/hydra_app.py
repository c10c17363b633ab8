"""What only Hydra itself can do: sweeps, printing configurations, shell completion."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnx import registry
from attnx.choices import conf_folder
from attnx.config import check, compose, normalise
from attnx.errors import UserError
from attnx.mistakes import in_our_words
from attnx.options import store_options
from attnx.read_run import read_run
from attnx.run_format import CHECKPOINTS, RUN


def show(flags: Sequence[str], overrides: Sequence[str], config_dir: str | None = None) -> int:
    """``--cfg``, ``--info`` and the like."""
    return _hydra([*flags, *overrides], lambda config: None, config_dir)


def sweep(flags: Sequence[str], overrides: Sequence[str], config_dir: str | None = None) -> int:
    """Run a multirun: check every job first, train them in turn, and let no failed one stop the others."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    for job in _jobs(overrides, config_dir):
        compose(job, config_dir)
    folder = Path("multirun") / _sweep_name(overrides)
    failures: list[str] = []

    def one(config: Any) -> float | None:
        hydra = HydraConfig.get()
        plain = OmegaConf.to_container(config, resolve=True)
        assert isinstance(plain, dict)
        named = {str(key): value for key, value in plain.items()}
        asked = list(hydra.overrides.task)
        place = folder / f"{hydra.job.num}"
        return _job({**named, "folder": str(place)}, asked, failures)

    code = _hydra([*flags, f"hydra.sweep.dir={folder}", *overrides], one, config_dir)
    if failures:
        print(f"attnx: {len(failures)} job(s) failed:", *failures, sep="\n  ", file=sys.stderr)
        return 1
    return code


def _job(config: dict[str, Any], overrides: list[str], failures: list[str]) -> float | None:
    """Train one job, or go on with it, or take over its result, by what its folder holds; return what to minimise."""
    import traceback

    from attnx.training.train import Interrupted

    folder = Path(config["folder"])
    print(f"attnx {' '.join(overrides)} -> {folder}", flush=True)
    try:
        status = json.loads((folder / RUN).read_text(encoding="utf-8"))["status"] if (folder / RUN).is_file() else "new"
        checked = check(config, overrides)
        if status != "new":
            _refuse_changed(checked, folder)
        if status != "finished":
            _train(checked, overrides, status)
    except Interrupted as stopped:
        # A KeyboardInterrupt ends Hydra's loop over jobs; SystemExit would end it without a word.
        raise KeyboardInterrupt(f"go on with: attnx resume {stopped.folder}") from None
    except UserError as error:
        failures.append(f"{' '.join(overrides)}: {error}")
        return None
    except Exception as error:
        traceback.print_exc()
        failures.append(f"{' '.join(overrides)}: {type(error).__name__}: {error}")
        return None
    run = read_run(folder)
    return float(run.results[run.info["monitor"].replace("valid_", "test_")])


def _train(config: dict[str, Any], overrides: list[str], status: str) -> None:
    from attnx.fitting import fit, resume

    if status == "new":
        fit(config, overrides)
    elif (Path(config["folder"]) / CHECKPOINTS / "last.ckpt").is_file():
        resume(config["folder"])
    else:
        shutil.rmtree(config["folder"])  # it stopped before its first checkpoint, so there is nothing to go on from
        fit(config, overrides)


def _refuse_changed(config: dict[str, Any], folder: Path) -> None:
    """Refuse to take a job's folder for another configuration's."""
    held = registry.filled(read_run(folder).config)
    changed = [key for key in config if key != "folder" and config[key] != held.get(key)]
    if changed:
        raise UserError(
            f"{folder}: holds a run of another configuration ({', '.join(changed)} differ); choose name=..."
        )


def _jobs(overrides: Sequence[str], config_dir: str | None) -> list[list[str]]:
    """The jobs of a sweep, or none to check where only a sweeper of another kind can tell."""
    from hydra import initialize_config_dir
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if any(override.startswith("hydra/sweeper=") for override in overrides):
        return []
    store_options(config_dir)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf_folder().resolve()), version_base="1.3"):
            # What a glob stands for is found where configurations are.
            parser = OverridesParser.create(GlobalHydra.instance().config_loader())
            batches = BasicSweeper.split_arguments(parser.parse_overrides(list(overrides)), None)
    except HydraException as error:
        raise UserError(in_our_words(error, overrides)) from error
    jobs = [list(job) for batch in batches for job in batch]
    if not jobs:
        raise UserError(f"{' '.join(overrides)}: stands for no job at all")
    return jobs


def _sweep_name(overrides: Sequence[str]) -> str:
    """``name=`` or a hash of the sorted overrides, so that the same command names the same folder."""
    named = [override.partition("=")[2] for override in overrides if override.lstrip("+").startswith("name=")]
    return named[-1] if named else hashlib.sha256("\n".join(sorted(overrides)).encode()).hexdigest()[:10]


def complete(asked: Sequence[str], overrides: Sequence[str], config_dir: str | None = None) -> int:
    """Answer a shell's request for completions, also for words that begin with a plus."""
    *before, typed = os.environ.get("COMP_LINE", "").split(" ")
    bare = typed.lstrip("+")
    plus = typed.removesuffix(bare)
    flags = [word for word in before if word in ("-m", "--multirun")]  # Hydra wants them first, and needs no other
    before = [*before[:1], *flags, *normalise([word for word in before[1:] if "=" in word and word[0] != "-"])]
    os.environ["COMP_LINE"] = " ".join([*before, bare])
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        code = _hydra([*asked, *overrides], lambda config: None, config_dir)
    # A shell offers only what begins with what was typed; bash is told in one line, fish in a line each.
    print(re.sub(r"\S+", lambda word: plus + word[0], heard.getvalue()) if plus else heard.getvalue(), end="")
    return code


def _hydra(argv: Sequence[str], task: Callable[[Any], Any], config_dir: str | None) -> int:
    """Hand an ordered command line to Hydra."""
    import hydra

    store_options(config_dir)
    kept = sys.argv
    sys.argv = ["attnx", *argv]
    try:
        hydra.main(config_path=str(conf_folder().resolve()), config_name="config", version_base="1.3")(task)()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    finally:
        sys.argv = kept
    return 0
