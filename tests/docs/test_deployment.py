"""compose.yaml and the Dockerfile: what they promise, and that every command they name works on real servers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psycopg
import pytest
import yaml

from keepstone import Memory
from tests.server_processes import PostgresServer, RedisServer

ROOT = Path(__file__).parent.parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("setup", "upkeep", "keepstone")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PASSWORDS = {"POSTGRES_PASSWORD": "for the owner", "APP_PASSWORD": "for the app"}


def instructions(text: str) -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each on one line."""
    whole = re.sub(r"\\\n\s*", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in whole.splitlines() if line.strip()]


STEPS = instructions(DOCKERFILE)


def given(name: str) -> list[str]:
    return [rest for step, rest in STEPS if step == name]


# -- compose.yaml ---------------------------------------------------------------------------------------------------
def test_the_services_are_those_of_the_page() -> None:
    assert set(SERVICES) == {"postgres", "redis", "setup", "upkeep", "keepstone"}
    assert {name for name, each in SERVICES.items() if "build" in each} == set(OURS)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_says_whether_it_is_well(name: str) -> None:
    check = SERVICES[name].get("healthcheck")
    if name == "keepstone":  # as the image says
        assert check is None
        assert SERVICES[name]["command"] == json.loads(given("CMD")[-1])
        assert SERVICES[name]["restart"] == "unless-stopped"
    elif name == "setup":  # it ends
        assert check == {"disable": True}
        assert SERVICES[name]["restart"] == "no"
    else:
        assert check["test"][0] == "CMD"
        assert SERVICES[name]["restart"] == "unless-stopped"


def test_nothing_starts_before_what_it_needs() -> None:
    assert SERVICES["setup"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("upkeep", "keepstone"):
        assert SERVICES[name]["depends_on"] == {
            "setup": {"condition": "service_completed_successfully"},
            "redis": {"condition": "service_healthy"},
        }


def test_no_secret_stands_in_the_file() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if "PASSWORD" in variable:
                assert re.fullmatch(r"\$\{(POSTGRES|APP)_PASSWORD:\?[^}]+\}", value), (name, variable)
            elif "://" in value:
                assert urlsplit(value).password is None, (name, variable)
        assert "env_file" not in service
    assert SERVICES["upkeep"]["environment"]["PGPASSWORD"].startswith("${APP_PASSWORD:"), "only the set-up is the owner"
    assert SERVICES["keepstone"]["environment"]["PGPASSWORD"].startswith("${APP_PASSWORD:")


def test_ports_are_this_machines_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert "ports" not in SERVICES["redis"]
    assert COMPOSE["networks"]["store"] == {"internal": True}


@pytest.mark.parametrize("name", [*OURS, "redis"])
def test_a_container_can_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["networks"] == (["store", "outside"] if name == "keepstone" else ["store"]), (
        "no port leads out of an internal one"
    )


def test_what_must_last_is_on_a_volume_and_the_buffer_is_not() -> None:
    assert SERVICES["postgres"]["volumes"] == ["postgres:/var/lib/postgresql"]
    assert set(COMPOSE["volumes"]) == {"postgres"}
    command = SERVICES["redis"]["command"]
    assert command[command.index("--save") + 1] == ""
    assert command[command.index("--appendonly") + 1] == "no"
    assert "--maxmemory" in command


# -- the Dockerfile -------------------------------------------------------------------------------------------------
def test_every_image_has_a_version_and_can_be_pinned_by_digest() -> None:
    """No image floats: each is named with a version, and a variable that takes a digest stands before it."""
    assert given("FROM") == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    named = dict(rest.split("=") for rest in given("ARG"))
    named["build"] = COMPOSE["x-keepstone"]["build"]["args"]["PYTHON_IMAGE"]
    named |= {name: service["image"] for name, service in SERVICES.items() if service["image"] != "keepstone:local"}
    images = {re.sub(r"^\$\{[A-Z]+_IMAGE:-(.*)\}$", r"\1", image) for image in named.values()}
    assert images == {"python:3.13-slim", "pgvector/pgvector:pg18", "redis:8-alpine"}
    assert all(":-" in image for name, image in named.items() if name != "PYTHON_IMAGE"), "a digest can be given"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"_IMAGE={image}" in makefile for image in images), "make image-digests asks for the same"
    for path in [ROOT / "Dockerfile", ROOT / "compose.yaml", *ROOT.glob("deploy/**/*.yaml")]:
        assert not re.search(r":latest\b", path.read_text(encoding="utf-8")), f"{path} names a floating image"


