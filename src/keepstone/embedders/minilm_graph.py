"""all-MiniLM-L6-v2 as an ONNX graph over its safetensors file.

The graph is about 20 KB of protocol buffer that refers to the file of the weights, so nothing is converted or copied: ONNX
Runtime maps the file into memory. It is encoded here (the numbers are fields of onnx.proto), which saves the `onnx` package. The
layers are ONNX Runtime's own fused operators (domain com.microsoft).
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from keepstone.errors import EmbedderError

HEADS, LAYERS, EPSILON = 12, 6, 1e-12
WIDTH, INNER, VOCABULARY, POSITIONS = 384, 1536, 30522, 512
FLOAT, INT32, INT64 = 1, 6, 7  # TensorProto.DataType
_FUSED = "com.microsoft"


def graph(weights: Path) -> bytes:
    """An ONNX model that returns the sum of the last layer over each text's tokens.

    Inputs: `ids`, `types` (zeros) and `mask`, int32 of shape (texts, tokens). Output: `sums`, (texts, 1, 384).
    Raises EmbedderError when the file is not this model's safetensors file.
    """
    tensors = _tensors(weights)
    parts: list[bytes] = []
    for name, shape in _shapes().items():
        entry = tensors.get(name)
        if entry is None or entry[0] != shape:
            actual = "is missing" if entry is None else f"has the shape {entry[0]}"
            raise EmbedderError(
                f"{weights} is not all-MiniLM-L6-v2: {name} {actual} and should be {shape}. "
                "Give the folder of sentence-transformers/all-MiniLM-L6-v2; another model can be used as a function."
            )
        parts.append(_blob(5, _stored(name, shape, weights.name, entry[1], entry[2])))
    parts.append(_blob(5, _number(1, 1) + _number(2, INT64) + _blob(8, "one") + _blob(9, struct.pack("<q", 1))))
    parts += [_blob(1, node) for node in _nodes()]
    parts += [_value(11, name, INT32, ("texts", "tokens")) for name in ("ids", "types", "mask")]
    parts.append(_value(12, "sums", FLOAT, ("texts", 1, WIDTH)))
    opsets = [_blob(8, _blob(1, domain) + _number(2, version)) for domain, version in (("", 17), (_FUSED, 1))]
    return _number(1, 8) + _blob(7, _blob(2, "minilm") + b"".join(parts)) + b"".join(opsets)


def _shapes() -> dict[str, tuple[int, ...]]:
    """The name of every tensor that is used, and its shape."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (VOCABULARY, WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    dense = {"attention.output": (WIDTH, WIDTH), "intermediate": (INNER, WIDTH), "output": (WIDTH, INNER)}
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
        linear = {f"{layer}attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        linear |= {f"{layer}{part}.dense": shape for part, shape in dense.items()}
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    return shapes | {f"{norm}.{part}": (WIDTH,) for norm in norms for part in ("weight", "bias")}


def _tensors(weights: Path) -> dict[str, tuple[tuple[int, ...], int, int]]:
    """name -> (shape, offset in the file, bytes) of the float32 tensors of a safetensors file."""
    try:
        size = weights.stat().st_size
        with weights.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > size:
                raise ValueError("its header is longer than the file")
            header: dict[str, Any] = json.loads(file.read(length))
        tensors: dict[str, tuple[tuple[int, ...], int, int]] = {}
        for name, entry in header.items():
            if name == "__metadata__" or entry["dtype"] != "F32":
                continue
            begin, end = entry["data_offsets"]
            if 8 + length + end > size:
                raise ValueError(f"it ends before {name}")
            tensors[name] = (tuple(entry["shape"]), 8 + length + begin, end - begin)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise EmbedderError(
            f"{weights} cannot be read as a safetensors file ({error}). Remove it and fetch it again, or give another folder."
        ) from error
    return tensors


def _nodes() -> list[bytes]:
    """The operators, in order: embeddings, six layers, and the sum over the mask."""
    embeddings = [f"embeddings.{name}" for name in ("word_embeddings", "position_embeddings", "token_type_embeddings")]
    inputs = ["ids", "types", *(f"{name}.weight" for name in (*embeddings, "embeddings.LayerNorm")), "embeddings.LayerNorm.bias"]
    nodes = [_node("EmbedLayerNormalization", [*inputs, "mask"], "hidden", "lengths", epsilon=EPSILON)]
    hidden = "hidden"
    for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
        three = [f"{layer}attention.self.{part}" for part in ("query", "key", "value")]
        nodes += [
            _node("Concat", [f"{part}.weight" for part in three], f"{layer}rows", axis=0),
            _node("Transpose", [f"{layer}rows"], f"{layer}columns", perm=(1, 0)),
            _node("Concat", [f"{part}.bias" for part in three], f"{layer}bias", axis=0),
            _node("Attention", [hidden, f"{layer}columns", f"{layer}bias", "lengths"], f"{layer}heads", num_heads=HEADS),
            *_dense(f"{layer}heads", f"{layer}attention.output.dense", f"{layer}joined"),
            _layer_norm(f"{layer}joined", hidden, f"{layer}attention.output", f"{layer}attended"),
            *_dense(f"{layer}attended", f"{layer}intermediate.dense", f"{layer}wide"),
            _node("BiasGelu", [f"{layer}wide", f"{layer}intermediate.dense.bias"], f"{layer}active"),
            *_dense(f"{layer}active", f"{layer}output.dense", f"{layer}narrow"),
            _layer_norm(f"{layer}narrow", f"{layer}attended", f"{layer}output", f"{layer}done"),
        ]
        hidden = f"{layer}done"
    cast = [_node("Cast", ["mask"], "counted", to=FLOAT), _node("Unsqueeze", ["counted", "one"], "row")]
    return [*nodes, *cast, _node("MatMul", ["row", hidden], "sums")]


def _dense(source: str, name: str, result: str) -> list[bytes]:
    """A linear layer without its bias, which the next operator adds. The transpose is computed once, at loading."""
    transposed = f"{name}.turned"
    return [_node("Transpose", [f"{name}.weight"], transposed, perm=(1, 0)), _node("MatMul", [source, transposed], result)]


def _layer_norm(source: str, skipped: str, name: str, result: str) -> bytes:
    inputs = [source, skipped, f"{name}.LayerNorm.weight", f"{name}.LayerNorm.bias", f"{name}.dense.bias"]
    return _node("SkipLayerNormalization", inputs, result, epsilon=EPSILON)


def _node(operator: str, inputs: list[str], *outputs: str, **attributes: float | tuple[int, ...]) -> bytes:
    standard = operator in ("Cast", "Concat", "MatMul", "Transpose", "Unsqueeze")
    parts = [_blob(1, name) for name in inputs] + [_blob(2, name) for name in outputs] + [_blob(4, operator)]
    parts += [_blob(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join(parts) + _blob(7, "" if standard else _FUSED)


def _attribute(name: str, value: float | tuple[int, ...]) -> bytes:
    if isinstance(value, tuple):
        return _blob(1, name) + b"".join(_number(8, item) for item in value) + _number(20, 7)
    if isinstance(value, int):
        return _blob(1, name) + _number(3, value) + _number(20, 2)
    return _blob(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)


def _stored(name: str, shape: tuple[int, ...], file: str, offset: int, length: int) -> bytes:
    """A tensor whose data is in another file."""
    place = {"location": file, "offset": str(offset), "length": str(length)}
    entries = [_blob(13, _blob(1, key) + _blob(2, value)) for key, value in place.items()]
    return b"".join([*(_number(1, size) for size in shape), _number(2, FLOAT), _blob(8, name), *entries, _number(14, 1)])


def _value(field: int, name: str, kind: int, shape: tuple[str | int, ...]) -> bytes:
    sizes = b"".join(_blob(1, _number(1, size) if isinstance(size, int) else _blob(2, size)) for size in shape)
    return _blob(field, _blob(1, name) + _blob(2, _blob(1, _number(1, kind) + _blob(2, sizes))))


def _blob(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
