"""Checks `keepstone connect` and the plugin with the vendors' own programs from npm, in a scratch home, without their services.

    .venv/bin/python tools/check_clients.py

Claude Code runs two real sessions against a local model that knows only what it is sent: the second one must know what was said
in the first. Codex, Gemini CLI and OpenCode must list the server that `connect` wrote. Needs npm and its registry, about 700 MB.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from tests.docs.answers import answer  # noqa: E402
from tests.models.endpoint import Endpoint  # noqa: E402

PACKAGES = ("@anthropic-ai/claude-code", "@openai/codex", "@google/gemini-cli", "opencode-ai")
LISTS = {"codex": "codex", "gemini-cli": "gemini", "opencode": "opencode"}


def main() -> int:
    """Install, connect, check; 0 if all went well."""
    with tempfile.TemporaryDirectory(prefix="ks", dir="/tmp", ignore_cleanup_errors=True) as folder, Endpoint(answer) as endpoint:
        home = Path(folder) / "home"
        repository = home / "shop"
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        programs = Path(folder) / "node_modules" / ".bin"
        environment = {
            "HOME": str(home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(programs), os.environ["PATH"]]),
            "XDG_RUNTIME_DIR": folder,
            "KEEPSTONE_HOOK_SECONDS": "9",
            "ANTHROPIC_BASE_URL": endpoint.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "NO_PROXY": "127.0.0.1",
        }

        def run(*command: str) -> str:
            done = subprocess.run(
                command, cwd=repository, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
            )
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
            return done.stdout + done.stderr

        subprocess.run(["npm", "install", "--no-audit", "--no-fund", *PACKAGES], cwd=folder, check=True, capture_output=True)
        try:
            results = {f"{name}: server listed": _is_listed(run, name, program) for name, program in LISTS.items()}
            results |= {
                f"plugin valid: {path}": "passed" in run("claude", "plugin", "validate", str(path)) for path in _plugins()
            }
            run("codex", "plugin", "marketplace", "add", str(ROOT))
            run("codex", "plugin", "add", "keepstone@keepstone")
            results["codex: plugin installed"] = "installed, enabled" in run("codex", "plugin", "list")
            run("keepstone", "connect", "claude-code")
            run("claude", "-p", "I prefer pnpm over npm. The staging server is called heron.")
            second = json.loads(run("claude", "-p", "What is the staging server called?", "--output-format", "json"))
            results["claude-code: the second session knows"] = "heron" in second["result"]
            run("keepstone", "connect", "claude-code", "--undo")
            results["claude-code: hooks are gone"] = "keepstone" not in (home / ".claude.json").read_text()
        finally:
            for lock in Path(folder).rglob("keepstone/*.lock"):
                os.kill(int(lock.read_text()), signal.SIGKILL)
    for name, passed in results.items():
        print(f"{'ok    ' if passed else 'FAILED'}  {name}")
    return 0 if all(results.values()) else 1


def _plugins() -> list[Path]:
    return [ROOT, ROOT / "plugins" / "claude-code"]


def _is_listed(run: object, name: str, program: str) -> bool:
    assert callable(run)
    run("keepstone", "connect", name)
    return "keepstone" in run(program, "mcp", "list")


if __name__ == "__main__":
    sys.exit(main())
