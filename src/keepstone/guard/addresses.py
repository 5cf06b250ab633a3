"""Addresses that lead to a person or a machine: e-mail and IP.

Bound: after 1,000 of a kind in one text no more are looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstone.guard.context_words import ContextWords
from keepstone.guard.normalize import pattern
from keepstone.guard.numbers import Span

_MANY = 1_000
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


def find_emails(text: str) -> Iterator[Span]:
    """E-mail addresses, also those written with (at) and [dot]."""
    for domain in islice(_DOMAIN().finditer(text), _MANY):
        at = domain.start()
        local = _LOCAL().match(text[max(0, at - 64) : at][::-1])
        if local:
            name = local.group()[::-1].lstrip(".'`*/=|{~!#?&")
            if name:
                yield ("email", at - len(name), domain.end(), "")
    if "at]" in text or "at)" in text or "at}" in text:
        for spelt in islice(_SPELT().finditer(text), _MANY):
            yield ("email", spelt.start(), spelt.end(), "")


def find_ips(text: str, nearby: ContextWords) -> Iterator[Span]:
    """IPv4 and IPv6 addresses, but not version numbers, sections or times."""
    if text.count(".") >= 3:
        for rest in islice(_IPV4().finditer(text), _MANY):
            first = _FIRST().search(text, max(0, rest.start() - 4), rest.start())
            if first and nearby.before(first.start(1)) != "version":
                yield ("ip", first.start(1), rest.end(), "")
    if text.count(":") >= 2:
        for rest in islice(_IPV6().finditer(text), _MANY):
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
