"""What keepstone itself asks of a chat model: each prompt with its schema, its version and the reader of its answer. Pure.

The text of a prompt is in the Markdown file of the same name.
"""

from pathlib import Path


def read_text(name: str) -> str:
    """The text of a prompt."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")
