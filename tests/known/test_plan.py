"""The planner's table, row by row, its defaults and its reasons."""

from __future__ import annotations

import pytest

from attnx.attention.plan import Facts, plan
from attnx.errors import UserError

CURRENT, PREVIOUS = {"current_state": "after"}, {"previous_state": "before"}
TOKEN, CONTEXT, TAG = {"token": "token"}, {"last_context": "context"}, {"language_tag": "tag"}

RUN, ATTEND, STEP = "run_then_attend", "attend_then_run", "step_by_step"


@pytest.mark.parametrize(
    ("facts", "admitted"),
    [
        # Run, then attend: feed=none, any of the other query inputs, a decoder source too.
        (Facts(CURRENT, "none"), (RUN, STEP)),
        (Facts(PREVIOUS, "none"), (RUN, STEP)),
        (Facts(TOKEN | CURRENT, "none"), (RUN, STEP)),
        (Facts(PREVIOUS | CURRENT | TOKEN, "none"), (RUN, STEP)),
        (Facts(CURRENT, "none", growing=True), (RUN, STEP)),
        # Attend, then run: feed=now, the query holds only known inputs, the memory is fixed before decoding.
        (Facts(TOKEN, "now"), (ATTEND, STEP)),
        (Facts(TAG, "now"), (ATTEND, STEP)),
        (Facts(TOKEN | TAG, "now"), (ATTEND, STEP)),
        (Facts({}, "now"), (ATTEND, STEP)),
        # Both, where nothing is fed and nothing but the token is asked.
        (Facts(TOKEN, "none"), (RUN, ATTEND, STEP)),
        (Facts({}, "none"), (RUN, ATTEND, STEP)),
        (Facts(TAG, "none"), (RUN, ATTEND, STEP)),
        (Facts(TOKEN, "none", growing=True), (RUN, STEP)),
        (Facts(TAG, "none", growing=True), (RUN, STEP)),
        # Step by step: everything else.
        (Facts(CURRENT, "next"), (STEP,)),
        (Facts(TOKEN, "next"), (STEP,)),
        (Facts({}, "next"), (STEP,)),
        (Facts(PREVIOUS, "now"), (STEP,)),
        (Facts(TOKEN | PREVIOUS, "now"), (STEP,)),
        (Facts(TAG | PREVIOUS, "now"), (STEP,)),
        (Facts(TOKEN, "now", growing=True), (STEP,)),
        (Facts(PREVIOUS, "now", growing=True), (STEP,)),
        (Facts(CONTEXT, "none"), (STEP,)),
        (Facts(CONTEXT, "now"), (STEP,)),
        (Facts(TOKEN | CONTEXT, "none"), (STEP,)),
        (Facts(CURRENT, "none", needs_past=True), (STEP,)),
        (Facts(TOKEN, "now", needs_past=True), (STEP,)),
        (Facts(TOKEN, "none", growing=True, needs_past=True), (STEP,)),
        (Facts(CURRENT, "none", sampling=True), (STEP,)),
        (Facts(TOKEN, "now", sampling=True), (STEP,)),
    ],
)
def test_the_table(facts: Facts, admitted: tuple[str, ...]) -> None:
    """What is admitted, the best first; with ``auto`` the first is chosen."""
    assert plan(facts).admitted == admitted
    assert plan(facts).schedule == admitted[0]
    for schedule in admitted:
        assert plan(facts, schedule).schedule == schedule
    for schedule in {RUN, ATTEND, STEP} - set(admitted):
        with pytest.raises(UserError, match=f"attention.schedule={schedule} is not possible"):
            plan(facts, schedule)


@pytest.mark.parametrize(
    ("needs", "feed"),
    [
        (PREVIOUS, "now"),
        (TOKEN, "now"),
        (TAG, "now"),
        (TOKEN | TAG, "now"),
        (TOKEN | PREVIOUS, "now"),
        (PREVIOUS | CONTEXT, "now"),
        ({}, "now"),
        (CURRENT, "none"),
        (CURRENT | TOKEN, "none"),
        (CURRENT | PREVIOUS, "none"),  # the previous state would have it now, the current state cannot
        (CONTEXT, "none"),
        (TOKEN | CONTEXT, "none"),
        (TAG | CONTEXT, "none"),
    ],
)
def test_the_feed_left_unset(needs: dict[str, str], feed: str) -> None:
    assert plan(Facts(needs)).feed == feed


@pytest.mark.parametrize("needs", [CURRENT, TOKEN | CURRENT, CURRENT | PREVIOUS])
def test_a_current_state_now_is_refused(needs: dict[str, str]) -> None:
    with pytest.raises(UserError) as refused:
        plan(Facts(needs, "now"))
    assert str(refused.value) == (
        "model.feed=now contradicts query=current_state: the context enters the cell that makes the state it would be "
        "asked with; use query=previous_state, or model.feed=next or none"
    )


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (Facts(CURRENT, "none"), "run, then attend: no context enters the recurrence"),
        (Facts(TOKEN, "now"), "attend, then run: the query is token alone, known at the start"),
        (Facts(TAG, "now"), "attend, then run: the query is language_tag alone, known at the start"),
        (Facts(TOKEN | TAG), "attend, then run: the query is token and language_tag alone, known at the start"),
        (Facts({}), "attend, then run: without attention the context is known at the start"),
        (Facts(CURRENT, "next"), "step by step: the last context enters the recurrence (model.feed=next)"),
        (
            Facts(PREVIOUS, "now"),
            "step by step: the context enters the recurrence and its query holds a state (model.feed=now)",
        ),
        (
            Facts(TOKEN, "now", growing=True),
            "step by step: the context enters the recurrence and the memory grows with it",
        ),
        (Facts(CONTEXT), "step by step: the query holds the last context"),
        (Facts(CURRENT, needs_past=True), "step by step: the scorer reads the weights of earlier steps"),
        (Facts(CURRENT, sampling=True), "step by step: scheduled sampling feeds the model's own outputs back"),
    ],
)
def test_the_sentence(facts: Facts, sentence: str) -> None:
    assert str(plan(facts)) == sentence


def test_insisting_is_its_own_reason() -> None:
    assert str(plan(Facts(CURRENT, "none"), STEP)) == "step by step: it was asked for"


@pytest.mark.parametrize(
    ("facts", "wanted", "reason"),
    [
        (Facts(CURRENT, "next"), RUN, "the last context enters the recurrence (model.feed=next); use step_by_step"),
        (
            Facts(TOKEN, "now"),
            RUN,
            "the context enters the recurrence (model.feed=now); use attend_then_run or step_by_step",
        ),
        (
            Facts(CURRENT, "none"),
            ATTEND,
            "the query holds a state, which the recurrence must make first; use run_then_attend or step_by_step",
        ),
        (Facts(CURRENT, needs_past=True), RUN, "the scorer reads the weights of earlier steps; use step_by_step"),
        # The token alone is asked and nothing is fed; what forbids attending first is the memory that is yet to grow.
        (
            Facts(TOKEN, "none", growing=True),
            ATTEND,
            "the memory grows while decoding; use run_then_attend or step_by_step",
        ),
    ],
)
def test_a_refusal_says_why(facts: Facts, wanted: str, reason: str) -> None:
    with pytest.raises(UserError) as refused:
        plan(facts, wanted)
    assert str(refused.value) == f"attention.schedule={wanted} is not possible: {reason}"
