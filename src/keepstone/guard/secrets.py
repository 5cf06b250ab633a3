"""Secrets: by their form (the prefixes of providers' keys, private key blocks, credentials in addresses), or by the words in
front of them ("password: …", "api_key=…", "Authorization: Bearer …"). In the second case the value must look like a secret, so
that talk about passwords stays.

A key that was broken by spaces or newlines is put together again where its prefix says how it must go on. Bounds: 64 beginnings
of broken keys are followed in one text, each for 400 characters; of 1,000 private key blocks 20,000 characters are read."""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right, insort
from collections.abc import Iterator
from functools import cache
from itertools import islice

from keepstone.guard.normalize import TABLES, pattern
from keepstone.guard.numbers import Span

_W = "[A-Za-z0-9_-]"
_CLASSES = {"w": _W, "a": "[A-Za-z0-9]", "h": "[a-f0-9]"}


def _rules() -> Iterator[tuple[str, str, str]]:
    """(what the lower-cased text must hold, what it is, its pattern) of each kind of secret."""
    for prefixes, detail, rule in TABLES["secrets"]:
        for name, characters in _CLASSES.items():
            rule = rule.replace(f"{{{{{name}}}}}", characters)
        for prefix in prefixes.split():
            yield prefix.lower(), detail, rule.replace("{{prefix}}", prefix)


RULES = tuple(_rules())
_UNDERSCORE = tuple(each for each in RULES if "_" in each[0])
_DASH = tuple(each for each in RULES if "-" in each[0] and "_" not in each[0])
_DOT = tuple(each for each in RULES if "." in each[0])
_BARE = tuple(each for each in RULES if not set("_-.") & set(each[0]))
_NUMBERED = ("sk", "ac", "eaa")  # prefixes that many words contain: checked only in texts with digits
_INNER = ("akia", "asia", "abia", "acca", "aiza", "eyj", "sk", "ac", "dapi", "eaa", "atatt")  # base64 may hold them after a sign

_FAKE = pattern(
    r"x{6,}|\*{3}|\.{3}|your[_-]?|placeholder|insert|changeme|redacted|0{10,}|1234567890abcdef1234|(.)\1{9,}", re.IGNORECASE
)
_RANDOM = pattern(r"[A-Za-z0-9]{16,}")
_BLOCK = pattern(
    r"-{0,5}[ \t]?\bBEGIN\s{1,4}(?:[A-Z0-9]{1,12}\s{1,4}){0,3}PRIVATE\s{1,4}KEY(?:\s{1,4}BLOCK)?[ \t]?-{0,5}"
    r"|PuTTY-User-Key-File-[0-9]:[^\n]{0,40}"
)
_FOOT = pattern(
    r"-{0,5}[ \t]?END\s{1,4}(?:[A-Z0-9]{1,12}\s{1,4}){0,3}PRIVATE\s{1,4}KEY(?:\s{1,4}BLOCK)?[ \t]?-{0,5}|Private-MAC: ?[0-9a-f]+"
)
_BODY = pattern(
    r"(?:[\s\"',+|>]|\\[nrt\"]|[A-Za-z-]{2,24}: [^\n]{0,200}\n|[A-Za-z0-9+/=]{16,}+)*+"
    r"(?:[A-Za-z0-9+/]{1,15}={0,2}(?=\s|\\n|\"|$))?"
)
_MAX_BLOCK_CHARS = 20_000
_DATA = pattern(r"[A-Za-z0-9+/=_-]+")
_DATA_CHARS = 512
_MAX_BLOCKS = 1_000
_URL = pattern(r"://([^\s/:@\"'<>]{0,100}+):([^\s/\"'<>]{1,200})@(?=[\w\[])")
_TELEGRAM = pattern(rf"(?<![A-Za-z0-9])[0-9]{{8,10}}:{_W}{{35}}(?!{_W})")
_NOT_SAID = pattern(r"\$\{|\{\{|^<|^\*+$|^x+$|^\.+$|^%|^\[redacted:|^\$[A-Z_]+$|^\{", re.IGNORECASE)


