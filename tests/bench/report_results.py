"""Made-up results for the tests of the report: the shapes that the benchmarks print, with invented figures."""

from __future__ import annotations

from typing import Any

MACHINE = {
    "python": "3.11.7",
    "sqlite": "3.54.1",
    "numpy": "2.4.6",
    "cores": 2,
    "load": 0.25,
    "keepstone": "0.1.0",
    "commit": "abcdef0123",
    "date": "2026-11-16",
    "cpu": "AMD EPYC",
    "system": "Linux 6.18.44",
}
FACTORS = {"keepstone": 1.0, "chroma": 17.2, "mem0": 29.6, "langgraph": 11.3, "mempalace": 23.9, "fts5": 2.1, "numpy": 0.4}


def summary(p50: float) -> dict[str, float]:
    """Percentiles in a fixed proportion."""
    shares = {"p50": 1.0, "p95": 1.7, "p99": 2.6}
    return {
        f"{clock}_{name}_ms": round(p50 * share * (0.93 if clock == "cpu" else 1), 4)
        for clock in ("wall", "cpu")
        for name, share in shares.items()
    }


def growth(million: float = 8.1) -> dict[str, Any]:
    """A growth of four sizes; `million` is the time of a recall at the largest."""
    bases = {
        "recall": 1.3,
        "context": 2.9,
        "get": 0.04,
        "list": 0.3,
        "remember": 0.94,
        "update": 1.2,
        "forget": 3.4,
        "remember_many": 39.0,
        "ingest": 231.0,
    }
    sizes: dict[str, Any] = {}
    for at, size in enumerate(("1000", "10000", "100000", "1000000")):
        sizes[size] = {verb: {**summary(base * 1.6**at), "calls": 200} for verb, base in bases.items()}
        sizes[size] |= {
            "open_ms": 3.1 + at,
            "first_recall_ms": 13.7 * 5**at,
            "resident_mb": 58.3 + 2.1 * 7**at,
            "disk_mb": 2.2 * 10**at,
            "bytes_a_memory": 2208 - at,
            "found_at_5": 0.999 - at / 100,
            "fill_s": 0.31 * 9**at,
        }
    sizes["1000000"] |= {"recall": {**summary(million), "calls": 200}, "recall_at_10": 0.983}
    return {"bench": "growth", "machine": MACHINE, "command": "python -m bench growth", "sizes": sizes}


def speed_peers(add: float = 1.0) -> dict[str, Any]:
    """Seven memories; `add` is how many times ours goes into everybody's add."""

    def everybody(base: float, times: float = 1.0) -> dict[str, Any]:
        return {name: summary(base if name == "keepstone" else base * factor * times) for name, factor in FACTORS.items()}

    recall = {
        way: {size: everybody(base) for size, base in (("1000", 1.3), ("10000", 2.8), ("100000", 6.9))}
        for way in ("same", "usual")
    }
    adds = {way: everybody(0.94, add) for way in ("same", "usual")}
    ratios = {
        "recall": {
            way: {size: {n: x for n, x in FACTORS.items() if n != "keepstone"} for size in found} for way, found in recall.items()
        },
        "add": {way: {n: round(x * add, 2) for n, x in FACTORS.items() if n != "keepstone"} for way in adds},
    }
    return {
        "bench": "speed",
        "command": "python -m bench speed --peers all",
        "machine": {**MACHINE, "versions": {"chroma": "1.5.2", "mem0": "2.0.1"}},
        "peers": {
            "embedders": {"same": "static, 256 numbers", "usual": {"keepstone": "static", "chroma": "MiniLM"}},
            "add": adds,
            "recall": recall,
            "ratios": ratios,
            "bulk": {
                "same": {
                    name: {"per_s": round(4070 / factor), "way": "ingest" if name == "keepstone" else "add"}
                    for name, factor in FACTORS.items()
                }
            },
            "found_at_5": {
                way: {size: dict.fromkeys(FACTORS, 0.985) | {"numpy": 0.86} for size in found} for way, found in recall.items()
            },
            "many": {"100000 over 1000": everybody(1.31), "100000 over 1000, again in the scope": everybody(0.87)},
            "many_found_at_5": dict.fromkeys(FACTORS, 0.971),
            "durable": {"keepstone": "all of it: one fsync", "chroma": "its log, without a wait for the disk"},
            "start": {
                name: {"import_ms": 98.2 * x, "open_ms": 5.1 * x, "first_recall_ms": 14.3 * x, "process_ms": 383.7 * x}
                for name, x in FACTORS.items()
            },
            "size": {name: {"install_mb": 71.5 * x, "packages": round(9 * x)} for name, x in FACTORS.items()},
            "resident_mb": {"10000": {name: 100.6 * x for name, x in FACTORS.items()}},
            "disk_mb": {"10000": {name: 19.7 * x for name, x in FACTORS.items()}},
            "left_out": {"mem0": {"1000000": "filling it would take a day"}},
        },
    }


