"""Settings: where they come from, in which order, and what is said of a bad one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from keepstone.errors import ConfigurationError
from keepstone.settings import PROJECT_SETTINGS, Settings, ignored_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but those of the test: an empty folder to stand in, no KEEPSTONE_* variable."""
    import os

    for name in list(os.environ):
        if name.startswith("KEEPSTONE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_the_defaults() -> None:
    assert Settings.load() == Settings() == Settings(durable=True, busy_timeout=30.0, cache_mb=512, min_similarity=None)


def test_an_argument_goes_before_the_environment_and_that_before_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "keepstone" / "settings.toml"
    own.parent.mkdir()
    own.write_text("cache_mb = 9\nextract_after = 9\ndurable = false\n")
    (tmp_path / "keepstone.toml").write_text("cache_mb = 1\nbusy_timeout = 11\nextract_after = 13\n")
    monkeypatch.setenv("KEEPSTONE_CACHE_MB", "2")
    monkeypatch.setenv("KEEPSTONE_BUSY_TIMEOUT", "12")
    loaded = Settings.load({"cache_mb": 3})
    assert (loaded.cache_mb, loaded.busy_timeout, loaded.extract_after, loaded.durable) == (3, 12.0, 13.0, False)


WEAKENING = 'quarantine = false\nbuffer = "redis://attacker:6379/0"\ncache_mb = 7\n[sensitive]\nsecret = "allow"\n'


def test_the_file_of_a_project_folder_changes_no_protection_and_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keepstone.toml").write_text(WEAKENING)
    assert Settings.load() == Settings(cache_mb=7)
    assert "ignored buffer, quarantine, sensitive" in caplog.text
    assert ignored_settings() == ("buffer", "quarantine", "sensitive")
    monkeypatch.setenv("KEEPSTONE_SETTINGS", "keepstone.toml")  # named, it is the user's own
    assert not Settings.load().quarantine
    assert ignored_settings() == ()


def test_only_settings_that_cannot_weaken_protection_count_in_a_project_folder() -> None:
    names = {each.name for each in fields(Settings)}
    assert names >= PROJECT_SETTINGS
    assert not {name for name in PROJECT_SETTINGS if isinstance(getattr(Settings(), name), str)} - {"single_valued"}


def test_a_named_file_takes_the_place_of_the_usual_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "keepstone.toml").write_text("cache_mb = 1")
    (tmp_path / "other.toml").write_text("min_similarity = 0.25")
    monkeypatch.setenv("KEEPSTONE_SETTINGS", str(tmp_path / "other.toml"))
    assert Settings.load() == Settings(min_similarity=0.25)


def test_settings_made_before_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_CACHE_MB", "2")
    made = Settings(cache_mb=7)
    assert Settings.load(made) == made


@pytest.mark.parametrize(
    ("word", "expected"),
    [("1", True), ("TRUE", True), ("yes", True), ("on", True), ("0", False), ("False", False), ("off", False)],
)
def test_words_for_true_and_false(monkeypatch: pytest.MonkeyPatch, word: str, expected: bool) -> None:
    monkeypatch.setenv("KEEPSTONE_DURABLE", word)
    assert Settings.load().durable is expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("durable", "maybe", r"setting durable is 'maybe' \(from the environment\): use true or false\."),
        ("durable", "", "use true or false"),
        ("busy_timeout", "1", r"setting busy_timeout is '1' \(from the environment\): use 5\.0 to 3600\.0\."),
        ("busy_timeout", "soon", "could not convert string to float"),
        ("busy_timeout", "nan", "use 5.0 to 3600.0"),
        ("busy_timeout", "inf", "use 5.0 to 3600.0"),
        ("cache_mb", "0", "use 1 to 1000000"),
        ("cache_mb", "1.5", "use a whole number"),
        ("cache_mb", "9" * 5000, "setting cache_mb is '999"),
        ("min_similarity", "1.1", "use 0 to 1"),
        ("min_similarity", "", "could not convert"),
    ],
)
def test_a_bad_value_in_the_environment(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv("KEEPSTONE_" + name.upper(), value)
    with pytest.raises(ConfigurationError, match=message):
        Settings.load()


def test_a_bad_value_is_refused_even_where_another_would_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_CACHE_MB", "lots")
    with pytest.raises(ConfigurationError, match=r"from the environment"):
        Settings.load({"cache_mb": 3})


@pytest.mark.parametrize("value", ["x" * 1000, [1], {}, object()])
def test_a_bad_argument_says_where_it_came_from(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^setting cache_mb is .{1,40} \(from the argument\): ") as caught:
        Settings.load({"cache_mb": value})
    assert len(str(caught.value)) < 1200


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"there is no setting 'cache' \(from the argument\): use approximate_from, buffer, buffer_messages, ",
    ):
        Settings.load({"cache": 1})
    (tmp_path / "keepstone.toml").write_text("[keepstone]\ncache_mb = 1\n")
    with pytest.raises(ConfigurationError, match=r"there is no setting 'keepstone' \(from the project file\)"):
        Settings.load()


def test_other_variables_of_the_command_line_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_DB", "somewhere.db")
    assert Settings.load() == Settings()


@pytest.mark.parametrize("content", [b"cache_mb = ", b"\xff\xfe", b"cache_mb = 1\ncache_mb = 2\n"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "keepstone.toml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"the settings file keepstone\.toml cannot be read .*: correct it or remove it"):
        Settings.load()


def test_a_named_file_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEEPSTONE_SETTINGS", str(tmp_path / "gone.toml"))
    with pytest.raises(ConfigurationError, match=r"gone\.toml cannot be read"):
        Settings.load()


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "keepstone.toml").write_text("this is no TOML")
    assert Settings(cache_mb=3).cache_mb == 3


def test_every_setting_is_described_and_bounded() -> None:
    from dataclasses import fields

    for each in fields(Settings):
        assert each.metadata["text"]
        if isinstance(each.default, (int, float)) and not isinstance(each.default, bool):
            assert each.metadata["least"] < each.metadata["most"]


@pytest.mark.parametrize("value", [3.7, float("inf"), True])
def test_a_whole_number_is_wanted_for_megabytes(value: float) -> None:
    with pytest.raises(ConfigurationError):
        Settings.load({"cache_mb": value})


def test_none_means_unset() -> None:
    assert Settings.load({"min_similarity": None}) == Settings()


def test_settings_that_are_no_dictionary_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        Settings.load(["cache_mb"])  # type: ignore[arg-type]
