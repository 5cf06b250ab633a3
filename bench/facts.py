"""How many of the plain facts in a message are found, and how many that are none, in English and by language.

Half of the sentences in other languages are traps. Rules are changed by what they get wrong in the split `dev`, never in `held`.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.dedupe import wilson
from keepstone.learning.other_languages import Statement, find_in_any_language, find_statements
from keepstone.learning.rules import find_facts
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES

DATA = Path(__file__).parent / "data" / "plain_facts.tsv"
SPLITS = ("dev", "held")
LANGUAGES = Path(__file__).parent / "data" / "facts_in_languages.tsv"
Triple = tuple[str, str, str]  # key ("-" for none), tag, content


@dataclass(frozen=True, slots=True)
class Message:
    """A message and the facts that a careful reader takes from it."""

    split: str
    text: str
    expected: tuple[Triple, ...]


def load(path: Path = DATA) -> list[Message]:
    """Every labelled message, in the order of the file; a line break inside a text is written as a backslash and n."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [Message(split, text.replace("\\n", "\n"), _labels(expected)) for split, text, expected in rows]


def _labels(expected: str) -> tuple[Triple, ...]:
    if expected == "-":
        return ()
    return tuple((key, tag, content) for key, tag, content in (each.split("|", 2) for each in expected.split(" ;; ")))


def found_in(message: Message) -> tuple[Triple, ...]:
    """What the rules find, in the form of the labels."""
    return tuple((fact.key or "-", fact.tag, fact.content) for fact in find_facts(message.text))


def measure(path: Path = DATA) -> dict[str, Any]:
    """Precision and recall by split, errors, and the CPU time a message takes."""
    messages = load(path)
    begun = time.process_time()
    found = [found_in(message) for message in messages]
    spent = time.process_time() - begun
    pairs = list(zip(messages, found, strict=True))
    return {
        "cpu_us_per_message": round(spent / max(1, len(messages)) * 1e6, 1),
        **{split: _rates([(message, facts) for message, facts in pairs if message.split == split]) for split in SPLITS},
    }


def measure_languages(path: Path = LANGUAGES) -> dict[str, dict[str, Any]]:
    """The same for other languages, by language and split; a fact is right if its kind and its value are."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    pairs: dict[str, dict[str, list[tuple[Message, tuple[Triple, ...]]]]] = {}
    for split, language, text, expected in rows:
        labels = [] if expected == "-" else [tuple(each.split("=", 1)) for each in expected.split(" ;; ")]
        message = Message(split, text, tuple((kind, "", value) for kind, value in labels))
        found = tuple((each.kind, "", each.value) for each in _statements(text))
        pairs.setdefault(language, {}).setdefault(split, []).append((message, found))
    return {language: {split: _rates(each) for split, each in splits.items()} for language, splits in pairs.items()}


def _statements(text: str) -> list[Statement]:
    language = detect_language(text)
    if language in CODES:
        return find_statements(text, language)
    return [] if language else find_in_any_language(text)


def _rates(pairs: list[tuple[Message, tuple[Triple, ...]]]) -> dict[str, Any]:
    found = sum(len(facts) for _, facts in pairs)
    expected = sum(len(message.expected) for message, _ in pairs)
    right = sum(len(set(facts) & set(message.expected)) for message, facts in pairs)
    traps = [facts for message, facts in pairs if not message.expected]
    low, high = wilson(right, found)
    return {
        "messages": len(pairs),
        "expected": expected,
        "found": found,
        "right": right,
        "precision": round(right / max(1, found), 4),
        "precision_low": round(low, 4),
        "precision_high": round(high, 4),
        "recall": round(right / max(1, expected), 4),
        "traps": len(traps),
        "traps_fallen_for": sum(bool(facts) for facts in traps),
        "errors": [error for error in (_error(message, facts) for message, facts in pairs) if error["missing"] or error["wrong"]],
    }


def _error(message: Message, facts: tuple[Triple, ...]) -> dict[str, Any]:
    expected, found = set(message.expected), set(facts)
    return {"text": message.text, "missing": sorted(expected - found), "wrong": sorted(found - expected)}


def _print(result: dict[str, Any], splits: list[str], errors: bool) -> None:
    print(f"{result['cpu_us_per_message']} us CPU a message")
    print(f"{'split':<6}{'messages':>9}{'facts':>7}  {'precision':<26}{'recall':>7}  traps fallen for")
    for split in splits:
        rates = result[split]
        precision = f"{rates['precision']:.1%} ({rates['precision_low']:.1%} to {rates['precision_high']:.1%})"
        print(
            f"{split:<6}{rates['messages']:>9}{rates['expected']:>7}  {precision:<26}{rates['recall']:>7.1%}"
            f"  {rates['traps_fallen_for']} of {rates['traps']}"
        )
    print(f"\n{'language':<10}{'split':<6}{'messages':>9}{'facts':>7}  {'precision':<12}{'recall':>7}  traps fallen for")
    every = [result[split] for split in splits]
    for language, by_split in result["languages"].items():
        for split in splits:
            rates = by_split[split]
            every.append(rates)
            print(
                f"{language:<10}{split:<6}{rates['messages']:>9}{rates['expected']:>7}  {rates['precision']:<12.1%}"
                f"{rates['recall']:>7.1%}  {rates['traps_fallen_for']} of {rates['traps']}"
            )
    for error in [error for rates in every for error in rates["errors"]] if errors else []:
        print(f"  {error['text']!r}: missing {error['missing']}, wrong {error['wrong']}")


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench facts", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--split", choices=SPLITS, help="only this split")
    parser.add_argument("--errors", action="store_true", help="print every message read wrongly")
    options = parser.parse_args(argv)
    splits = [options.split] if options.split else list(SPLITS)
    result = {**measure(DATA), "languages": measure_languages()}
    if not options.json:
        _print(result, splits, options.errors)
        print()
    for part in (result, *result["languages"].values()):
        for split in SPLITS:
            if split not in splits:
                del part[split]
            elif not options.errors:
                del part[split]["errors"]
    print(json.dumps({"bench": "facts", **result}))
    return 0
