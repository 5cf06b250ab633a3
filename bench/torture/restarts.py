"""A PostgreSQL that is stopped and started under load, in process and behind the server."""

from __future__ import annotations

import time

from bench.restarts import Restarts
from bench.torture.verdict import Options, Verdict
from keepstone import Memory
from tests.server_processes import PostgresServer

FIVE = 5.0  # seconds until the first waiting caller must be back
PATIENCE = 60.0


def run(options: Options) -> Verdict:
    """A restart a round, every fifth by SIGKILL; then an outage that is longer than callers wait, and one seen over HTTP."""
    verdict = Verdict("postgres-restarts", "postgres")
    begun = time.monotonic()
    modes = ["kill" if number % 5 == 4 else "immediate" for number in range(options.rounds)]
    with PostgresServer(options.folder / "postgres", durable=True) as server:
        result = Restarts(server, options.seed).run(modes, impatient=True)
        verdict.tries, verdict.acknowledged = sum(result.restarts.values()), result.acknowledged
        verdict.lost, verdict.duplicates, verdict.errors = result.lost, result.doubled, result.errors
        verdict.drift = (not result.whole) + (not result.healthy)
        verdict.problems += result.problems
        found = result.as_json()
        verdict.figures = {name: found[name] for name in ("restarts", "recovery_s", "all_back_s", "impatient")}
        late = [each for each in result.recovery if each >= FIVE]
        verdict.problems += [f"the first caller was back {each:.1f} s after the server" for each in late]
        over_http(verdict, server)
    verdict.seconds = time.monotonic() - begun
    return verdict


def over_http(verdict: Verdict, database: PostgresServer) -> None:
    """While the database is away the server says 503 and when to come back; then it goes on by itself, and nothing is twice."""
    from tests.server.running import running

    def check(right: bool, what: str) -> None:
        if not right:
            verdict.errors += 1
            verdict.problems.append(f"over HTTP: {what}")

    verdict.tries += 1
    url = database.database("served")
    with Memory.open(url, settings={"busy_timeout": 5}) as memory, running(memory) as server:
        http = server.http(server.key("dana"))
        said = {"content": "Dana lives in Lisbon."}
        stored = http.post("/v1/memories", json={"content": "Dana prefers dark mode."})
        check(stored.status_code == 201, f"a write was answered with {stored.status_code}")
        check(bool(http.post("/v1/recall", json={"query": "Which theme does Dana like?"}).json()["hits"]), "nothing is recalled")
        database.stop()
        away = {
            "a write": http.post("/v1/memories", json=said, headers={"idempotency-key": "once"}),
            "a recall": http.post("/v1/recall", json={"query": "theme"}),
            "readyz": http.get("/readyz"),
        }
        for name, answer in away.items():
            kind = (answer.status_code, answer.headers["content-type"])
            check(kind == (503, "application/problem+json"), f"with its database away, {name} was answered with {kind}")
            check(int(answer.headers.get("retry-after", 0)) > 0, f"{name} was not told when to come back")
            check("127.0.0.1" not in answer.text, f"{name} was told where the database is, which is not for everybody")
        check(http.get("/healthz").status_code == 200, "the process itself is well and says it is not")
        database.start()
        deadline = time.monotonic() + PATIENCE
        while (ready := http.get("/readyz").status_code) != 200 and time.monotonic() < deadline:
            time.sleep(0.01)
        check(ready == 200, f"the database is back for {PATIENCE:g} s and readyz says {ready}")
        again = http.post("/v1/memories", json=said, headers={"idempotency-key": "once"})
        check(again.status_code in (200, 201), f"the write that was repeated was answered with {again.status_code}")
        contents = sorted(each["content"] for each in http.get("/v1/memories").json()["records"])
        check(contents == ["Dana lives in Lisbon.", "Dana prefers dark mode."], f"{len(contents)} memories are there, not two")
        verdict.acknowledged += 2
