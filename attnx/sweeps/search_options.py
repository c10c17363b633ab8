"""The options of a search: what it draws from, and Optuna's sampler and pruner."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from attnx.config.hydra_internals import override_parser
from attnx.errors import UserError, suggest


def read_search_space(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The distributions of Optuna that overrides name, by key, and the overrides that fix a value.

    >>> read_search_space(["optimizer.lr=tag(log,interval(0.001,0.1))", "model.layers=range(1,7,2)", "seed=1"])[0]
    {'optimizer.lr': FloatDistribution(high=0.1, log=True, low=0.001, step=None), \
'model.layers': IntDistribution(high=5, log=False, low=1, step=2)}
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space: dict[str, Any] = {}
    fixed: list[str] = []
    for override in override_parser().parse_overrides(list(overrides)):
        key = override.get_key_element()
        if not override.is_sweep_override():
            fixed.append(override.input_line)
        elif override.is_interval_sweep():
            interval = override.value()
            is_whole = isinstance(interval.start, int) and isinstance(interval.end, int)
            kind = IntDistribution if is_whole else FloatDistribution
            space[key] = kind(interval.start, interval.end, log="log" in interval.tags)
        elif override.is_range_sweep() and len(values := list(override.value().range())) > 1:
            kind = IntDistribution if all(isinstance(value, int) for value in values) else FloatDistribution
            space[key] = kind(min(values), max(values), step=abs(values[1] - values[0]))
        else:
            space[key] = CategoricalDistribution([*override.sweep_string_iterator()])
    return space, fixed


def check_intervals(parsed: list[Any]) -> None:
    """Check the intervals that a search draws from."""
    for override in parsed:
        if not (override.is_sweep_override() and override.is_interval_sweep()):
            continue
        interval, place = override.value(), override.input_line
        if unknown := interval.tags - {"log"}:
            raise UserError(f"{place}: unknown tag {min(unknown)!r}; a search knows tag(log, interval(...))")
        if not interval.start < interval.end:
            raise UserError(f"{place}: expected interval(low, high) with low below high")
        if "log" in interval.tags and interval.start <= 0:
            raise UserError(f"{place}: a logarithmic scale begins above 0")


def build_optuna_part(kind: str, part: Mapping[str, Any]) -> Any:
    """Build a ``sampler`` or ``pruner`` of Optuna from its name and options.

    Raises:
        UserError: Optuna has no such class, or it has no such option or value.
    """
    import optuna

    module, place = {"sampler": optuna.samplers, "pruner": optuna.pruners}[kind], f"hydra.sweeper.{kind}"
    names = [name for name in module.__all__ if name.lower().endswith(kind) and not name.startswith("Base")]
    name, options = str(part.get("name")), {key: value for key, value in part.items() if key != "name"}
    if name not in names:
        raise UserError(f"{place}.name={name}: Optuna has no such {kind}{suggest(name, names)}")
    parameters = inspect.signature(getattr(module, name)).parameters
    if unknown := [option for option in options if option not in parameters]:
        remedy = f"leave it out: ~{place}.{unknown[0]}"
        raise UserError(f"{place}.{unknown[0]}: {name} has no such option{suggest(unknown[0], parameters)}; {remedy}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return getattr(module, name)(**options)
    except (TypeError, ValueError) as error:
        raise UserError(f"{place}: {name}: {error}") from error
