"""A URL as managed databases give it: TLS with a certificate that is checked, and a pooler in transaction mode behind it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError
from tests.faults.pgbouncer import pooled
from tests.server_processes import HOST, PostgresServer


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A key and a certificate that vouches for itself."""
    key, made = folder / f"{name}.key", folder / f"{name}.crt"
    what = f"-x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -addext subjectAltName=IP:{HOST}"
    command = f"openssl req {what} -keyout {key} -out {made}"
    subprocess.run(command.split(), check=True, capture_output=True)
    key.chmod(0o644)
    return key, made


@pytest.fixture(scope="module")
def secured(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(the URL of a pooler that speaks TLS only, what vouches for it)."""
    folder = tmp_path_factory.mktemp("tls")
    key, made = certificate(folder, "server")
    postgres_server.database("secured")
    tls = {"client_tls_sslmode": "require", "client_tls_key_file": key, "client_tls_cert_file": made}
    with pooled(postgres_server, folder, tls) as port:
        yield f"postgresql://postgres@{HOST}:{port}/secured?pgbouncer=true", made


def test_a_url_with_a_checked_certificate_works(secured: tuple[str, Path]) -> None:
    url, root = secured
    with Memory.open(f"{url}&sslmode=verify-full&sslrootcert={root}", user="dana") as memory:
        memory.remember("Dana prefers dark mode.")
        assert memory.recall("Which theme does Dana like?")[0].content == "Dana prefers dark mode."
        with memory._engine.store._store._store._driver.connection() as connection:  # type: ignore[attr-defined]
            assert connection.pgconn.ssl_in_use
        assert memory.upkeep.doctor().healthy


def test_a_certificate_that_nobody_vouches_for_is_refused(secured: tuple[str, Path], tmp_path: Path) -> None:
    _, stranger = certificate(tmp_path, "stranger")
    with pytest.raises(ConfigurationError, match="certificate"):
        Memory.open(f"{secured[0]}&sslmode=verify-full&sslrootcert={stranger}")


def test_without_tls_such_a_server_lets_nobody_in(secured: tuple[str, Path]) -> None:
    with pytest.raises(ConfigurationError, match="SSL required"):
        Memory.open(f"{secured[0]}&sslmode=disable")
