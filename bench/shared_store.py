"""How fast a shared store answers, with many scopes in it: `python -m bench speed --store postgresql://…` (or `--store own`,
which starts a server of its own). Beside recall stands the floor: the same question, embedded by the same embedder, as one bare
SQL statement that compares the scope's vectors and gives the five nearest texts, on a connection of its own, by turns. Then 1, 8
and 32 clients recall and add, by turns with the same on plain pgvector: a table of texts and vectors, and nothing else. The
clients are threads of `--processes` processes. `cpu_ms` is the processor time of a call in their processes, `server_cpu_ms` that
in a server of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.measure import Times, progress, ratio
from bench.texts import THINGS, Text, texts
from keepstone import Memory
from keepstone.embedders.registry import make_embedder
from tests.server_processes import PostgresServer

SCOPE = 100  # memories in each
TENANTS = 10
BLOCK = 20  # questions to one way before it is the other's turn
FLOOR = """SELECT r.content FROM keepstone.vector AS v JOIN keepstone.record AS r USING (tenant, sequence)
WHERE v.tenant = %s AND v.scope = %s AND r.scope = v.scope AND r.status = 'active'
ORDER BY v.vector <#> %s::halfvec LIMIT 5"""
CLIENTS = (1, 8, 32)  # each has a connection of its own to plain pgvector
TURN_SECONDS = 5
PLAIN_TABLE = """DROP TABLE IF EXISTS public.plain;
CREATE TABLE public.plain AS SELECT r.tenant, r.scope, r.content, v.vector
FROM keepstone.record AS r JOIN keepstone.vector AS v USING (tenant, sequence);
CREATE INDEX ON public.plain (tenant, scope)"""
PLAIN_RECALL = """SELECT content FROM public.plain WHERE tenant = %s AND scope = %s ORDER BY vector <#> %s::halfvec LIMIT 5"""
PLAIN_ADD = "INSERT INTO public.plain VALUES (%s, %s, %s, %s::halfvec)"


@contextlib.contextmanager
def store(url: str, folder: Path) -> Iterator[tuple[str, psutil.Process | None]]:
    """The URL to measure, with a server behind it, and the process of that if it is ours."""
    if url != "own":
        yield url, None
        return
    with PostgresServer(folder / "postgres", durable=True) as server:
        yield server.url, psutil.Process(server.pid)


def measure(url: str, folder: str | None, sizes: list[int], rounds: int, processes: int = 1) -> dict[str, Any]:
    """A database of each size, filled through the public API, then asked."""
    with tempfile.TemporaryDirectory(prefix="keepstone-shared-", dir=folder) as place, store(url, Path(place)) as (at, server):
        found: dict[str, Any] = {}
        held = 0
        with psycopg.connect(at, autocommit=True) as connection:
            for size in sorted(sizes):
                filled = _fill(at, held, size)
                connection.execute("VACUUM ANALYZE")
                found[f"{size} over {size // SCOPE} scopes"] = {
                    **_asked(at, connection, size, rounds),
                    "clients": _crowds(at, connection, size, processes, server),
                    **filled,
                    **_cost(connection, size),
                }
                held = size
        return found


def large(url: str, folder: str | None, size: int, rounds: int) -> dict[str, Any]:
    """One scope that is too large for a process with little memory: asked before and after it has an index of its own."""
    with tempfile.TemporaryDirectory(prefix="keepstone-large-", dir=folder) as place, store(url, Path(place)) as (at, _):
        wanted = texts(size)
        asked = random.Random(9).sample(wanted, rounds)
        with Memory.open(at, tenant="large", settings={"cache_mb": 1, "extract": False}) as memory:
            for start in range(0, size, 1000):
                said = [{"role": "user", "content": text.content} for text in wanted[start : start + 1000]]
                memory.ingest(said, session=f"s{start}")
                if start % 20_000 == 0:
                    progress(f"{start:,} memories in one scope")
            exact = _times(memory, asked)
            begun = time.perf_counter()
            tuned = memory.upkeep.run({"lapse": False, "age_days": 0, "fade_days": 0, "verify": False, "purge_days": 0}).tuned
            built = time.perf_counter() - begun
            indexed = _times(memory, asked)
        with psycopg.connect(at) as connection:
            row = connection.execute("SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relname LIKE 'near\\_%'").fetchone()
    return {
        "memories": size, "exact": exact[0], "with its own index": indexed[0],
        "found_at_5": {"exact": exact[1], "with its own index": indexed[1]}, "upkeep_s": round(built, 1),
        "index_bytes_a_memory": round(int(row[0] or 0) / size) if row else 0, "tuned": len(tuned),
    }  # fmt: skip


