"""What becomes of sensitive data is a setting, by dictionary, file and environment; receipts and the trail tell what was done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError
from keepstone.settings import Settings
from tests.server.running import running

KINDS = {
    "secret": ("password: hunter2!Zebra", "hunter2!Zebra", "a secret (password)"),
    "card": ("her card is 4111 1111 1111 1111", "4111 1111 1111 1111", "a card number"),
    "ssn": ("her social security number is 536-22-1234", "536-22-1234", "a social security number"),
    "iban": ("pay to DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 00", "an IBAN"),
    "email": ("write to dana@example.org", "dana@example.org", "an e-mail address"),
    "phone": ("phone her at +49 30 901820", "+49 30 901820", "a phone number"),
    "ip": ("her server is at 192.0.2.17", "192.0.2.17", "an IP address"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
Given = Mapping[str, Any]


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, without settings from elsewhere."""
    monkeypatch.chdir(tmp_path)
    for name in ("SETTINGS", "SENSITIVE", "DETECTORS"):
        monkeypatch.delenv(f"KEEPSTONE_{name}", raising=False)


def given_as(way: str, sensitive: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Given | None:
    """The settings argument, after the policy was put where it is read from."""
    listed = ",".join(f"{kind}={treatment}" for kind, treatment in sensitive.items())
    table = "[sensitive]\n" + "".join(f'{kind} = "{treatment}"\n' for kind, treatment in sensitive.items())
    match way:
        case "dictionary":
            return {"sensitive": dict(sensitive)}
        case "text":
            return {"sensitive": listed}
        case "settings":
            return {"sensitive": Settings(sensitive=sensitive).sensitive}
        case "file":
            Path("keepstone").mkdir()
            Path("keepstone/settings.toml").write_text(table)
            monkeypatch.setenv("XDG_CONFIG_HOME", ".")
        case "named file":
            Path("elsewhere.toml").write_text(table)
            monkeypatch.setenv("KEEPSTONE_SETTINGS", "elsewhere.toml")
        case "environment":
            monkeypatch.setenv("KEEPSTONE_SENSITIVE", listed)
    return None


@every_kind
@pytest.mark.parametrize("treatment", ["redact", "tag", "refuse", "allow"])
def test_each_treatment_of_each_kind(path: Path, kind: str, treatment: str) -> None:
    text, value, noun = KINDS[kind]
    with Memory.open(path, embedder="none", settings={"sensitive": {kind: treatment}}) as memory:
        receipt = memory.remember(text)
        records = list(memory.list())
        match treatment:
            case "redact":
                assert receipt.action == "redacted"
                assert receipt.reasons[0] == f"{noun} in the content was replaced by [redacted:{kind}]"
                assert records[0].content == text.replace(value, f"[redacted:{kind}]")
                assert records[0].sensitive == ()
            case "tag":
                assert receipt.action == "added"
                assert receipt.reasons[0] == f"{noun} in the content was noticed and kept"
                assert (records[0].content, records[0].sensitive) == (text, (kind,))
            case "refuse":
                assert (receipt.action, receipt.id) == ("refused", None)
                assert receipt.reasons == (f"{noun} in the content is refused by the policy",)
                assert records == []
            case "allow":
                assert (receipt.action, receipt.reasons) == ("added", ())
                assert (records[0].content, records[0].sensitive) == (text, ())


@pytest.mark.parametrize("way", ["dictionary", "text", "settings", "file", "named file", "environment"])
def test_every_way_to_give_a_policy(path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = given_as(way, {"card": "refuse", "email": "redact"}, monkeypatch)
    with Memory.open(path, embedder="none", settings=settings) as memory:
        actions = [memory.remember(text).action for text, _, _ in KINDS.values()]
    assert actions == ["redacted", "refused", "redacted", "redacted", "redacted", "added", "added"]


def test_an_argument_lies_over_the_environment_over_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = KINDS["card"][0]
    Path("own.toml").write_text('[sensitive]\ncard = "allow"\n')
    monkeypatch.setenv("KEEPSTONE_SETTINGS", "own.toml")
    with Memory.open(path, embedder="none") as memory:
        assert memory.remember(text).action == "added"
    monkeypatch.setenv("KEEPSTONE_SENSITIVE", "card=refuse")
    with Memory.open(path, embedder="none") as memory:
        assert memory.remember(text).action == "refused"
    with Memory.open(path, embedder="none", settings={"sensitive": {"card": "redact"}}) as memory:
        assert memory.remember(text).action == "redacted"


@pytest.mark.parametrize("way", ["dictionary", "text", "file", "named file", "environment"])
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"cards": "redact"}, "'cards' is not a kind of sensitive data: use secret, card, ssn"),
        ({"card": "delete"}, "'delete' is not a treatment for card: use one of redact, tag, refuse, allow"),
    ],
)
def test_a_policy_that_makes_no_sense_is_told(
    path: Path, way: str, policy: Mapping[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = given_as(way, policy, monkeypatch)
    with pytest.raises(ConfigurationError, match=message):
        Memory.open(path, embedder="none", settings=settings)
    assert not path.exists()


@pytest.mark.parametrize("sensitive", ["card", "card=", "=redact", 7, ["card"], {1: "redact"}])
def test_a_policy_of_the_wrong_shape_is_told(path: Path, sensitive: Any) -> None:
    with pytest.raises(ConfigurationError, match="setting sensitive is"):
        Memory.open(path, embedder="none", settings={"sensitive": sensitive})


def test_one_refused_in_a_batch_leaves_the_others(path: Path) -> None:
    with Memory.open(path, embedder="none", settings={"sensitive": {"card": "refuse"}}) as memory:
        batch: list[str | Given] = [
            "Dana likes tea.",
            KINDS["card"][0],
            {"content": "Omar sails.", "metadata": {"n": 4111111111111111}},
            "Mei sings.",
        ]
        receipts = memory.remember_many(batch)
        assert [receipt.action for receipt in receipts] == ["added", "refused", "refused", "added"]
        assert {record.content for record in memory.list()} == {"Dana likes tea.", "Mei sings."}
        said = memory.ingest(
            [{"role": "user", "content": text} for text in ("Hello.", KINDS["card"][0], "Good bye.")], session="s"
        )
        assert [receipt.action for receipt in said] == ["added", "refused", "added"]
        assert [message.content for message in memory.conversation("s")] == ["Hello.", "Good bye."]


def test_a_refused_write_is_in_the_trail_and_the_chain_stays_whole(path: Path) -> None:
    with Memory.open(path, embedder="none", settings={"sensitive": {"card": "refuse"}}) as memory:
        id = memory.remember("Dana likes tea.").id or ""
        memory.remember(KINDS["card"][0], source="agent")
        memory.update(id, KINDS["card"][0])
        rows = [(row.verb, row.action, row.id, row.source, row.reasons) for row in memory.audit()]
        refused = ("a card number in the content is refused by the policy",)
        assert rows[:2] == [("update", "refused", id, "user", refused), ("remember", "refused", None, "agent", refused)]
        assert memory.audit.verify().whole
        record = memory.get(id)
        assert record is not None
        assert (record.content, record.version) == ("Dana likes tea.", 1)


def test_a_refused_write_leaves_its_key_and_its_idempotency_key_free(path: Path) -> None:
    with Memory.open(path, embedder="none", settings={"sensitive": {"card": "refuse"}}) as memory:
        memory.set("theme", "dark")
        assert memory.set("theme", KINDS["card"][0]).action == "refused"
        assert memory.value("theme") == "dark"
        assert memory.remember(KINDS["card"][0], idempotency_key="once").action == "refused"
        assert memory.remember("Dana likes tea.", idempotency_key="once").action == "added"


def test_an_import_counts_what_was_refused_as_skipped_and_says_so_in_the_trail(path: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "other.db", embedder="none", settings={"sensitive": {"card": "allow"}}) as other:
        other.remember_many(["Dana likes tea.", KINDS["card"][0]])
        other.export("export.jsonl")
    with Memory.open(path, embedder="none", settings={"sensitive": {"card": "refuse"}}) as memory:
        report = memory.import_("export.jsonl")
        assert (report.added, report.skipped) == (1, 1)
        assert [record.content for record in memory.list()] == ["Dana likes tea."]
        assert ("import", "refused") in [(row.verb, row.action) for row in memory.audit()]


def test_states_hold_nothing_of_a_refused_kind(path: Path) -> None:
    with Memory.open(path, embedder="none", settings={"sensitive": {"card": "refuse"}}) as memory:
        memory.tasks.start("pay the bill")
        memory.working.set("card", 4111111111111111)
        memory.working.set("note", "4111 1111 1111 1111")
        memory.working.save("desk")
    with Memory.open(path, embedder="none") as memory:
        assert memory.working.restore("desk")
        assert (memory.working.get("card"), memory.working.get("note")) == ("[redacted:card]", "[redacted:card]")
        assert memory.working.task == "pay the bill"


@pytest.mark.parametrize("number", ["4111 1111 1111 1111", 4111111111111111])
def test_a_value_of_json_stays_json(memory: Memory, number: Any) -> None:
    assert memory.set("payment", {"card": number, "late": False}).action == "redacted"
    assert memory.value("payment") == {"card": "[redacted:card]", "late": False}


def test_names_are_found_as_they_were_given(memory: Memory) -> None:
    memory.set("card 4111 1111 1111 1111", "Dana's")
    assert memory.value("card 4111 1111 1111 1111") == "Dana's"
    talk = memory.conversation("about 536-22-1234")
    talk.add("user", "Hello.")
    assert len(memory.conversation("about 536-22-1234")) == 1
    assert memory.forget(session="about 536-22-1234").forgotten == 1
    assert memory.forget(key="card 4111 1111 1111 1111").forgotten == 1
    memory.remember("Dana likes tea.", source="web:4111 1111 1111 1111")
    assert memory.forget(source="web:4111 1111 1111 1111").forgotten == 1


TAG = "cards of 4111 1111 1111 1111"


def test_a_tag_that_holds_a_secret_is_found_through_every_surface(path: Path) -> None:
    with Memory.open(path, user="alice") as memory, running(memory) as server:
        http = server.http(server.key("alice", user="alice"))
        id = memory.remember("Dana likes tea.", tag=TAG, session=TAG).id
        memory.remember("Dana likes coffee.", tag="drinks")
        query: dict[str, Any] = {"query": "What does Dana like?", "tag": TAG}
        record = memory.get(id)
        assert record is not None
        assert "4111" not in f"{record.tag} {record.session}"

        assert [hit.id for hit in memory.recall("What does Dana like?", tag=TAG, session=TAG)] == [id]
        assert [found.id for found in memory.list(tag=TAG)] == [id]
        for tool_input in (query, {"tag": TAG}):
            assert [found["id"] for found in memory.call_tool("recall_memory", tool_input)["memories"]] == [id]
        recalled = http.post("/v1/recall", json=query | {"session": TAG}).raise_for_status().json()["hits"]
        listed = http.get("/v1/memories", params={"tag": TAG}).raise_for_status().json()["records"]
        assert [hit["record"]["id"] for hit in recalled] == [found["id"] for found in listed] == [id]


def test_a_kind_that_holds_a_secret_is_found_as_it_was_written(memory: Memory) -> None:
    id = memory.remember("Dana likes tea.", kind=TAG).id
    assert [hit.id for hit in memory.recall("What does Dana like?", kinds={TAG})] == [id]
    assert [record.id for record in memory.list(kind=TAG)] == [id]
