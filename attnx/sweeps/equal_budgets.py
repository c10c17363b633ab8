"""Equal budgets: the widths and steps with which the jobs of a sweep cost what the first one does, or equal times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rich.console import Console

from attnx.errors import UserError
from attnx.files.printable import show_waiting
from attnx.files.process import available_cores
from attnx.models.resolve import resolve_model
from attnx.registry.plugin_errors import report_plug_in_errors
from attnx.runs.sweep import Sweep, split_override
from attnx.sweeps.gpus import visible_gpus
from attnx.sweeps.match_widths import FEEDFORWARD, Match, cost_key, match_widths, width_keys, with_values
from attnx.sweeps.overrides import SweepRequest
from attnx.sweeps.preflight import read_task_data
from attnx.sweeps.summary import measured_steps

Config = Mapping[str, Any]
Overrides = Sequence[str]
# What each value of match makes equal, in words.
QUANTITIES = {
    "parameters": "parameters",
    "flops": "FLOPs a training token",
    "state": "bytes of state at 2,048 positions",
}
STATE_CONTEXT = 2048
MAX_STEPS = "trainer.max_steps"
WAITING = "measuring what the jobs cost ..."


class EqualJob(NamedTuple):
    """A job of a sweep with what makes its cost that of the first one."""

    overrides: list[str]  #: of the job, with the solved widths and steps
    note: str = ""  #: what was matched and by how much it differs, such as ``parameters +0.4 %``; "" if nothing was
    is_close: bool = True  #: whether it differs by 2 % at most


def check_equal_cost(request: SweepRequest, configs: Sequence[Config]) -> None:
    """Check that the jobs of a sweep can be made to cost the same.

    Raises:
        UserError: they are matched by different costs, a search chooses them, or a width or the number of steps, which
            is to be solved, is swept.
    """
    words = [f"match={config['match']}" for config in configs if config["match"]]
    words += ["budget=flops" for config in configs if config["budget"] == "flops"]
    word = words[0]
    for key in ("match", "budget"):
        if len(chosen := dict.fromkeys(str(config[key]) for config in configs)) > 1:
            raise UserError(f"{key}={','.join(chosen)}: the jobs of a sweep have one {key}; choose one")
    if request.is_search:
        raise UserError(
            f"{word}: a search chooses its jobs as it goes, and all are measured before the first starts; leave it out"
        )
    solved = {MAX_STEPS: "budget=flops"} if "budget=flops" in words else {}
    if word != "budget=flops":
        solved |= dict.fromkeys([FEEDFORWARD, *(key for config in configs for key in width_keys(config))], word)
    for key, solver in solved.items():
        values = [value for job in request.jobs for name, value in map(split_override, job) if name == key]
        if len(listed := dict.fromkeys(values)) > 1:
            raise UserError(f"{key}={','.join(listed)}: {solver} solves it for each job; leave one of the two out")


@report_plug_in_errors()
def equalize(jobs: Sequence[Overrides], configs: Sequence[Config]) -> list[EqualJob]:
    """Solve widths (``match``), then numbers of steps (``budget=flops``), so that jobs cost what the first one does.

    Raises:
        UserError: the data cannot be read, or a job cannot be measured.
    """
    meter, quantity = CostMeter(), configs[0]["match"]
    matches = [Match((), 0.0, 0.0)] * len(jobs)
    with show_waiting(Console(), WAITING):
        if quantity:
            matches = match_widths(configs, partial(meter.measure, quantity=quantity))
        solved = [[*match.overrides] for match in matches]
        if configs[0]["budget"] == "flops":
            widths = [{key: int(value) for key, value in map(split_override, words)} for words in solved]
            matched = [with_values(config, values) for config, values in zip(configs, widths, strict=True)]
            for words, steps in zip(solved, meter.equal_steps(matched), strict=True):
                words.append(f"{MAX_STEPS}={steps}")
    return [
        EqualJob(
            [*(word for word in job if split_override(word)[0] not in dict(map(split_override, words))), *words],
            f"{quantity} {match.residual * 100:+.1f} %" if quantity else "",
            match.is_close,
        )
        for job, words, match in zip(jobs, solved, matches, strict=True)  # what was solved is in place of the job's own
    ]


def describe_match(jobs: Sequence[EqualJob], configs: Sequence[Config]) -> list[str]:
    """Lines for the terminal: what was matched, and each job that could not be matched closely."""
    if not (quantity := configs[0]["match"]):
        return []
    far = [
        f"{' '.join(job.overrides)}: {job.note}, the nearest that its widths allow" for job in jobs if not job.is_close
    ]
    what = f"each job has the {QUANTITIES[quantity]} of the first one, by its width (match={quantity})"
    return [what, *dict.fromkeys(far)]


class CostMeter:
    """Measures what configured models cost, each setting and each task's data once."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.costs: dict[tuple[str, str], float] = {}

    def measure(self, config: Config, quantity: str) -> float:
        """A cost: ``parameters``, ``flops`` or ``state``.

        Raises:
            UserError: the data cannot be read, or the model cannot be built or counted.
        """
        from attnx.inference.model_cost import count_cost, count_parameters

        key, task = (cost_key(config), quantity), json.dumps(config["task"])
        if key in self.costs:
            return self.costs[key]
        if task not in self.data:
            data = read_task_data(config)[1]
            self.data[task] = data, data.train_dataset()
        resolved, (data, rows) = resolve_model(config), self.data[task]
        parameters = count_parameters(resolved, data)
        if quantity == "parameters":
            return self.costs.setdefault(key, float(parameters))
        cost = count_cost(resolved, data, rows, parameters)
        value = cost.train_flops if quantity == "flops" else cost.state_bytes.get(STATE_CONTEXT)
        if value is None:
            reason = f": {cost.note}" if cost.note else ""
            raise UserError(f"the {QUANTITIES[quantity]} of a job cannot be measured{reason}")
        return self.costs.setdefault(key, float(value))

    def equal_steps(self, configs: Sequence[Config]) -> list[int]:
        """The numbers of steps that cost what the first configuration's ``trainer.max_steps`` do."""
        budget = configs[0]["trainer"]["max_steps"] * self._step_flops(configs[0])
        return [max(1, round(budget / self._step_flops(config))) for config in configs]

    def _step_flops(self, config: Config) -> float:
        """The operations of an optimizer step, padding aside: of all its rows, whichever process learns from them."""
        import numpy as np

        from attnx.data.buckets import BucketBatches  # imports torch

        trainer, flops = config["trainer"], self.measure(config, "flops")
        rows = self.data[json.dumps(config["task"])][1]
        processes = (trainer["devices"] or max(1, len(visible_gpus()))) * trainer["num_nodes"]
        factor = trainer["accumulate_grad_batches"] * processes
        tokens = trainer["batch_tokens"]
        size = None if tokens else trainer["batch_size"] * factor
        batches = BucketBatches(rows, size, tokens and tokens * factor, pool=trainer["bucket_pool_batches"])
        return float(flops * rows.lengths(np.arange(len(rows)))[:, 1].sum() / len(batches))


