"""Words that have a meaning for an engine, for a calendar, or none. This file has no tests."""

from __future__ import annotations

from typing import Any

ENGINES = [
    *"AND OR NOT NEAR * a* ^a ( ) (( - -- + ; % _ %% & && | || ! !! <-> :* a:* $1 ? :name @x {} [] ${x} %s".split(),
    *("NEAR(a b, 5)", '"', '""', '"a', "{a}: b", "content: a", "a:b", "a + b", "a & !b", "'a' <-> 'b'", "'", "''", "\\", "\\\\"),
    *("%(x)s", "{{x}}", "<b>", "&amp;", "/* */", "' OR 1=1 --", "\n", "\t", "\r", "\0", "\ud800", "\udfff"),
]
LETTERS = [
    *("\u200b", "\u202e", "\ufeff", "\ufffd", "\u3000", "\u0301", "e\u0301", "İ", "ß", "ﬁ", "ǅ", "ſ", "日本語", "עברית", "ไทย"),
    *("🙂", "👩‍👩‍👧", "🇩🇪", "\U000e0041", "\U0010ffff", "Ⅷ", "²", "½", "٣", "１"),
]
WHEN = [
    *("yesterday", "tomorrow", "last week", "last year", "in 2024", "on 31 February", "on 29 February 2023", "two weeks ago"),
    *("999999999 days ago", "0 days ago", "-1 days ago", "since 1800", "before 9999-12-31", "between 2024 and 2020", "in May"),
    *(
        "next Monday",
        "a million years ago",
        "at 25:61",
        "in 0000",
        "99999999999999999999",
        "½ year ago",
        "٣ days ago",
        "in １９９９",
    ),
    *(
        "the day before the day before yesterday",
        "first",
        "latest",
        "how long",
        "how many",
        "when",
        "ago",
        "in",
        "1/2/3",
        "2024-02-30",
    ),
]
MOMENTS = [
    *(
        "2024-02-30",
        "2024-W53-7",
        "20240101T000000Z",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
        "2024-01-01T24:00",
    ),
    *("", " ", "now", "1e9", "2024-01-01T00:00:00+99:99", "2024-01-01 00:00\0", "２０２４-01-01"),
]
KEYS = [
    *("city", "age", "a.b", "a.b.c", "pets", "$.city", "city'", 'ci"ty', "a[0]", "a[*]", "*", "$", "or", "$and", "not", "x\\y"),
    *("ü", "a b", "1", "%", "a..b", "", ".", "city->>'x'", "{city}", "city,age", "#>", "@", "?"),
]
VALUES: list[Any] = [
    *("Rome", "cat", "'", '"', "%", "_", "\\", "{a,b}", "null", "true", "1", "1.0", "\0", "\ud800", ""),
    *(2**63 - 1, -(2**63), 2**63, 2**53, 2**53 + 1, 1e308, 5e-324, -0.0, float("nan"), float("inf"), 0.1),
]
METADATA: list[dict[str, Any]] = [
    {"city": "Rome", "age": 30, "pets": ["cat", 1, True, None]},
    {"city": "rome", "age": "30"},
    {"a": {"b": {"c": 1}}},
    {"a.b": 1, "$.city": "x", "city'": 1, 'ci"ty': "'", "a[0]": 2, "*": True, "$": 0, "%": "%", "x\\y": "\\"},
    {"a": [{"b": 1}], "city": None},
    {"age": 2**63 - 1},
    {"age": -0.0},
    {"age": 1.0, "city": ["Rome"]},
    {"ü": "ü", "1": 1},
    {},
    {"age": 2**53 + 1},
    {"age": float(2**53)},
    {"age": True},
    {"city": "", "a": {}},
    {"or": 1, "and": [], "not": {"a": 1}},
]
