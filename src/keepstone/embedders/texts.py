"""Checks of the texts that embedders are given."""

from __future__ import annotations

from collections.abc import Sequence

from keepstone.errors import EmbedderError

MAX_CHARS = 16_384  # of a text that are embedded: the cost of one text must stay bounded


def check_texts(texts: Sequence[str]) -> None:
    """EmbedderError for one string instead of a sequence, or a value that is not a string."""
    if isinstance(texts, str):
        raise EmbedderError("embed() takes a sequence of texts and got one string. Put it into a list: embed([text]).")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise EmbedderError(f"Text {index} of {len(texts)} is a {type(text).__name__}, not a string. Pass str values only.")
