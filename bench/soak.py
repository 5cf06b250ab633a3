"""A server under mixed load for a long time: does anything grow? Run with `python -m bench soak --minutes 10`.

A real `keepstone serve` with a process beside it that runs upkeep every few seconds, and callers that remember, recall, update,
forget, talk, list, export and ask over MCP for several users, so that what the store holds stays about the same. Every second the
memory, file handles and threads of the server's processes are looked at, the write-ahead log and the store on disk, what waits
for a model, and how long requests take. bench.soak_verdict says what counts as growing. The size of the store is told and not
judged: the audit trail has a row for each write and is never shortened. In the end the store must be whole. Exit code 1 where
anything grows, where anybody was told of an error, or where the store is not whole.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil

from bench.measure import progress, table
from bench.soak_load import LIVES, Caller, Log, Upkeep, Where
from bench.soak_verdict import grows, judge, minutes, spread, thin, verdict
from bench.speed import machine
from keepstone import Memory
from tests.server_processes import PostgresServer

CALLERS = 4
USERS = 2  # of each caller with keys of their own, beside the one that is acted for
RATE = 80.0  # requests a second of all callers
EVERY = 1.0  # seconds between two samples
COUNTED = 5  # samples between two counts of what is live
LATENCY = 5.0  # seconds that a latency is taken over
RUNS = 15.0  # seconds between two runs of upkeep
PATIENCE = 60.0
POLICY = {"purge_days": LIVES / 86_400}  # what is put aside goes for good as soon as it came
RIGHTS = "read,write,forget,admin,operator"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run: `store` is a file, or the URL of a database."""

    store: str
    folder: Path
    seconds: float
    workers: int = 1
    callers: int = CALLERS
    rate: float = RATE
    upkeep: float = RUNS


# -- processes ----------------------------------------------------------------------------------------------------
def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTONE_")}
    return own | {"KEEPSTONE_REQUESTS_PER_MINUTE": "0"}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "keepstone", *arguments]


