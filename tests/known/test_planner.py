"""The planner's table, row by row, its defaults and its reasons."""

import pytest

from attnx.models.planner import PlannerInputs, plan
from tests.refusal import refused

CURRENT, PREVIOUS = {"current_state": "state"}, {"previous_state": "prev_state"}
TOKEN, CONTEXT, TAG = {"token": "token"}, {"last_context": "context"}, {"language_tag": "tag"}

RUN, ATTEND, STEP = "run_then_attend", "attend_then_run", "step_by_step"
FED = "step by step: the context enters the recurrence"


@pytest.mark.parametrize("needs", [CURRENT, TOKEN | CURRENT, CURRENT | PREVIOUS])
def test_a_current_state_now_is_refused(needs):
    with refused(
        "model.feed=now contradicts query=current_state: the context enters the cell that makes the state it would be "
        "queried with; use query=previous_state, or model.feed=next or none"
    ):
        plan(PlannerInputs(needs, "now"))


@pytest.mark.parametrize(
    ("query", "options", "sentence"),
    [
        (CURRENT, {"feed": "none"}, "run, then attend: no context enters the recurrence"),
        (TOKEN, {"feed": "now"}, "attend, then run: the query is token alone, known at the start"),
        (TAG, {"feed": "now"}, "attend, then run: the query is language_tag alone, known at the start"),
        (TOKEN | TAG, {}, "attend, then run: the query is token and language_tag alone, known at the start"),
        ({}, {}, "attend, then run: without attention the context is known at the start"),
        (CURRENT, {"feed": "next"}, "step by step: the last context enters the recurrence (model.feed=next)"),
        (PREVIOUS, {}, f"{FED} and its query holds a state (model.feed=now)"),
        (TOKEN, {"feed": "now", "has_decoder_memory": True}, f"{FED} and the memory grows with it"),
        (CONTEXT, {}, "step by step: the query holds the last context"),
        (CURRENT, {"needs_history": True}, "step by step: the scorer reads the weights of earlier steps"),
        (
            CURRENT,
            {"has_scheduled_sampling": True},
            "step by step: scheduled sampling feeds the model's own outputs back",
        ),
    ],
)
def test_a_plan_has_a_summary_sentence(query, options, sentence):
    assert str(plan(PlannerInputs(query, **options))) == sentence


def test_a_context_without_a_state_is_not_fed():
    assert (plan(PlannerInputs(CONTEXT)).feed, plan(PlannerInputs(CONTEXT | PREVIOUS)).feed) == ("none", "now")


def test_a_requested_schedule_is_its_own_reason():
    assert str(plan(PlannerInputs(CURRENT, "none"), STEP)) == "step by step: it was requested"


@pytest.mark.parametrize(
    ("query", "options", "schedule", "reason"),
    [
        (CURRENT, {"feed": "next"}, RUN, "the last context enters the recurrence (model.feed=next); use step_by_step"),
        (
            TOKEN,
            {"feed": "now"},
            RUN,
            "the context enters the recurrence (model.feed=now); use attend_then_run or step_by_step",
        ),
        (
            CURRENT,
            {"feed": "none"},
            ATTEND,
            "the query holds a state, which the recurrence must make first; use run_then_attend or step_by_step",
        ),
        (CURRENT, {"needs_history": True}, RUN, "the scorer reads the weights of earlier steps; use step_by_step"),
        # The query is the token and nothing is fed; the growing memory forbids attending first.
        (
            TOKEN,
            {"feed": "none", "has_decoder_memory": True},
            ATTEND,
            "the memory grows while decoding; use run_then_attend or step_by_step",
        ),
    ],
)
def test_a_refusal_states_its_reason(query, options, schedule, reason):
    with refused(f"model.schedule={schedule} is not possible: {reason}"):
        plan(PlannerInputs(query, **options), schedule)
