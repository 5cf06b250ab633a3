"""Reads the everyday relations of this folder: text for training what a statement is about and whether it answers."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
_LEAST = {
    "values": 10,
    "statements": 8,
    "about": 4,
    "changes": 6,
    "corrections": 1,
    "ends": 2,
    "past": 2,
    "wishes": 2,
    "additions": 0,
    "questions": 8,
    "questions_about": 4,
    "past_questions": 1,
    "near": 0,
}


@dataclass(frozen=True)
class Relation:
    """One thing people speak of: the ways to state, change, end and ask about it."""

    name: str
    attribute: str
    domain: str
    values: tuple[str, ...]
    statements: tuple[str, ...]
    about: tuple[str, ...]
    changes: tuple[str, ...]
    corrections: tuple[str, ...]
    ends: tuple[str, ...]
    past: tuple[str, ...]
    wishes: tuple[str, ...]
    additions: tuple[str, ...]
    questions: tuple[str, ...]
    questions_about: tuple[str, ...]
    past_questions: tuple[str, ...]
    near: tuple[str, ...]


def load_relations(folder: Path = FOLDER) -> list[Relation]:
    """All relations, in the order of their files; raises ValueError for one that does not follow the README."""
    relations: list[Relation] = []
    names: set[str] = set()
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["relation"]:
            relation = _read(entry, path.stem)
            if relation.name in names:
                raise ValueError(f"{path.name}: two relations are named {relation.name!r}")
            names.add(relation.name)
            relations.append(relation)
    return relations


def _read(entry: dict[str, object], domain: str) -> Relation:
    name = entry.get("name")
    unknown = set(entry) - {"name", "attribute", *_LEAST}
    if unknown:
        raise ValueError(f"{domain}: relation {name!r} has unknown fields {sorted(unknown)}")
    lists: dict[str, tuple[str, ...]] = {}
    for field, least in _LEAST.items():
        texts = entry.get(field, [])
        if not isinstance(texts, list) or len(texts) < least or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{domain}: relation {name!r} needs at least {least} texts in {field!r}")
        lists[field] = tuple(texts)
    return Relation(name=str(name), attribute=str(entry["attribute"]), domain=domain, **lists)
