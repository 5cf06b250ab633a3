"""Three formats of conversations with questions come out in one shape; what is wrong with a file is told with its place."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.datasets import DatasetError, load

HAYSTACK: dict[str, Any] = {
    "question_id": "q1",
    "question_type": "single-session-user",
    "question": "Which instrument did I take up?",
    "question_date": "2023/05/30 (Tue) 23:40",
    "answer": "the cello",
    "answer_session_ids": ["answer_1", "answer_lost"],
    "haystack_session_ids": ["noise_1", "answer_1"],
    "haystack_dates": ["2023/05/21 (Sun) 02:06", "2023/05/20 (Sat) 07:46"],
    "haystack_sessions": [
        [{"role": "user", "content": "How do I boil an egg?"}, {"role": "assistant", "content": "Eight minutes."}],
        [
            {"role": "user", "content": "I took up the cello.", "has_answer": True},
            {"role": "assistant", "content": "Lovely!", "has_answer": False},
        ],
    ],
}
SAMPLE: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Mara",
        "session_10": [{"speaker": "Mara", "dia_id": "D10:1", "text": "The kiln broke."}],
        "session_10_date_time": "12:09 am on 3 June, 2023",
        "session_2": [
            {"speaker": "Mara", "dia_id": "D2:1", "text": "Look at this!", "blip_caption": "a photo of a blue bowl"},
            {"speaker": "Ravi", "dia_id": "D2:2", "text": "Nice one."},
        ],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_11_date_time": "1:00 pm on 9 July, 2023",
    },
    "qa": [
        {"question": "What did Mara make?", "answer": "a bowl", "evidence": ["D2:1; D10:1", "D", "D:2:2"], "category": 1},
        {"question": "Who likes it?", "answer": "Ravi", "evidence": ["D2:2", "D99:1"], "category": 4},
        {"question": "Why?", "answer": "", "evidence": [], "category": 3},
    ],
}
CONVERSATION = """\
# conversation: pottery
kind: people
speakers: Ines, Tobias
about: two old flatmates

## session 2024-03-04 18:20
Ines: I signed up for the class: Thursdays {class}
Tobias: no way,
  you hated clay {hated}

## session 2024-03-11 21:02
Tobias: photo [photo: a {strange} bowl]

