"""What only Hydra itself can do: sweeps, printing configurations, shell completion."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnx.config import check, compose, conf_folder, groups
from attnx.errors import UserError
from attnx.options import store_options


def show(flags: Sequence[str], overrides: Sequence[str]) -> int:
    """``--cfg``, ``--info`` and the like."""
    return _hydra([*flags, *overrides], lambda config: None)


def sweep(flags: Sequence[str], overrides: Sequence[str]) -> int:
    """Run a multirun: check every job first, train them in turn, and let no failed one stop the others."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    config_dir = next((flag for flag in flags if flag.startswith(("--config-dir=", "-cd="))), None)
    for job in _jobs(overrides):
        compose(job, config_dir.partition("=")[2] if config_dir else None)
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

    code = _hydra([*flags, f"hydra.sweep.dir={folder}", *overrides], one)
    if failures:
        print(f"attnx: {len(failures)} job(s) failed:", *failures, sep="\n  ", file=sys.stderr)
        return 1
    return code


def _job(config: dict[str, Any], overrides: list[str], failures: list[str]) -> float | None:
    from attnx.fit import fit
    from attnx.training.train import Interrupted

    print(f"attnx {' '.join(overrides)} -> {config['folder']}", flush=True)
    try:
        run = fit(check(config, overrides), overrides)
    except Interrupted as stopped:
        # A KeyboardInterrupt ends Hydra's loop over jobs; SystemExit would end it without a word.
        raise KeyboardInterrupt(f"go on with: attnx resume {stopped.folder}") from None
    except UserError as error:
        failures.append(f"{' '.join(overrides)}: {error}")
        return None
    except Exception as error:
        import traceback

        traceback.print_exc()
        failures.append(f"{' '.join(overrides)}: {type(error).__name__}: {error}")
        return None
    import json

    from attnx.run_format import RESULTS

    results = json.loads((run.folder / RESULTS).read_text(encoding="utf-8"))
    return float(results[run.experiment.task.monitor.replace("valid_", "test_")])


def _jobs(overrides: Sequence[str]) -> list[list[str]]:
    """The jobs of a sweep, or none to check where only a sweeper of another kind can tell."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    if any(override.startswith("hydra/sweeper=") for override in overrides):
        return []
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise UserError(f"cannot read the overrides: {error}".split("\n")[0]) from error
    if any(override.is_sweep_override() and not override.is_choice_sweep() for override in parsed):
        return []
    return [list(job) for batch in BasicSweeper.split_arguments(parsed, None) for job in batch]


def _sweep_name(overrides: Sequence[str]) -> str:
    """``name=`` or a hash of the sorted overrides, so that the same command names the same folder."""
    named = [override.partition("=")[2] for override in overrides if override.lstrip("+").startswith("name=")]
    return named[-1] if named else hashlib.sha256("\n".join(sorted(overrides)).encode()).hexdigest()[:10]


def complete(flags: Sequence[str], overrides: Sequence[str]) -> int:
    """Answer a shell's request for completions, also for words that begin with a plus."""
    line = os.environ.get("COMP_LINE", "")
    typed = line.split(" ")[-1]
    plus = typed[: len(typed) - len(typed.lstrip("+"))]
    if plus and typed[len(plus) :].split("=")[0] in groups():
        os.environ["COMP_LINE"] = line[: len(line) - len(typed)] + typed[len(plus) :]
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        code = _hydra([*flags, *overrides], lambda config: None)
    for word in heard.getvalue().splitlines():
        print(plus + word if plus else word)
    return code


def _hydra(argv: Sequence[str], task: Callable[[Any], Any]) -> int:
    """Hand an ordered command line to Hydra."""
    import hydra

    store_options()
    kept = sys.argv
    sys.argv = ["attnx", *argv]
    try:
        hydra.main(config_path=str(conf_folder().resolve()), config_name="config", version_base="1.3")(task)()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    finally:
        sys.argv = kept
    return 0
