"""The project of a folder: its git repository, the same one for every worktree and clone.

Found by reading files, without a git process: hooks run often.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

AUTO, OFF = "auto", "off"
PREFIX = "project:"
_REMOTE = re.compile(r'^\s*\[\s*remote\s+"(?P<name>[^"]+)"\s*\]\s*$')
_URL = re.compile(r"^\s*url\s*=\s*(?P<url>\S.*?)\s*$")
_SCP = re.compile(r"^(?:[^@/\s]+@)?(?P<host>[^:/\s]+):(?!//)(?P<path>\S+)$")
_SCHEME = re.compile(r"^[a-z+]+://(?:[^@/]*@)?(?P<host>[^:/]+)(?::\d+)?/(?P<path>.+)$", re.IGNORECASE)
_MAX_CHARS = 200


def project_agent(setting: str, folder: str | Path) -> str | None:
    """The agent of the project's scope; None: the folder has no project, or projects are off."""
    name = find_project(folder) if setting == AUTO else None if setting == OFF else setting
    return None if name is None else f"{PREFIX}{name}"


def find_project(folder: str | Path) -> str | None:
    """The name of the repository that a folder is in: host and path of its remote, or the name and a hash of its place."""
    common = find_common_directory(Path(folder))
    if common is None:
        return None
    url = _read_remote(common / "config")
    name = (None if url is None else _normalise(url)) or _name_by_place(common)
    return name[-_MAX_CHARS:]


def find_past_project(folder: str, remote: str = "") -> str | None:
    """The project of a folder that may be gone: by the remote that was noted, else as if its repository had been there."""
    name = (_normalise(remote) if remote else None) or find_project(folder)
    if name is None and folder and not Path(folder).exists():
        name = _name_by_place(Path(folder) / ".git")
    return None if name is None else name[-_MAX_CHARS:]


def _name_by_place(common: Path) -> str:
    place = common.parent if common.name == ".git" else common
    digest = hashlib.sha256(str(common.resolve()).encode()).hexdigest()[:8]
    return f"{place.name.removesuffix('.git') or 'repository'}-{digest}"


def find_common_directory(folder: Path) -> Path | None:
    """The git directory that all worktrees of a repository share; None outside a repository."""
    folder = folder.absolute()
    for parent in (folder, *folder.parents):
        found = parent / ".git"
        try:
            if found.is_dir():
                return found.resolve()
            if found.is_file():
                return _follow(found)
        except OSError:
            return None
    return None


def _follow(link: Path) -> Path | None:
    """The common directory behind a `.git` file, of a worktree or a submodule. A worktree must be known to its repository, so
    that a file in a foreign folder cannot claim to belong to it."""
    text = link.read_text(encoding="utf-8", errors="replace").strip()
    if not text.startswith("gitdir:"):
        return None
    own = (link.parent / text.removeprefix("gitdir:").strip()).resolve()
    if not (own / "commondir").is_file():
        return own if (own / "HEAD").is_file() else None
    back = (own / "gitdir").read_text(encoding="utf-8", errors="replace").strip()
    if (own / back).resolve() != link.resolve():
        return None
    return (own / (own / "commondir").read_text(encoding="utf-8").strip()).resolve()


def _read_remote(config: Path) -> str | None:
    """The URL of the remote "origin", or of the first one."""
    urls: dict[str, str] = {}
    section: str | None = None
    try:
        lines = config.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.lstrip().startswith("["):
            found = _REMOTE.match(line)
            section = found["name"] if found else None
        elif section is not None and (url := _URL.match(line)):
            urls.setdefault(section, url["url"])
    return urls.get("origin") or next(iter(urls.values()), None)


def _normalise(url: str) -> str | None:
    """Host and path of a remote, the same for https, ssh and git addresses; None for a path on this machine.

    >>> _normalise("git@github.com:acme/shop.git")
    'github.com/acme/shop'
    """
    found = _SCHEME.match(url) or _SCP.match(url)
    if found is None or url.startswith("file:"):
        return None
    path = found["path"].strip("/").removesuffix(".git").strip("/")
    return f"{found['host'].lower()}/{path}" if path else None
