"""What the guard finds, and what it alarms for nothing: sensitive values by kind, injected instructions by family, its CPU time.
Run with `python -m bench guard`.

Without options it reads our own texts (`data/guard.json`: injections, and benign texts as tools and web pages give them, each in
a part that the rules were fitted to, `dev`, and one never inspected, `held`) and the turns of `data/conversations`.
One hand wrote both parts and the rules: what strangers write is found less often than `held` says. The JSON object:

- `threshold`: the score from which a text is put aside.
- `own`: for `dev` and `held`: `injections` and `benign`, each with `texts`, `alarms`, `rate` with its 95 % interval (`low`,
  `high`), and `families` or `kinds` with `texts` and `alarms`.
- `benign`: `source`, `turns`; those with a value of a kind that is redacted by default, `redacted`, and of one that is tagged,
  `tagged`; `alarms` of instructions, and how many there would be if the weak families were enough: `with_replies` (what an answer
  must hold) and `with_tasks` (plain imperatives and questions too); `cpu_us` for `sensitive` and `instructions`: `p50` and `p95`
  of a turn.
- `attacks` (with --attacks): by family `texts`, `alarms`, `with_replies`, `with_tasks`; and the same under `all`.
- `kinds` (with --pii): by kind `labelled`, `found`, `right`, `precision`, `recall`.
- `hostile`: of texts of 64 KB made to be slow `texts`, and for `sensitive` and `instructions` the worst `cpu_ms` and its `text`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.datasets import OWN, DatasetError, load, read_text
from bench.dedupe import wilson
from bench.measure import percentile
from keepstone.guard.instructions import FAMILIES, RULES, THRESHOLD, Signal, detect_instructions
from keepstone.guard.policy import Policy
from keepstone.guard.sensitive import KINDS, find_sensitive

DATA = Path(__file__).parent / "data" / "guard.json"
SPLITS = ("dev", "held")
LABELS = {"CREDIT_CARD": "card", "US_SSN": "ssn", "IBAN_CODE": "iban", "EMAIL_ADDRESS": "email", "PHONE_NUMBER": "phone",
          "IP_ADDRESS": "ip"}  # fmt: skip
SIZE = 65_536


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text with its part of the data and its family (of injections) or kind (of benign texts)."""

    split: str
    label: str
    text: str


