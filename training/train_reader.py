"""Trains the reader: a cross-encoder from all-MiniLM-L6-v2 that judges whether a memory answers a question.

    python training/train_reader.py --pack PACK --out OUT [--start] [--seed N] [--steps N]

PACK is what `training/reader_pairs.py` wrote; only torch and numpy are needed. [CLS] question [SEP] memory [SEP], and a linear
head on [CLS] with two rows: does the memory answer; does it, as a later statement, replace the first text (for a question that
stands before it, if one does). Binary cross-entropy, and a softmax over the memories that were read with a question; AdamW with
warm-up and linear decay. The word rows stay as they are packed. `--start` begins with the reader that ships, whose vocabulary the
pack must have (`--keep`).
OUT gets the layers as float16, and the logits of the pairs that are only scored; `python training/train_reader.py --ship OUT …
--pack PACK` writes them in eight bits into the package: of several trainings the mean, which judges better than each.
"""

from __future__ import annotations

import argparse
import lzma
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional

WIDTH, HEADS, LAYERS, LENGTH, FIRST = 384, 12, 6, 128, 64
BATCH = 768 if torch.cuda.is_available() else 192
FROM_PATTERNS, SHARES = (0, 5), 3  # parts of a pack, in the order of reader_pairs.py; one in so many of their pairs is drawn
UNLABELLED = 255  # in place of a label
TAUGHT = 0.65  # how much the teacher's judgement counts where there is a label
CHOICE = 0.3  # how much it counts that what answers has the highest logit of all that were read with a question
SHIPPED = Path(__file__).parents[1] / "src/keepstone/embedders/reader_model"
HIDDEN = 0.15  # share of the words of statements that are hidden in training
POSITIVE = (0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0690, 2.7326)  # the levels of keepstone.embedders.static


def unpack_words(path: Path) -> np.ndarray:
    """The word rows from four bits a number."""
    file = np.load(path)
    levels = np.array([*(-level for level in reversed(POSITIVE)), *POSITIVE], np.float32)
    rows = file["rows"]
    both = np.stack([levels[rows >> 4], levels[rows & 15]], axis=2)
    return both.reshape(len(rows), -1) * file["scales"][:, None]


