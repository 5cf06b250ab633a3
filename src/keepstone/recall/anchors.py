"""Events that a question dates itself by: "before I moved to Berlin". Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Vector
from keepstone.recall.candidates import glance
from keepstone.recall.question import Question, read
from keepstone.scope_index.columns import View
from keepstone.text.times import instant

_KNOWN = 0.45  # likeness and coverage, half and half, from which a record is taken to tell of the event
_AROUND = timedelta(days=7)  # what "during" reaches to either side of when it was told


def anchored(
    view: View, question: Question, usable: NDArray[np.bool_], embed: Callable[[str], Vector | None], deviation: float | None
) -> Question:
    """The question with the time of the event that it names as its `event`, where a record tells of it; else as it is."""
    hint = question.time
    if hint is None or not hint.anchor or hint.start is not None or hint.end is not None or not usable.any():
        return question
    event = read(hint.anchor, view.speakers, instant(0))
    seen = glance(view, event, embed(event.meant), usable, deviation)
    known = np.where(usable, 0.5 * seen.meaning + 0.5 * seen.coverage, -1.0)
    best = int(known.argmax())
    if known[best] < _KNOWN:
        return question
    at = instant(int(view.occurred[best]))
    if hint.relation == "before":
        event_time = replace(hint, end=at)
    elif hint.relation == "after":
        event_time = replace(hint, start=at)
    else:
        event_time = replace(hint, start=at - _AROUND, end=at + _AROUND)
    return replace(question, event=event_time)
