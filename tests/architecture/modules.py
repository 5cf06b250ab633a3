"""The modules of the house and what each imports, read from the source. No test lives here."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import keepstone

ROOT = Path(keepstone.__file__).parent


@dataclass(frozen=True)
class Import:
    """One import of one module: `inside` a function, or `typing` only for the type checker, or at module level."""

    name: str
    inside: bool
    typing: bool


def files() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if "__pycache__" not in path.parts)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in files()}


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imports_of(module: str) -> list[Import]:
    """Every import statement of a module, as full names of modules (of what is imported from a package: the module)."""
    found: list[Import] = []

    def visit(node: ast.AST, inside: bool, typing: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend(Import(alias.name, inside, typing) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{module} imports relatively"
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    found.append(Import(full if full in MODULES else str(child.module), inside, typing))
            else:
                function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                visit(child, inside or function, typing or checking)

    visit(tree_of(module), False, False)
    return found


def ours(module: str, *, typing: bool = False) -> set[str]:
    """The modules of keepstone that a module imports anywhere, imports for the type checker only left out."""
    return {
        each.name
        for each in imports_of(module)
        if (each.name == "keepstone" or each.name.startswith("keepstone.")) and (typing or not each.typing)
    }
