"""StaticEmbedder: the shipped model, its sums, its limits and its errors."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.embedders import static
from keepstone.embedders.static import ENGLISH_FOLDER, MODEL_FOLDER, StaticEmbedder, pack_rows, unpack_rows
from keepstone.errors import EmbedderError

# A model of other bytes needs another version, or stores would mix vectors of two models under one id.
RELEASED = {
    "static-256-v1": "9c4b0408db66b5ec3f33ecaad1159e209f214862bc45c984fff9799795af0dd6",
    "static-256-v2": "a86cd3b933e0b646042121732181d51867425bb5027189d81fbeb6d17a068a5e",
    "static-256-v3": "921edb01d88b3f6d77a317e1da834db672dfbab4186e45ce3398945b1fdefb5b",
}
FILES = {
    ENGLISH_FOLDER: ("rows.npy", "scales.npy", "vocab.txt"),
    MODEL_FOLDER: ("rows.npy", "packed.npy", "scales.npy", "pieces.txt", "offsets.npy", "table.npy"),
}


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODEL_FOLDER, tmp_path / "model"))


@pytest.mark.parametrize("folder", FILES)
def test_the_id_stands_for_the_bytes_of_the_model(folder: Path) -> None:
    digest = hashlib.sha256()
    for name in FILES[folder]:
        digest.update((folder / name).read_bytes())
    assert RELEASED[StaticEmbedder(folder).id] == digest.hexdigest()
    assert json.loads((folder / "model.json").read_text())["sha256"] == digest.hexdigest()


def test_a_retrained_model_gets_another_id(model: Path) -> None:
    manifest = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps({**manifest, "version": 7}))
    assert StaticEmbedder(model).id == "static-256-v7"


def all_rows(folder: Path) -> tuple[np.ndarray, list[str]]:
    scales = np.load(folder / "scales.npy")[:, None]
    rows = np.concatenate([np.load(folder / "rows.npy").astype(np.float64), unpack_rows(np.load(folder / "packed.npy"))])
    return rows * scales, (folder / "pieces.txt").read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Green tea, green unhurriéd", ["green", "tea", ",", "green", "un", "##hur", "##ried"]),
        ("Grüner Tee für 3", ["grune", "##r", "tee", "fur", "3"]),
        ("北京。", ["北京", "。"]),
    ],
)
def test_a_vector_is_the_normalised_sum_of_its_tokens_rows(embedder: StaticEmbedder, text: str, cut: list[str]) -> None:
    rows, pieces = all_rows(MODEL_FOLDER)
    expected = sum(rows[pieces.index(piece)] for piece in cut)
    expected = expected / np.linalg.norm(expected)
    np.testing.assert_allclose(embedder.embed([text])[0], expected, atol=1e-6)
    np.testing.assert_allclose(embedder.embed(["x", text])[1], expected, atol=1e-6)


def test_english_text_has_the_vectors_of_the_english_model(embedder: StaticEmbedder) -> None:
    texts = ["I prefer green tea.", "Dana's flight leaves at 9:30, doesn't it?", "The gym downtown closed last March."]
    np.testing.assert_allclose(embedder.embed(texts), StaticEmbedder(ENGLISH_FOLDER).embed(texts), atol=1e-6)


@pytest.mark.parametrize(
    ("question", "fact", "other"),
    [
        ("Where do I live?", "Ich wohne in einer kleinen Stadt.", "Meine Schwester spielt Geige."),
        ("Welche Sprachen spreche ich?", "I speak Portuguese and a little Greek.", "My car is in the garage."),
        ("我住在哪里？", "Mieszkam w małym mieście nad morzem.", "Mój brat naprawia rowery."),
    ],
)
def test_languages_share_one_space(embedder: StaticEmbedder, question: str, fact: str, other: str) -> None:
    asked, right, wrong = embedder.embed([question, fact, other])
    assert asked @ right > asked @ wrong + 0.1


@pytest.mark.parametrize(
    ("world", "own"),
    [
        ("Which metal melts at the lowest temperature?", "Which bakery do I go to on Sundays?"),
        ("Wie viele Knochen hat der Mensch?", "Wohin fahren wir im Sommer?"),
        ("Qui a découvert la pénicilline ?", "Comment s'appelle mon chef ?"),
        ("光的速度是多少？", "我妈妈的电话是多少？"),
    ],
)
def test_a_question_about_the_world_is_told_from_one_about_the_user(embedder: StaticEmbedder, world: str, own: str) -> None:
    assert embedder.world_weights is not None
    assert StaticEmbedder(ENGLISH_FOLDER).world_weights is None
    about_world, about_user = embedder.embed([world, own], purpose="query") @ embedder.world_weights[:-1]
    assert about_world > about_user + 0.5


def test_packed_rows_keep_their_direction_and_length() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 256)).astype(np.float32) * np.linspace(0.1, 9, 50, dtype=np.float32)[:, None]
    packed, scales = pack_rows(rows)
    back = unpack_rows(packed) * scales[:, None]
    assert packed.shape == (50, 128)
    cosines = (back * rows).sum(axis=1) / np.linalg.norm(back, axis=1) / np.linalg.norm(rows, axis=1)
    assert cosines.min() > 0.99
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), np.linalg.norm(rows, axis=1), rtol=0.02)


def test_case_accents_and_white_space_do_not_matter(embedder: StaticEmbedder) -> None:
    one, other = embedder.embed(["Café   IN Zürich", "cafe in\nzurich"])
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_text_without_tokens_is_an_unknown_word(embedder: StaticEmbedder) -> None:
    vectors = embedder.embed(["", " \n", "\x00\x01", "😀", "tea", "😀"])
    for row in (1, 2, 3, 5):
        np.testing.assert_allclose(vectors[row], vectors[0], atol=1e-6)
    assert vectors[4] @ vectors[0] < 0.9


def test_rows_that_cancel_out_still_give_a_unit_vector(model: Path) -> None:
    pieces = (model / "pieces.txt").read_text(encoding="utf-8").split("\n")
    rows = np.load(model / "rows.npy")
    scales = np.load(model / "scales.npy")
    rows[pieces.index("up")] = -rows[pieces.index("down")]
    scales[pieces.index("up")] = scales[pieces.index("down")]
    np.save(model / "rows.npy", rows)
    np.save(model / "scales.npy", scales)
    changed = StaticEmbedder(model)
    up_and_down, unknown, both = changed.embed(["up down", "", "up down tea"])
    np.testing.assert_allclose(up_and_down, unknown, atol=1e-6)
    assert both @ unknown < 0.9
    np.testing.assert_allclose(changed.embed(["up down"])[0], unknown, atol=1e-6)


def test_only_the_first_tokens_count(embedder: StaticEmbedder) -> None:
    full = "tea " * static.MAX_TOKENS
    vectors = embedder.embed([full, full + "bicycle " * 900, full[4:] + "bicycle", "tea" + " " * static.MAX_CHARS + "bicycle"])
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-6)
    assert not np.allclose(vectors[2], vectors[0], atol=1e-4)
    np.testing.assert_allclose(vectors[3], embedder.embed(["tea"])[0], atol=1e-6)


def test_a_bulk_is_worked_off_in_pieces(embedder: StaticEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"note {number} about tea" if number % 5 else "" for number in range(40)]
    whole = embedder.embed(texts)
    for size in (1, 7, 200):
        monkeypatch.setattr(static, "CHUNK_TOKENS", size)
        np.testing.assert_allclose(embedder.embed(texts), whole, atol=1e-6)


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=8))
def test_any_text_gives_a_unit_vector(texts: list[str], embedder: StaticEmbedder) -> None:
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_the_model_is_mapped_and_not_read(embedder: StaticEmbedder) -> None:
    assert isinstance(embedder._rows.base, np.memmap)
    assert not embedder._rows.flags.writeable


def test_importing_the_module_opens_no_file_of_the_model() -> None:
    program = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "from keepstone.embedders.static import StaticEmbedder\n"
        "before = [name for name in opened if 'multilingual_model' in name]\n"
        "StaticEmbedder()\n"
        "after = [name for name in opened if 'multilingual_model' in name]\n"
        "print(len(before), len(after) > 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]


@pytest.mark.parametrize("name", [*FILES[MODEL_FOLDER], "model.json"])
def test_a_missing_file_is_named(model: Path, name: str) -> None:
    (model / name).unlink()
    with pytest.raises(EmbedderError, match=name.replace(".", r"\.")):
        StaticEmbedder(model)


@pytest.mark.parametrize(
    ("name", "array", "problem"),
    [
        ("rows.npy", np.zeros((10, 128), dtype=np.int8), r"rows\.npy holds int8 \(10, 128\)"),
        ("rows.npy", np.zeros((10, 256), dtype=np.int8), r"scales\.npy holds float32"),
        ("offsets.npy", np.zeros(10, dtype=np.uint32), "do not belong together"),
    ],
)
def test_a_damaged_model_is_refused(model: Path, name: str, array: np.ndarray, problem: str) -> None:
    np.save(model / name, array)
    with pytest.raises(EmbedderError, match=f"{problem}.*Reinstall"):
        StaticEmbedder(model)


def test_what_is_not_a_text_is_refused(embedder: StaticEmbedder) -> None:
    with pytest.raises(EmbedderError, match="Text 1 of 2 is a int"):
        embedder.embed(["tea", 5])  # type: ignore[list-item]
    with pytest.raises(EmbedderError, match="got one string"):
        embedder.embed("tea")


def test_odd_names_do_not_make_an_english_text_unknown() -> None:
    texts = [
        "Viktor Daki sends parcel zqp2t0n128q with 3007 screws to Wanda Nabesa.",
        "Anouk Yotatapa sends parcel zqp2t0n186q with 81073 screws to Mina Vitajobe.",
        "Yusuf Pokadoto sends parcel zqp2t0n204q with 85855 screws to Mina Fadowa.",
    ]
    embedder = StaticEmbedder()
    assert all(embedder.knows(text) for text in texts)
    assert not embedder.knows("Kde bydlím já teď?")


def test_a_question_is_nearer_to_what_answers_than_the_same_words_told(embedder: StaticEmbedder) -> None:
    answer, other = embedder.embed(["The boxes are unpacked, we moved to Porto.", "The retro is on Thursday."])
    asked, told = (embedder.embed(["Where do I live?"], purpose=purpose)[0] for purpose in ("query", "document"))
    assert answer @ asked - other @ asked > answer @ told - other @ told
    assert told @ asked > 0.9


def test_damaged_rows_of_questions_are_said_to_be(model: Path) -> None:
    np.save(model / "question_rows.npy", np.zeros((3, 128), dtype=np.uint8))
    with pytest.raises(EmbedderError, match=r"question_rows\.npy"):
        StaticEmbedder(model)
