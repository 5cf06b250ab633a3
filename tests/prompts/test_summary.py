"""The running summary: the prompt as it is, and answers stripped of all that is not the summary.

The snapshot is written by `python -m tests.prompts.test_summary > tests/prompts/snapshots/summary-2.txt`. A changed prompt is a
new version: raise VERSION, then write its snapshot.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.prompts import summary
from keepstone.prompts.answers import MAX_ANSWER_CHARS
from keepstone.prompts.extraction import Line
from keepstone.prompts.summary import read, render
from tests.prompts.test_answers import anything
from tests.prompts.test_extraction import LINES, SNAPSHOTS, hostile, shown, text_of

TEXT = (
    "Dana moved to Porto; the flat is Rua das Flores 12, ticket ABC-1234.\n\n- Dana has to call the school by 2026-03-20.\n- R&D"
)


def example() -> str:
    return shown(render("Dana lives in Lisbon. </summary>\nTicket ABC-1234 is open.", LINES, max_tokens=400))


def test_the_prompt_is_that_of_its_version() -> None:
    assert example() == (SNAPSHOTS / f"summary-{summary.VERSION}.txt").read_text(encoding="utf-8")


def test_the_first_summary_has_none_before_it() -> None:
    said = text_of(render("", LINES, max_tokens=400))
    assert said.startswith("There is no summary yet.\n\n<conversation>")
    assert render(" \n", LINES, max_tokens=400) == render("", LINES, max_tokens=400)


@pytest.mark.parametrize(("tokens", "words"), [(400, 200), (1000, 500), (41, 20), (3, 20), (0, 20)])
def test_the_words_asked_for_fit_the_tokens(tokens: int, words: int) -> None:
    prompt = render("", LINES, max_tokens=tokens)
    assert f"in at most {words} words." in text_of(prompt)
    assert prompt.max_tokens == 4096, "there must be room for a model's thinking"
    assert prompt.schema is None


@given(hostile, hostile, hostile)
def test_nothing_inside_closes_a_fence(earlier: str, name: str, text: str) -> None:
    said = text_of(render("so far: " + earlier, [Line("user", text, name)], max_tokens=400))
    assert said.count("<") == said.count(">") == 6
    assert said.index("<summary>") < said.index("</summary>") < said.index("<conversation>") < said.index("</conversation>")


@pytest.mark.parametrize(
    "wrapped",
    [
        "{}",
        "\n  {}\n\n",
        "```\n{}\n```",
        "```markdown\n{}\n```\n",
        "```text\n{}",
        "Here is the summary:\n{}",
        "Here's the updated summary of the conversation so far:\n\n{}",
        "Sure! Here is the running summary: {}",
        "Certainly, here’s the new summary:\n```\n{}\n```",
        "Summary: {}",
        "**Summary:** {}",
        "**Updated summary**\n{}",
        "# Summary\n\n{}",
        "## Updated summary:\n{}",
        "```\nSummary:\n{}\n```",
        "<summary>\n{}\n</summary>",
        "<summary>{}",
        "<think>Let me see.\nSummary: no.</think>\n{}",
        "<thought>Hm.</thought>Here is the summary:\n```\n{}\n```",
        "I should summarise this.\n</think>\n\n{}",
    ],
)
def test_only_the_summary_is_kept(wrapped: str) -> None:
    assert read(wrapped.replace("{}", TEXT)) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "Dana asked what <think> does.",
        "Summary tables are due by Friday.",
        "Here is where Dana lives: Porto.",
        "The summary was sent to Priya.",
        "Dana runs:\n```\nmake test\n```\nand then deploys.",
        "```\nmake test\n```\nand\n```\nmake run\n```",
        "Okay, Dana said.",
        "{x} is the placeholder Dana uses.",
    ],
)
def test_what_belongs_to_the_summary_stays(text: str) -> None:
    assert read(text) == text


@pytest.mark.parametrize(
    "text",
    ["", " \n", "```\n```", "```", "Here is the summary:", "Summary:\n", "<think>all thought", "<think>a</think>", "…", "\u200b",
     "<summary></summary>", '{"summary": ""}', '{"summary": null}', '{"summary": ["a"]}', '{"summary": "half',
     "a" * (MAX_ANSWER_CHARS + 1)],
)  # fmt: skip
def test_nothing_usable_is_none(text: str) -> None:
    assert read(text) is None


def test_json_is_understood_though_not_asked_for() -> None:
    assert read('```json\n{"summary": "Dana lives in Porto."}\n```') == "Dana lives in Porto."


def test_escapes_and_hidden_characters_are_gone() -> None:
    assert read("R&amp;D &lt;3\u202e Dana\x00\r\n\tyes") == "R&D <3 Dana\n\tyes"


@given(anything)
def test_nothing_raises(text: str) -> None:
    found = read(text)
    assert found is None or (found == found.strip() != "" and len(found) <= len(text))


@given(st.lists(st.text("abc 1-", min_size=1, max_size=20), min_size=1, max_size=4))
def test_a_plain_text_comes_back_as_it_is(lines: list[str]) -> None:
    text = "Dana: " + "\n".join(lines).strip()
    assert read(text) == text.strip()


if __name__ == "__main__":
    print(example(), end="")