@contextlib.contextmanager
def _process(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, its log beside the store; asked to end in the end, and it must end well."""
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            _command(*arguments), cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=log, text=True
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=PATIENCE)  # what it still says is read, or it could not end
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def _run_server(plan: Plan, tenant: str) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """The server's address, an operator's key, and its process."""
    asked = ("--service", "--scopes", RIGHTS, "--name", "soak", "--tenant", tenant, "--db", plan.store, "--json")
    created = subprocess.run(
        _command("keys", "create", *asked), capture_output=True, text=True, env=_environment(), cwd=plan.folder, check=True
    )
    serving = ("serve", "--db", plan.store, "--port", "0", "--workers", str(plan.workers), "--json")
    with _process(plan.folder, "server", *serving) as process:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise RuntimeError(f"the server did not start; its log: {(plan.folder / 'server.log').read_text()[-2000:]}")
        yield json.loads(line)["address"], json.loads(created.stdout)["key"], process


@contextlib.contextmanager
def _run_maintenance(plan: Plan) -> Iterator[subprocess.Popen[str]]:
    """Run maintenance next to the server, as deployments do."""
    policy = plan.folder / "policy.toml"
    policy.write_text("".join(f"{name} = {value:.8f}\n" for name, value in POLICY.items()))
    asked = ("--policy", str(policy), "--every", f"{plan.upkeep:g}s", "--db", plan.store, "--json")
    with _process(plan.folder, "upkeep", "upkeep", "run", *asked) as process:
        threading.Thread(target=lambda: [None for _ in process.stdout or ()], daemon=True).start()  # a full pipe would stop it
        yield process


def _keys(url: str, key: str, callers: int) -> list[dict[str, str]]:
    """For each caller the users that have keys of their own, with their keys."""
    with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE, verify=False) as http:

        def create_key(name: str) -> str:
            answer = http.post("/v1/keys", json={"name": name, "user": name})
            answer.raise_for_status()
            return str(answer.json()["key"])

        return [{name: create_key(name) for name in (f"user{at}-{n}" for n in range(USERS))} for at in range(callers)]


# -- looking at it ------------------------------------------------------------------------------------------------
class Sampler(threading.Thread):
    """Looks at the processes, the files and the latencies every so often."""

    def __init__(self, plan: Plan, where: Where, server: int, upkeep: int, users: list[str], log: Log) -> None:
        super().__init__(name="sampler", daemon=True)
        self._plan, self._where, self._users, self._log = plan, where, users, log
        self._server, self._upkeep = psutil.Process(server), psutil.Process(upkeep)
        self._seen = (0.0, 0, 0.0)  # when the server's time was last looked at, requests and seconds until then
        self.ended = threading.Event()
        self.samples: list[dict[str, float]] = []

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            http = stack.enter_context(httpx2.Client(base_url=self._where.url, timeout=PATIENCE, verify=False))
            database = stack.enter_context(_database(self._plan.store))
            while not self.ended.wait(EVERY):
                try:
                    self.samples.append(self._sample(http, database))
                except psutil.Error as error:
                    self._log.problems[f"a process is gone: {error}"] += 1
                    return

    def _sample(self, http: httpx2.Client, database: Any) -> dict[str, float]:
        now = time.monotonic() - self._log.began
        every = [self._server, *self._server.children(recursive=True)]
        found = {
            "at": round(now, 2),
            "resident_mb": round(sum(each.memory_info().rss for each in every) / 1e6, 2),
            "upkeep_mb": round(self._upkeep.memory_info().rss / 1e6, 2),
            "handles": sum(each.num_fds() for each in every),
            "threads": sum(each.num_threads() for each in every),
            **_sizes(self._plan.store, database),
        }
        if now - self._seen[0] >= LATENCY:
            found |= self._pace(now, sum(sum(each.cpu_times()[:2]) for each in every))
        if len(self.samples) % COUNTED == 0:
            found |= self._count_live(http)
        return found

    def _pace(self, now: float, cpu: float) -> dict[str, float]:
        """Latencies since the last time, and the server's CPU time for each request."""
        before, requests, spent = self._seen
        times, all_ = self._log.quick(before), self._log.requests
        self._seen = (now, all_, cpu)
        each = {"cpu_ms": round(1e3 * (cpu - spent) / (all_ - requests), 3)} if requests and all_ > requests else {}
        return {**each, **spread([took for _, took in times])}

    def _count_live(self, http: httpx2.Client) -> dict[str, float]:
        """What is live in all users' scopes, and what waits for a model there."""
        live = jobs = 0
        for user in self._users:
            headers = {"authorization": f"Bearer {self._where.key}", "x-keepstone-user": user}
            try:
                found = http.get("/v1/stats", params={"days": 1}, headers=headers).raise_for_status().json()
            except httpx2.HTTPError as error:
                self._log.problems[f"stats: {type(error).__name__}"] += 1
                return {}
            live, jobs = live + found["records"], jobs + found["jobs"]["waiting"] + found["jobs"]["failed"]
        return {"live": live, "jobs": jobs}


@contextlib.contextmanager
def _database(store: str) -> Iterator[Any]:
    """A connection to a database, None for a file."""
    if "://" not in store:
        yield None
        return
    import psycopg  # only where there is one

    with psycopg.connect(store, autocommit=True) as connection:
        yield connection


def _sizes(store: str, database: Any) -> dict[str, float]:
    """The store on disk, and a file's write-ahead log beside it."""
    if database is not None:
        row = database.execute("SELECT pg_database_size(current_database()) / 1e6").fetchone()
        return {"store_mb": round(float(row[0]), 2)}
    sizes = {"store_mb": Path(store), "wal_mb": Path(store + "-wal")}
    return {name: round(path.stat().st_size / 1e6, 2) if path.exists() else 0.0 for name, path in sizes.items()}


def count_log_problems(folder: Path) -> Counter[str]:
    """How often each failure, refusal and warning stands in the logs of the processes."""
    found: Counter[str] = Counter()
    for path in sorted(folder.glob("*.log")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                found[f"{path.stem}: {line[:200]}"] += 1
                continue
            if entry.get("level") != "info" or entry.get("status", 200) >= 400:
                found[f"{path.stem}: {entry.get('level')} {entry.get('message', line)!s:.200}"] += 1
    return found


# -- a whole run --------------------------------------------------------------------------------------------------
def soak(plan: Plan) -> dict[str, Any]:
    """Run it, and say what came of it."""
    tenant, stop, log = f"soak{secrets.token_hex(4)}", threading.Event(), Log()
    with _run_server(plan, tenant) as (url, key, server), _run_maintenance(plan) as upkeep:
        where = Where(url, key, plan.folder, plan.rate, plan.callers)
        keys = _keys(url, key, plan.callers)
        callers = [Caller(number, where, mine, log, stop) for number, mine in enumerate(keys)]
        users = [user.name for caller in callers for user in caller.users] + ["common"]
        log.began = time.monotonic()
        sampler = Sampler(plan, where, server.pid, upkeep.pid, users, log)
        asking = Upkeep(where, plan.upkeep / 3, POLICY, log, stop)
        for thread in (*callers, asking, sampler):
            thread.start()
        _wait(plan, log, server)
        stop.set()
        for thread in (*callers, asking):
            thread.join(PATIENCE)
        sampler.ended.set()
        sampler.join(PATIENCE)
    for name, process in (("server", server), ("upkeep", upkeep)):
        if process.returncode != 0:
            log.problems[f"the {name} ended with {process.returncode}"] += 1
    return _summarise(plan, tenant, log, sampler.samples)


def _wait(plan: Plan, log: Log, server: subprocess.Popen[str]) -> None:
    """Until the time is over, or the server is gone: it is told of by how it ended."""
    said = 0
    while (gone := time.monotonic() - log.began) < plan.seconds and server.poll() is None:
        time.sleep(min(1.0, plan.seconds - gone))
        if gone >= 60 * (said + 1):
            said += 1
            progress(f"{said} minutes, {log.requests} requests, {log.problems.total()} errors")


def _summarise(plan: Plan, tenant: str, log: Log, samples: list[dict[str, float]]) -> dict[str, Any]:
    slopes = judge(samples)
    whole = _check_store(plan.store, tenant)
    errors = log.problems + count_log_problems(plan.folder)
    return {
        "bench": "soak",
        "machine": machine(),
        "command": f"python -m bench soak --minutes {plan.seconds / 60:g}",
        "store": "postgres" if "://" in plan.store else "sqlite",
        "workers": plan.workers,
        "minutes": round(plan.seconds / 60, 2),
        "requests": log.requests,
        "verbs": {verb: {"count": len(each), **spread([took for _, took in each])} for verb, each in sorted(log.took.items())},
        "errors": errors.total(),
        "problems": [f"{count} times {text}" for text, count in errors.most_common(20)] + whole,
        "by_minute": minutes(log.quick()),
        "samples": thin(samples),
        "slopes": {name: each.as_json() for name, each in slopes.items()},
        "grows": grows(slopes),
        "whole": not whole,
        "verdict": verdict(slopes),
    }


def _check_store(store: str, tenant: str) -> list[str]:
    """What is wrong with the store in the end: by the doctor, and by the chain of its audit trail."""
    with Memory.open(store, tenant=tenant) as memory:
        found = [f"doctor, {each.check}: {each.problem}" for each in memory.upkeep.doctor().findings]
        report = memory.audit.verify()
    return found + ([] if report.whole else [f"the trail: {report.problem}"])


def good(found: dict[str, Any]) -> bool:
    """Whether nothing grew, no caller got an error, and the store is whole."""
    return not found["grows"] and not found["errors"] and bool(found["whole"])


def show(found: dict[str, Any]) -> None:
    """The result as tables."""
    table("machine", found["machine"])
    table("soak", {name: found[name] for name in ("store", "workers", "minutes", "requests", "errors", "whole", "verdict")})
    table("verbs", found["verbs"])
    table(
        "latency", {f"minute {each['minute']}": {k: v for k, v in each.items() if k != "minute"} for each in found["by_minute"]}
    )
    print("medians of the thirds of the second half")
    for name, each in found["slopes"].items():
        line = f"{each['first']:g} → {each['middle']:g} → {each['last']:g}, {each['per_hour']:+g} an hour"
        print(f"  {name:<14}{line:<60}{'GROWS' if each['grows'] else 'steady'} (up to {each['tolerance']:g} is)")
    for problem in found["problems"]:
        print(f"  {problem}")


def main(argv: list[str]) -> int:
    """`python -m bench soak`."""
    parser = argparse.ArgumentParser(prog="python -m bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--store", help="postgresql://…, or own: a PostgreSQL of its own (default: a file)")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server (default 1)")
    parser.add_argument("--callers", type=int, default=CALLERS, help=f"threads that ask (default {CALLERS})")
    parser.add_argument("--rate", type=float, default=RATE, help=f"requests a second of all of them; 0: any (default {RATE:g})")
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    given = parser.parse_args(argv)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keepstone-soak-")))
        store = given.store or str(folder / "memory.db")
        if store == "own":
            store = stack.enter_context(PostgresServer(folder / "postgres", durable=True)).database("soak")
        found = soak(Plan(store, folder, given.minutes * 60, given.workers, given.callers, given.rate))
    found["command"] = " ".join(["python -m bench soak", *(each for each in argv if each != "--json")])
    if not given.json:
        show(found)
    print(json.dumps(found))
    return 0 if good(found) else 1
