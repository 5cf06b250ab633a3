"""Judges whether a task was done: by the caller's check, else by the model's own report.

The report is a JSON object at the end of the model's last answer. A model that ends in prose is asked for it once. Where it gives
none, the words of its account decide.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keepstone.agent.effects import Ask, Turn
from keepstone.errors import ModelError
from keepstone.ports.chat import Answer, Prompt
from keepstone.prompts.answers import closed_object, json_object, without_thoughts
from keepstone.types import Usage

log = logging.getLogger("keepstone.agent")
Check = Callable[[str], object]
REPORT = "Was the task done? Report it as one JSON object with done and account, as you were told."
SCHEMA = closed_object({"done": {"type": "boolean"}, "account": {"type": "string"}})
_FAILED = re.compile(r"failed\s*:\s*", re.IGNORECASE)
_NOT_DONE = re.compile(
    r"\b(?:i|we)(?:['’]m|['’]ve| am| was| were| have| had)? (?:unable|not able|could ?n[o'’]t|could not|cannot|can['’]t|failed to"
    r"|give up|gave up|given up|did(?: not|n['’]t) (?:manage|succeed|complete|finish))\b"
    r"|\b(?:could|can|was|were|has)(?: not|n['’]t)(?: been| be)? (?:done|completed|finished|solved|possible)\b",
    re.IGNORECASE,
)
_NO_ACCOUNT = "(no account was given)"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a task was done, what the model says about it, and the same with the reason for a failure."""

    success: bool
    account: str
    outcome: str
    usage: Usage = Usage()


def judge(answer: Answer, ended: str | None, prompt: Prompt, check: Check | None) -> Turn[Judgement]:
    """Judge a task by its last answer. `ended` says why it was stopped, None where the model ended it; `prompt` is what the model
    was asked last."""
    text = without_thoughts(answer.text).strip()
    report, usage = read_report(text), Usage()
    if ended is None and answer.stop != "end":
        ended = f"the model ended with {answer.stop!r}"
    if report is None and check is None and ended is None and text:
        report, usage = yield from _ask_report(prompt, text)
    done, account = report or (not _FAILED.match(text) and not _NOT_DONE.search(text), _FAILED.sub("", text, count=1))
    account = account or _NO_ACCOUNT
    if ended is not None:
        return Judgement(False, account, f"{ended}: {account}", usage)
    if check is not None:
        objection = _objection(check, account)
        outcome = account if objection is None else f"{objection}; the model had said: {account}"
        return Judgement(objection is None, account, outcome)
    return Judgement(done and account != _NO_ACCOUNT, account, account, usage)


def read_report(text: str) -> tuple[bool, str] | None:
    """The (done, account) of a model's report, or None.

    >>> read_report('All is set. {"done": true, "account": "Restarted the queue."}')
    (True, 'Restarted the queue.')
    """
    found = json_object(text, ("done",))
    if found is None or not isinstance(found.value["done"], bool):
        return None
    account = found.value.get("account")
    return found.value["done"], account.strip() if isinstance(account, str) and account.strip() else text


def _ask_report(prompt: Prompt, text: str) -> Turn[tuple[tuple[bool, str] | None, Usage]]:
    """Ask for the report; the model's own account stays where it gave one in prose."""
    messages: Sequence[Mapping[str, Any]] = (
        *prompt.messages,
        {"role": "assistant", "content": text},
        {"role": "user", "content": REPORT},
    )
    try:
        answer = yield Ask(Prompt(messages, prompt.system, prompt.tools, prompt.max_tokens, schema=SCHEMA, may_use=False))
    except ModelError as error:
        log.warning("the model gave no report on its task, its words decide: %s", error)
        return None, Usage()
    assert isinstance(answer, Answer)
    report = read_report(answer.text)
    return None if report is None else (report[0], text), answer.usage


def _objection(check: Check, account: str) -> str | None:
    """What the caller's check says against an account; None if it passes."""
    try:
        result = check(account)
    except Exception as error:  # an assertion, for instance
        return f"the check failed with {type(error).__name__}: {error}"
    if isinstance(result, str):
        return f"the check says: {result}" if result.strip() else None
    return None if result or result is None else "the check says no"
