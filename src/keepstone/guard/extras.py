"""Detectors of other packages: phone numbers by Google's library, names and places by Presidio.

They come with `pip install "keepstone[pii]"`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.guard.policy import EXTRA_KINDS, Detector, SensitiveSpan

KINDS = EXTRA_KINDS
_PRESIDIO = {
    "CREDIT_CARD": "card", "US_SSN": "ssn", "US_ITIN": "ssn", "IBAN_CODE": "iban", "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone", "IP_ADDRESS": "ip", "PERSON": "person", "LOCATION": "location", "ORGANIZATION": "organization",
    "NRP": "group", "MEDICAL_LICENSE": "medical", "UK_NHS": "medical", "US_DRIVER_LICENSE": "document",
    "US_PASSPORT": "document", "US_BANK_NUMBER": "bank", "CRYPTO": "crypto",
}  # fmt: skip
_IMPERSONAL = ("DATE_TIME", "URL", "UUID", "MAC_ADDRESS")
_THRESHOLD = 0.4  # what Presidio gives a phone number without a word next to it; its guesses lie below
_NAMES = ("phonenumbers", "phonenumbers:REGION", "presidio", "presidio:LANGUAGE")


def phonenumbers_detector(region: str | None = None) -> Detector:
    """Phone numbers as the package `phonenumbers` knows them: those written with + of every country, and those of one region
    ("DE") as they are written at home."""
    try:
        import phonenumbers  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise _missing_package("phonenumbers") from None
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        raise ConfigurationError(f"{region!r:.40} is not a region of phonenumbers: use two capital letters such as DE, GB or US.")

    def detect(text: str) -> Sequence[SensitiveSpan]:
        return [SensitiveSpan("phone", each.start, each.end) for each in phonenumbers.PhoneNumberMatcher(text, region)]

    return detect


def presidio_detector(language: str = "en", analyzer: Any = None) -> Detector:
    """What Presidio finds in texts of a language. Its rules need no model; names and places are found if a spaCy model of the
    language is installed (nothing is downloaded), or with an `AnalyzerEngine` of your own."""
    try:
        engine = _analyzer(language) if analyzer is None else analyzer
    except ImportError:
        raise _missing_package("presidio-analyzer") from None

    def detect(text: str) -> Sequence[SensitiveSpan]:
        results = engine.analyze(text=text, language=language, score_threshold=_THRESHOLD)
        return [
            SensitiveSpan(_PRESIDIO.get(each.entity_type, "personal"), each.start, each.end)
            for each in results
            if each.entity_type not in _IMPERSONAL
        ]

    return detect


def load_detectors(names: str | Sequence[str]) -> tuple[Detector, ...]:
    """The detectors of a setting: "phonenumbers", "phonenumbers:DE", "presidio", "presidio:de", or several, also in one text with
    commas between them."""
    listed = names.split(",") if isinstance(names, str) else list(names)
    return tuple(_detector(name.strip()) for name in listed if name.strip())


def _detector(name: str) -> Detector:
    package, _, detail = name.partition(":")
    if package == "phonenumbers":
        return phonenumbers_detector(detail or None)
    if package == "presidio":
        return presidio_detector(detail or "en")
    raise ConfigurationError(f"there is no detector {name!r:.60}: use {', '.join(_NAMES)}.")


def _missing_package(package: str) -> ConfigurationError:
    return ConfigurationError(f"the package {package} is not installed: {install_command('pii')}.")


def _analyzer(language: str) -> Any:
    """Presidio with its rules, and the language's spaCy model if there is one."""
    import spacy  # type: ignore[import-not-found, unused-ignore]
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry  # type: ignore[import-not-found, unused-ignore]
    from presidio_analyzer.nlp_engine import NlpEngineProvider, NoOpNlpEngine  # type: ignore[import-not-found, unused-ignore]

    models = sorted(model for model in spacy.util.get_installed_models() if model.startswith(f"{language}_"))
    if models:
        model = {"lang_code": language, "model_name": models[0]}
        nlp = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": [model]}).create_engine()
    else:
        nlp = NoOpNlpEngine(models=[{"lang_code": language, "model_name": "none"}])
    registry = RecognizerRegistry(supported_languages=[language])
    registry.load_predefined_recognizers(languages=[language], nlp_engine=nlp)
    if not models:
        registry.remove_recognizer("SpacyRecognizer")
    return AnalyzerEngine(registry=registry, nlp_engine=nlp, supported_languages=[language])
