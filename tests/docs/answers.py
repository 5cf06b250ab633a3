"""The model that the pages of the documentation talk to: it reads the request and answers from what stands in it, nothing else.

What it cannot find in the request it does not know, so a page that shows a remembered answer has had it in its prompt. It can
quote a statement that shares words with a question, use the tools it is offered, find a few plain facts, and write the
sentences with names and numbers as a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.models.endpoint import Request, Step, say, use

LOST = "I do not know that."
_SAME = {"theme": "mode", "like": "prefer", "live": "home", "city": "home", "moved": "home", "going": "home"}
_IDLE = frozenset(
    "a an and are as at be can did do does for from have how i in is it me my of on our should that the to was we what when "
    "where which who will with you your".split()
)
_TOLD = re.compile(r"^- \[[^\]]*\] (?:[\w ]+: )?(?:[\w.-]+ = )?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+| and (?=I )")
_TURN = re.compile(r'<turn number="(\d+)" role="user"[^>]*?( context="yes")?>(.*?)</turn>', re.DOTALL)


@dataclass(frozen=True)
class Said:
    """One message: who, its text, and whether it is a tool's result."""

    role: str
    text: str
    result: bool = False


@dataclass(frozen=True)
class Seen:
    """A request in either wire format."""

    system: str
    messages: tuple[Said, ...]
    tools: Mapping[str, Mapping[str, Any]]
    used: tuple[str, ...]

    @property
    def asked(self) -> str:
        """The user's own last words."""
        return next(each.text for each in reversed(self.messages) if each.role == "user" and not each.result).splitlines()[-1]

    @property
    def whole(self) -> str:
        """All of the last message."""
        return self.messages[-1].text

    @property
    def result(self) -> str | None:
        """What a tool has just given."""
        return self.messages[-1].text if self.messages[-1].result else None


def answer(request: Request) -> Step:
    """What the model says or does."""
    seen = read(request["body"])
    if seen.system.startswith("You keep the memory"):
        return say(json.dumps({"facts": list(facts(seen.whole))}))
    if seen.system.startswith("You read a whole session"):
        return say(json.dumps(outcome(seen.whole)))
    if seen.system.startswith("You carry on the summary"):
        return say(summary(seen.whole))
    own = [name for name in seen.tools if not name.endswith("_memory")]
    if "You are working on a task" in seen.system and own:
        return work(seen, own)
    return with_memory_tools(seen) if "recall_memory" in seen.tools else talk(seen)


# -- reading ------------------------------------------------------------------------------------------------------------
def read(body: Mapping[str, Any]) -> Seen:
    """A request's body, Anthropic's or OpenAI's."""
    messages: list[Said] = []
    used: list[str] = []
    system = text_of(body.get("system") or "")
    for message in body["messages"]:
        role, content = message["role"], message.get("content") or ""
        used += [call["function"]["name"] for call in message.get("tool_calls") or ()]
        if role in ("system", "developer"):
            system = text_of(content)
        elif role == "tool":
            messages.append(Said("user", text_of(content), True))
        else:
            blocks = content if isinstance(content, list) else []
            used += [block["name"] for block in blocks if block.get("type") == "tool_use"]
            messages.append(Said(role, text_of(content), any(block.get("type") == "tool_result" for block in blocks)))
    tools = [tool.get("function", tool) for tool in body.get("tools") or ()]
    schemas = {tool["name"]: tool.get("input_schema") or tool.get("parameters") for tool in tools}
    return Seen(system, tuple(messages), schemas, tuple(used))


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text_of(block.get("text") or block.get("content") or "") for block in content)


def statements(seen: Seen) -> Iterator[str]:
    """Every sentence in the request that is not the question itself or the rules; what memory says comes as it was said."""
    memory = seen.system.partition("<memory")[2]
    for text in [memory, *(each.text for each in seen.messages)]:
        found = [each["content"] for each in recalled(text)]
        for line in found or text.splitlines():
            for sentence in _SENTENCE.split(_TOLD.sub("", line)):
                if sentence.strip() and not sentence.endswith("?") and sentence != seen.asked and not sentence.startswith("<"):
                    yield sentence.strip()


def recalled(text: str) -> list[dict[str, Any]]:
    """The memories in the result of recall_memory."""
    try:
        return list(json.loads(text).get("memories", ()))
    except (ValueError, AttributeError):
        return []


# -- talking ------------------------------------------------------------------------------------------------------------
def talk(seen: Seen) -> Step:
    if not seen.asked.endswith("?"):
        return say("Noted.")
    return say(known(seen) or LOST)


def known(seen: Seen) -> str | None:
    """The statement that has most in common with the question, said to the user; the later of two."""
    wanted = words(seen.asked)
    best = max(enumerate(statements(seen)), key=lambda each: (len(wanted & words(each[1])), each[0]), default=None)
    return to_user(best[1]) if best and wanted & words(best[1]) else None


def words(text: str) -> set[str]:
    found = (word.removesuffix("s") for word in re.findall(r"[a-z0-9-]+", text.lower()) if word not in _IDLE)
    return {_SAME.get(word, word) for word in found}