def test_the_image_runs_as_an_unprivileged_user() -> None:
    last = max(at for at, (step, _) in enumerate(STEPS) if step == "FROM")
    stage = [step for step, _ in STEPS[last:]]
    assert given("USER") == ["10001:10001"]
    assert stage.index("USER") < stage.index("ENTRYPOINT")
    assert "RUN" not in stage, "what is made is made in the stage before"
    assert all(rest.startswith("--from=build --chown=") for step, rest in STEPS[last:] if step == "COPY")
    assert given("VOLUME") == ['["/data"]']


def test_commands_are_lists_and_packages_are_checked() -> None:
    for name in ("ENTRYPOINT", "CMD"):
        assert json.loads(given(name)[-1])
    assert json.loads(given("HEALTHCHECK")[0].partition("CMD ")[2])[:2] == ["python", "-c"], "there is no shell, and no curl"
    installs = [part for rest in given("RUN") for part in rest.split("&&") if "pip install" in part]
    assert installs
    assert all("--require-hashes" in part or "--no-index" in part for part in installs)
    assert all("--no-cache-dir" in part for part in installs)
    assert "ADD" not in [step for step, _ in STEPS]
    assert not [rest for rest in given("RUN") if re.search(r"apt|curl|wget|sudo", rest)], (
        "if apt: --no-install-recommends, and clean"
    )


def test_the_context_is_what_the_dockerfile_copies() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    copied = {name.rstrip("/") for rest in given("COPY") if "--from" not in rest for name in rest.split()[:-1]}
    assert "*" in ignored
    assert allowed == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_lock_file_names_what_the_extras_name() -> None:
    text = (ROOT / "requirements/deploy.txt").read_text()
    locked = dict(re.findall(r"^([a-z][\w-]*)==(\S+)", text, re.MULTILINE))
    assert {
        "apsw",
        "numpy",
        "rich",
        "typer",
        "psycopg",
        "psycopg-binary",
        "psycopg-pool",
        "redis",
        "fastapi",
        "uvicorn",
        "mcp",
    } <= set(locked)
    assert text.count("--hash=sha256:") >= len(locked)
    core = dict(re.findall(r"^([a-z][\w-]*)==(\S+)", (ROOT / "requirements/run.txt").read_text(), re.MULTILINE))
    assert {name: version for name, version in locked.items() if name in core and core[name] != version} == {}


