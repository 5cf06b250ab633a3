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


def floor(ratio: float = 1.41) -> dict[str, Any]:
    """An add and three sizes of recall; `ratio` is the add's."""

    def compared(parts: dict[str, float], names: list[str], times: float) -> dict[str, Any]:
        whole = sum(parts[name] for name in names)
        return {
            "parts": {name: summary(value) for name, value in parts.items()},
            "in_sum": names,
            "sum": summary(whole),
            "sum_ms": round(whole, 4),
            "ours": summary(whole * times),
            "ratio": times,
            "cpu_ratio": times + 0.11,
        }

    add = {
        "fsync_append": 0.29,
        "fsync_overwrite": 0.14,
        "commit_one_row": 0.31,
        "commit_same_rows": 0.52,
        "embed": 0.037,
        "guard": 0.024,
        "look_up": 0.041,
    }
    recall = {"embed": 0.028, "matrix": 0.046, "fts5": 0.72, "fts5_lean": 0.16, "fetch": 0.021}
    found: dict[str, Any] = {
        "bench": "floor",
        "machine": MACHINE,
        "command": "python -m bench floor",
        "rounds": 200,
        "recall": {},
    }
    found["add"] = {
        "held": 1000,
        **compared(add, ["commit_same_rows", "embed", "guard", "look_up"], ratio),
        "ratio_to_fsync": 3.19,
    }
    for size, times in (("1000", 1.93), ("10000", 0.52), ("100000", 2.28)):
        grown = {
            name: value * (int(size) / 1000 if name in ("matrix", "fts5", "fts5_lean") else 1) for name, value in recall.items()
        }
        found["recall"][size] = {
            **compared(grown, ["embed", "matrix", "fts5", "fetch"], times),
            "lean_sum": summary(1.37),
            "lean_ratio": 2.61,
            "lean_cpu_ratio": 2.74,
        }
    return found


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


def quality_peers(dataset: str = "own", low: float = 0.654) -> dict[str, Any]:
    """Every memory on one dataset."""

    def scores(low: float) -> dict[str, Any]:
        return {
            "questions": 50,
            "any@5": low + 0.08,
            "all@5": low,
            "any@10": low + 0.09,
            "all@10": low + 0.05,
            "frac@10": low + 0.06,
        }

    found = {name: scores(round(low - at / 50, 3)) for at, name in enumerate(FACTORS)}
    peers = {dataset: found, "unit": "turn", "embedder": "auto", "left_out": {"letta": "it needs a server"}}
    return {
        "bench": "quality",
        "machine": MACHINE,
        "command": f"python -m bench quality --peers all --dataset {dataset}",
        "peers": peers,
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


def speed(cpu: float = 1.98, fsync: float = 1.49) -> dict[str, Any]:
    """The figures that goals are about."""
    return {
        "bench": "speed",
        "machine": MACHINE,
        "recall": {"10000": {"recall": {**summary(2.1), "cpu_p50_ms": cpu}}},
        "write": {"durable_add": {"ratio_to_fsync": fsync}},
        "start": {"import_ms": 98.2, "cli_recall_ms": 596.0},
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


def everything() -> dict[str, dict[str, Any]]:
    """Every result that the report knows."""
    return {
        "speed": speed(),
        "speed-peers": speed_peers(),
        "quality-peers": quality_peers(),
        "quality-peers-longmemeval": quality_peers("longmemeval", 0.905),
        "quality-peers-locomo": quality_peers("locomo", 0.671),
        "quality-longmemeval": quality(),
        "quality-locomo": quality(),
        "everyday-development": everyday("development"),
        "everyday-test": everyday("test"),
        "growth": growth(),
        "floor": floor(),
        "languages": languages(),
        "torture": torture(),
        "soak": soak(),
        "soak-postgres": soak(),
    }
