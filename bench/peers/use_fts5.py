"""SQLite's own full-text search, with the scope as a column and bm25."""

from __future__ import annotations

import re

from bench.peers.serving import Calls, Hits, Peer, Vectors, serve


class Fts5(Peer):
    """One file, one table."""

    ways = Calls(
        add="INSERT in a transaction of its own",
        bulk="one INSERT a text, one transaction a call",
        recall="MATCH … ORDER BY bm25 LIMIT 5",
    )

    embeds_itself = True  # it has words only

    def load(self) -> str:
        import apsw

        self.apsw = apsw
        return str(apsw.sqlite_lib_version())

    def open(self, embed: Vectors | None, dimension: int) -> None:
        self.db = self.apsw.Connection(str(self.folder / "words.db"))
        self.db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self.db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS fact USING fts5 (scope, content, key UNINDEXED, tokenize = 'porter')")

    def add(self, scope: str, text: str, key: str) -> None:
        self.fill(scope, [text], [key])

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        rows = ((scope, text, key) for text, key in zip(texts, keys, strict=True))
        with self.db:
            self.db.executemany("INSERT INTO fact VALUES (?, ?, ?)", rows)

    def recall(self, scope: str, question: str, limit: int) -> Hits:
        words = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", question.lower())))
        if not words:
            return []
        match = f'scope : "{scope}" AND content : ({words})'
        asked = "SELECT key, content FROM fact WHERE fact MATCH ? ORDER BY bm25(fact, 0.0, 1.0) LIMIT ?"
        return self.db.execute(asked, (match, limit)).fetchall()

    def durable(self) -> str:
        mode = self.db.execute("PRAGMA journal_mode").get
        level = self.db.execute("PRAGMA synchronous").get
        return f"yes: SQLite with journal_mode={mode}, synchronous={level}; 1 fdatasync an add (strace)"

    def close(self) -> None:
        self.db.close()


if __name__ == "__main__":
    serve(Fts5())
