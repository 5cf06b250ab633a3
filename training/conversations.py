"""Reads the conversations that were written for keepstone, one a file.

A file has a head (`speakers: Ines, Tobias`), sessions (`## session 2024-03-04 18:20`, then `Ines: text {label}`, further
lines of a turn indented by two spaces) and questions (`- kind | question? => labels of the turns that answer it`).
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

LABEL = re.compile(r"\s*\{([a-z0-9-]+)\}\s*$")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass
class Conversation:
    """What was said, in order, and what is asked about it: each question with the numbers of the turns that answer it."""

    speakers: list[str] = field(default_factory=list)
    who: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)
    questions: list[tuple[str, set[int]]] = field(default_factory=list)

    @property
    def with_assistant(self) -> bool:
        return self.speakers == ["user", "assistant"]


def read_conversation(path: Path) -> Conversation:
    read, asked, part, session = Conversation(), [], "head", 0
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("## session "):
            part, session = "session", session + 1
        elif line.startswith("## questions"):
            part = "questions"
        elif part == "head" and line.startswith("speakers: "):
            read.speakers = [name.strip() for name in line.removeprefix("speakers: ").split(",")]
        elif part == "session" and line.startswith("  "):
            read.texts[-1] += "\n" + line[2:]
        elif part == "session" and line:
            who, _, text = line.partition(": ")
            read.who.append(who)
            read.texts.append(text)
            read.sessions.append(session)
        elif part == "questions" and (found := re.fullmatch(r"- [\w-]+ \| (.+?) =>(.*)", line)):
            asked.append((found[1], [label.strip() for label in found[2].split(",") if label.strip()]))
    labels = {found[1]: turn for turn, text in enumerate(read.texts) if (found := LABEL.search(text))}
    read.texts = [LABEL.sub("", text).strip() for text in read.texts]
    read.questions = [(question, {labels[label] for label in names}) for question, names in asked]
    return read


def for_training(folder: Path) -> list[Path]:
    """Every second file by name. The others are for choosing between models and are never trained on."""
    return sorted(folder.glob("*.txt"))[::2]


def for_choosing(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))[1::2]


def turn_texts(conversation: Conversation) -> list[str]:
    """The turns by themselves, with their speakers' names, and sentence by sentence. No questions."""
    named = [f"{who}: {text}" for who, text in zip(conversation.who, conversation.texts, strict=True)]
    sentences = [part.strip() for text in conversation.texts for part in SENTENCE_END.split(text) if len(part) > 15]
    return [*conversation.texts, *([] if conversation.with_assistant else named), *sentences]
