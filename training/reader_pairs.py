"""Pairs of question and memory for training the reader, packed for a machine with a GPU.

    python -m training.reader_pairs --data FOLDER --sentences distill_sentences.txt.xz --model MODEL_DIR --out PACK

FOLDER holds what is read beside training/relations, none of it shipped: squad2_a.json (SQuAD 2.0, half of dev, from
chrischute/squad, CC BY-SA 4.0), nqg_{src,tgt}-{dev,test}.txt (SQuAD 1.1 questions with their sentences, from xinyadu/nqg, CC BY-
SA 4.0), selqa_{dev,test}.json (emorynlp/selqa, Apache-2.0), friendsqa_{dev,tst}.json (emorynlp/FriendsQA, Apache-2.0). `--judge`
adds candidates that are only scored. Pairs of an earlier and a later statement (`training/revision_pairs.py`) are for the
reader's second judgement. `--keep` keeps the vocabulary that ships. `--share SOURCE=SHARE` takes a part of the questions of one
source (people, answers, updates, replacements, plain, public, revisions) for a short training. PACK gets the pairs as pieces of a
vocabulary that is pruned to what texts use, its rows in four bits, and the layers of all-MiniLM-L6-v2.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np

from keepstone.embedders.reader import MODEL_FOLDER
from keepstone.embedders.static import pack_rows
from keepstone.embedders.wordpiece import WordPiece
from training.personas import Persona, Question, make_persona, vary
from training.plain_pairs import plain_pairs
from training.relations import load_relations
from training.revision_pairs import revision_pairs
from training.update_rows import Stores, load_answers, load_updates

PERSONAS = 1000
VOCABULARY = 13_000
LENGTH = 128  # tokens
Pair = tuple[str, str, int]


def persona_pairs(persona: Persona, rng: Random) -> Iterator[Pair]:
    """What answers each question, what only looks like it, questions, and anything else that was said."""
    for question in persona.questions:
        for said in question.gold:
            yield question.text, _said(said.text, persona, rng), 1
        hard = [said for said in question.hard if said not in question.gold]
        for said in rng.sample(hard, min(4 if question.gold else 5, len(hard))):
            yield question.text, _said(said.text, persona, rng), 0
        others = [said for said in persona.statements if said not in question.gold and said not in question.open]
        others = [said for said in others if said.relation.attribute != question.relation.attribute]
        for said in rng.sample(others, min(1, len(others))):
            yield question.text, _said(said.text, persona, rng), 0
        if rng.random() < 0.25:
            yield question.text, rng.choice([_reworded(question, rng), rng.choice(persona.questions).text]), 0


def _reworded(question: Question, rng: Random) -> str:
    """Another question about the same: it is asked, not answered."""
    templates = [text for text in question.relation.questions if text != question.text]
    return vary(rng.choice(templates), rng)


def _said(text: str, persona: Persona, rng: Random) -> str:
    """A statement as it may stand in a memory: alone, or beside something else that was said, which is about something else."""
    shown = vary(text, rng)
    if rng.random() < 0.12:
        other = rng.choice(persona.statements)
        if other.subject and len(other.text) < 90:
            pair = [shown if shown[-1] in ".!?" else shown + ".", other.text]
            rng.shuffle(pair)
            return " ".join(pair) if other.text != text else shown
    return shown


def public_pairs(folder: Path, rng: Random) -> Iterator[Pair]:
    """Pairs of the public sets."""
    for article in json.loads((folder / "squad2_a.json").read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            yield from _squad_paragraph(paragraph, rng)
    for part in ("dev", "test"):
        yield from _nqg(folder, part, rng)
        for entry in json.loads((folder / f"selqa_{part}.json").read_text(encoding="utf-8")):
            good = [entry["candidates"][at] for at in entry["answers"]]
            rest = [text for text in entry["candidates"] if text not in good]
            yield from ((entry["question"], text, 1) for text in good[:2])
            yield from ((entry["question"], text, 0) for text in rng.sample(rest, min(3, len(rest))))
    for part in ("dev", "tst"):
        for dialogue in json.loads((folder / f"friendsqa_{part}.json").read_text(encoding="utf-8"))["data"]:
            for paragraph in dialogue["paragraphs"]:
                yield from _friends(paragraph, rng)


def _squad_paragraph(paragraph: dict, rng: Random) -> Iterator[Pair]:
    text = paragraph["context"]
    cuts = [0, *(found.end() for found in re.finditer(r"(?<=[a-z0-9\)\"][.!?])\s+(?=[A-Z\"])", text)), len(text)]
    sentences = [(start, end, text[start:end].strip()) for start, end in pairwise(cuts)]
    for entry in paragraph["qas"]:
        answers = {answer["answer_start"] for answer in entry["answers"]}
        plausible = {answer["answer_start"] for answer in entry.get("plausible_answers", [])}
        good = [said for start, end, said in sentences if any(start <= at < end for at in answers)]
        hard = [said for start, end, said in sentences if any(start <= at < end for at in plausible) and said not in good]
        rest = [said for _, _, said in sentences if said not in good and said not in hard]
        yield from ((entry["question"].strip(), said, 1) for said in good)
        yield from ((entry["question"].strip(), said, 0) for said in hard + rng.sample(rest, min(2, len(rest))))


def _nqg(folder: Path, part: str, rng: Random) -> Iterator[Pair]:
    def lines(name: str) -> list[str]:
        text = (folder / f"nqg_{name}-{part}.txt").read_text(encoding="utf-8")
        return [line.replace("-lrb-", "(").replace("-rrb-", ")").strip() for line in text.split("\n") if line.strip()]

    sources, targets = lines("src"), lines("tgt")
    for at, (source, target) in enumerate(zip(sources, targets, strict=False)):
        around = sorted(set(sources[max(0, at - 25) : at + 25]) - {source})
        yield target, source, 1
        yield from ((target, other, 0) for other in rng.sample(around, min(2, len(around))))


def _friends(paragraph: dict, rng: Random) -> Iterator[Pair]:
    said = {
        each["uid"]: f"{', '.join(speaker.split()[0] for speaker in each['speakers'])}: {each['utterance']}"
        for each in paragraph["utterances:"]
    }
    talkers = {speaker.split()[0] for each in paragraph["utterances:"] for speaker in each["speakers"]}
    for entry in paragraph["qas"]:
        good = {answer["utterance_id"] for answer in entry["answers"]}
        rest = [at for at in said if at not in good and len(said[at]) > 25]
        asked = [name for name in talkers if name in entry["question"].split()]
        if len(asked) == 1 and len(talkers) > 1:  # the same question about another speaker
            other = rng.choice(sorted(talkers - set(asked)))
            yield from ((entry["question"].replace(asked[0], other), said[at], 0) for at in sorted(good & set(said))[:1])
        yield from ((entry["question"], said[at], 1) for at in sorted(good & set(said))[:2])
        yield from ((entry["question"], said[at], 0) for at in rng.sample(rest, min(3, len(rest))))


def take_share(pairs: list[Pair], share: float, rng: Random) -> list[Pair]:
    """The pairs of a part of the questions."""
    kept = {asked for asked in dict.fromkeys(pair[0] for pair in pairs) if rng.random() < share}
    return [pair for pair in pairs if pair[0] in kept]


def prune(vocabulary: list[str], texts: list[str]) -> list[str]:
    """The pieces that the texts use most, every single character, and the special tokens."""
    whole, counts = WordPiece(vocabulary), Counter[int]()
    for text in texts:
        counts.update(whole.encode(text))
    kept = {at for at, piece in enumerate(vocabulary) if piece.startswith("[") and not piece.startswith("[unused")}
    kept |= {at for at, piece in enumerate(vocabulary) if len(piece.removeprefix("##")) == 1 and ord(piece[-1]) < 0x250}
    kept |= {at for at, piece in enumerate(vocabulary) if len(piece.removeprefix("##")) == 2 and piece.isascii()}
    for at, _ in counts.most_common():
        if len(kept) >= VOCABULARY:
            break
        kept.add(at)
    return [vocabulary[at] for at in sorted(kept)]


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The float32 tensors of a safetensors file."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = np.frombuffer(data[start + begin : start + end], np.float32).reshape(entry["shape"])
    return found


def pack_teacher(folder: Path, texts: list[str], out: Path) -> None:
    """The texts as pieces of the teacher's vocabulary, and its weights: matrices in eight bits, a scale for each row."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoded = [each.ids[: LENGTH - 8] for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    used, flat = np.unique(np.concatenate([np.array(each, np.int64) for each in [[0, 1, 2, 3], *encoded]]), return_inverse=True)
    with lzma.open(out / "teacher-texts.npz.xz", "wb", preset=6) as packed:
        np.savez(packed, flat=flat[4:].astype(np.uint16), lengths=np.array([len(each) for each in encoded], np.uint8))
    parts: list[dict[str, np.ndarray]] = [{}, {}]
    for name, values in read_safetensors(folder / "model.safetensors").items():
        if name.startswith("pooler"):
            continue
        rows = values[used] if "word_embeddings" in name else values[: LENGTH + 8] if "position_embeddings" in name else values
        part = parts[name.startswith(tuple(f"encoder.layer.{number}." for number in range(6, 12)))]
        if rows.ndim == 2:
            scale = np.maximum(np.abs(rows).max(axis=1), 1e-9) / 127
            part |= {name: np.round(rows / scale[:, None]).astype(np.int8), f"{name}.scale": scale.astype(np.float16)}
        else:
            part[name] = rows.astype(np.float16)
    for number, part in enumerate(parts):
        np.savez_compressed(out / f"teacher-{number}.npz", **part)