def time_limits(configs: Iterable[Mapping[str, Any]], budget: str) -> list[str]:
    """The values of ``trainer.max_time`` of jobs that no number of steps or epochs ends, with a budget."""
    trainers = [config["trainer"] for config in configs if config["budget"] == budget]
    timed = [item for item in trainers if item.get("max_steps") is None and item.get("max_epochs") is None]
    return sorted({trainer["max_time"] for trainer in timed if trainer.get("max_time")})


def check_equal_time(configs: Iterable[Mapping[str, Any]], max_parallel: int) -> None:
    """Check that jobs which are compared at equal time have equal shares of this machine.

    Raises:
        UserError: more jobs run at a time than there are cores.
    """
    cores = available_cores()
    if time_limits(configs, "time") and max_parallel > cores:
        raise UserError(
            f"budget=time needs a core for each job, and this machine has {cores} for -j {max_parallel}; "
            f"use -j {cores} or fewer"
        )


def describe_length(sweep: Sweep, configs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines that say how long jobs with a time limit will train; printed before they start."""
    configs = [*configs]
    lines = [
        f"each job trains for {limit} by its own clock (budget=time), so numbers of steps will differ"
        for limit in time_limits(configs, "time")
    ]
    if limits := time_limits(configs, "steps"):
        plan = f"the first job measures how many steps fit into {' and '.join(limits)}; equal times are equal steps"
        lines.append(measured_steps(sweep) or plan)
    return lines
