"""A long conversation: what it costs to add a turn and to build the messages for a model, with the summary carried on as it goes.

Every turn is added to a file and the messages are built after each of the user's, as a chat does. The summary is made of picked
sentences, so that what is timed is keepstone and not a model; `model_calls` counts how often a model would have been asked.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from bench.measure import Times, progress, table
from bench.texts import texts
from keepstone import Memory
from keepstone.ports.chat import Answer, Prompt
from keepstone.text.token_count import estimate_tokens

SESSION = "long"


def turns(count: int) -> list[tuple[str, Any]]:
    """What a user and an assistant say in turn; every tenth exchange goes through a tool."""
    told = texts(count)
    made: list[tuple[str, Any]] = []
    for at, each in enumerate(told):
        if len(made) >= count:
            break
        made.append(("user", f"{each.content} {each.question}"))
        if at % 10 == 9:
            use = {"type": "tool_use", "id": f"t{at}", "name": "look_up", "input": {"question": each.question}}
            made.append(("assistant", [{"type": "text", "text": "Let me look that up."}, use]))
            made.append(("user", [{"type": "tool_result", "tool_use_id": f"t{at}", "content": each.content}]))
        made.append(("assistant", f"I see. {each.content} Anything else I should keep in mind about that?"))
    return made[:count]


def size(messages: list[dict[str, Any]]) -> int:
    """The tokens of what is sent, counted from outside: every text in it."""
    total = 0
    for message in messages:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [json.dumps(block, ensure_ascii=False) for block in content]
        total += sum(estimate_tokens(text) for text in texts)
    return total


def measure(count: int, max_tokens: int, max_messages: int) -> dict[str, Any]:
    """Grow a conversation to so many messages and build what a model is given as it grows."""
    said = turns(count)
    added, built, folded = Times(), Times(), Times()
    over = folds = 0
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "memory.db") as memory:
        conversation = memory.conversation(SESSION, max_tokens=max_tokens, max_messages=max_messages)
        covered = 0
        for role, content in said:
            added.take(lambda role=role, content=content: conversation.add(role, content))
            if role != "user":
                continue
            each = Times()
            given = each.take(conversation.build)
            new = given.summary.messages != covered
            covered = given.summary.messages
            folds += new
            for times in (built, *((folded,) if new else ())):
                times.wall += each.wall
                times.cpu += each.cpu
            over += size(given.messages) > max_tokens
        again = Times()
        for _ in range(50):
            again.take(memory.conversation(SESSION, max_tokens=max_tokens, max_messages=max_messages).messages)
        calls = _model_calls(memory, max_tokens, max_messages)
    return {
        "messages": count,
        "add": added.summary(),
        "build_as_it_grows": built.summary(),
        "build_that_summarises": folded.summary(),
        "build_at_the_end": again.summary(),
        "summaries": folds,
        "cpu_ms_of_summaries_per_message": round(sum(folded.cpu) * 1e3 / count, 4),
        "model_calls_from_nothing": calls,
        "over_budget": over,
    }


def _model_calls(memory: Memory, max_tokens: int, max_messages: int) -> int:
    """How often a model is asked to summarise the whole conversation, had it never been."""
    asked = 0

    def model(prompt: Prompt) -> Answer:
        nonlocal asked
        asked += 1
        return Answer(({"type": "text", "text": "They talked about many people and their things."},), "end")

    other = memory.with_scope(user="again")
    data = memory.conversation(SESSION).export()
    limited = other.conversation(SESSION, max_tokens=max_tokens, max_messages=max_messages, model=model)
    limited.import_({**data, "summary": None})
    limited.messages()
    limited.messages()
    return asked


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench converse", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--messages", type=int, default=2000, help="how long the conversation becomes")
    parser.add_argument("--max-tokens", type=int, default=8000, help="the budget of what a model is given")
    parser.add_argument("--max-messages", type=int, default=50, help="how many messages it is given")
    options = parser.parse_args(argv)
    progress(f"a conversation of {options.messages} messages")
    result = measure(options.messages, options.max_tokens, options.max_messages)
    if not options.json:
        table("a long conversation", result)
        print()
    print(json.dumps({"bench": "converse", **result}))
    return 0