@cache
def _compile(gate: str, rule: str) -> re.Pattern[str]:
    """The rule between two ends of words; its literal beginning comes first, which lets the search leap from one to the next."""
    letters = "[A-Za-z0-9+/_-]" if gate in _INNER else "[A-Za-z0-9]"
    head = _HEAD().match(rule)
    begin, rest = (head.group(), rule[head.end() :]) if head else ("", rule)
    return re.compile(f"{begin}(?<!{letters}{begin}){rest}(?![A-Za-z0-9])")


@cache
def _compile_loose(rule: str) -> re.Pattern[str]:
    return re.compile(rule)


@cache
def _compile_prefix(gate: str) -> re.Pattern[str]:
    """The prefix with spaces or newlines in it."""
    shout = gate in _NUMBERED
    return re.compile(r"\s{0,3}".join(map(re.escape, gate.upper() if shout else gate)), 0 if shout else re.IGNORECASE)


def _select_rules(low: str, digits: bool) -> list[tuple[str, str, str]]:
    rules = [rule for rule in _BARE if rule[0] in low and (digits or rule[0] not in _NUMBERED)]
    for sign, signed in (("_", _UNDERSCORE), ("-", _DASH), (".", _DOT)):
        if sign in low:
            rules += [rule for rule in signed if rule[0] in low]
    return rules


def is_real_key(detail: str, value: str) -> bool:
    """Whether a value of the right form is a key rather than a stand-in for one."""
    if _FAKE().search(value) or len(set(value)) < 8:
        return False
    if detail == "API key":
        return any(any(map(str.isdigit, each)) and any(map(str.isalpha, each)) for each in _RANDOM().findall(value))
    return any(map(str.isdigit, value)) or (len(value) > 30 and value != value.lower())


def find_keys(text: str, low: str, digits: bool) -> Iterator[Span]:
    """Keys with a prefix, whole or broken by spaces and newlines, and everything else that tells itself by its form."""
    whole: list[tuple[int, int]] = []
    squeezed = "".join(low.split()) if digits else low
    rules = _select_rules(squeezed, digits)  # no rule's gate has a space in it: those of the text are among them
    for gate, detail, rule in rules:
        if gate not in low:
            continue
        for each in _compile(gate, rule).finditer(text):
            if is_real_key(detail, each.group()) and not _is_in_base64(text, each.start()):
                whole.append(each.span())
                yield ("secret", each.start(), each.end(), detail)
    if digits:
        if rules and len(squeezed) < len(low):
            yield from _find_broken_keys(text, rules, sorted(whole))
        if ":" in low:
            for token in _TELEGRAM().finditer(text):
                if is_real_key("Telegram bot token", token.group()):
                    yield ("secret", token.start(), token.end(), "Telegram bot token")
    if "private" in low or "putty" in low:
        yield from _find_key_blocks(text)
    if "://" in low and "@" in low:
        for login in _URL().finditer(text):
            if not _NOT_SAID().search(login[2]):
                yield ("secret", login.start(2), login.end(2), "password in an address")


def _is_in_base64(text: str, start: int) -> bool:
    """Whether a place lies inside a long run of base64, such as an image: what looks like a prefix there is chance, and taking it
    out would spoil the rest. No key is nearly so long, nor begins in the middle of one."""
    before = _DATA().match(text[max(0, start - _DATA_CHARS) : start][::-1])
    after = _DATA().match(text, start, start + _DATA_CHARS)
    back = len(before.group()) if before else 0
    return back > 0 and back + (len(after.group()) if after else 0) >= _DATA_CHARS


