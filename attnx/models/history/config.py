"""What a model ``history`` will be, from its plain configuration: checked before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.models.seq2seq import config as seq2seq

Config = Mapping[str, Any]

# Knobs of a seq2seq that a history has not: what they would say of its decoder.
ABSENT = {
    "keys_from": "states",
    "values_from": None,
    "position_dim": 0,
    "tag_inputs": None,
    "tie_embeddings": False,
    "scheduled_sampling": 0.0,
}


def resolve(config: Config) -> seq2seq.ResolvedSeq2seqConfig:
    """Work out what follows from the choices of a model ``history``, and check that they can go together.

    What it is made of is a decoder that reads its own states and nothing else, so the rest is as with ``seq2seq``.

    Raises:
        UserError: one line naming the knobs that contradict each other and what to choose.
    """
    _check_task(config)
    if config["attention"]["name"] == "none":
        raise UserError("model=history reads its own past, and attention=none reads nothing; leave one of the two out")
    _check_scope(config["scope"])
    alone = {
        "scope": {**config["scope"], "sources": ["decoder"]},
        "encoder": {"name": "none"},
        "model": {**ABSENT, **config["model"]},
    }
    return seq2seq.resolve({**config, **alone})


def _check_task(config: Config) -> None:
    """See that the task goes on with the numbers that are read."""
    task = config.get("task")
    if task is None or "horizon" in task:
        return
    if registry.part("task", task["name"]).declares.get("continues"):
        raise UserError(
            f"model=history goes on with numbers; for task={task['name']} the same net is model=seq2seq with "
            "recipe=attention_rnn"
        )
    raise UserError(
        f"model=history goes on with what it reads, and task={task['name']} writes something else; use "
        "task=forecasting, or model=seq2seq"
    )


def _check_scope(scope: Mapping[str, Any]) -> None:
    """See that a scope says nothing of an encoder; whatever it is, what it narrows is the own past."""
    usual = {knob.name: knob.default for knob in registry.part("scope", scope["name"]).knobs}
    declared = registry.part("scope", scope["name"]).declares.get("sources")
    named = scope.get("sources", declared)
    if named != ["decoder"] and (named != usual.get("sources") or (named and len(named) > 1)):
        raise UserError(
            f"scope={scope['name']} with sources=[{','.join(named)}]: model=history has no encoder, and reads its own "
            "states whatever the scope; leave scope.sources out, or use scope=history"
        )
