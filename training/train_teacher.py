"""Trains the reader's teacher: all-mpnet-base-v2 as a cross-encoder, which then judges every pair of a pack.

    python training/train_teacher.py --pack PACK --out LOGITS.npy [--seconds N]

PACK is what `training/reader_pairs.py --teacher` wrote; only torch and numpy are needed. <s> first </s></s> second </s>, and a
linear head with two rows, as `train_reader.py` has, on the mean of the token vectors. LOGITS gets the logits of all pairs in the
pack's order, of those without a label too. The learning rate falls to zero within `--seconds`, so the result depends on the
machine.
"""

from __future__ import annotations

import argparse
import lzma
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from train_reader import UNLABELLED, choice_loss, draw_batches, draw_rows

WIDTH, HEADS, LAYERS, LENGTH, FIRST, BUCKETS, FARTHEST = 768, 12, 12, 128, 64, 32, 128
SHARES = 6  # of what is made from patterns, one in so many pairs a pass


def load_weights(pack: Path) -> dict[str, np.ndarray]:
    """The tensors of the teacher as it was packed."""
    named = {name: values for part in (0, 1) for name, values in np.load(pack / f"teacher-{part}.npz").items()}
    scales = {name.removesuffix(".scale"): named.pop(name) for name in list(named) if name.endswith(".scale")}
    return {n: v.astype(np.float32) * (scales[n].astype(np.float32)[:, None] if n in scales else 1) for n, v in named.items()}


def bucket_distances(tokens: int) -> torch.Tensor:
    """The bucket of the distance between two tokens: near ones have their own, far ones share."""
    at = torch.arange(tokens)
    distance = at[:, None] - at[None, :]
    half, exact = BUCKETS // 2, BUCKETS // 4
    size = distance.abs()
    far = exact + (torch.log(size.clamp(min=1) / exact) / np.log(FARTHEST / exact) * (half - exact)).long()
    return (distance < 0) * half + torch.where(size < exact, size, far.clamp(max=half - 1))


class Teacher(torch.nn.Module):
    """The encoder of MPNet, and a head."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        super().__init__()
        head = np.random.default_rng(0).normal(0, 0.02, (2, WIDTH)).astype(np.float32)
        named = {**tensors, "head.weight": head, "head.bias": np.full(2, -1.0, np.float32)}
        self.tensors = torch.nn.ParameterDict(
            {n.replace(".", "/"): torch.nn.Parameter(torch.tensor(v)) for n, v in named.items()}
        )
        self.tensors["embeddings/word_embeddings/weight"].requires_grad = False
        self.register_buffer("buckets", bucket_distances(LENGTH + 2))

    def get(self, name: str) -> torch.Tensor:
        return self.tensors[name.replace(".", "/")]

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x, (WIDTH,), self.get(f"{name}.weight"), self.get(f"{name}.bias"), 1e-5)

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(x, self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The vectors of all tokens."""
        drop = lambda x: functional.dropout(x, 0.1, self.training)  # noqa: E731
        count, tokens = ids.shape
        x = functional.embedding(ids, self.get("embeddings.word_embeddings.weight"))
        x = drop(self.norm(x + self.get("embeddings.position_embeddings.weight")[2 : tokens + 2], "embeddings.LayerNorm"))
        bias = functional.embedding(self.buckets[:tokens, :tokens], self.get("encoder.relative_attention_bias.weight"))
        bias = bias.permute(2, 0, 1)[None].to(torch.bfloat16 if x.is_cuda else torch.float32)
        bias = bias + torch.where(mask, 0.0, -1e4).to(bias.dtype)[:, None, None, :]
        for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
            three = [self.linear(x, f"{layer}attention.attn.{part}") for part in "qkv"]
            query, key, value = (part.view(count, tokens, HEADS, -1).transpose(1, 2) for part in three)
            heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
            joined = self.linear(heads.transpose(1, 2).reshape(count, tokens, WIDTH), f"{layer}attention.attn.o")
            x = self.norm(x + drop(joined), f"{layer}attention.LayerNorm")
            wide = functional.gelu(self.linear(x, f"{layer}intermediate.dense"))
            x = self.norm(x + drop(self.linear(wide, f"{layer}output.dense")), f"{layer}output.LayerNorm")
        return x

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.encode(ids, mask).float()
        mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.linear(mean, self.get("head.weight"), self.get("head.bias"))


