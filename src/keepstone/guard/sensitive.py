"""What of a text is sensitive: secrets, payment cards, national numbers, IBANs, e-mail addresses, phones, IP addresses.

`find` is a pass of bounded rules over the text in plain characters; most texts hold nothing that could begin one and cost a few
microseconds."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from keepstone.guard.context_words import ContextWords
from keepstone.guard.national_ids import find_national_ids
from keepstone.guard.normalize import Plain, pattern
from keepstone.guard.numbers import Span, find_ibans, find_numbers
from keepstone.guard.policy import KINDS as KINDS
from keepstone.guard.policy import Detector as Detector
from keepstone.guard.policy import SensitiveSpan as SensitiveSpan
from keepstone.guard.secrets import find_assigned_secrets, find_keys

_ORDER = {kind: at for at, kind in enumerate(("secret", "iban", "card", "ssn", "national_id", "email", "ip", "phone"))}
_DIGIT = pattern(r"[0-9]")
_NUMBER = pattern(r"[0-9][^A-Za-z]{0,3}[0-9][^A-Za-z]{0,3}[0-9]")
_MAX_ADDRESSES = 1_000  # of a kind in one text
_HEX = "0123456789abcdefABCDEF"
_DOMAIN = pattern(r"@(?<=[\w+'\-]@)(?:[^\W_][\w\-]{0,62}\.)+[^\W\d_]{2,24}(?![\w@])")
_LOCAL = pattern(r"[\w.!#$%&'*+/=?^`{|}~\-]{1,64}")
_SPELT = pattern(
    r"(?<![\w.])[\w.+\-]{1,64}+ ?[\[({] ?at ?[\])}] ?[\w\-]{1,63}(?:(?:\.| ?[\[({] ?dot ?[\])}] ?)[\w\-]{1,63}){1,4}",
    re.IGNORECASE,
)
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = pattern(rf"\.{_OCTET}\.{_OCTET}\.{_OCTET}(?![0-9A-Za-z]|\.[0-9])")
_FIRST = pattern(rf"(?:^|(?<![0-9A-Za-z.$€£]))({_OCTET})$")
_IPV6 = pattern(r":(?<![:]:)[0-9A-Fa-f:]{1,38}+(?![0-9A-Za-z:])")


def find_sensitive(text: str, *, context: str = "") -> list[SensitiveSpan]:
    """The sensitive parts of a text in order, none overlapping another (the graver kind wins).

    `context` is what stands next to the text, such as the name of the field it is the value of.

    >>> [(found.kind, found.start) for found in find("my card is 4111 1111 1111 1111")]
    [('card', 11)]
    """
    plain = Plain(text)
    spans = list(_find_spans(plain.text, context))
    if not spans:
        return []
    spans = _drop_overlapping(spans)
    if plain.text is text:
        return [SensitiveSpan(*span) for span in spans]
    return [SensitiveSpan(kind, *plain.span(start, end), detail) for kind, start, end, detail in spans]


def drop_overlaps(found: Sequence[SensitiveSpan]) -> list[SensitiveSpan]:
    """The same in order and without overlaps, as `find` gives them."""
    return [
        SensitiveSpan(*each) for each in _drop_overlapping([(each.kind, each.start, each.end, each.detail) for each in found])
    ]


def _find_spans(text: str, context: str) -> Iterable[Span]:
    low = text.lower()
    digits = _DIGIT().search(text) is not None
    yield from find_keys(text, low, digits)
    yield from find_assigned_secrets(text, low)
    if context:
        yield from _find_named(text, context)
    if "@" in text or "at]" in low or "at)" in low:
        yield from find_emails(text)
    if digits:
        nearby = ContextWords(low, context)
        if _NUMBER().search(text):
            yield from find_ibans(text, nearby)
            yield from find_numbers(text, nearby)
            yield from find_national_ids(text, low, context.lower())
        yield from find_ips(text, nearby)
    elif "::" in text:
        yield from find_ips(text, ContextWords(low, context))


def find_emails(text: str) -> Iterator[Span]:
    """E-mail addresses, also those written with (at) and [dot]."""
    for domain in islice(_DOMAIN().finditer(text), _MAX_ADDRESSES):
        at = domain.start()
        local = _LOCAL().match(text[max(0, at - 64) : at][::-1])
        if local:
            name = local.group()[::-1].lstrip(".'`*/=|{~!#?&")
            if name:
                yield ("email", at - len(name), domain.end(), "")
    if "at]" in text or "at)" in text or "at}" in text:
        for spelt in islice(_SPELT().finditer(text), _MAX_ADDRESSES):
            yield ("email", spelt.start(), spelt.end(), "")


def find_ips(text: str, nearby: ContextWords) -> Iterator[Span]:
    """IPv4 and IPv6 addresses, but not version numbers, sections or times."""
    if text.count(".") >= 3:
        for rest in islice(_IPV4().finditer(text), _MAX_ADDRESSES):
            first = _FIRST().search(text, max(0, rest.start() - 4), rest.start())
            if first and nearby.before(first.start(1)) != "version":
                yield ("ip", first.start(1), rest.end(), "")
    if text.count(":") >= 2:
        for rest in islice(_IPV6().finditer(text), _MAX_ADDRESSES):
            start = rest.start()
            while start > max(0, rest.start() - 4) and text[start - 1] in _HEX:
                start -= 1
            if not (start and (text[start - 1].isalnum() or text[start - 1] in ".:")) and _is_ipv6(text[start : rest.end()]):
                yield ("ip", start, rest.end(), "")


def _is_ipv6(value: str) -> bool:
    groups = value.split(":")
    if any(len(each) > 4 for each in groups) or ":::" in value or not any(each.isdigit() for each in value):
        return False
    if "::" not in value:
        return len(groups) == 8 and "" not in groups
    filled = [each for each in groups if each]
    return value.count("::") == 1 and len(filled) <= 7 and (value == "::1" or (len(filled) >= 2 and len(filled[0]) >= 2))


def _find_named(text: str, context: str) -> Iterable[Span]:
    """A value that only the name of its field makes a secret: read as if it stood behind the name."""
    front = f"{context}: "
    for kind, start, end, detail in find_assigned_secrets(front + text, (front + text).lower()):
        if start >= len(front):
            yield (kind, start - len(front), end - len(front), detail)


def _drop_overlapping(spans: list[Span]) -> list[Span]:
    """In order and without overlaps: the graver kind stays, of the same kind the longer."""
    spans.sort(key=lambda span: span[1])
    if all(span[2] <= after[1] for span, after in pairwise(spans)):
        return spans
    spans.sort(key=lambda span: (_ORDER.get(span[0], len(_ORDER)), span[1] - span[2], span[1]))
    kept: list[Span] = []  # by their starts
    for span in spans:
        at = bisect_right(kept, span[1], key=lambda other: other[1])
        if (not at or kept[at - 1][2] <= span[1]) and (at == len(kept) or kept[at][1] >= span[2]):
            kept.insert(at, span)
    return kept
