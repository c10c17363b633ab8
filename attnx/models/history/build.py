"""Build a history model from a configuration: ``model=history``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import nn

from attnx.models.history.config import as_seq2seq, resolve_history
from attnx.models.history.model import History
from attnx.models.seq2seq.build import build_parts
from attnx.models.seq2seq.model import Seq2seq
from attnx.nn.targets.build import build_target
from attnx.registry import Probability, Size, Width, register


@register(
    "model",
    "history",
    resolver=".config.resolve_history",
    uses=("decoder", "readout", "attention", "scorer", "scope", "query", "normalizer"),
)
def build_history(
    config: Mapping[str, Any],
    source_features: Size,
    target_symbols: Size,
    target_features: Size,
    embedding_dim: Width = 64,
    feed: Literal["now", "next", "none"] | None = None,
    bridge: Literal["learned", "zeros"] = "learned",
    schedule: Literal["auto", "run_then_attend", "attend_then_run", "step_by_step"] = "auto",
    dropout: Probability = 0.0,
) -> History:
    """A recurrent network that reads a series row by row, attends to its own earlier states, and continues the series.

    Formula: ``c_t = attend(h_{t-1}; h_1 .. h_{t-2}), h_t = cell([e(y_{t-1}, k_t); c_t], h_{t-1}), y_t = O r_t``, with
        ``query=previous_state model.feed=now``, which ``recipe=attention_rnn`` sets
    Source: attention to the own states: Cheng et al. 2016, section 3.1, https://arxiv.org/abs/1601.06733; in a language
        model: Daniluk et al. 2017, https://arxiv.org/abs/1702.04521

    It has no encoder: window and forecast are one series, and every scope is over the model's own past. The input of a
    step has the targets of the previous step, the known features of this one (``task.known_columns``), and whether
    targets are observed: not at the first step, nor in the forecast steps of a direct forecast. The other queries and
    ``feed`` and ``schedule`` are as in ``seq2seq``. Weights are those of the forecast steps over all earlier states.
    """
    options = {"embedding_dim": embedding_dim, "feed": feed, "bridge": bridge, "schedule": schedule}
    config = {**config, "model": options}
    resolved = resolve_history(config)
    target = build_target(config["task"], target_symbols, target_features)
    embedding = nn.Linear(source_features + 1, embedding_dim)
    parts = build_parts(as_seq2seq(config), resolved, None, target, tags=0, embedding=embedding)
    network = Seq2seq(parts, target, resolved.plan, resolved.sources, resolved.visible_state_offset, dropout)
    return History(network, num_known=source_features - target_features)