def arrange(flat: np.ndarray, lengths: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """<s> first </s></s> second </s>, padded; and the lengths."""
    starts = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    ids, sizes = np.ones((len(pairs), LENGTH), np.int16), np.zeros(len(pairs), np.int32)
    for at, (first, second) in enumerate(pairs):
        asked = flat[starts[first] : starts[first + 1]][:FIRST]
        said = flat[starts[second] : starts[second + 1]][: LENGTH - 4 - len(asked)]
        row = np.concatenate([[0], asked, [2, 2], said, [2]])
        ids[at, : len(row)], sizes[at] = row, len(row)
    return ids, sizes


def main() -> None:
    """Train, judge every pair, write the logits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rate", type=float, default=6e-5)
    options = parser.parse_args()
    began, device = time.time(), "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    with lzma.open(options.pack / "pairs.npz.xz") as packed:
        loaded = np.load(packed)
        pack = {name: loaded[name] for name in ("pairs", "labels", "task", "part", "trained")}
    with lzma.open(options.pack / "teacher-texts.npz.xz") as packed:
        loaded = np.load(packed)
        texts = {name: loaded[name] for name in loaded.files}
    ids, lengths = arrange(texts["flat"].astype(np.int16), texts["lengths"], pack["pairs"])
    sizes = lengths
    ids, lengths = torch.tensor(ids, device=device), torch.tensor(lengths, device=device)
    labels = torch.tensor(pack["labels"].astype(np.float32), device=device)
    asked = torch.tensor(pack["pairs"][:, 0].astype(np.int64), device=device)
    task = torch.tensor(pack["task"].astype(np.int64), device=device)
    model = Teacher(load_weights(options.pack)).to(device)
    print(f"{time.time() - began:.0f} s: {len(labels)} pairs", flush=True)

    def judge(rows: torch.Tensor) -> torch.Tensor:
        longest = -(-int(lengths[rows].max()) // 8) * 8
        mask = torch.arange(longest, device=device) < lengths[rows][:, None]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            both = model(ids[rows, :longest].long(), mask)
        return both.gather(1, task[rows, None])[:, 0].float()

    free = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(free, lr=options.rate, weight_decay=0.01, fused=device == "cuda")
    rng, start, step, done = np.random.default_rng(0), time.time(), 0, 0.0
    model.train()
    while done < 1:
        rows_of_pass = draw_rows(pack, rng, SHARES)
        rows_of_pass = rows_of_pass[pack["labels"][rows_of_pass] != UNLABELLED]
        for batch in draw_batches(pack["pairs"][rows_of_pass, 0], sizes[rows_of_pass], rng):
            done = (time.time() - start) / options.seconds
            if done >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = options.rate * min(1, done / 0.06) * (1 - done)
            rows = torch.tensor(rows_of_pass[batch], device=device)
            logits = judge(rows)
            loss = functional.binary_cross_entropy_with_logits(logits, labels[rows])
            loss = loss + 0.3 * choice_loss(logits, labels[rows], asked[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(free, 1.0)
            optimizer.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step} of a pass of {len(rows_of_pass)}: {loss.item():.3f}, {time.time() - start:.0f} s", flush=True)
        print(f"pass ended: step {step}, {done:.2f} of the time", flush=True)
    model.eval()
    order, found = torch.argsort(lengths), torch.zeros(len(labels), device=device)
    with torch.no_grad():
        for at in range(0, len(order), 4096):
            found[order[at : at + 4096]] = judge(order[at : at + 4096])
    np.save(options.out, found.cpu().numpy().astype(np.float16))
    print(f"{time.time() - began:.0f} s in all, {step} steps")


if __name__ == "__main__":
    main()