def main() -> None:
    """Write the pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--judge", type=Path, help="JSON list of {question, hits: [[text, …], …]} that is only scored")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="keep the vocabulary that ships")
    parser.add_argument("--personas", type=int, default=PERSONAS)
    parser.add_argument("--updates", default="", metavar="NAME,…", help="only these files of training/updates")
    parser.add_argument("--unlabelled", type=int, default=0, help="so many statements a question that only a teacher labels")
    parser.add_argument("--teacher", type=Path, help="folder of all-mpnet-base-v2: write its weights and tokens too")
    parser.add_argument("--share", action="append", default=[], metavar="SOURCE=SHARE")
    options = parser.parse_args()
    rng, relations = Random(7), load_relations()
    sources: dict[str, list[Pair]] = {"people": []}
    for _ in range(options.personas):
        sources["people"] += persona_pairs(make_persona(relations, rng, rng.randint(6, 30), rng.randint(2, 10)), rng)
    answer_stores, update_stores = Stores(load_answers()), Stores(load_updates(options.updates))
    sources["answers"], _ = answer_stores.pairs(rng)
    sources["updates"], replacements = update_stores.pairs(rng)
    if options.unlabelled:
        sources["answers"] += answer_stores.unlabelled(rng, options.unlabelled)[0]
        more, others = update_stores.unlabelled(rng, options.unlabelled)
        sources["updates"] += more
        replacements += others
    sources |= {"plain": list(plain_pairs(rng)), "public": list(public_pairs(options.data, rng))}
    sources |= {"revisions": list(revision_pairs(relations, rng)), "replacements": replacements}
    for source, share in (each.split("=") for each in options.share):
        sources[source] = take_share(sources[source], float(share), rng)
    print({name: len(pairs) for name, pairs in sources.items()}, flush=True)
    pairs = [pair for part in sources.values() for pair in part]
    answers = len(pairs) - len(sources["revisions"]) - len(sources["replacements"])
    judged = json.loads(options.judge.read_text(encoding="utf-8")) if options.judge else []
    scored = [(entry["question"], hit[0], 0) for entry in judged for hit in entry["hits"]]
    vocabulary = (options.model / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    with lzma.open(options.sentences, "rt", encoding="utf-8") as file:
        sentences = file.read().split("\n")[::2]
    texts = sorted({text for question, memory, _ in pairs for text in (question, memory)})
    shipped = (MODEL_FOLDER / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    kept = shipped if options.keep else prune(vocabulary, [*texts, *sentences])
    tokenizer = WordPiece(kept)
    numbers = {text: at for at, text in enumerate(dict.fromkeys(text for pair in (*pairs, *scored) for text in pair[:2]))}
    ids = [tokenizer.encode(text)[: LENGTH - 8] for text in numbers]
    options.out.mkdir(exist_ok=True)
    with lzma.open(options.out / "pairs.npz.xz", "wb", preset=6) as packed:
        np.savez(
            packed,
            flat=np.concatenate([np.array(each, np.uint16) for each in ids]),
            lengths=np.array([len(each) for each in ids], np.uint8),
            pairs=np.array([[numbers[question], numbers[memory]] for question, memory, _ in (*pairs, *scored)], np.uint32),
            labels=np.array([label for *_, label in (*pairs, *scored)], np.uint8),
            trained=np.arange(len(pairs) + len(scored)) < len(pairs),
            task=((at := np.arange(len(pairs) + len(scored))) >= answers) & (at < len(pairs)),
            part=np.array([number for number, part in enumerate(sources.values()) for _ in part] + [0] * len(scored), np.uint8),
        )
    if options.teacher is not None:
        pack_teacher(options.teacher, list(numbers), options.out)
    (options.out / "vocab.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")
    tensors = read_safetensors(options.model / "model.safetensors")
    place = {piece: at for at, piece in enumerate(vocabulary)}
    rows, scales = pack_rows(tensors["embeddings.word_embeddings.weight"][[place[piece] for piece in kept]])
    np.savez(options.out / "words.npz", rows=rows, scales=scales)
    rest = {name: values for name, values in tensors.items() if "word_embeddings" not in name and "pooler" not in name}
    rest["embeddings.position_embeddings.weight"] = rest["embeddings.position_embeddings.weight"][:LENGTH]
    np.savez(options.out / "layers.npz", **{name: values.astype(np.float16) for name, values in rest.items()})
    print(len(kept), "pieces;", {path.name: path.stat().st_size for path in options.out.iterdir()})


if __name__ == "__main__":
    main()