## questions asked 2024-09-01
- multi | What does Ines do on Thursdays, and why is that odd? => class, hated
- absent | Which instrument does Tobias play? =>
"""


def plain(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def gzipped(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode()))


def xzipped(path: Path, text: str) -> None:
    path.write_bytes(lzma.compress(text.encode()))


@pytest.mark.parametrize("write", [plain, gzipped, xzipped])
def test_longmemeval_whatever_the_file_is_called(tmp_path: Path, write: Callable[[Path, str], None]) -> None:
    path = tmp_path / "data.bin"
    write(path, json.dumps([HAYSTACK]))
    (case,) = load("longmemeval", path)
    (question,) = case.questions
    assert case.unit == "session"
    assert [session.unit for session in case.sessions] == ["noise_1", "answer_1"]
    assert case.sessions[1].when == datetime(2023, 5, 20, 7, 46, tzinfo=UTC)
    assert [(turn.role, turn.text, turn.name) for turn in case.sessions[0].turns] == [
        ("user", "How do I boil an egg?", None),
        ("assistant", "Eight minutes.", None),
    ]
    assert question.asked == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert question.gold == {"answer_1"}
    assert question.gold_turns == {"answer_1:0"}
    assert not question.absent


def test_a_question_of_longmemeval_that_is_to_be_declined_is_absent(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    plain(path, json.dumps([{**HAYSTACK, "question_id": "q1_abs"}]))
    assert load("longmemeval", path)[0].questions[0].absent


def test_locomo(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    plain(path, json.dumps([SAMPLE]))
    (case,) = load("locomo", path)
    assert case.unit == "turn"
    assert [session.unit for session in case.sessions] == ["2", "10"]
    assert case.sessions[1].when == datetime(2023, 6, 3, 0, 9, tzinfo=UTC)
    first = case.sessions[0].turns[0]
    assert (first.unit, first.role, first.name) == ("D2:1", "user", "Mara")
    assert first.text == "Look at this! [photo: a photo of a blue bowl]"
    assert [(each.id, each.type, each.gold) for each in case.questions] == [
        ("conv-1:0", "multi-hop", {"D2:1", "D10:1"}),
        ("conv-1:1", "single-hop", {"D2:2"}),
        ("conv-1:2", "open-domain", set()),
    ]
    assert {each.asked for each in case.questions} == {datetime(2023, 6, 4, 0, 9, tzinfo=UTC)}


def test_own_conversations_lose_their_labels(tmp_path: Path) -> None:
    plain(tmp_path / "a.txt", CONVERSATION)
    (case,) = load("own", tmp_path)
    turns = [turn for session in case.sessions for turn in session.turns]
    assert [(turn.unit, turn.role, turn.name, turn.text) for turn in turns] == [
        ("1:1", "user", "Ines", "I signed up for the class: Thursdays"),
        ("1:2", "user", "Tobias", "no way,\nyou hated clay"),
        ("2:1", "user", "Tobias", "photo [photo: a {strange} bowl]"),
    ]
    assert [(each.id, each.type, each.gold, each.absent) for each in case.questions] == [
        ("pottery:0", "multi", {"1:1", "1:2"}, False),
        ("pottery:1", "absent", set(), True),
    ]
    assert case.questions[0].asked == datetime(2024, 9, 1, tzinfo=UTC)


def test_with_an_assistant_roles_are_roles_and_nobody_has_a_name(tmp_path: Path) -> None:
    text = CONVERSATION.replace("people", "assistant").replace("Ines:", "user:").replace("Tobias:", "assistant:")
    plain(tmp_path / "a.txt", text.replace("Ines, Tobias", "user, assistant"))
    turns = [turn for session in load("own", tmp_path / "a.txt")[0].sessions for turn in session.turns]
    assert [(turn.role, turn.name) for turn in turns] == [("user", None), ("assistant", None), ("assistant", None)]


def test_a_folder_is_read_in_the_order_of_names_and_names_are_unique(tmp_path: Path) -> None:
    plain(tmp_path / "b.txt", CONVERSATION)
    plain(tmp_path / "a.txt", CONVERSATION.replace("pottery", "zebras"))
    plain(tmp_path / "notes.md", "not a conversation")
    assert [case.name for case in load("own", tmp_path)] == ["zebras", "pottery"]
    plain(tmp_path / "c.txt", CONVERSATION)
    with pytest.raises(DatasetError, match=r"'pottery:0' comes twice"):
        load("own", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2024-03-04 18:20", "2024-13-04 18:20", r"a\.txt:6: '2024-13-04 18:20' is not a date"),
        ("kind: people", "kind: robots", r"kind is 'robots'"),
        ("speakers: Ines, Tobias\n", "", r"the head lacks 'speakers'"),
        ("about: two", "about two", r"a\.txt:4: .* is no head line"),
        ("Ines: I", "Inez: I", r"a\.txt:7: 'Inez' is not among the speakers"),
        ("- multi |", "- multi", r"a\.txt:15: .* is no question"),
        ("class, hated", "class, loved", r"no turn ends with \{loved\}"),
        ("=> class, hated", "=>", r"every other has at least one"),
        ("{hated}", "{class}", r"\{class\} comes twice"),
        ("## questions asked 2024-09-01\n", "", r"is not among the speakers"),
    ],
)
def test_what_is_wrong_with_a_conversation_is_told_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert CONVERSATION.count(old) == 1
    plain(tmp_path / "a.txt", CONVERSATION.replace(old, new))
    with pytest.raises(DatasetError, match=message):
        load("own", tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("dataset", "content", "message"),
    [
        ("longmemeval", json.dumps([SAMPLE]).encode(), "entry 0 has no 'haystack_session_ids': is it a longmemeval file"),
        ("locomo", json.dumps([HAYSTACK]).encode(), "entry 0 has no 'conversation': is it a locomo file"),
        ("longmemeval", json.dumps([{**HAYSTACK, "haystack_dates": []}]).encode(), "entry 0 cannot be read"),
        ("longmemeval", json.dumps([{**HAYSTACK, "question_date": "May"}]).encode(), "entry 0 cannot be read"),
        ("longmemeval", json.dumps(HAYSTACK).encode(), "a JSON dict, not a list"),
        ("locomo", b"[]", "holds no conversation"),
        ("locomo", b"hello", "is not JSON"),
        ("locomo", b"\xff\xfe\x00", "is not UTF-8 text"),
        ("locomo", lzma.compress(b"[]" * 9999)[:-40], "cannot be read"),
        ("locomo", gzip.compress(b"[]" * 9999, mtime=0)[:-20], "cannot be read"),
        ("squad", b"[]", "there is no dataset 'squad': use longmemeval, locomo, own"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, dataset: str, content: bytes, message: str) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        load(dataset, path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="No such file"):
        load("locomo", tmp_path / "missing.json")
    with pytest.raises(DatasetError, match=r"holds no \.txt file"):
        load("own", tmp_path)
