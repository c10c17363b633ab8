"""Resolve and check the configuration of a history model, without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.models.resolve import query_needs, require_attention
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig, resolve_seq2seq

Config = Mapping[str, Any]

# The options of a seq2seq model that a history model does not have, with the values that mean so.
UNUSED_OPTIONS = {
    "keys_from": "states",
    "values_from": None,
    "position_dim": 0,
    "tag_inputs": None,
    "tie_embeddings": False,
    "scheduled_sampling": 0.0,
}


def resolve_history(config: Config) -> ResolvedSeq2seqConfig:
    """Resolve the configuration of a history model.

    Raises:
        UserError: one line with the options that contradict each other and what to choose.
    """
    _check_task(config)
    require_attention(config, "history")
    _check_scope(config["scope"])
    if "tag" in query_needs(config).values():
        raise UserError("query=language_tag needs data with tags, and a series has none; use another query input")
    return resolve_seq2seq(as_seq2seq(config))


def as_seq2seq(config: Config) -> dict[str, Any]:
    """The configuration of a history model as that of a seq2seq model without an encoder."""
    scope, model = {**config["scope"], "sources": ["decoder"]}, {**UNUSED_OPTIONS, **config["model"]}
    return {**config, "scope": scope, "model": model, "encoder": {"name": "none"}, "output": {"name": "linear"}}


def _check_task(config: Config) -> None:
    """Check that the task is to continue a series of numbers."""
    task = config.get("task")
    if task is None or "horizon" in task:
        return
    if registry.describe("task", task["name"]).properties.get("is_continuation"):
        raise UserError(
            f"model=history continues numbers; for task={task['name']} the same network is model=seq2seq with "
            "recipe=attention_rnn"
        )
    raise UserError(
        f"model=history continues its input, but task={task['name']} outputs something else; use task=forecasting, or "
        "model=seq2seq"
    )


def _check_scope(scope: Config) -> None:
    """Check that the scope names no encoder; every scope is then one over the model's own past."""
    part = registry.describe("scope", scope["name"])
    defaults = {option.name: option.default for option in part.options}
    sources = scope.get("sources", part.properties.get("sources"))
    if sources != ["decoder"] and (sources != defaults.get("sources") or (sources and len(sources) > 1)):
        raise UserError(
            f"scope={scope['name']} with sources=[{','.join(sources)}]: model=history has no encoder and attends to "
            "its own states with every scope; remove scope.sources, or use scope=history"
        )
