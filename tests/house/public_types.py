"""The types that users of an installed attnx see. Type checkers read this program (.ci/run); nothing here is called."""

from typing import Any, assert_type

from torch import Tensor, nn

import attnx
from attnx.attention import Attention, AttentionOutput, Hops, Memory, MultiHeadAttention
from attnx.inference.predictor import Prediction
from attnx.inference.trained_run import TrainedRun
from attnx.reports.sweep.report import Report


def attention(states: Tensor, queries: Tensor) -> None:
    module = attnx.attention.build(scorer=("mlp", {"depth": 2}), scope="local", query_size=13, memory_size=26)
    assert_type(module, Attention | MultiHeadAttention | Hops)
    memory = module.make_memory(states)
    assert_type(memory, Memory)
    read = module(queries, memory, need_weights=True)
    assert_type(read, AttentionOutput)
    assert_type(read.context, Tensor)
    assert_type(read.weights, Tensor | None)


def runs() -> None:
    config = attnx.compose(["+scorer=dot"])
    assert_type(config, dict[str, Any])  # values of a configuration have the types of the parts' options
    assert_type(attnx.fit(config), TrainedRun)
    run = attnx.open_run("multirun/runs/first")
    assert_type(run, TrainedRun)
    assert_type(attnx.open_ensemble([run.folder]), TrainedRun)
    (prediction,) = run.predict(["attention"], need_weights=True)
    assert_type(prediction, Prediction)
    assert_type(prediction.log_probability, float)
    assert_type(attnx.report("multirun/scorers"), Report)


def parts() -> None:
    @attnx.register("scorer", "silent", requires_equal_dims=True)
    class Silent(nn.Module):
        """A registered class keeps its type."""

        def score(self, queries: Tensor, keys: Tensor) -> Tensor:
            return 0 * (queries @ keys.mT)

    assert_type(Silent(), Silent)