def to_user(sentence: str) -> str:
    """
    >>> to_user("The user prefers dark mode.")
    'You prefer dark mode.'
    """
    text = re.sub(r"^The user's\b", "Your", sentence)
    text = re.sub(r"^The user (\w+?)s\b", r"You \1", text)
    text = re.sub(r"^I\b", "You", text)
    text = re.sub(r"^(My|Our)\b", "Your", text)
    return text if text.endswith((".", "!")) else f"{text}."


def of_user(sentence: str) -> str:
    """
    >>> of_user("I prefer tea")
    'The user prefers tea.'
    """
    text = re.sub(r"^I (\w+)", r"The user \1s", sentence.strip())
    text = re.sub(r"^(My|Our)\b", "The user's", text)
    return f"{text.rstrip('.')}."


# -- with the memory tools ------------------------------------------------------------------------------------------------
def with_memory_tools(seen: Seen) -> Step:
    said, result = seen.asked, seen.result
    found = [each for each in recalled(result or "") if each["kind"] != "message"]
    if re.search(r"\bforget\b", said, re.I) and "forget_memory" in seen.tools:
        if result is None:
            return use("recall_memory", {"query": said})
        return use("forget_memory", {"id": found[0]["id"]}) if found else say("That is forgotten.")
    if re.search(r"\bnow\b", said):
        if result is None:
            return use("recall_memory", {"query": said})
        new = of_user(said.replace(" now", ""))
        return use("update_memory", {"id": found[0]["id"], "content": new}) if found else say("I have put that right.")
    if re.match(r"I (prefer|drink)\b", said):
        written = {"tag": "preference", "content": of_user(said)}
        return use("write_memory", written) if result is None else say("I will remember that.")
    if not said.endswith("?"):
        return say("Noted.")
    if not (reply := known(seen)) and result is None:
        return use("recall_memory", {"query": said})
    return say(reply or LOST)


# -- working ------------------------------------------------------------------------------------------------------------
def work(seen: Seen, own: list[str]) -> Step:
    """Use the first tool that was not used yet and is not known to have failed; end when one has helped."""
    if seen.result is not None and not re.search(r"failed|error|502", seen.result):
        return say(json.dumps({"done": True, "account": f"{seen.used[-1]} helped: {seen.result}"}))
    past = "\n".join(each.text for each in seen.messages)
    failed = {name for name in own if re.search(rf"{name}\([^\n]*? -&gt; failed", past)}
    left = [name for name in own if name not in seen.used and name not in failed]
    if not left:
        account = f"{', '.join(seen.used)} did not help, and there is no other tool."
        return say(json.dumps({"done": False, "account": account}))
    thing = re.search(r"the (\w+) service", past.splitlines()[-1] if not seen.used else seen.messages[0].text)
    service = thing[1] if thing else "unknown"
    given = {name: 2 if kind.get("type") == "integer" else service for name, kind in seen.tools[left[0]]["properties"].items()}
    return use(left[0], given, f"I try {left[0]}.")


# -- reading for memory ---------------------------------------------------------------------------------------------------
def turns(text: str) -> list[tuple[int, str]]:
    """The user's new turns with their numbers."""
    return [(int(number), said.strip()) for number, context, said in _TURN.findall(text) if not context]


def facts(text: str) -> Iterator[dict[str, Any]]:
    patterns = {
        r"[Mm]y name is (\w+)": ("The user's name is {}.", "profile", "name"),
        r"\bI prefer ([^.,!?]+)": ("The user prefers {}.", "preference", None),
        r"\b(\w+) it is since": ("The user lives in {}.", "profile", "home"),
    }
    for number, said in turns(text):
        for pattern, (content, kind, key) in patterns.items():
            for value in re.findall(pattern, said):
                yield {"turns": [number], "content": content.format(value), "type": kind, "key": key, "confidence": 0.9}


def outcome(text: str) -> dict[str, list[dict[str, Any]]]:
    lists: dict[str, list[dict[str, Any]]] = {"facts": [], "decisions": [], "open_tasks": []}
    marks = {"facts": r"\bI prefer\b|\bis called\b", "decisions": r"\bdecided\b", "open_tasks": r"\bstill has to\b"}
    for number, said in turns(text):
        for sentence in _SENTENCE.split(said):
            for name, mark in marks.items():
                if re.search(mark, sentence):
                    lists[name].append({"turns": [number], "text": of_user(sentence)})
    return lists


def summary(text: str) -> str:
    """The summary so far, and the sentences with names and numbers since."""
    before = re.search(r"<summary>\n(.*?)\n</summary>", text, re.DOTALL)
    said = [sentence.strip() for _, turn in turns(text) for sentence in _SENTENCE.split(turn)]
    kept = [each for each in said if re.search(r"\d|prefer|decided|called", each)]
    return "\n".join([*([before[1]] if before else []), *(f"- {of_user(each)}" for each in kept)]) or "Nothing was agreed yet."
