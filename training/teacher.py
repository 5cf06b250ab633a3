"""all-MiniLM-L6-v2 as the teacher: a BERT encoder of six layers, written out so that training needs torch alone. The folder
holds `model.safetensors` (any float type) and `vocab.txt`."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

WIDTH = 384
HEADS = 12
LAYERS = 6
PAD, CLS, SEP = 0, 101, 102
MAX_TOKENS = 128
# Tokens in one batch, padding included: bounds memory whatever the length of the texts.
BATCH_TOKENS = 65_536


class Teacher:
    """Sentence vectors of all-MiniLM-L6-v2: the mean of the last layer over the tokens, normalised."""

    def __init__(self, folder: Path, device: str) -> None:
        dtype = torch.float16 if device == "cuda" else torch.float32
        self.device = device
        weights = load_file(folder / "model.safetensors")
        self.weights = {name: w.to(device, dtype) for name, w in weights.items() if w.is_floating_point()}

    def encode(self, texts: list[list[int]]) -> Tensor:
        """One vector a text, in the order given; texts are token ids without [CLS] and [SEP]."""
        framed = [[CLS, *ids[: MAX_TOKENS - 2], SEP] for ids in texts]
        by_length = np.argsort([len(ids) for ids in framed], kind="stable")
        vectors = torch.empty(len(framed), WIDTH, device=self.device)
        start = 0
        while start < len(by_length):
            # Sorted by length, so a batch pads little; its size follows the shortest text, then the longest.
            end = start + BATCH_TOKENS // len(framed[by_length[start]])
            while (rows := by_length[start:end]).size > 1 and rows.size * len(framed[rows[-1]]) > BATCH_TOKENS:
                end = start + rows.size * 3 // 4
            vectors[torch.from_numpy(rows).to(self.device)] = self._encode_batch([framed[row] for row in rows])
            start += rows.size
        return vectors

    @torch.no_grad()
    def _encode_batch(self, batch: list[list[int]]) -> Tensor:
        ids = padded(batch).to(self.device)
        mask = ids != PAD
        count, length = ids.shape
        x = functional.embedding(ids, self.weights["embeddings.word_embeddings.weight"])
        x = x + self.weights["embeddings.position_embeddings.weight"][:length]
        x = self._norm(x + self.weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in (f"encoder.layer.{index}." for index in range(LAYERS)):
            heads = [
                self._linear(x, f"{layer}attention.self.{name}").view(count, length, HEADS, -1).transpose(1, 2)
                for name in ("query", "key", "value")
            ]
            attended = functional.scaled_dot_product_attention(*heads, attn_mask=mask[:, None, None, :])
            attended = attended.transpose(1, 2).reshape(count, length, WIDTH)
            x = self._norm(x + self._linear(attended, f"{layer}attention.output.dense"), f"{layer}attention.output.LayerNorm")
            inner = functional.gelu(self._linear(x, f"{layer}intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{layer}output.dense"), f"{layer}output.LayerNorm")
        mean = (x.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(mean, dim=1)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(x, (WIDTH,), self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-12)


def padded(texts: list[list[int]], length: int | None = None) -> Tensor:
    """The ids as one rectangle, cut to `length` and filled up with [PAD]."""
    width = length or max(map(len, texts))
    out = np.full((len(texts), width), PAD, dtype=np.int64)
    for row, ids in enumerate(texts):
        out[row, : min(len(ids), width)] = ids[:width]
    return torch.from_numpy(out)
