"""Prints what the static embedder finds by itself, without word search or fusion, and what it costs.

    python training/evaluate.py --longmemeval longmemeval_s_dev50.json.xz --locomo locomo10.json.xz

Data files are in the benchmarks' own JSON, plain, .gz or .xz. LongMemEval: a session scores as its best turn, gold are
the answer sessions. LoCoMo: a turn is embedded together with the one before it, gold are the evidence turns.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from files import read_json

from recollect.embedders.static import MODEL_FOLDER, StaticEmbedder

# One question: the ranked ids, best first, and the ids that hold the answer.
Ranking = tuple[list[str], set[str]]
SHORT_TEXT = "Dana prefers green tea over coffee and meets her sister every second Thursday."


def longmemeval(questions: list[dict[str, Any]], embedder: StaticEmbedder) -> Iterator[Ranking]:
    for question in questions:
        names, turns = [], []
        for name, session in zip(question["haystack_session_ids"], question["haystack_sessions"], strict=True):
            names += [name] * len(session)
            turns += [turn["content"] for turn in session]
        scores = embedder.embed(turns) @ embedder.embed([question["question"]], purpose="query")[0]
        yield best_first(names, scores), set(question["answer_session_ids"])


def locomo(conversations: list[dict[str, Any]], embedder: StaticEmbedder) -> Iterator[Ranking]:
    for item in conversations:
        names, texts = [], []
        for session in conversation_sessions(item["conversation"]):
            spoken = [f"{turn['speaker']}: {turn['text']} {turn.get('blip_caption', '')}".strip() for turn in session]
            names += [turn["dia_id"] for turn in session]
            texts += [f"{before}\n{text}".strip() for before, text in zip(["", *spoken], spoken, strict=False)]
        vectors = embedder.embed(texts)
        for question in item["qa"]:
            gold = set(re.findall(r"D\d+:\d+", " ".join(question.get("evidence", [])))) & set(names)
            if gold:
                yield best_first(names, vectors @ embedder.embed([question["question"]], purpose="query")[0]), gold


def conversation_sessions(conversation: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    numbers = sorted(int(key.removeprefix("session_")) for key in conversation if re.fullmatch(r"session_\d+", key))
    return (conversation[f"session_{number}"] for number in numbers)


def best_first(names: Sequence[str], scores: np.ndarray) -> list[str]:
    """Each name once, at the place of its best score."""
    return list(dict.fromkeys(names[row] for row in np.argsort(-scores, kind="stable")))


def found(rankings: list[Ranking]) -> str:
    def mean(value: Callable[[set[str], set[str]], float], depth: int) -> float:
        return float(np.mean([value(set(ranked[:depth]), gold) for ranked, gold in rankings]))

    measures: dict[str, Callable[[set[str], set[str]], float]] = {
        "any": lambda top, gold: bool(top & gold),
        "all": lambda top, gold: gold <= top,
        "frac": lambda top, gold: len(top & gold) / len(gold),
    }
    parts = [f"{name}@{depth} {mean(value, depth):.3f}" for depth in (5, 10) for name, value in measures.items()]
    return f"{len(rankings)} questions: " + ", ".join(parts)


def cost(folder: Path) -> Iterator[str]:
    started = time.perf_counter()
    embedder = StaticEmbedder(folder)
    embedder.embed([SHORT_TEXT])
    yield f"load and first text: {(time.perf_counter() - started) * 1e3:.1f} ms"
    rounds = 5000
    started = time.process_time()
    for _ in range(rounds):
        embedder.embed([SHORT_TEXT])
    each = (time.process_time() - started) / rounds
    yield f"one short text ({len(SHORT_TEXT)} characters): {each * 1e6:.1f} us of CPU"
    texts = [f"{SHORT_TEXT} Note {number} of {number % 97}." for number in range(50_000)]
    started = time.perf_counter()
    embedder.embed(texts)
    yield f"bulk: {len(texts) / (time.perf_counter() - started):,.0f} texts a second"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL_FOLDER, help="folder of the model (default: the shipped one)")
    parser.add_argument("--longmemeval", type=Path, help="LongMemEval questions with their haystacks")
    parser.add_argument("--locomo", type=Path, help="LoCoMo conversations")
    options = parser.parse_args()
    # Costs first: reading the data would warm the caches of the file system and of the tokenizer.
    for line in cost(options.model):
        print(line)
    embedder = StaticEmbedder(options.model)
    print(f"model: {embedder.id}")
    if options.longmemeval:
        print("LongMemEval,", found(list(longmemeval(read_json(options.longmemeval), embedder))))
    if options.locomo:
        print("LoCoMo,", found(list(locomo(read_json(options.locomo), embedder))))


if __name__ == "__main__":
    main()
