"""The KV cache: a memory grows in place, and what was read from it before stays as it was."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.attention import Memory
from attnx.attention.memory import MIN_CAPACITY, append_positions, concat_sources
from attnx.models.sequence_model import index_select_tree
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import TransformerParts
from attnx.nn.targets.symbols import Symbols


def position(number: float, rows: int = 2) -> Memory:
    """One position of each row: its key is the number, its value three times that."""
    key = torch.full((rows, 1, 1), float(number)) * torch.arange(1, rows + 1)[:, None, None]
    return Memory(key, 3 * key, torch.ones(rows, 1, dtype=torch.bool), (1,), has_padding=False)


def grow(memory: Memory, *numbers: float) -> Memory:
    for number in numbers:
        memory = append_positions(memory, position(number))
    return memory


def keys(memory: Memory) -> list[list[float]]:
    assert torch.equal(memory.values, 3 * memory.keys)
    assert memory.mask.all()
    assert memory.mask.shape == memory.keys.shape[:2]
    assert sum(memory.source_sizes) == memory.keys.shape[1]
    return memory.keys[..., 0].tolist()


@torch.no_grad()
def test_a_step_writes_its_position_and_copies_none():
    """Until there is no room left: then all are copied to twice the room."""
    memory = grow(position(2.0), 3.0)
    place = memory.keys.data_ptr()
    memory = grow(memory, *range(5, MIN_CAPACITY + 3))
    assert memory.source_sizes == (MIN_CAPACITY,)
    assert memory.keys.data_ptr() == place
    longer = grow(memory, 7.0)
    assert longer.keys.data_ptr() != place
    assert grow(longer, 11.0).keys.data_ptr() == longer.keys.data_ptr()
    assert keys(longer)[0][:3] + keys(longer)[0][-2:] == [2, 3, 5, MIN_CAPACITY + 2, 7]


@torch.no_grad()
def test_a_state_that_goes_on_twice_is_copied():
    """Both continuations have their own positions, whichever was first, and the state has none of them."""
    state = grow(position(2.0), 3.0)
    first, second = grow(state, 5.0, 7.0), grow(state, 11.0)
    assert keys(grow(first, 13.0)) == [[2, 3, 5, 7, 13], [4, 6, 10, 14, 26]]
    assert keys(grow(second, 13.0)) == [[2, 3, 11, 13], [4, 6, 22, 26]]
    assert (keys(first)[0], keys(second)[0], keys(state)[0]) == ([2, 3, 5, 7], [2, 3, 11], [2, 3])


@torch.no_grad()
def test_rows_are_selected_with_their_room():
    """Rows that repeat go on apart, in place, after one copy; the rows they were taken from go on, too."""
    state = grow(position(2.0), 3.0)
    selected = index_select_tree(state, torch.tensor([1, 1]))
    place = selected.keys.data_ptr()
    selected = grow(selected, 5.0)
    assert selected.keys.data_ptr() == place
    assert keys(selected) == [[4, 6, 5], [4, 6, 10]]
    assert keys(grow(state, 7.0)) == [[2, 3, 7], [4, 6, 14]]
    changed = selected._replace(keys=selected.keys + 1, values=selected.values + 3)
    assert keys(grow(changed, 7.0)) == [[5, 7, 6, 7], [5, 7, 11, 14]]


@torch.no_grad()
def test_positions_join_the_last_source():
    both = concat_sources(position(2.0), position(3.0))
    padded = both._replace(mask=both.mask & torch.tensor([[False, True], [True, True]]), has_padding=True)
    grown = grow(padded, 5.0, 7.0)
    assert (grown.source_sizes, grown.has_padding) == ((1, 3), True)
    assert grown.mask.tolist() == [[False, True, True, True], [True] * 4]


def test_gradients_need_a_copy_of_their_own():
    """What a gradient is computed from is never written to."""
    memory = grow(position(2.0)._replace(keys=torch.ones(2, 1, 1, requires_grad=True)), 3.0, 5.0)
    assert memory.cache is None
    with torch.no_grad():
        cached = grow(memory, 7.0)
    assert grow(cached, 11.0).cache is None


def test_what_inference_mode_made_is_copied_outside_of_it():
    """torch refuses to write into such tensors."""
    with torch.inference_mode():
        state = grow(position(2.0), 3.0, 5.0)
    with torch.no_grad():
        assert keys(grow(state, 7.0))[0] == [2, 3, 5, 7]


@pytest.mark.parametrize("form", ["decoder_only", "encoder_decoder"])
def test_the_copy_for_a_token_does_not_grow(form, allocated_sizes):
    """A step makes no tensor as large as the memory of a layer, however long it is."""
    size, rows = 24, 3
    options = TransformerConfig(form, size, layers=2, encoder_layers=1, dropout=0.0)
    model = Transformer(Symbols(23), Symbols(17), options, TransformerParts(attention={"heads": 2})).eval()
    symbols = torch.randint(5, 17, (rows, 151))

    def step(state: Any, number: int) -> tuple[Tensor, Any]:
        predictions, state, _ = model.decode_step(symbols[:, number], state)
        return predictions, state

    with torch.no_grad():
        state = model.init_state(symbols[:, :7], symbols[:, :7] > 0)
        for number in range(150):
            predictions, state = step(state, number)
        expected = model(symbols[:, :7], symbols[:, :7] > 0, symbols[:, :150]).logits[:, -1].log_softmax(-1)
        torch.testing.assert_close(predictions, expected)
        assert max(allocated_sizes(lambda: step(state, 150))) < rows * 150 * size