def _find_key_blocks(text: str) -> Iterator[Span]:
    """Private key blocks; without a footer, as far as the text goes on like a key."""
    heads = list(islice(_BLOCK().finditer(text), _MAX_BLOCKS))
    for at, head in enumerate(heads):
        limit = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        limit = min(limit, head.end() + _MAX_BLOCK_CHARS)
        if limit - head.end() < 40:
            continue
        body = _BODY().match(text, head.end(), limit)
        stop = body.end() if body else head.end()
        foot = _FOOT().search(text, head.end(), limit)
        if foot and (foot.start() <= stop + 200 or _looks_like_a_key(text[head.end() : foot.start()])):
            stop = foot.end()
        if _looks_like_a_key(text[head.end() : stop]):
            yield ("secret", head.start(), head.end() + len(text[head.end() : stop].rstrip()), "private key")


def _looks_like_a_key(body: str) -> bool:
    return sum(map(str.isalnum, body)) >= 40 and any(map(str.isdigit, body)) and sum(map(str.isupper, body)) >= 5


_HEAD = pattern(r"(?:[A-Za-z0-9_/-]|\\\.)+")
_CHANGES = pattern(r"[a-z][A-Z].{0,40}?[a-z]")  # as in no ordinary word
_TOKEN = pattern(r"[A-Za-z0-9_\-+/=.]+")
_PIECE = pattern(r"\S+")
_MAX_FOLLOWED = 64
_MAX_KEY_CHARS = 400


def _find_broken_keys(text: str, rules: list[tuple[str, str, str]], whole: list[tuple[int, int]]) -> Iterator[Span]:
    """Keys whose characters have spaces or newlines between them."""
    followed = 0
    for gate, detail, rule in rules:
        if gate in ("-us", "atlasv1", "/api/webhooks/"):
            continue
        for begin in _compile_prefix(gate).finditer(text):
            start = begin.start()
            if (start and text[start - 1].isalnum() and text[start - 1].isascii()) or _is_inside(text, start, whole):
                continue
            followed += 1
            if followed > _MAX_FOLLOWED:
                return
            joined, ends = _join_pieces(text, start, _compile_loose(rule))
            match = _compile_loose(rule).match(joined)
            if match is None or not is_real_key(detail, match.group()) or sum(map(str.isdigit, match.group())) < 3:
                continue
            end = ends[match.end() - 1]
            if end - start > match.end():
                insort(whole, (start, end))
                yield ("secret", start, end, detail)


def _is_inside(text: str, start: int, whole: list[tuple[int, int]]) -> bool:
    """Whether this is part of a key that was found whole, or the beginning of one after which the text does not go on."""
    at = bisect_right(whole, (start, len(text))) - 1
    if at < 0 or start >= whole[at][1]:
        return False
    return start > whole[at][0] or not text[whole[at][1] : whole[at][1] + 1].isspace()


def _join_pieces(text: str, start: int, rule: re.Pattern[str]) -> tuple[str, list[int]]:
    """The key put together from its pieces, and where each character ends in the text."""
    joined = ""
    ends: list[int] = []
    last, size, spaced = start, 0, False
    for piece in _PIECE().finditer(text, start, start + _MAX_KEY_CHARS):
        value = piece.group()
        gap = text[last : piece.start()]
        if not joined:
            spaced = len(value) <= 2
        elif len(gap) > (3 if "\n" not in gap else 12):
            break
        elif spaced:
            if len(value) > 2:
                break
        elif not _continues_key(value, gap, size, joined, rule):
            break
        joined += value
        ends.extend(range(piece.start() + 1, piece.end() + 1))
        last, size = piece.end(), len(value)
    return joined, ends


def _continues_key(value: str, gap: str, size: int, joined: str, rule: re.Pattern[str]) -> bool:
    """Whether the next piece belongs to the key: it looks random, is as long as the one before, or is needed on a new line."""
    value = value.rstrip(".,;:!?)\"'`")
    if not _TOKEN().fullmatch(value) or rule.match(value):  # a key of its own
        return False
    random = not value.isalpha() and not value.isdigit()
    if not random and len(value) >= 6:
        random = _CHANGES().search(value) is not None
    if "\n" in gap:
        return rule.fullmatch(joined) is None or (random and len(value) >= 8 and "=" not in value.rstrip("="))
    return (random and len(value) >= 6) or ((random or len(value) == size <= 8) and rule.fullmatch(joined) is None)