class Reader(torch.nn.Module):
    """The encoder, and a head."""

    def __init__(self, words: np.ndarray, tensors: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.words = torch.nn.Parameter(torch.tensor(words), requires_grad=False)
        head = np.random.default_rng(0).normal(0, 0.02, (2, WIDTH)).astype(np.float32)
        named = {"head.weight": head, "head.bias": np.full(2, -1.0, np.float32), **tensors}
        self.tensors = torch.nn.ParameterDict(
            {name.replace(".", "/"): torch.nn.Parameter(torch.tensor(v, dtype=torch.float32)) for name, v in named.items()}
        )

    def get(self, name: str) -> torch.Tensor:
        return self.tensors[name.replace(".", "/")]

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x, (WIDTH,), self.get(f"{name}.weight"), self.get(f"{name}.bias"), 1e-12)

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(x, self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        drop = lambda x: functional.dropout(x, 0.1, self.training)  # noqa: E731
        count, tokens = ids.shape
        x = functional.embedding(ids, self.words) + self.get("embeddings.position_embeddings.weight")[:tokens]
        x = drop(
            self.norm(
                x + functional.embedding(types, self.get("embeddings.token_type_embeddings.weight")), "embeddings.LayerNorm"
            )
        )
        for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
            three = [self.linear(x, f"{layer}attention.self.{part}") for part in ("query", "key", "value")]
            query, key, value = (part.view(count, tokens, HEADS, -1).transpose(1, 2) for part in three)
            heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
            joined = self.linear(heads.transpose(1, 2).reshape(count, tokens, WIDTH), f"{layer}attention.output.dense")
            x = self.norm(x + drop(joined), f"{layer}attention.output.LayerNorm")
            wide = functional.gelu(self.linear(x, f"{layer}intermediate.dense"))
            x = self.norm(x + drop(self.linear(wide, f"{layer}output.dense")), f"{layer}output.LayerNorm")
        return functional.linear(x[:, 0].float(), self.get("head.weight"), self.get("head.bias"))


def arrange(pack: dict[str, np.ndarray], cls: int, sep: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[CLS] question [SEP] memory [SEP], padded; the types of the tokens; the lengths."""
    starts = np.concatenate([[0], np.cumsum(pack["lengths"].astype(np.int64))])
    flat = pack["flat"].astype(np.int32)
    count = len(pack["pairs"])
    ids, types, lengths = np.zeros((count, LENGTH), np.int32), np.zeros((count, LENGTH), np.int8), np.zeros(count, np.int32)
    for at, (question, memory) in enumerate(pack["pairs"]):
        asked = flat[starts[question] : starts[question + 1]][:FIRST]
        said = flat[starts[memory] : starts[memory + 1]][: LENGTH - 3 - len(asked)]
        row = np.concatenate([[cls], asked, [sep], said, [sep]])
        ids[at, : len(row)], types[at, len(asked) + 2 : len(row)], lengths[at] = row, 1, len(row)
    return ids, types, lengths


def ship(trained: list[Path], pack: Path) -> None:
    """Write the mean of trained readers into the package: eight bits a weight, a scale for each row."""
    named = [{name: values for part in (0, 1) for name, values in np.load(each / f"six-{part}.npz").items()} for each in trained]
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(named[0]):
        values = np.mean([each[name].astype(np.float32) for each in named], axis=0)
        if values.ndim == 2 and name.startswith("encoder."):
            scale = np.abs(values).max(axis=1) / 127
            tensors |= {name: np.round(values / scale[:, None]).astype(np.int8), f"{name}.scale": scale.astype(np.float32)}
        else:
            tensors[name] = values.astype(np.float16)
    np.savez(SHIPPED / "layers.npz", **tensors)
    for name in ("words.npz", "vocab.txt"):
        (SHIPPED / name).write_bytes((pack / name).read_bytes())


def load_shipped() -> dict[str, np.ndarray]:
    """The layers of the reader that ships."""
    with np.load(SHIPPED / "layers.npz") as file:
        named = {name: file[name] for name in file.files}
    scales = {name.removesuffix(".scale"): named.pop(name)[:, None] for name in list(named) if name.endswith(".scale")}
    return {name: values.astype(np.float32) * scales.get(name, 1) for name, values in named.items()}


def load_layers(pack: Path) -> dict[str, np.ndarray]:
    """The layers of all-MiniLM-L6-v2."""
    with np.load(pack / "layers.npz") as file:
        return {name: file[name].astype(np.float32) for name in file.files}


def draw_batches(asked: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows in random batches that hold all that was read with a question, those of similar length together."""
    order = np.argsort(asked, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(asked[order])) + 1)
    longest = np.array([lengths[group].max() for group in groups])
    batches: list[np.ndarray] = []
    for part in np.array_split(rng.permutation(len(groups)), max(1, len(asked) // (40 * BATCH))):
        rows = np.concatenate([groups[at] for at in part[np.argsort(longest[part])]])
        batches += np.array_split(rows, max(1, len(rows) // BATCH))
    return [batches[at] for at in rng.permutation(len(batches))]


def draw_rows(pack: dict[str, np.ndarray], rng: np.random.Generator, shares: int) -> np.ndarray:
    """The pairs of a pass that have a label or, with a teacher, need none: all that was written row by row, and of what is made
    from patterns the pairs of a part of the texts."""
    from_patterns = np.isin(pack["part"], FROM_PATTERNS) & (pack["pairs"][:, 0] % shares != rng.integers(shares))
    return np.flatnonzero(pack["trained"] & ~from_patterns)


def choice_loss(logits: torch.Tensor, labels: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
    """How far, of all that was read with a question, what answers is from having the highest logit."""
    _, group = torch.unique(asked, return_inverse=True)
    powers = torch.exp(logits.clamp(-30, 30))
    every = torch.zeros(int(group.max()) + 1, device=logits.device).index_add(0, group, powers)
    right = torch.zeros_like(every).index_add(0, group, powers * labels)
    has_both = (right > 0) & (torch.zeros_like(every).index_add(0, group, 1 - labels) > 0)
    return -torch.log(right[has_both] / every[has_both]).mean() if bool(has_both.any()) else logits.sum() * 0


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ship", type=Path, nargs="+", metavar="OUT", help="write the mean of these readers into the package")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2.5e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", action="store_true", help="begin with the reader that ships")
    parser.add_argument(
        "--seconds", type=float, help="stop after so long, the rate falling to zero until then, and not by epochs"
    )
    parser.add_argument("--teacher", type=Path, help="logits of all pairs by train_teacher.py, which count more than the labels")
    parser.add_argument("--steps", type=int, help="stop each training after so many steps, to try it")
    options = parser.parse_args()
    if options.ship is not None:
        ship(options.ship, options.pack)
        return
    began, device = time.time(), "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    options.out.mkdir(exist_ok=True)
    words = unpack_words(options.pack / "words.npz")
    tensors = load_shipped() if options.start else load_layers(options.pack)
    pieces = (options.pack / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    with lzma.open(options.pack / "pairs.npz.xz") as packed:
        loaded = np.load(packed)
        pack = {name: loaded[name] for name in loaded.files}
    if options.steps:  # a part is enough to try it
        part = np.r_[: 4 * BATCH * options.steps, len(pack["pairs"]) - 64 : len(pack["pairs"])]
        pack |= {name: pack[name][part] for name in ("pairs", "labels", "trained", "task", "part")}
    cls, sep, unknown = (pieces.index(piece) for piece in ("[CLS]", "[SEP]", "[UNK]"))
    targets = pack["labels"].astype(np.float32)
    if options.teacher is not None:
        judged = 1 / (1 + np.exp(-np.load(options.teacher).astype(np.float32)[: len(targets)]))
        targets = np.where(pack["labels"] == UNLABELLED, judged, TAUGHT * judged + (1 - TAUGHT) * targets)
    elif (targets == UNLABELLED).any():
        parser.error("this pack has pairs without a label: give --teacher, or pack without --unlabelled")
    ids, types, lengths = (torch.tensor(x, device=device) for x in arrange(pack, cls, sep))
    labels = torch.tensor(targets, device=device)
    asked = torch.tensor(pack["pairs"][:, 0].astype(np.int64), device=device)
    task = torch.tensor(pack["task"].astype(np.int64), device=device)
    held = torch.tensor(np.flatnonzero(~pack["trained"]), device=device)
    print(f"{time.time() - began:.0f} s: {len(labels)} pairs", flush=True)

    def logits_of(model: Reader, rows: torch.Tensor) -> torch.Tensor:
        longest = int(lengths[rows].max())
        mask = torch.arange(longest, device=device) < lengths[rows][:, None]
        tokens = ids[rows, :longest].long()
        if model.training:  # of statements some words are hidden, or the patterns they were made from are learned by heart
            hidden = (
                (torch.rand(tokens.shape, device=device) < HIDDEN)
                & (task[rows] == 1)[:, None]
                & (tokens != cls)
                & (tokens != sep)
            )
            tokens = torch.where(hidden, unknown, tokens)
        with torch.autocast(device, torch.bfloat16):
            both = model(tokens, types[rows, :longest].long(), mask)
        return both.gather(1, task[rows, None])[:, 0]

    @torch.no_grad()
    def score(model: Reader, rows: torch.Tensor) -> torch.Tensor:
        model.eval()
        found = torch.zeros(len(labels), device=device)
        order = rows[torch.argsort(lengths[rows])]
        for at in range(0, len(order), 4096):
            found[order[at : at + 4096]] = logits_of(model, order[at : at + 4096]).float()
        return found

    torch.manual_seed(options.seed)
    model = Reader(words, tensors).to(device)
    free = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(free, lr=options.rate, weight_decay=0.01, fused=device == "cuda")
    rng, step, start = np.random.default_rng(options.seed), 0, time.time()
    sizes = lengths.cpu().numpy()
    passes = [draw_rows(pack, rng, SHARES) for _ in range(options.epochs)]
    epochs = [[rows[at] for at in draw_batches(pack["pairs"][rows, 0], sizes[rows], rng)][: options.steps] for rows in passes]
    total = sum(map(len, epochs))
    for epoch, batches in enumerate(epochs):
        model.train()
        for batch in batches:
            done = (time.time() - start) / options.seconds if options.seconds else step / total
            if done >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = options.rate * min(1, done / 0.06) * (1 - done)
            rows = torch.tensor(batch, device=device)
            logits = logits_of(model, rows).float()
            loss = functional.binary_cross_entropy_with_logits(logits, labels[rows])
            loss = loss + CHOICE * choice_loss(logits, (labels[rows] > 0.5).float(), asked[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(free, 1.0)
            optimizer.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step} of {total}: loss {loss.item():.3f}, {time.time() - start:.0f} s", flush=True)
        print(f"epoch {epoch}: loss {loss.item():.3f}, {time.time() - start:.0f} s", flush=True)
    state = {key.replace("/", "."): value.detach().cpu().numpy().astype(np.float16) for key, value in model.tensors.items()}
    late = {key for key in state if key.startswith(("encoder.layer.3", "encoder.layer.4", "encoder.layer.5"))}
    for part, keys in enumerate((sorted(set(state) - late), sorted(late))):
        np.savez(options.out / f"six-{part}.npz", **{key: state[key] for key in keys})
    if len(held):
        np.save(options.out / "scores.npy", score(model, held)[held].cpu().numpy())
    print(f"{time.time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
