"""The query input ``mean_state``, worked by hand, and in models."""

import torch

from attnx.attention import Query, QueryContext
from attnx.attention.query_inputs.current_state import CurrentState
from attnx.attention.query_inputs.mean_state import MeanState

SOURCE, INPUTS = torch.tensor([[3, 5, 7], [11, 13, 0]]), torch.tensor([[1, 5, 3, 8], [1, 7, 2, 2]])
STATES = torch.tensor([[[2.0, 8.0], [4.0, 0.0], [9.0, 1.0]]])


def test_means_by_hand():
    """2, then (2 + 4) / 2, then 15 / 3; the carry is the sums, and how many."""
    part, step = MeanState(state_size=2), QueryContext(torch.zeros(1, 3, 5), state=STATES)
    means, carry = part(step, part.init_carry(step.token))
    torch.testing.assert_close(means, torch.tensor([[[2.0, 8.0], [3.0, 4.0], [5.0, 3.0]]]))
    torch.testing.assert_close(carry, torch.tensor([[15.0, 9.0, 3.0]]))
    assert torch.equal(part(QueryContext(step.token[:, :0], state=STATES[:, :0]), carry)[1], carry)


def test_a_query_advances_what_its_inputs_carry():
    query = Query([CurrentState(2), MeanState(2)])
    step = QueryContext(torch.zeros(1, 3, 5), state=STATES)
    carries, vectors = query.init_carries(step.token), []
    for index in range(3):
        pick = slice(index, index + 1)
        vector, carries = query.advance(QueryContext(step.token[:, pick], state=STATES[:, pick]), carries)
        vectors.append(vector)
    torch.testing.assert_close(torch.cat(vectors, 1), query(step))
    assert query.is_recurrent
