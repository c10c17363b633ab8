"""Laws of searches: what is written depends on the row alone, whatever batch it is in, of symbols and of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnx import registry

pytestmark = pytest.mark.usefixtures("float64")

SOURCE = torch.tensor([[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0]])
PRESENT = SOURCE != 0


@pytest.mark.parametrize("features", [0, 5])
@pytest.mark.parametrize("scope", ["global", "encoder_decoder"])
@pytest.mark.parametrize("name", registry.names("search"))
def test_a_row_is_written_as_it_would_be_alone(built: Callable[..., Any], name: str, scope: str, features: int) -> None:
    """Up to its own end or limit; behind it there is padding, and what it read is what it would have read."""
    model = built(scope=scope, target_features=features).eval()
    search = registry.build("search", name)
    together = search(model, SOURCE, PRESENT, need_weights=True)
    assert together.lengths.max() == together.written.shape[1]
    assert len(set(together.lengths.tolist())) > 1, "rows of one length show little"
    for row, length in enumerate(PRESENT.sum(-1).tolist()):
        alone = search(model, SOURCE[row : row + 1, :length], PRESENT[row : row + 1, :length], need_weights=True)
        steps = int(together.lengths[row])
        assert alone.lengths.tolist() == [steps]
        torch.testing.assert_close(together.written[row, :steps], alone.written[0])
        assert (together.written[row, steps:] == 0).all()
        torch.testing.assert_close(together.log_probability[row], alone.log_probability[0])
        own = alone.weights.shape[-1] - length
        read = together.weights[row, :steps]
        torch.testing.assert_close(read[:, :length], alone.weights[0, :, :length])
        torch.testing.assert_close(read[:, 7 : 7 + own], alone.weights[0, :, length:])


@pytest.mark.parametrize("name", registry.names("search"))
def test_rows_of_numbers_are_those_of_a_pass_over_them(built: Callable[..., Any], name: str) -> None:
    """What was written, given back as what to read, is written again; only the last row says that it is the last."""
    model = built(target_features=5).eval()
    with torch.no_grad():
        model.output.bias[-1] = 0.05  # about as likely to end as to go on
    found = registry.build("search", name)(model, SOURCE, PRESENT)
    inputs = torch.cat([torch.zeros(3, 1, 5), found.written[:, :-1]], 1)
    outputs = model(SOURCE, PRESENT, inputs).logits
    real = torch.arange(inputs.shape[1]) < found.lengths[:, None]
    torch.testing.assert_close(found.written, outputs[..., :-1] * real[..., None])
    limits = 2 * PRESENT.sum(-1) + 5
    for row, steps in enumerate(found.lengths.tolist()):
        ends = (outputs[row, :steps, -1] > 0).tolist()
        assert not any(ends[:-1])
        assert ends[-1] or steps == limits[row]
