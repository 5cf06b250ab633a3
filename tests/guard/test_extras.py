"""Detectors of other packages, where they are installed, and what is said where they are not."""

from __future__ import annotations

import sys

import pytest

from keepstone.errors import ConfigurationError
from keepstone.guard.examination import Examination
from keepstone.guard.extras import KINDS, load_detectors, phonenumbers_detector, presidio_detector
from keepstone.guard.policy import Policy
from keepstone.guard.sensitive import KINDS as OWN_KINDS

TEXT = "Reach me at 030 901820 or +1 415-555-2671; card 4111 1111 1111 1111, ada@example.org"


def test_phone_numbers_of_every_country() -> None:
    pytest.importorskip("phonenumbers")
    (detector,) = load_detectors("phonenumbers")
    assert [(found.kind, TEXT[found.start : found.end]) for found in detector(TEXT)] == [("phone", "+1 415-555-2671")]


def test_phone_numbers_of_a_region() -> None:
    pytest.importorskip("phonenumbers")
    (detector,) = load_detectors(["phonenumbers:DE"])
    assert [TEXT[found.start : found.end] for found in detector(TEXT)] == ["030 901820", "+1 415-555-2671"]
    examination = Examination(Policy.of({"phone": "redact"}), [detector])
    assert (
        examination.text(TEXT, "content")
        == "Reach me at [redacted:phone] or [redacted:phone]; card [redacted:card], ada@example.org"
    )


def test_a_region_that_does_not_exist() -> None:
    pytest.importorskip("phonenumbers")
    with pytest.raises(ConfigurationError, match="'Germany' is not a region of phonenumbers"):
        phonenumbers_detector("Germany")


@pytest.mark.filterwarnings("default")
def test_presidio_finds_by_its_rules() -> None:
    pytest.importorskip("presidio_analyzer")
    (detector,) = load_detectors("presidio")
    found = {(each.kind, TEXT[each.start : each.end]) for each in detector(TEXT)}
    assert ("card", "4111 1111 1111 1111") in found
    assert ("phone", "+1 415-555-2671") in found
    assert {kind for kind, _ in found} <= {*OWN_KINDS, *KINDS}


class Result:
    """What an analyzer gives: a type and a stretch."""

    def __init__(self, entity_type: str, start: int, end: int) -> None:
        self.entity_type, self.start, self.end = entity_type, start, end


class OwnAnalyzer:
    """An analyzer of the caller's own."""

    def analyze(self, text: str, language: str, score_threshold: float) -> list[Result]:
        assert (language, 0 < score_threshold < 1) == ("de", True)
        return [Result("PERSON", 0, 3), Result("DATE_TIME", 4, 6), Result("HOUSE_NUMBER", 7, 9)]


def test_an_analyzer_of_ones_own() -> None:
    found = presidio_detector("de", analyzer=OwnAnalyzer())("Ada 12 34 56")
    assert [(each.kind, each.start, each.end) for each in found] == [("person", 0, 3), ("personal", 7, 9)]


@pytest.mark.parametrize(("name", "package"), [("phonenumbers", "phonenumbers"), ("presidio", "presidio_analyzer")])
def test_a_missing_package_is_told(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigurationError, match=r"pip install .*\[pii\]'"):
        load_detectors(name)


def test_an_unknown_detector_is_told() -> None:
    with pytest.raises(ConfigurationError, match="there is no detector 'regex': use phonenumbers"):
        load_detectors("regex")
    assert load_detectors("") == ()
    assert load_detectors([]) == ()