def quality(**scores: Any) -> dict[str, Any]:
    """One dataset, ours alone."""
    return {
        "bench": "quality",
        "questions": 50,
        "any@5": 0.997,
        "all@5": 0.961,
        "any@10": 0.901,
        "all@10": 0.986,
        "frac@10": 0.852,
        **scores,
    }


def everyday(split: str) -> dict[str, Any]:
    """One split, with two of its figures and a bin of each kind."""
    paths = ("answerable.first", "calibration.error")
    empty = {"from": 0.0, "questions": 0, "score": 0.0, "right": 0.0}
    return {
        "bench": "everyday",
        "machine": MACHINE,
        "command": f"python -m bench everyday --split {split}",
        "split": split,
        "answerable": {"first": 0.713},
        "calibration": {
            "error": 0.287,
            "bins": [empty, *({"from": at / 10, "questions": 9, "score": at / 10 + 0.04, "right": 1.0} for at in range(1, 10))],
        },
        "questions": dict.fromkeys(paths, 314),
        "intervals": {path: [0.652, 0.764] for path in paths},
    }


def torture(lost: int = 0) -> dict[str, Any]:
    """Three rows, one of them skipped."""
    counts = {"acknowledged": 7013, "lost": lost, "drift": 0, "duplicates": 0, "errors": 0}
    rows = [
        {
            "row": "kill",
            "store": "sqlite",
            "tries": 3017,
            **counts,
            "whole": not lost,
            "skipped": None,
            "problems": [],
            "figures": {},
        },
        {
            "row": "processes",
            "store": "sqlite",
            "tries": 21,
            **counts,
            "lost": 0,
            "whole": True,
            "skipped": None,
            "problems": [],
            "figures": {},
        },
        {
            "row": "redis",
            "store": "both",
            "tries": 0,
            **counts,
            "whole": True,
            "skipped": "there is no redis-server",
            "problems": [],
            "figures": {},
        },
    ]
    return {
        "bench": "torture",
        "machine": MACHINE,
        "command": "python -m bench torture --kills 3000",
        "kills": 3017,
        **counts,
        "rows": rows,
        "reopen_ms": {"p50": 6.7, "max": 43.2},
        "killed_in": {"remember": 1512, "forget": 403},
        "problems": ["kill: a write is gone"] if lost else [],
    }


def soak() -> dict[str, Any]:
    """Ten minutes in which nothing grows."""
    samples = [
        {
            "at": at * 6.0,
            "resident_mb": 151.3 + min(at, 20) / 4,
            "handles": 31 + at % 2,
            "threads": 17,
            "wal_mb": 4.1,
            "store_mb": 9 + at / 10,
            "live": 801 + at % 7,
            "p50_ms": 6.4 + at % 5 / 10,
        }
        for at in range(101)
    ]
    slopes = {
        "resident_mb": {
            "first": 156.3,
            "middle": 156.4,
            "last": 156.5,
            "per_hour": 1.2,
            "tolerance": 4.7,
            "least_per_hour": 31.0,
            "grows": False,
        },
        "p50_ms": {
            "first": 6.6,
            "middle": 6.5,
            "last": 6.7,
            "per_hour": 0.2,
            "tolerance": 5.0,
            "least_per_hour": 33.0,
            "grows": False,
        },
    }
    return {
        "bench": "soak",
        "machine": MACHINE,
        "command": "python -m bench soak --minutes 10",
        "store": "sqlite",
        "minutes": 10.0,
        "requests": 47_913,
        "errors": 0,
        "problems": [],
        "samples": samples,
        "slopes": slopes,
        "grows": [],
        "whole": True,
        "verdict": "steady",
    }


