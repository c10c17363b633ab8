"""The programs of an exported model, searched like any model of attnx."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.decoding.contracts import StepModel
from attnx.export.formats import Format
from attnx.export.programs import Programs

State = tuple[Tensor, ...]  # batch first each


class ExportedModel:
    """Two files as a :class:`attnx.decoding.contracts.StepModel`.

    Args:
        folder: where the files are.
        file_format: of the files.
        programs: what was saved there.
        model: what was exported.
    """

    def __init__(self, folder: Path, file_format: Format, programs: Programs, model: StepModel) -> None:
        self.sources, self.target, self.is_distribution = model.sources, model.target, model.is_distribution
        self._has_tags = "tag" in programs.encode.input_names
        self._num_states = len(programs.decode_step.input_names) - 1
        self._encode, self._decode_step = (
            file_format.load(folder / f"{name}.{file_format.ending}", program.input_names)
            for name, program in programs._asdict().items()
        )

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> State:
        """(b, s) symbols or (b, s, f) features, (b, s) bool and (b,) tags -> the state before the first step."""
        tags = [tag] if self._has_tags and tag is not None else []
        return tuple(self._encode([source, source_mask, *tags])[: self._num_states])

    def decode_step(
        self, inputs: Tensor, state: State, need_weights: bool = False
    ) -> tuple[Tensor, State, AttentionOutput]:
        """Symbols (b,) -> log-probabilities (b, symbols), the next state, and the attention without its context."""
        log_probabilities, *outputs = self._decode_step([inputs, *state])
        weights = outputs[0] if len(outputs) > self._num_states else None
        attention = AttentionOutput(log_probabilities[:, None, :0], weights)
        return log_probabilities, tuple(outputs[-self._num_states :]), attention

    def select_rows(self, state: State, rows: Tensor) -> State:
        """The state of these rows."""
        return tuple(part[rows] for part in state)

    def reorder_beams(self, state: State, rows: Tensor) -> State:
        """As :meth:`select_rows`."""
        return self.select_rows(state, rows)
