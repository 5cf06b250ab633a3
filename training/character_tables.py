"""Writes src/keepstone/embedders/characters.py: how the reference BERT tokenizer sorts characters.

    python training/character_tables.py > src/keepstone/embedders/characters.py

The reference (the `tokenizers` package) sorts characters by the Unicode tables compiled into it. Python's `unicodedata`
grows with every Python release, so a tokenizer built on it would cut the same text differently after an upgrade, and
stored vectors would no longer match new ones. This asks the reference about every character and freezes the answers.
"""

from collections.abc import Callable, Iterable

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

LINE_LENGTH = 110
HEADER = '''\
"""How characters are sorted before WordPiece, frozen. Imports: nothing. Written by training/character_tables.py.

Ranges of code points in hexadecimal, ends included. On purpose they do not follow the running Python's Unicode version:
the same text must give the same tokens, and so the same vector, under every Python.
"""
'''


def every_character() -> Iterable[str]:
    return (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def ranges(test: Callable[[str], bool]) -> str:
    found: list[list[int]] = []
    for code in map(ord, filter(test, every_character())):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in found)


def constant(name: str, comment: str, text: str) -> str:
    if len(text) < LINE_LENGTH:
        return f'\n# {comment}\n{name} = "{text}"'
    lines, line = [], ""
    for item in text.split():
        if len(line) + len(item) >= LINE_LENGTH:
            lines.append(line)
            line = ""
        line += item + " "
    body = "\n".join(f'    "{part}"' for part in [*lines, line.rstrip()])
    return f"\n# {comment}\n{name} = (\n{body}\n)"


def main() -> None:
    clean = BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    accents = BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    ideographs = BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)
    split = BertPreTokenizer()
    print(HEADER, end="")
    print(constant("DROPPED", "Control and format characters: removed, their neighbours join.",
                   ranges(lambda c: clean.normalize_str(f"a{c}b") == "ab")))  # fmt: skip
    print(constant("SPACES", "Read as a space.",
                   ranges(lambda c: clean.normalize_str(f"a{c}b") == "a b")))  # fmt: skip
    print(constant("MARKS", "Accents and other non-spacing marks: removed after decomposition.",
                   ranges(lambda c: accents.normalize_str(f"a{c}b") == "ab")))  # fmt: skip
    print(constant("IDEOGRAPHS", "Each one a word of its own.",
                   ranges(lambda c: ideographs.normalize_str(f"a{c}b") == f"a {c} b")))  # fmt: skip
    print(constant("PUNCTUATION", "Each one a word of its own, seen after decomposition.",
                   ranges(lambda c: len(split.pre_tokenize_str(f"a{c}b")) == 3)))  # fmt: skip


if __name__ == "__main__":
    main()