def languages() -> dict[str, Any]:
    """Two languages and the stores with several; English has no questions in another language."""
    shares = {"first": 0.633, "five": 0.867, "word_first": 0.75, "word_five": 0.987, "cross_first": 0.131, "cross_five": 0.207,
              "nothing": 0.067, "unrelated_silent": 0.833, "unanswerable_silent": 0.417, "auroc": 0.669, "update_first": 0.501,
              "update_other_words_first": 0.333}  # fmt: skip
    counts = {"all": 74, "own": 38, "cross": 18, "unanswerable": 12, "updates": 6}
    english = {**shares, "cross_first": None, "cross_five": None, "questions": {**counts, "all": 56, "cross": 0}}
    names = (f"{part}{name}" for part in ("", "same_", "other_") for name in ("first", "five"))
    return {
        "bench": "languages",
        "machine": MACHINE,
        "command": "python -m bench languages",
        "split": "development",
        "embedder": "auto",
        "languages": {"en": english, "de": {**shares, "questions": counts}},
        "mean": shares,
        "mixed": {"questions": 62, **{name: 0.145 + at / 10 for at, name in enumerate(names)}},
    }


def history() -> dict[str, Any]:
    """Calls on both engines, one key of the second not linearizable."""
    each = {"calls": 2713, "kills": 6, "without_answer": 4, "problems": {}}
    return {"bench": "history", "machine": MACHINE, "command": "python -m bench history", "sqlite": each,
            "postgres": {**each, "calls": 3209, "problems": {"k1": "a stale read"}}}  # fmt: skip


def failover() -> dict[str, Any]:
    """Twenty failovers without a loss."""
    return {"bench": "failover", "machine": MACHINE, "command": "python -m bench failover", "failovers": 20, "acknowledged": 3119,
            "lost": 0, "errors": 0, "limit_s": 30.0, "pause_s": {"p50": 0.62, "max": 0.9}, "recalls": 877, "from_standby": 39,
            "too_old": 0, "staleness_s": {"limit": 5.0, "reported_max": 0.6}, "problems": []}  # fmt: skip


def stall() -> dict[str, Any]:
    """Another user under attack, twice as slow."""
    part = {"quiet": {"ms": {"p95": 0.51}}, "attacked": {"ms": {"p95": 1.03}}, "times": 2.02}
    return {"bench": "stall", "machine": MACHINE, "command": "python -m bench stall", "me": part, "recall": part}


def encryption() -> dict[str, Any]:
    """Two verbs with and without a key."""
    verb = {"clear_ms": 1.01, "encrypted_ms": 1.11, "ratio": 1.1}
    return {
        "bench": "encryption",
        "machine": MACHINE,
        "command": "python -m bench encryption",
        "verbs": {"open": verb, "recall": verb},
    }


def postgres() -> dict[str, Any]:
    """One size, two counts of clients."""
    ways = {f"{system} {verb}": 1200.0 for system in ("keepstone", "pgvector") for verb in ("recall", "add")}
    clients = {count: {way: {"per_s": rate * int(count), "p95_ms": 4.2} for way, rate in ways.items()} for count in ("1", "8")}
    return {"bench": "speed", "machine": MACHINE, "shared": {"10000 over 100 scopes": {"clients": clients}}}


def everything() -> dict[str, dict[str, Any]]:
    """Every result that the report knows."""
    return {
        "quality-longmemeval": quality(),
        "quality-locomo": quality(**{f"session_{name}": value for name, value in quality().items()}),
        "everyday-development": everyday("development"),
        "everyday-test": everyday("test"),
        "everyday-reader": everyday("development"),
        "everyday-reader-test": everyday("test"),
        "languages": languages(),
        "languages-test": languages(),
        "growth": growth(),
        "speed-peers": speed_peers(),
        "postgres": postgres(),
        "encryption": encryption(),
        "torture": torture(),
        "power": torture(),
        "history": history(),
        "failover": failover(),
        "stall": stall(),
        "soak": soak(),
    }