# -- the commands ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[tuple[PostgresServer, RedisServer]]:
    """A server that asks for passwords, as that of compose.yaml does, and a Redis."""
    folder = tmp_path_factory.mktemp("composed")
    with PostgresServer(folder) as server:
        server.database("keepstone")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE postgres PASSWORD '{PASSWORDS['POSTGRES_PASSWORD']}'")
            (folder / "data" / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
        yield server, redis_server


def environment(name: str, where: tuple[PostgresServer, RedisServer], folder: Path) -> dict[str, str]:
    """A service's own environment, with the servers of this machine in the places of the others."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("KEEPSTONE_", "PG"))}
    named = dict(SERVICES[name].get("environment", {}))
    for variable, value in named.items():
        value = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: PASSWORDS[found[1]], value)
        value = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
        value = value.replace("@postgres:5432/", f"@127.0.0.1:{where[0].port}/")
        named[variable] = value.replace("redis://redis:6379/", f"redis://127.0.0.1:{where[1].port}/")
    return {**kept, **named, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder)}


def composed(name: str, where: Any, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keepstone", *(arguments or SERVICES[name]["command"])]
    done = subprocess.run(
        command, env=environment(name, where, folder), cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert not [secret for secret in PASSWORDS.values() if secret in done.stdout + done.stderr]
    return done


def test_the_commands_of_the_services_work_in_their_order(where: Any, tmp_path: Path) -> None:
    early = composed("upkeep", where, tmp_path, *SERVICES["upkeep"]["healthcheck"]["test"][2:])
    assert early.returncode == 5, "before the set-up there is no login to be well with"
    first = composed("setup", where, tmp_path)
    assert first.returncode == 0, first.stderr
    assert "app, a member of keepstone_app" in first.stdout
    assert composed("setup", where, tmp_path).stdout.startswith("up to date")
    checked = composed("keepstone", where, tmp_path, "postgres", "check")
    assert checked.returncode == 0, checked.stdout
    assert "neither owner nor superuser" in checked.stdout
    said = composed("keepstone", where, tmp_path, "remember", "Dana prefers dark mode.")
    assert said.stdout.startswith("added")
    found = composed("keepstone", where, tmp_path, "recall", "Which theme does Dana like?")
    assert "Dana prefers dark mode." in found.stdout
    well = composed("upkeep", where, tmp_path, *SERVICES["upkeep"]["healthcheck"]["test"][2:])
    assert (well.returncode, len(json.loads(well.stdout)["rows"])) == (0, 1)
    assert "dark mode" not in well.stdout


def test_upkeep_runs_until_it_is_stopped(where: Any, tmp_path: Path) -> None:
    composed("setup", where, tmp_path)
    command = [sys.executable, "-m", "keepstone", *SERVICES["upkeep"]["command"]]
    running = subprocess.Popen(
        command,
        env=environment("upkeep", where, tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        first = running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert first.strip(), err
    assert (running.returncode, err) == (0, "")


@contextmanager
def served(env: dict[str, str], folder: Path) -> Iterator[str]:
    """The image's own command, at a port that is free here, until the block ends; the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "keepstone", *(port if word == "8700" else word for word in json.loads(given("CMD")[-1]))]
    with (folder / "server.log").open("w") as log:
        running = subprocess.Popen([*command, "--json"], env=env, cwd=folder, stdout=log, stderr=log)
        try:
            yield port
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0, (folder / "server.log").read_text()
        finally:
            running.kill()
            running.wait()


def healthy(port: str) -> bool:
    """What the image's health check says about a server at a port."""
    check = json.loads(given("HEALTHCHECK")[0].partition("CMD ")[2])
    command = [sys.executable, *(word.replace(":8700/", f":{port}/") for word in check[1:])]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def wait_until_healthy(port: str, folder: Path) -> None:
    """Wait for the port first: each health check starts a Python of its own."""
    deadline = time.monotonic() + 120
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", int(port))) == 0 and healthy(port):
                return
        assert time.monotonic() < deadline, (folder / "server.log").read_text()
        time.sleep(0.1)


def asked(port: str, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    with urlopen(Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers), timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_the_server_answers_with_a_key_that_was_made_before_it(where: Any, tmp_path: Path) -> None:
    composed("setup", where, tmp_path)
    made = composed("keepstone", where, tmp_path, "keys", "create", "--name", "dana")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    with served(environment("keepstone", where, tmp_path), tmp_path) as port:
        wait_until_healthy(port, tmp_path)
        assert asked(port, "/v1/memories", key, {"content": "Dana drinks tea."})["action"] == "added"
        assert asked(port, "/v1/recall", key, {"query": "What does Dana drink?"})["hits"][0]["content"] == "Dana drinks tea."
    log = (tmp_path / "server.log").read_text()
    assert "ks_" not in log.replace("ks_…", ""), "no key in the container's log"
    assert not [secret for secret in PASSWORDS.values() if secret in log]
    assert not healthy(port)


def test_the_images_own_commands_work_without_any_other_service(tmp_path: Path) -> None:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KEEPSTONE_")}
    env = {**kept, "KEEPSTONE_DB": str(tmp_path / "keepstone.db"), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "keepstone", "keys", "create", "--name", "dana"]
    key = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()
    with served(env, tmp_path) as port:
        wait_until_healthy(port, tmp_path)
        assert asked(port, "/v1/memories", key, {"content": "Dana drinks tea."})["action"] == "added"
    with Memory.open(tmp_path / "keepstone.db", user="dana", embedder="none") as memory:
        assert [record.content for record in memory.list()] == ["Dana drinks tea."]
