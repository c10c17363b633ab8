"""A user's mistake is refused in one line."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from attnx.errors import UserError


@contextlib.contextmanager
def refused(text: str) -> Iterator[None]:
    """Require a refusal in one line, which is this text; "..." stands for what is left out."""
    with pytest.raises(UserError) as error:
        yield
    message = str(error.value)
    assert re.fullmatch(".*".join(map(re.escape, text.split("..."))), message), message


def refusal_message(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The line in which a call is refused."""
    with pytest.raises(UserError) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)
