"""A user's mistake is refused in one line."""

import contextlib
import re
from collections.abc import Iterator

import pytest

from attnx.errors import UserError


@contextlib.contextmanager
def refused(text: str) -> Iterator[None]:
    """Require a refusal in one line, which is this text; "..." stands for what is left out."""
    with pytest.raises(UserError) as error:
        yield
    message = str(error.value)
    assert re.fullmatch(".*".join(map(re.escape, text.split("..."))), message), message
