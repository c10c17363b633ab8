"""The planner: from plain facts about a composition to the schedule it runs by, and the sentence that says why.

Teacher-forced training need not step through time. What the query needs and where the context goes decide whether the
recurrence can run first, attention can run first, or both must take turns. This is the one place that decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnx.errors import UserError

Feed = Literal["now", "next", "none"]
Schedule = Literal["run_then_attend", "attend_then_run", "step_by_step"]

WORDS = {
    "run_then_attend": "run, then attend",
    "attend_then_run": "attend, then run",
    "step_by_step": "step by step",
}
# Fields of `QueryContext` that are known for every step before decoding starts, under teacher forcing.
KNOWN_IN_ADVANCE = frozenset({"token", "tag", "nothing"})


@dataclass(frozen=True)
class PlannerInputs:
    """What the planner needs to know, all of it plain."""

    # what the query inputs need, by query input: ``{"current_state": "state"}``; empty without attention
    needs: dict[str, str]
    feed: Feed | None = None  # where the context enters the recurrence, or None to let the planner choose
    has_decoder_memory: bool = False  # attention reads decoder states
    needs_history: bool = False  # the scorer reads earlier weights
    has_scheduled_sampling: bool = False  # training feeds the model's own outputs back at times


@dataclass(frozen=True)
class Plan:
    """The schedule chosen, all that would be right, and why."""

    schedule: Schedule
    feed: Feed
    valid_schedules: tuple[Schedule, ...]
    reason: str

    def __str__(self) -> str:
        return f"{WORDS[self.schedule]}: {self.reason}"


def plan(inputs: PlannerInputs, requested: str = "auto") -> Plan:
    """Choose the schedule.

    ``requested`` is ``auto``, or a schedule to insist on.

    Raises:
        UserError: the query contradicts the feed, or the requested schedule is not valid.
    """
    needs = set(inputs.needs.values())
    can_feed_now = "state" not in needs and ("prev_state" in needs or needs <= KNOWN_IN_ADVANCE)
    feed = inputs.feed or ("now" if can_feed_now else "none")
    late = [name for name, need in inputs.needs.items() if need == "state"]
    if feed == "now" and late:
        raise UserError(
            f"model.feed=now contradicts query={late[0]}: the context enters the cell that makes the state it would be "
            "queried with; use query=previous_state, or model.feed=next or none"
        )
    loop = _why_loop(inputs, feed)
    valid_schedules: list[Schedule] = []
    reasons: dict[Schedule, str] = {"step_by_step": loop or "it was requested"}
    if loop is None and feed == "none":
        valid_schedules.append("run_then_attend")
        reasons["run_then_attend"] = "no context enters the recurrence"
    if loop is None and not inputs.has_decoder_memory and needs <= KNOWN_IN_ADVANCE:
        valid_schedules.append("attend_then_run")
        query = f"the query is {' and '.join(inputs.needs)} alone, known at the start"
        reasons["attend_then_run"] = query if needs else "without attention the context is known at the start"
    valid_schedules.append("step_by_step")
    if requested not in ("auto", *valid_schedules):
        raise UserError(f"model.schedule={requested} is not possible: {_why_not(inputs, feed, loop)}")
    schedule = next(name for name in valid_schedules if requested in ("auto", name))
    return Plan(schedule, feed, tuple(valid_schedules), reasons[schedule])


def _why_loop(inputs: PlannerInputs, feed: Feed) -> str | None:
    """Why nothing but a loop over time will do, or None."""
    if inputs.has_scheduled_sampling:
        return "scheduled sampling feeds the model's own outputs back"
    if inputs.needs_history:
        return "the scorer reads the weights of earlier steps"
    if "context" in inputs.needs.values():
        return "the query holds the last context"
    if feed == "next":
        return "the last context enters the recurrence (model.feed=next)"
    if feed == "now" and not set(inputs.needs.values()) <= KNOWN_IN_ADVANCE:
        return "the context enters the recurrence and its query holds a state (model.feed=now)"
    if feed == "now" and inputs.has_decoder_memory:
        return "the context enters the recurrence and the memory grows with it"
    return None


def _why_not(inputs: PlannerInputs, feed: Feed, loop: str | None) -> str:
    if loop is not None:
        return f"{loop}; use step_by_step"
    if feed != "none":
        return "the context enters the recurrence (model.feed=now); use attend_then_run or step_by_step"
    if inputs.has_decoder_memory and set(inputs.needs.values()) <= KNOWN_IN_ADVANCE:
        return "the memory grows while decoding; use run_then_attend or step_by_step"
    return "the query holds a state, which the recurrence must make first; use run_then_attend or step_by_step"