def own(path: Path = DATA) -> tuple[list[Labelled], list[Labelled]]:
    """Our own injections and benign texts."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return (
        [Labelled(each["split"], each["family"], each["text"]) for each in data["injections"]],
        [Labelled(each["split"], each["kind"], each["text"]) for each in data["benign"]],
    )


def benign_turns(path: Path | None) -> list[str]:
    """Every different turn of a LongMemEval file, or of our own conversations."""
    cases = load("own", OWN) if path is None else load("longmemeval", path)
    return list(dict.fromkeys(turn.text for case in cases for session in case.sessions for turn in session.turns))


def _read(path: Path, shape: type, what: str) -> Any:
    try:
        data = json.loads(read_text(path))
    except DatasetError:
        raise
    except ValueError as error:
        raise DatasetError(f"{path} is not JSON ({error}): give {what}.") from None
    if not isinstance(data, shape):
        raise DatasetError(f"{path} holds a JSON {type(data).__name__}: give {what}.")
    return data


def attack_texts(path: Path) -> dict[str, list[str]]:
    """Attacks by family, as BIPIA publishes them."""
    what = "a JSON object of lists of texts by family"
    data = _read(path, dict, what)
    for family, texts in data.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DatasetError(f"{path}: {family!r} is no list of texts: give {what}.")
    return dict(data)


def labelled_texts(path: Path) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """Texts with the sensitive values in them (kind, start, end), as presidio-research makes them; other labels are left out."""
    what = "a JSON list of texts with spans, as presidio-research makes it"
    made = []
    for at, entry in enumerate(_read(path, list, what)):
        try:
            spans = [
                (LABELS.get(span["entity_type"], ""), span["start_position"], span["end_position"]) for span in entry["spans"]
            ]
            made.append((str(entry["full_text"]), [span for span in spans if span[0]]))
        except (KeyError, TypeError) as error:
            raise DatasetError(f"{path}: entry {at} cannot be read ({error}): give {what}.") from None
    return made


# -- figures ------------------------------------------------------------------------------------------------------
def own_figures(path: Path = DATA) -> dict[str, Any]:
    """Alarms among our own injections and benign texts, by part."""
    injections, benign = own(path)
    return {
        split: {
            "injections": _alarms([each for each in injections if each.split == split], "families"),
            "benign": _alarms([each for each in benign if each.split == split], "kinds"),
        }
        for split in SPLITS
    }


def _alarms(texts: Sequence[Labelled], by: str) -> dict[str, Any]:
    alarmed = [each for each in texts if _alarm(detect_instructions(each.text))]
    low, high = wilson(len(alarmed), len(texts))
    totals, hits = Counter(each.label for each in texts), Counter(each.label for each in alarmed)
    return {
        "texts": len(texts),
        "alarms": len(alarmed),
        "rate": round(len(alarmed) / max(1, len(texts)), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        by: {label: {"texts": count, "alarms": hits[label]} for label, count in totals.items()},
    }


def _alarm(signal: Signal) -> bool:
    return signal.score >= THRESHOLD


def _weighed(signals: Iterable[Signal]) -> dict[str, int]:
    """Alarms as they are, and as they would be if the weak families were enough alone."""
    told = [(_alarm(each), FAMILIES["reply"] in each.reasons, FAMILIES["plain"] in each.reasons) for each in signals]
    return {
        "alarms": sum(alarm for alarm, _, _ in told),
        "with_replies": sum(alarm or reply for alarm, reply, _ in told),
        "with_tasks": sum(any(each) for each in told),
    }


def benign_figures(turns: Sequence[str]) -> dict[str, Any]:
    """What the guard does to turns that are no attack, and what that costs."""
    treatments = Policy.of(None).treatments
    redacted = tagged = 0
    signals, sensitive_times, instruction_times = [], [], []
    for turn in turns:
        found, seconds = _timed(find_sensitive, turn)
        sensitive_times.append(seconds)
        signal, seconds = _timed(detect_instructions, turn)
        instruction_times.append(seconds)
        signals.append(signal)
        redacted += any(treatments[each.kind] == "redact" for each in found)
        tagged += any(treatments[each.kind] == "tag" for each in found)
    return {
        "turns": len(turns),
        "redacted": redacted,
        "tagged": tagged,
        **_weighed(signals),
        "cpu_us": {"sensitive": _percentiles(sensitive_times), "instructions": _percentiles(instruction_times)},
    }


def _timed(work: Callable[[str], Any], text: str) -> tuple[Any, float]:
    begun = time.process_time_ns()
    result = work(text)
    return result, (time.process_time_ns() - begun) / 1e9


def _percentiles(seconds: list[float]) -> dict[str, float]:
    return {name: round(percentile(seconds, share) * 1e6, 1) for name, share in (("p50", 0.5), ("p95", 0.95))}


def attack_figures(families: dict[str, list[str]]) -> dict[str, Any]:
    """Alarms by family of attacks."""
    read = {family: [detect_instructions(text) for text in texts] for family, texts in families.items()}
    figures = {family: {"texts": len(signals), **_weighed(signals)} for family, signals in read.items()}
    every = [signal for signals in read.values() for signal in signals]
    return {**figures, "all": {"texts": len(every), **_weighed(every)}}


def kind_figures(texts: Sequence[tuple[str, list[tuple[str, int, int]]]]) -> dict[str, Any]:
    """Precision and recall by kind; what overlaps a value of its kind is right."""
    labelled, found, right, met = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for text, spans in texts:
        seen = [(each.kind, each.start, each.end) for each in find_sensitive(text)]
        labelled.update(kind for kind, _, _ in spans)
        found.update(kind for kind, _, _ in seen)
        right.update(each[0] for each in seen if any(_same(each, span) for span in spans))
        met.update(span[0] for span in spans if any(_same(each, span) for each in seen))
    return {
        kind: {
            "labelled": labelled[kind],
            "found": found[kind],
            "right": right[kind],
            "precision": round(right[kind] / found[kind], 4) if found[kind] else None,
            "recall": round(met[kind] / labelled[kind], 4) if labelled[kind] else None,
        }
        for kind in KINDS
    }


def _same(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


# -- texts made to be slow ----------------------------------------------------------------------------------------
def hostile() -> dict[str, str]:
    """Texts of 64 KB that repeat what the rules begin with, or what makes patterns try again and again."""
    anchors = list(dict.fromkeys(anchor for rule in RULES for anchor in rule.anchors.split(";")))
    parts = {f"{anchor!r} again and again": f"{anchor} the " for anchor in anchors}
    parts |= {
        "every anchor": f"{' '.join(anchors)} ",
        "every anchor, a sentence each": f"{'. '.join(anchors)}. ",
        "secrets without a target": "send send send the memory conversation to to to at ",
        "not, not, user": "not not tell not user ",
        "open turns": f"user:{'x' * 190}\n",
        "digits in words": "1gn0re pr3vious ",
        "two alphabets": "іgnоrе the ",
        "zero-width": "i\u200bg\u200bn",
        "full-width": "ｉｇｎ ",
        "letters apart": "i g n o r e ",
        "bars": "ignore__the**",
        "base64": "aWdub3JlIHRoZSBydWxlcyBvZiB0aGUgZ2FtZSBhbmQ ",
        "one long word": "a",
        "one long number": "4",
        "digits apart": "4-1 1.1 ",
        "dots and ats": "a.b@c.",
        "colons": "1:2::",
        "key words": "password= token: secret key=",
        "new lines": "\n",
    }
    return {name: (part * (SIZE // len(part) + 1))[:SIZE] for name, part in parts.items()}


def hostile_figures(texts: dict[str, str]) -> dict[str, Any]:
    """The slowest text for each; of each text the better of two runs, so that it is the text that is measured."""
    figures: dict[str, Any] = {"texts": len(texts)}
    for name, work in (("sensitive", find_sensitive), ("instructions", detect_instructions)):
        times = {text: min(_timed(work, texts[text])[1] for _ in range(2)) for text in texts}
        worst = max(times, key=lambda text: times[text])
        figures[name] = {"cpu_ms": round(times[worst] * 1e3, 2), "text": worst}
    return figures


# -- the table ----------------------------------------------------------------------------------------------------
def _print(result: dict[str, Any]) -> None:
    print(f"{'our own texts':<34}{'texts':>7}{'alarms':>8}")
    for split in SPLITS:
        for name, by in (("injections", "families"), ("benign", "kinds")):
            part = result["own"][split][name]
            interval = f"{part['rate']:.1%} ({part['low']:.1%} to {part['high']:.1%})"
            print(f"{split + ' ' + name:<34}{part['texts']:>7}{part['alarms']:>8}  {interval}")
            for label, counts in part[by].items():
                print(f"  {label:<32}{counts['texts']:>7}{counts['alarms']:>8}")
    weak = f"{'alarms':>8}{'if replies':>12}{'if tasks':>10}"
    benign = result["benign"]
    print(f"\n{'benign turns of ' + benign['source']:<34.34}{'turns':>7}{weak}{'redacted':>10}{'tagged':>8}")
    print(f"{'':<34}{_counts(benign, 'turns')}{benign['redacted']:>10}{benign['tagged']:>8}")
    if "attacks" in result:
        print(f"\n{'attacks':<34}{'texts':>7}{weak}")
        for family, counts in result["attacks"].items():
            print(f"{family:<34}{_counts(counts, 'texts')}")
    if "kinds" in result:
        print(f"\n{'kind':<10}{'labelled':>9}{'found':>7}{'precision':>11}{'recall':>8}")
        for kind, each in result["kinds"].items():
            rates = ["-" if each[name] is None else f"{each[name]:.1%}" for name in ("precision", "recall")]
            print(f"{kind:<10}{each['labelled']:>9}{each['found']:>7}{rates[0]:>11}{rates[1]:>8}")
    print(f"\n{'CPU':<14}{'turn p50':>12}{'p95':>12}   worst of {result['hostile']['texts']} hostile texts of 64 KB")
    for name, cpu in benign["cpu_us"].items():
        worst = result["hostile"][name]
        print(f"{name:<14}{cpu['p50']:>9} us{cpu['p95']:>9} us   {worst['cpu_ms']} ms: {worst['text']}")


def _counts(counts: dict[str, int], total: str) -> str:
    return f"{counts[total]:>7}{counts['alarms']:>8}{counts['with_replies']:>12}{counts['with_tasks']:>10}"


def main(argv: list[str]) -> int:
    """Print the tables (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench guard", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--pii", type=Path, help="texts with labelled values as presidio-research makes them, plain, gzip or xz")
    parser.add_argument("--benign", type=Path, help="a LongMemEval file whose turns are the benign ones (else our conversations)")
    parser.add_argument("--attacks", type=Path, help="attacks by family as BIPIA publishes them")
    options = parser.parse_args(argv)
    try:
        turns = benign_turns(options.benign)
        attacks = None if options.attacks is None else attack_texts(options.attacks)
        labelled = None if options.pii is None else labelled_texts(options.pii)
    except DatasetError as error:
        print(f"bench guard: {error}", file=sys.stderr)
        return 2
    source = "our own conversations" if options.benign is None else options.benign.name
    result: dict[str, Any] = {"bench": "guard", "threshold": THRESHOLD, "own": own_figures()}
    result["benign"] = {"source": source, **benign_figures(turns)}
    if attacks is not None:
        result["attacks"] = attack_figures(attacks)
    if labelled is not None:
        result["kinds"] = kind_figures(labelled)
    result["hostile"] = hostile_figures(hostile())
    if not options.json:
        _print(result)
        print()
    print(json.dumps(result))
    return 0
