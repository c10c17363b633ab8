"""The query input ``language_tag``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.attention.types import QueryContext
from attnx.registry import Size, Width, register


@register("query", "language_tag")
class LanguageTag(nn.Module):
    """An embedding of the row's tag: the language to write, or whatever else tells rows apart.

    Formula: ``e(l)``
    Source: Firat et al. 2016, section 3 (one attention for many languages), https://arxiv.org/abs/1601.01073

    It is known for all steps at once. Tags come with the data: a language's files, or its name in a column.

    >>> import torch
    >>> tag = LanguageTag(tags=3, embedding_dim=5)
    >>> tag(QueryContext(token=torch.zeros(2, 7, 11), tag=torch.tensor([[2], [0]]).expand(2, 7))).shape
    torch.Size([2, 7, 5])
    """

    needs = "tag"

    def __init__(self, tags: Size, embedding_dim: Width = 20) -> None:
        super().__init__()
        self.size = embedding_dim
        self.embedding = nn.Embedding(tags, embedding_dim)

    def forward(self, step: QueryContext) -> Tensor:
        """Pick it from the step: -> (b, q, width)."""
        assert step.tag is not None, "the model was given no tags"
        embedded: Tensor = self.embedding(step.tag)
        return embedded
