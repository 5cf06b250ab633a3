"""Fits how a text in a language that the static embedder does not know is told, and writes it next to the model.

    python training/unknown_languages.py --unknown FILE --sentences FILE --pairs FILE [--pairs FILE] --english FILE

Files may be plain, .gz or .xz: `unknown` and `sentences` lines of language and text, the first in languages in Latin or Cyrillic
letters that the model does not know; `pairs` of language, text and its English translation; `english` one text a line. A logistic
model of which pieces a text has and which letters outside ASCII, fitted on a few words of each text at a time. It runs on the
processor and gives the same bytes each time.
"""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from files import open_text, read_lines
from torch.nn import functional

from keepstone.embedders.pieces import Pieces
from keepstone.embedders.static import LANGUAGES_FILE, LETTERS_FILE, MODEL_FOLDER

SEED, EPOCHS, BATCH, RATE, SHRINK = 0, 5, 16_384, 0.1, 1e-7
FALSE_ALARM_COST = 3.0
WORDS = (3, 12)  # of a text that are looked at
MAX_PIECES = 64
UNKNOWN_TEXTS = 6_000  # a language
KNOWN_TEXTS = {"en": 60_000, "pl": 45_000, "ru": 45_000, "tr": 60_000} | dict.fromkeys(("zh", "ja", "ko", "th"), 3_000)
OTHER_TEXTS = 22_000  # of each other language; those above are mistaken most easily or not at all
LETTERS_BEFORE, VIETNAMESE = "\u0700", ("\u1e00", "\u1f00")
STEP = 0.05  # of a weight, as it is stored
ENOUGH = 0.5  # logit from which a language is not known


def letters_of(text: str) -> set[str]:
    """The letters outside ASCII that may tell a language."""
    if text.isascii():
        return set()
    return {
        letter
        for letter in text.lower()
        if not letter.isascii() and letter.isalpha() and (letter < LETTERS_BEFORE or VIETNAMESE[0] <= letter < VIETNAMESE[1])
    }


def some_words(text: str, rng: random.Random) -> str:
    words, count = text.split(), rng.randint(*WORDS)
    start = rng.randrange(max(1, len(words) - count + 1))
    return " ".join(words[start : start + count])


def read_table(path: Path, columns: int) -> list[list[str]]:
    with open_text(path) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [row for row in rows if len(row) == columns and all(row)]


def read_texts(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Texts in unknown and in known languages, a few words of each."""
    rng = random.Random(SEED)
    unknown: dict[str, list[str]] = {}
    known: dict[str, list[str]] = {"en": read_lines(options.english)}
    for language, text in read_table(options.unknown, 2):
        unknown.setdefault(language, []).append(text)
    for language, text in read_table(options.sentences, 2):
        known.setdefault(language, []).append(text)
    for language, text, english in (row for path in options.pairs for row in read_table(path, 3)):
        known.setdefault(language, []).append(text)
        known["en"].append(english)

    def draw(texts: list[str], count: int) -> list[str]:
        return [some_words(text, rng) for text in rng.sample(texts, min(count, len(texts)))]

    return (
        [text for texts in unknown.values() for text in draw(texts, UNKNOWN_TEXTS)],
        [text for language, texts in known.items() for text in draw(texts, KNOWN_TEXTS.get(language, OTHER_TEXTS))],
    )


def fit(features: Sequence[Sequence[int]], is_unknown: torch.Tensor, size: int) -> tuple[np.ndarray, float]:
    """A weight for each feature, and the constant: Adam, the rate falling to zero."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    flat = torch.tensor([feature for each in features for feature in each])
    lengths = torch.tensor([len(each) for each in features])
    starts = lengths.cumsum(0) - lengths
    weights, constant = torch.zeros(size, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([weights, constant], lr=RATE)
    batch_size = min(BATCH, len(features))
    steps, done = EPOCHS * (len(features) // batch_size), 0
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(features))[: len(features) // batch_size * batch_size].view(-1, batch_size):
            count = lengths[batch]
            first = count.cumsum(0) - count
            chosen = flat[torch.repeat_interleave(starts[batch] - first, count) + torch.arange(int(count.sum()))]
            logits = functional.embedding_bag(chosen, weights, first, mode="sum")[:, 0] + constant
            wanted = is_unknown[batch]
            costs = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
            loss = (costs * torch.where(wanted > 0, 1.0, FALSE_ALARM_COST)).mean() + SHRINK * (weights**2).sum()
            for group in optimizer.param_groups:
                group["lr"] = RATE * (1 - done / steps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
    return weights.detach()[:, 0].numpy(), float(constant.detach())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("unknown", "sentences", "english"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--pairs", type=Path, action="append", required=True)
    parser.add_argument("--out", type=Path, default=MODEL_FOLDER, help="folder of the model (default: %(default)s)")
    options = parser.parse_args()
    pieces = Pieces.map(MODEL_FOLDER)
    unknown, known = read_texts(options)
    texts = unknown + known
    letters = sorted(set().union(*map(letters_of, texts)))
    place = {letter: len(pieces) + at for at, letter in enumerate(letters)}
    features = [
        [*(pieces.encode(text)[:MAX_PIECES] or [pieces.unknown_id]), *sorted(map(place.__getitem__, letters_of(text)))]
        for text in texts
    ]
    is_unknown = torch.tensor([1.0] * len(unknown) + [0.0] * len(known))
    weights, constant = fit(features, is_unknown, len(pieces) + len(letters))
    stored = np.clip(np.round(weights / STEP), -127, 127).astype(np.int8)
    np.save(options.out / LANGUAGES_FILE, stored[: len(pieces)])
    of_letters = {letter: int(stored[at]) for letter, at in place.items() if stored[at]}
    document = {"enough": round((ENOUGH - constant) / STEP), "letters": of_letters}
    (options.out / LETTERS_FILE).write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(unknown)} texts in unknown and {len(known)} in known languages, {len(of_letters)} letters")


if __name__ == "__main__":
    main()