def _times(memory: Memory, asked: list[Text]) -> tuple[dict[str, float], float]:
    times, right = Times(), 0
    memory.recall(asked[0].question)
    for text in asked:
        right += text.content in times.take(lambda t=text: [hit.content for hit in memory.recall(t.question)])
    return times.summary(), round(right / len(asked), 3)


def _user(number: int) -> dict[str, str]:
    return {"tenant": f"tenant{number % TENANTS}", "user": f"user{number}"}


def _texts(number: int) -> list[Text]:
    return texts(SCOPE, seed=1000 + number)


def _fill(url: str, held: int, size: int) -> dict[str, Any]:
    """Scopes of a hundred messages each, one call a scope; how many a second."""
    begun = time.perf_counter()
    with Memory.open(url, settings={"extract": False}) as memory:
        for number in range(held // SCOPE, size // SCOPE):
            said = [{"role": "user", "content": text.content} for text in _texts(number)]
            memory.with_scope(**_user(number)).ingest(said, session="first")
            if number % 1000 == 999:
                progress(f"{(number + 1) * SCOPE:,} memories")
    seconds = time.perf_counter() - begun
    return {"fill_s": round(seconds, 1), "filled_a_second": round((size - held) / seconds)}


def _asked(url: str, connection: psycopg.Connection[Any], size: int, rounds: int) -> dict[str, Any]:
    """recall in scopes drawn at random: the first time in this process, then again; and adding; beside the floor."""
    random_ = random.Random(7)
    drawn = random_.sample(range(size // SCOPE), min(rounds, size // SCOPE))
    asked = [(number, random_.choice(_texts(number))) for number in drawn]
    numbers = {(row[0], row[1]): row[2] for row in connection.execute('SELECT tenant, "user", scope FROM keepstone.scope')}
    embedder = make_embedder("auto")
    assert embedder is not None
    connection.execute("SET search_path = keepstone, public")
    ways = {name: Times() for name in ("recall first", "recall", "floor", "add")}
    right = {"recall": 0, "floor": 0}
    with Memory.open(url, settings={"extract": False}) as memory:

        def recalled(number: int, question: str) -> list[str]:
            return [hit.content for hit in memory.with_scope(**_user(number)).recall(question)]

        def bare(number: int, question: str) -> list[str]:
            who = _user(number)
            vector = str(embedder.embed([question], purpose="query")[0].tolist())
            return [row[0] for row in connection.execute(FLOOR, (who["tenant"], numbers[who["tenant"], who["user"]], vector))]

        memory.recall("warm up")
        bare(asked[0][0], asked[0][1].question)
        for at in range(0, len(asked), BLOCK):
            block = asked[at : at + BLOCK]
            for number, text in block:
                ways["recall first"].take(lambda n=number, t=text: recalled(n, t.question))
            for number, text in block:
                right["floor"] += text.content in ways["floor"].take(lambda n=number, t=text: bare(n, t.question))
            for number, text in block:
                right["recall"] += text.content in ways["recall"].take(lambda n=number, t=text: recalled(n, t.question))
            for number, text in block[:5]:
                ways["add"].take(lambda n=number, t=f"{text.question} {at}": memory.with_scope(**_user(n)).remember(t))
        resident = psutil.Process().memory_info().rss
    figures: dict[str, Any] = {name: each.summary() for name, each in ways.items()}
    floor = figures["floor"]["wall_p50_ms"]
    return {
        **figures,
        "found_at_5": {name: round(count / len(asked), 3) for name, count in right.items()},
        "ratio_to_floor": ratio(figures["recall"]["wall_p50_ms"], floor),
        "ratio_of_first_to_floor": ratio(figures["recall first"]["wall_p50_ms"], floor),
        "resident_mb": round(resident / 1e6),
    }


def _crowds(
    url: str, connection: psycopg.Connection[Any], size: int, processes: int, server: psutil.Process | None
) -> dict[str, Any]:
    """Calls a second and their 95th percentile, of some clients at once, each way for some seconds by turns."""
    connection.execute(PLAIN_TABLE)
    connection.execute("VACUUM ANALYZE public.plain")
    found: dict[str, Any] = {}
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(processes)]
    workers = [spawn.Process(target=_work, args=(url, size // SCOPE, pipe[1]), daemon=True) for pipe in pipes]
    for worker in workers:
        worker.start()
    for clients in CLIENTS:
        progress(f"{clients} clients")
        shares = [clients // processes + (at < clients % processes) for at in range(processes)]
        parts = {f"{way} {verb}": _turn([pipe[0] for pipe in pipes], way, verb, shares, server)
                 for verb in ("recall", "add") for way in ("keepstone", "pgvector")}  # fmt: skip
        found[str(clients)] = parts | {
            f"times_{verb}": ratio(parts[f"keepstone {verb}"]["per_s"], parts[f"pgvector {verb}"]["per_s"])
            for verb in ("recall", "add")
        }
    for worker, pipe in zip(workers, pipes, strict=True):
        pipe[0].send(None)
        worker.join()
    return found


def _turn(pipes: list[Connection], way: str, verb: str, shares: list[int], server: psutil.Process | None) -> dict[str, float]:
    """One way for some seconds, in all processes at once."""
    before = _server_cpu(server)
    for pipe, clients in zip(pipes, shares, strict=True):
        pipe.send((way, verb, clients))
    told = [pipe.recv() for pipe in pipes]
    after, walls = _server_cpu(server), sorted(wall for each, _ in told for wall in each)
    return {
        "per_s": round(len(walls) / TURN_SECONDS, 1),
        "p95_ms": round(walls[int(0.95 * len(walls))] * 1e3, 2),
        "cpu_ms": round(sum(cpu for _, cpu in told) / len(walls) * 1e3, 2),
        **({"server_cpu_ms": round((after - before) / len(walls) * 1e3, 2)} if server else {}),
    }


def _server_cpu(server: psutil.Process | None) -> float:
    """Seconds of processor time that a server and its children have taken, those that have ended too."""
    if server is None:
        return 0.0
    seconds = 0.0
    for child in server.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # ended since: the server counts it, which is asked last
            seconds += sum(child.cpu_times()[:2])
    return seconds + sum(server.cpu_times()[:4])


def _work(url: str, scopes: int, pipe: Connection) -> None:
    """A process of clients: what is asked of it, until it is told to end."""
    embedder = make_embedder("auto")
    assert embedder is not None
    with psycopg.connect(url) as connection:
        rows = connection.execute('SELECT tenant, "user", scope FROM keepstone.scope').fetchall()
    numbers = {(tenant, user): scope for tenant, user, scope in rows}

    def plain(verb: str, number: int, text: str, own: psycopg.Connection[Any]) -> object:
        who = _user(number)
        place = (who["tenant"], numbers[who["tenant"], who["user"]])
        vector = str(embedder.embed([text], purpose="query" if verb == "recall" else "document")[0].tolist())
        if verb == "recall":
            return own.execute(PLAIN_RECALL, (*place, vector)).fetchall()
        return own.execute(PLAIN_ADD, (*place, text, vector))

    with Memory.open(url, settings={"extract": False}) as memory:

        def ours(verb: str, number: int, text: str, _: psycopg.Connection[Any]) -> object:
            scope = memory.with_scope(**_user(number))
            return scope.recall(text) if verb == "recall" else scope.remember(text)

        while (asked := pipe.recv()) is not None:
            way, verb, clients = asked
            with contextlib.ExitStack() as stack:
                own = [stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(clients)]
                before = time.process_time()
                walls = _crowd(ours if way == "keepstone" else plain, verb, own, scopes)
                pipe.send((walls, time.process_time() - before))


def _crowd(call: Callable[..., object], verb: str, connections: list[psycopg.Connection[Any]], scopes: int) -> list[float]:
    """Each connection's thread calls for some seconds, in scopes drawn at random; how long each call took."""
    walls: list[float] = []
    until = time.perf_counter() + TURN_SECONDS

    def work(connection: psycopg.Connection[Any]) -> None:
        random_ = random.Random()  # no two processes ask the same
        while (begun := time.perf_counter()) < until:
            number = random_.randrange(scopes)
            call(verb, number, f"Where does number {random_.random()} keep the {random_.choice(THINGS)}?", connection)
            walls.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=work, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return walls


def _cost(connection: psycopg.Connection[Any], size: int) -> dict[str, Any]:
    """What it takes on disk, by table, with indexes."""
    rows = connection.execute(
        "SELECT c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid) FROM pg_class AS c "
        "JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'keepstone' AND c.relkind = 'r'"
    ).fetchall()
    whole = sum(table + indexes for _, table, indexes in rows)
    largest = sorted(rows, key=lambda row: -(row[1] + row[2]))[:5]
    return {
        "disk_mb": round(whole / 1e6),
        "bytes_a_memory": round(whole / size),
        "bytes_by_table": {name: round((table + indexes) / size) for name, table, indexes in largest},
    }
