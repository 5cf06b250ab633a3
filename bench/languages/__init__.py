"""Recall in fifteen languages, on facts and questions of our own.

`development/` and `test/` hold one file a language and `mixed.json`, stores with several languages. Ranking may be tuned on
`development` only.
"""

from bench.languages.command import main

__all__ = ["main"]
