"""A running summary of a conversation, carried on turn by turn, as plain text. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keepstone.ports.chat import Prompt
from keepstone.prompts import read_text
from keepstone.prompts.answers import MAX_ANSWER_CHARS, hidden, json_object, unescaped, without_thoughts
from keepstone.prompts.extraction import Line, conversation, escaped, shortened

VERSION = "2"
_MAX_EARLIER_CHARS = 32_000  # characters of the earlier summary that are shown
_MIN_WORDS = 20
_ANSWER_TOKENS = 4096  # tokens a model may take, its thinking included; the words asked for keep the summary short

SYSTEM = read_text("summary")

_MAX_WRAPPINGS = 4  # an introduction, a fence after it, a title inside
_JSON = re.compile(r'\{\s*"summary"')
_FENCE = re.compile(r"\s*+```[ \t]*+[\w-]*+[ \t]*+\n(?P<inside>.*?)(?:\n[ \t]*```\s*)?", re.DOTALL)
_ELEMENT = re.compile(r"\s*<summary>(?P<inside>.*?)(?:</summary>\s*)?", re.DOTALL | re.IGNORECASE)
_PREFIX = re.compile(
    r"""\s*+(?:(?:sure|certainly|of\ course|okay|ok|understood|absolutely)\b[^\n:]{0,20}?[!.,]\s++)?
    (?:\#{1,6}\ |\*\*|__)?
    (?:(?:here(?:\ is|'s|’s)|below\ is)\ [^\n:]{0,60}?\bsummary\b[^\n:]{0,60}:
      |(?:the\ )?(?:(?:updated|new|running|revised|current|conversation|whole)\ ){0,3}summary(?:\ so\ far)?
       (?:\*\*|__)?(?::|[ \t]*\n))
    (?:\*\*|__)?""",
    re.IGNORECASE | re.VERBOSE,
)


def render(earlier: str, lines: Sequence[Line], *, max_tokens: int) -> Prompt:
    """The prompt that carries a summary on over some turns; `earlier` is "" at first."""
    so_far = escaped(shortened(earlier.strip(), _MAX_EARLIER_CHARS))
    parts = [
        f"<summary>\n{so_far}\n</summary>" if so_far else "There is no summary yet.",
        conversation(lines),
        f"Write the whole summary as it stands after these turns, in at most {words(max_tokens)} words.",
    ]
    return Prompt([{"role": "user", "content": "\n\n".join(parts)}], SYSTEM, max_tokens=max(max_tokens, _ANSWER_TOKENS))


def words(max_tokens: int) -> int:
    """How many words to ask for, so that the answer ends before its tokens do: models count words badly, and many languages
    take two tokens for one.

    >>> words(500)
    250
    """
    return max(_MIN_WORDS, max_tokens // 2)


def read(text: str) -> str | None:
    """The summary in a model's answer, without thoughts, fences and introductions. None: it says nothing, so keep the earlier."""
    if len(text) > MAX_ANSWER_CHARS:
        return None
    plain = without_thoughts(text)
    for _ in range(_MAX_WRAPPINGS):
        plain = _bare(plain)
    if _JSON.match(plain):
        found = json_object(plain, ("summary",))
        inside = found.value["summary"] if found else None
        plain = inside if isinstance(inside, str) else ""
    seen = "".join(each for each in unescaped(plain) if each in "\n\t" or not hidden(each)).strip()
    return seen if any(each.isalnum() for each in seen) else None


def _bare(text: str) -> str:
    """A text without the outermost wrapping it has, if it has one."""
    wrapped = _FENCE.fullmatch(text) or _ELEMENT.fullmatch(text)
    if wrapped and "```" not in wrapped["inside"]:  # else the fences may be those of two blocks of code
        return wrapped["inside"].strip()
    prefix = _PREFIX.match(text)
    return (text[prefix.end() :] if prefix else text).strip()
