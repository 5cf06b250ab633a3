"""A real PgBouncer before a server, in transaction mode with three connections: a client has another one every time."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import until
from tests.server_processes import HOST, SYSTEM_USER, PostgresServer

BOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")


@contextlib.contextmanager
def pooled(server: PostgresServer, folder: Path, more: Mapping[str, Any] = {}) -> Iterator[int]:
    """The port that it listens on."""
    if BOUNCER is None:
        pytest.skip("there is no pgbouncer on this machine")
    with socket.create_server((HOST, 0)) as free:
        port = int(free.getsockname()[1])
    (folder / "users.txt").write_text('"postgres" ""\n')
    settings = {
        "listen_addr": HOST, "listen_port": port, "unix_socket_dir": "", "auth_type": "trust", "auth_file": folder / "users.txt",
        "pool_mode": "transaction", "default_pool_size": 3, "max_client_conn": 200, "server_login_retry": 1, **more,
    }  # fmt: skip
    lines = [f"* = host={HOST} port={server.port}", "[pgbouncer]", *(f"{name} = {value}" for name, value in settings.items())]
    (folder / "pgbouncer.ini").write_text("\n".join(["[databases]", *lines]))
    for path in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode | 0o055)
    as_user = ["-u", SYSTEM_USER] if os.getuid() == 0 else []  # it refuses to run as root
    command = [BOUNCER, *as_user, str(folder / "pgbouncer.ini")]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as child:
        until(lambda: child.poll() is not None or _listens(port), "pgbouncer to listen")
        assert child.poll() is None, (folder / "log").read_text()
        yield port
        child.kill()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False
