"""`python -m tests.fuzz`: fuzz every parser of text from outside, in turn, within a budget of time.

Where atheris is installed it guides the search by coverage, each parser in a process of its own; else inputs of the corpus are
changed at random, with pieces that parsers have trouble with. An input that breaks a parser is added to the corpus.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fuzz import targets
from tests.security.fuzz_words import ENGINES, LETTERS, WHEN

PIECES = [piece.encode("utf-8", "surrogatepass") for piece in (*ENGINES, *LETTERS, *WHEN)]
PIECES += [b"\x00", b"\xff\xfe", b"{", b"}", b"[" * 50, b'"', b"\\u0000", b"1e999", b"-0", b"null", b"9" * 30, b"\r\n", b"---\n"]
MAX_BYTES = 20_000


def change(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """An input made of another one."""
    for _ in range(chance.randrange(1, 6)):
        at, to = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
        match chance.randrange(7):
            case 0:
                data = data[:at] + data[to:]
            case 1:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 2:
                data = data[:at] + chance.randbytes(chance.randrange(1, 8)) + data[to:]
            case 3:
                data = data[:to] + data[at:to] * chance.randrange(1, 20) + data[to:]
            case 4:
                data = data[:at] + chance.choice(others)[at:]
            case 5 if data:
                data = data[: at or 1][:-1] + bytes([chance.randrange(256)]) + data[at or 1 :]
            case _:
                data = data[:at]
    return data[:MAX_BYTES]


def fuzz(name: str, seconds: float, seed: int) -> tuple[bytes, str] | None:
    """The first input that breaks a parser, and its traceback; None if none was found in time."""
    chance, end = random.Random(f"{name} {seed}"), time.monotonic() + seconds
    inputs = [*targets.corpus(name), b"", b"Dana lives in Porto."]
    while time.monotonic() < end:
        data = change(chance.choice(inputs), chance, inputs)
        try:
            targets.run(name, data)
        except Exception:
            return data, traceback.format_exc()
    return None


def guided(name: str, seconds: float) -> tuple[bytes, str] | None:
    """The same with atheris, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(targets.corpus(name)):
            (Path(folder) / str(number)).write_bytes(data)
        options = [f"-max_total_time={int(seconds)}", f"-max_len={MAX_BYTES}", f"-artifact_prefix={folder}/broken-", folder]
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", "--atheris", name, *options], capture_output=True, text=True, check=False
        )
        broken = sorted(Path(folder).glob("broken-*"))
        return (broken[0].read_bytes(), done.stderr[-3000:]) if broken else None


def main(argv: list[str]) -> int:
    """Exit status 1 if a parser broke."""
    if argv[:1] == ["--atheris"]:
        import atheris

        atheris.Setup(["fuzz", *argv[2:]], atheris.instrument_func(lambda data: targets.run(argv[1], data)))
        atheris.Fuzz()
        return 0
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for all parsers together (default 600)")
    parser.add_argument("--only", default="", help="parsers to fuzz, separated by commas (default all)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the changes (default: the time)")
    given = parser.parse_args(argv)
    names = given.only.split(",") if given.only else list(targets.TARGETS)
    share, broken = given.seconds / len(names), 0
    by_coverage = importlib.util.find_spec("atheris") is not None
    print(f"{len(names)} parsers, {share:.0f} s each, {'with atheris' if by_coverage else 'by changing the corpus'}", flush=True)
    for name in names:
        found = guided(name, share) if by_coverage and share >= 1 else fuzz(name, share, given.seed)
        if found is not None:
            broken += 1
            targets.keep(name, found[0])
            print(f"{name}: {found[0][:200]!r}\n{found[1]}", flush=True)
    print(f"{broken} parsers broke")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
