"""Writes src/keepstone/aio.py, aio_verbs.py and aio_parts.py: AsyncMemory with the signatures of Memory, so that the two cannot
drift apart.

    python tools/make_aio.py           # write the files
    python tools/make_aio.py --print   # show the first; --print-verbs, --print-parts: the others

A test compares the files with what this prints.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

from aio_templates import HEAD, PARTS_HEAD, VERBS_HEAD

TARGET = Path(__file__).parent.parent / "src" / "keepstone" / "aio.py"
PARTS = TARGET.with_name("aio_parts.py")
VERBS = TARGET.with_name("aio_verbs.py")
BY_HAND = {"open", "scope", "with_scope", "upkeep", "close", "conversation", "working", "jobs", "review"}


def arguments(function: object) -> str:
    """How a method passes its own arguments on."""
    parts = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("self", "cls"):
            continue
        named = {parameter.KEYWORD_ONLY: f"{name}={name}", parameter.VAR_KEYWORD: f"**{name}"}
        parts.append(named.get(parameter.kind, name))
    return ", ".join(parts)


def signature(function: object, returns: str | None = None) -> str:
    """A signature as source text; annotations are strings already."""
    found = inspect.signature(function)
    if "cls" not in found.parameters and inspect.ismethod(function):
        found = found.replace(
            parameters=[inspect.Parameter("cls", inspect.Parameter.POSITIONAL_OR_KEYWORD), *found.parameters.values()]
        )
    if returns is not None:
        found = found.replace(return_annotation=returns)
    text = str(found)
    for parameter in found.parameters.values():
        for annotation in (parameter.annotation, found.return_annotation):
            if isinstance(annotation, str):
                text = text.replace(repr(annotation), annotation)
    return text


CONVERSATION = "conversation(self._session, **self._limits)."


def methods_of(owner: type, through: str) -> str:
    """The public methods of something a memory gives out."""
    return "\n".join(method(name, each, through) for name, each in vars(owner).items() if name[0] != "_" and callable(each))


def method(name: str, function: object, through: str) -> str:
    doc = inspect.getdoc(function) or ""
    indented = doc.replace("\n", "\n        ")
    call = f"memory.{through}{name}({arguments(function)})"
    run = "self._run" if not through else "self._memory._run"
    return (
        f"    async def {name}{signature(function)}:\n"
        f'        """{indented}"""\n'
        f"        return await {run}(lambda memory: {call})\n"
    )


def render() -> str:
    """aio.py."""
    sys.path.insert(0, str(TARGET.parent.parent))
    from keepstone.memory import Memory

    def doc(name: str) -> str:
        return (inspect.getdoc(getattr(Memory, name)) or "").replace("\n", "\n        ")

    public = [name for name in vars(Memory) if not name.startswith("_") and name not in BY_HAND]
    methods = "\n".join(method(name, getattr(Memory, name), "") for name in public)
    types = sorted(
        name for name in ("AuditRow", "Diagnosis", "Explanation", "ForgetReceipt", "ImportReport", "Message", "Page", "Recall",
                          "Receipt", "Record", "Scope", "Version") if name in methods or name == "Scope"
    )  # fmt: skip
    slots = {
        "types": ", ".join(types),
        "open_signature": signature(Memory.open, "AsyncMemory"),
        "open_doc": doc("open"),
        "open_arguments": arguments(Memory.open),
        "scope_doc": doc("scope"),
        "with_scope_signature": signature(Memory.with_scope, "AsyncMemory"),
        "with_scope_doc": doc("with_scope"),
        "upkeep_doc": doc("upkeep"),
        "review_doc": doc("review"),
        "jobs_doc": doc("jobs"),
        "working_doc": doc("working"),
        "conversation_doc": doc("conversation"),
        "methods": methods,
        "close_doc": doc("close"),
    }
    return _formatted(HEAD, slots, TARGET)


def render_verbs() -> str:
    """aio_verbs.py."""
    sys.path.insert(0, str(TARGET.parent.parent))
    from keepstone.agent_verbs import AgentVerbs

    public = [name for name in vars(AgentVerbs) if not name.startswith("_") and name not in BY_HAND]
    methods = "\n".join(method(name, getattr(AgentVerbs, name), "") for name in public)
    return _formatted(VERBS_HEAD, {"methods": methods}, VERBS)


def render_parts() -> str:
    """aio_parts.py."""
    sys.path.insert(0, str(TARGET.parent.parent))
    from keepstone.conversation.conversation import Conversation
    from keepstone.learning.jobs import ScopeJobs
    from keepstone.maintenance.review import ReviewList
    from keepstone.maintenance.upkeep import Upkeep

    slots = {
        "upkeep": methods_of(Upkeep, "upkeep."),
        "review": methods_of(ReviewList, "review."),
        "jobs": methods_of(ScopeJobs, "jobs."),
        "conversation": methods_of(Conversation, CONVERSATION),
    }
    return _formatted(PARTS_HEAD, slots, PARTS)


def _formatted(head: str, slots: dict[str, str], target: Path) -> str:
    text = head
    for slot, value in slots.items():
        text = text.replace("{" + slot + "}", value)
    ruff = [sys.executable, "-m", "ruff"]
    checked = subprocess.run([*ruff, "check", "--select", "I,F401", "--fix-only", "-q", "--stdin-filename", str(target), "-"],
                             input=text, capture_output=True, text=True, check=True).stdout  # fmt: skip
    return subprocess.run([*ruff, "format", "--stdin-filename", str(target), "-"], input=checked, capture_output=True,
                          text=True, check=True).stdout  # fmt: skip


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(render(), end="")
    elif "--print-parts" in sys.argv:
        print(render_parts(), end="")
    elif "--print-verbs" in sys.argv:
        print(render_verbs(), end="")
    else:
        TARGET.write_text(render(), encoding="utf-8")
        VERBS.write_text(render_verbs(), encoding="utf-8")
        PARTS.write_text(render_parts(), encoding="utf-8")
