"""Prints what the static embedder finds by itself, without word search or fusion, and what it costs, beside others.

    python training/evaluate.py --longmemeval longmemeval_s_dev50.json.xz --locomo locomo10.json.xz \
        --own bench/data/conversations --minilm --wordllama

Data files are in the benchmarks' own JSON, plain, .gz or .xz. LongMemEval: a session scores as its best turn, gold are
the answer sessions; "pooled" searches the sessions of all questions at once. LoCoMo: a turn is embedded together with the
one before it, gold are the evidence turns. Our own conversations: single turns, those files that no model was trained on.
"Without names" leaves the speakers' names out of the question, as recall does.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from conversations import Conversation, for_choosing, read_conversation
from files import read_json

from keepstone.embedders.static import MODEL_FOLDER, StaticEmbedder

# One question: the ranked ids, best first, and the ids that hold the answer.
Ranking = tuple[list[str], set[str]]
SHORT_TEXT = "Dana prefers green tea over coffee and meets her sister every second Thursday."
TIMED_TEXTS = 200


class Embedder(Protocol):
    id: str

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> np.ndarray: ...


class WordLlamaEmbedder:
    """The public static model wordllama (MIT), for comparison; its wheel carries the weights."""

    id = "wordllama-256"

    def __init__(self) -> None:
        import wordllama

        folder = Path(wordllama.__file__).parent
        load = wordllama.WordLlama.load
        self._model = load(cache_dir=folder, disable_download=True)

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> np.ndarray:
        return np.asarray(self._model.embed(list(texts), norm=True), dtype=np.float32)


def longmemeval(questions: list[dict[str, Any]], embedder: Embedder) -> tuple[list[Ranking], list[Ranking]]:
    """Each question in its own haystack, and in one store of all the haystacks."""
    names, turns = [], []
    seen: set[str] = set()
    for question in questions:
        for name, session in zip(question["haystack_session_ids"], question["haystack_sessions"], strict=True):
            if name not in seen:
                seen.add(name)
                spoken = [turn["content"] for turn in session if turn["content"].replace("\u200b", "").strip()]
                names += [name] * len(spoken)
                turns += spoken
    vectors = embedder.embed(turns)
    apart, pooled = [], []
    for question in questions:
        ranked = best_first(names, vectors @ embedder.embed([question["question"]], purpose="query")[0])
        haystack, gold = set(question["haystack_session_ids"]), set(question["answer_session_ids"])
        apart.append(([name for name in ranked if name in haystack], gold))
        pooled.append((ranked, gold))
    return apart, pooled


def locomo(conversations: list[dict[str, Any]], embedder: Embedder, *, names: bool) -> Iterator[Ranking]:
    for item in conversations:
        ids, texts = locomo_texts(item["conversation"])
        speakers = [item["conversation"][key] for key in ("speaker_a", "speaker_b")]
        vectors = embedder.embed(texts)
        for question in item["qa"]:
            gold = set(re.findall(r"D\d+:\d+", " ".join(question.get("evidence", [])))) & set(ids)
            if gold:
                asked = question["question"] if names else without(speakers, question["question"])
                yield best_first(ids, vectors @ embedder.embed([asked], purpose="query")[0]), gold


def locomo_texts(conversation: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Names of the turns, and each turn behind the one before it in its session."""
    ids, texts = [], []
    for session in conversation_sessions(conversation):
        spoken = [f"{turn['speaker']}: {turn['text']} {turn.get('blip_caption', '')}".strip() for turn in session]
        ids += [turn["dia_id"] for turn in session]
        texts += [f"{before}\n{text}".strip() for before, text in zip(["", *spoken], spoken, strict=False)]
    return ids, texts


def conversation_sessions(conversation: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    numbers = sorted(int(key.removeprefix("session_")) for key in conversation if re.fullmatch(r"session_\d+", key))
    return (conversation[f"session_{number}"] for number in numbers)


def own(conversations: list[Conversation], embedder: Embedder, *, names: bool) -> Iterator[Ranking]:
    for conversation in conversations:
        ids = [str(turn) for turn in range(len(conversation.texts))]
        vectors = embedder.embed(conversation.texts)
        for question, gold in conversation.questions:
            if gold:
                asked = question if names or conversation.with_assistant else without(conversation.speakers, question)
                yield best_first(ids, vectors @ embedder.embed([asked], purpose="query")[0]), set(map(str, gold))


def without(speakers: list[str], question: str) -> str:
    """The question less the words that name a speaker; the question itself if nothing is left."""
    parts = {part for name in speakers for part in re.findall(r"\w+", name.lower())}
    kept = [word for word in question.split() if not parts & set(re.findall(r"[^\W_]+", word.lower()))]
    return " ".join(kept) or question


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


def cpu_each(embedder: Embedder, texts: list[str]) -> float:
    """Seconds of CPU for one text, all threads counted; texts are given one at a time, after a first one to warm up."""
    embedder.embed(texts[:1])
    started = time.process_time()
    for text in texts:
        embedder.embed([text])
    return (time.process_time() - started) / len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL_FOLDER, help="folder of the model (default: the shipped one)")
    parser.add_argument("--longmemeval", type=Path, help="LongMemEval questions with their haystacks")
    parser.add_argument("--locomo", type=Path, help="LoCoMo conversations")
    parser.add_argument("--own", type=Path, help="folder of our own conversations")
    parser.add_argument("--minilm", nargs="?", const="", help="beside it all-MiniLM-L6-v2 (from this folder, or as installed)")
    parser.add_argument("--wordllama", action="store_true", help="beside it wordllama")
    options = parser.parse_args()
    # Costs first: reading the data would warm the caches of the file system and of the tokenizer.
    for line in cost(options.model):
        print(line)
    embedders: list[Embedder] = [StaticEmbedder(options.model)]
    if options.minilm is not None:
        from keepstone.embedders.minilm import MiniLMEmbedder

        embedders.append(MiniLMEmbedder(options.minilm))
    if options.wordllama:
        embedders.append(WordLlamaEmbedder())
    haystacks = read_json(options.longmemeval) if options.longmemeval else []
    chats = read_json(options.locomo) if options.locomo else []
    written = [read_conversation(path) for path in for_choosing(options.own)] if options.own else []
    spoken = [text for item in chats for text in locomo_texts(item["conversation"])[1]] or [SHORT_TEXT]
    sample = spoken[:: max(1, len(spoken) // TIMED_TEXTS)][:TIMED_TEXTS]
    ours = 0.0
    for embedder in embedders:
        print(f"\n{embedder.id}", flush=True)
        each = cpu_each(embedder, sample)
        ours = ours or each
        print(f"CPU for one text of {np.mean([len(text) for text in sample]):.0f} characters, mean of {len(sample)}: "
              f"{each * 1e6:,.1f} us, {each / ours:,.1f} times ours", flush=True)  # fmt: skip
        if haystacks:
            apart, pooled = longmemeval(haystacks, embedder)
            print("LongMemEval,", found(apart))
            print("LongMemEval pooled,", found(pooled), flush=True)
        for names in (True, False):
            note = "" if names else ", without names"
            if chats:
                print(f"LoCoMo{note},", found(list(locomo(chats, embedder, names=names))), flush=True)
            if written:
                print(f"own{note},", found(list(own(written, embedder, names=names))), flush=True)


if __name__ == "__main__":
    main()