# -- by the words in front of them --------------------------------------------------------------------------------
_PASSWORDS = (
    *"password passwd passwort passphrase passcode pwd pw: pw= pass: pass= kennwort contraseña".split(), 'pass"', "mot de passe",
)  # fmt: skip
_KEYS = ("key", "token", "secret", "credential")
_HEADERS = ("bearer", "basic", "accountkey", "accesskey", "signature=", "sig=")
_MAX_ASSIGNED = 4_000  # words with a value behind them that are examined in one text
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
_KEY_TEXT = pattern(r"[A-Za-z0-9_\-./+=~:]+")


def find_assigned_secrets(text: str, low: str) -> Iterator[Span]:
    """Values that the words in front of them call a password, key or token, and what authorization headers carry."""
    looked = 0
    passwords = _PASSWORDS if "pass" in low or "pwd" in low or "kennwort" in low or "contrase" in low else ()
    for words, read in ((passwords, _read_password), (_KEYS, _read_key)):
        for word in words:
            at = low.find(word)
            while at >= 0 and looked < _MAX_ASSIGNED:
                after = at + len(word) - (word[-1] in ':="')
                opens = word != "key" or _is_qualified(low, at)
                said = _LINK().match(text, after) if opens and low[max(0, at - 10) : at] != "[redacted:" else None
                looked += said is not None
                span = read(low, at, said) if said else None
                if span:
                    yield ("secret", *span, "password" if words is not _KEYS else "key or token")
                    after = span[1]
                at = low.find(word, after)
    if any(gate in low for gate in _HEADERS):
        yield from _find_headers(text)
    if "private" in low or "seed" in low or "wallet" in low or "secret" in low:
        for key in _HEX_KEY().finditer(text):
            if _HEX_WORD().search(low, max(0, key.start() - 48), key.start()):
                yield ("secret", key.start(1), key.end(1), "private key")
    if "akia" in low or "asia" in low or "aws" in low:
        for key in _AWS().finditer(text):
            before, value = low[max(0, key.start() - 200) : key.start()], key.group()
            near = "akia" in before or "asia" in before or ("aws" in before and ("secret" in before or "key" in before))
            mixed = any(map(str.isdigit, value)) and sum(map(str.isupper, value)) > 4 and sum(map(str.islower, value)) > 4
            if near and mixed:
                yield ("secret", key.start(), key.end(), "AWS secret key")


def _is_qualified(low: str, at: int) -> bool:
    """Whether the word in front makes a key, token or secret one that opens something."""
    return low[max(0, at - 16) : at].rstrip(" _-").endswith(_QUALIFIERS)


def _find_headers(text: str) -> Iterator[Span]:
    for token in _BEARER().finditer(text):
        if _has_letters_and_digits(token[1]) and not _EMPTY().match(token[1]) and len(set(token[1])) > 7:
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


def _has_letters_and_digits(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _trim(said: re.Match[str]) -> tuple[str, str]:
    """The value without what ends a sentence or a field, and the word or sign between it and its name."""
    value, link = said["value"], (said["link"] or "").strip().lower()
    if not said["quote"]:
        value = _CUT().split(value, maxsplit=1)[0] if link else value
        value = value.rstrip(".,;)]}" if link.endswith("=") else ".,;:)]}!?")
    if len(value) < 4 or _EMPTY().match(value) or (value[0].isdigit() and not value.isdigit() and _MEASURE().match(value)):
        return "", link
    return value, link


def _read_password(low: str, at: int, said: re.Match[str]) -> tuple[int, int] | None:
    value, link = _trim(said)
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


def _read_key(low: str, at: int, said: re.Match[str]) -> tuple[int, int] | None:
    value, link = _trim(said)
    if len(value) < 10 or not _has_letters_and_digits(value) or not _KEY_TEXT().fullmatch(value):
        return None
    qualified = _is_qualified(low, at)
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
