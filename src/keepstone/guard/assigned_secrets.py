"""Secrets that are told by the words in front of them: "password: …", "api_key=…", "Authorization: Bearer …". The value must look
like one, so that talk about passwords stays.

Bound: 4,000 such words with a value behind them are looked at in one text."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

from keepstone.guard.normalize import pattern
from keepstone.guard.numbers import Span

_PASSWORDS = (
    "password",
    "passwd",
    "passwort",
    "passphrase",
    "passcode",
    "pwd",
    "pw:",
    "pw=",
    "pass:",
    "pass=",
    'pass"',
    "kennwort",
    "contraseña",
    "mot de passe",
)
_KEYS = ("key", "token", "secret", "credential")
_HEADERS = ("bearer", "basic", "accountkey", "accesskey", "signature=", "sig=")
_MANY = 4_000
_QUALIFIERS = tuple(
    """api app access secret auth authentication private encryption decryption signing master account client service
        storage shared webhook deploy personal refresh session bearer bot admin root ssh aws jwt license licence
        security integration""".split()
)
_LINK = pattern(
    r"""s?(?:[ _-]?(?:value|string|base64|hash))?["'”’`*\]]{0,3}
    (?:(?P<link>(?:[ ](?:for|to|of|on)[ ](?:(?!is\b|was\b)[\w.'’@-]{1,30}[ ]){0,5}(?=is\b|was\b|[:=])|[ ]?\([^)\n]{1,40}\))?
    \s{0,3}(?:=>|:=|==?|:|->|→|\bis[ ]now\b|\bis\b:?|\bwas\b|\bto\b|\bist\b|\best\b|\bes\b))\s{0,3}|[ ])
    (?P<quote>["'“‘`]{0,3})(?P<value>[^\s"'”’`]{4,200}+)""",
    re.IGNORECASE | re.VERBOSE,
)
_BEARER = pattern(r"(?i)\bbearer[ \t]{1,3}([A-Za-z0-9._~+/=\-]{16,})")
_BASIC = pattern(r"(?i)\bbasic[ \t]{1,3}([A-Za-z0-9+/]{8,}={0,2})")
_STORAGE = pattern(r"(?i)(?:Account|SharedAccess|Access)Key[ ]?=[ ]?([A-Za-z0-9+/]{40,}={0,2})")
_SIGNED = pattern(r"(?i)[?&](?:sig|signature|x-amz-signature|x-goog-signature)=([A-Za-z0-9%+/=_\-]{32,})")
_AWS = pattern(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")
_HEX_KEY = pattern(r"(?<![0-9A-Za-z])(?:0x)?([0-9A-Fa-f]{64})(?![0-9A-Za-z])")
_HEX_WORD = pattern(r"(?:private|secret|signing|wallet)[ _-]?(?:key|seed)|\bseed\b|wallet")
_EMPTY = pattern(
    r"\[redacted:|[<{\[(]|\$[\w{(]|%[\w(]|\*{3}|•{3}|x{3,}|\.{2,}|(?:https?|ftp)://|(?:your|my|the|an?|new|old|some)[_-]"
    r"|(?:os|process|env|self|config|settings|this|secrets|request|req|user|data|args|params|options|app|st)[.\[]"
    r"|(?:get|input|str|process|generate|create|hash|encrypt|env|prompt|base64|random)\w*[.(]",
    re.IGNORECASE,
)
_MEASURE = pattern(
    r"\d[\d.,:/+–-]*(?:k|m|min|mins|th|st|nd|rd|am|pm|h|hours?|days?|chars?|characters?|digits?|letters?|bits?|bytes?|words?"
    r"|[-–][\w–-]+)?$",
    re.IGNORECASE,
)
_NAME = pattern(r"[A-Za-z_]+(?:[.\-/][A-Za-z_]+)*+\d{0,2}$")
_CALL = pattern(r"[A-Za-z_.]+\(.*")
_CUT = pattern(r"[,;<>|]|&(?=\w+=)|\\n")
_PARTS = pattern(r"[-_./:]")


def find_assigned_secrets(text: str, low: str) -> Iterator[Span]:
    """Values that the words in front of them call a password, key or token, and what authorization headers carry."""
    looked = 0
    passwords = _PASSWORDS if "pass" in low or "pwd" in low or "kennwort" in low or "contrase" in low else ()
    for words, read in ((passwords, _password), (_KEYS, _key)):
        for word in words:
            at = low.find(word)
            while at >= 0 and looked < _MANY:
                after = at + len(word) - (word[-1] in ':="')
                opens = word != "key" or _qualified(low, at)
                said = _LINK().match(text, after) if opens and low[max(0, at - 10) : at] != "[redacted:" else None
                looked += said is not None
                span = read(low, at, said) if said else None
                if span:
                    yield ("secret", *span, "password" if words is not _KEYS else "key or token")
                    after = span[1]
                at = low.find(word, after)
    if any(gate in low for gate in _HEADERS):
        yield from _headers(text)
    if "private" in low or "seed" in low or "wallet" in low or "secret" in low:
        for key in _HEX_KEY().finditer(text):
            if _HEX_WORD().search(low, max(0, key.start() - 48), key.start()):
                yield ("secret", key.start(1), key.end(1), "private key")
    if "akia" in low or "asia" in low or "aws" in low:
        for key in _AWS().finditer(text):
            if _beside_aws(low, key.start()) and _thrown(key.group()):
                yield ("secret", key.start(), key.end(), "AWS secret key")


def _qualified(low: str, at: int) -> bool:
    """Whether the word in front makes a key, token or secret one that opens something."""
    return low[max(0, at - 16) : at].rstrip(" _-").endswith(_QUALIFIERS)


def _thrown(value: str) -> bool:
    """Whether upper case, lower case and digits are mixed as dice would."""
    return any(map(str.isdigit, value)) and sum(map(str.isupper, value)) > 4 and sum(map(str.islower, value)) > 4


def _beside_aws(low: str, start: int) -> bool:
    before = low[max(0, start - 200) : start]
    return "akia" in before or "asia" in before or ("aws" in before and ("secret" in before or "key" in before))


def _headers(text: str) -> Iterator[Span]:
    for token in _BEARER().finditer(text):
        if _mixed(token[1]) and not _EMPTY().match(token[1]) and len(set(token[1])) > 7:
            yield ("secret", token.start(1), token.end(1), "authorization header")
    for login in _BASIC().finditer(text):
        try:
            said = binascii.a2b_base64(login[1] + "=" * (-len(login[1]) % 4))
        except binascii.Error:
            continue
        if b":" in said and said.isascii() and said.decode("ascii").isprintable():
            yield ("secret", login.start(1), login.end(1), "authorization header")
    for key in _STORAGE().finditer(text):
        yield ("secret", key.start(1), key.end(1), "storage account key")
    for signed in _SIGNED().finditer(text):
        yield ("secret", signed.start(1), signed.end(1), "signed address")


def _mixed(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _trimmed(said: re.Match[str]) -> tuple[str, str]:
    """The value without what ends a sentence or a field, and the word or sign between it and its name."""
    value, link = said["value"], (said["link"] or "").strip().lower()
    if not said["quote"]:
        value = _CUT().split(value, maxsplit=1)[0] if link else value
        value = value.rstrip(".,;)]}" if link.endswith("=") else ".,;:)]}!?")
    if len(value) < 4 or _EMPTY().match(value) or (value[0].isdigit() and not value.isdigit() and _MEASURE().match(value)):
        return "", link
    return value, link


def _password(low: str, at: int, said: re.Match[str]) -> tuple[int, int] | None:
    value, link = _trimmed(said)
    strict = link in ("", "to", "was")
    digits = sum(map(str.isdigit, value))
    if not value or (digits == len(value) and (strict or not 5 <= len(value) <= 20)):
        return None
    if digits < len(value):
        if _CALL().match(value) or not any(map(str.isalpha, value)) or len(value) < (7 if strict else 5):
            return None
        signs = any(each in value for each in "!@#$%^&*?~")
        if not digits and (strict or not signs or len(value) < 6 or value[0] in "@#&=*" or value[-1] in "!?*"):
            return None
    start = said.start("value")
    return start, start + len(value)


def _key(low: str, at: int, said: re.Match[str]) -> tuple[int, int] | None:
    value, link = _trimmed(said)
    if len(value) < 10 or not _mixed(value) or not _KEY_TEXT().fullmatch(value):
        return None
    qualified = _qualified(low, at)
    before = low[at - 1 : at]
    if not qualified and (low.startswith("key", at) or before.isalpha() or before in ("?", "&")):
        return None
    plain = value.strip("=")
    if _NAME().match(plain) or sum(map(plain.count, "-./")) > 6 or sum(map(str.isdigit, plain)) < 2:
        return None
    cases = plain != plain.lower() and plain != plain.upper()
    longest = max(map(len, _PARTS().split(plain)))
    if (
        longest < 16
        and not (cases and longest >= 12)
        and (not qualified or link in ("", "to", "was") or not (cases or longest >= 8))
    ):
        return None
    start = said.start("value")
    return start, start + len(value)


_KEY_TEXT = pattern(r"[A-Za-z0-9_\-./+=~:]+")
