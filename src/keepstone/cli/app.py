"""The Typer application, its global options, and the mapping of errors to exit codes."""

from __future__ import annotations

import gc
import inspect
import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import groupby
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup

from keepstone.cli.arguments import in_command_words
from keepstone.cli.exit_codes import BAD_INPUT, INTERRUPTED, MEANINGS, OK, UNEXPECTED, code_for
from keepstone.cli.options import COMMON, OPTIONS, common_parameters
from keepstone.cli.output import err, write_json
from keepstone.cli.quick import find_call
from keepstone.errors import KeepstoneError

UsageError = cast(type[Exception], typer.BadParameter.__bases__[0])  # typer does not export it under its own name
EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())

# The modules of commands, and the heading of each in the help.
MODULES = {
    "memory_commands": "Write", "recall_commands": "Read", "chat": "Conversations and learning",
    "jobs": "Conversations and learning", "transfer": "Import and export", "operations": "Check and maintain",
    "health": "Check and maintain", "review": "Check and maintain", "memtest": "Check and maintain",
    "upkeep": "Check and maintain", "serve": "Server and clients", "keys": "Server and clients", "connect": "Server and clients",
    "postgres": "Stores", "encryption": "Stores",
}  # fmt: skip
# Commands that scripts and agents call again and again: only their own module is imported, and plain arguments are read
# without typer's parser. Each halves the start.
QUICK = {
    "remember": "memory_commands",
    "set": "memory_commands",
    "value": "memory_commands",
    "recall": "recall_commands",
    "context": "recall_commands",
    "get": "recall_commands",
    "search": "recall_commands",
}


class GroupedHelp(TyperGroup):
    """Help that lists the commands under the headings of their modules."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, modules in groupby(MODULES, key=MODULES.__getitem__):
            apps = [import_module(f"keepstone.cli.{name}").app for name in modules]
            names = [str(info.name) for app in apps for info in (*app.registered_commands, *app.registered_groups)]
            width = formatter.width - 16
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(10), self.commands[name].get_short_help_str(width)) for name in names])


def build_app(modules: Iterable[str] = MODULES) -> typer.Typer:
    """The application with the commands of these modules."""
    app = typer.Typer(
        name="keepstone",
        cls=GroupedHelp,
        help="Persistent memory for AI agents: one file, no key, no server.",
        epilog=EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help reads the same in a terminal, a pipe and the documentation, and starts faster
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in modules:
        app.add_typer(import_module(f"keepstone.cli.{name}").app)
    app.callback()(_before)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from keepstone import __version__

        print(f"keepstone {__version__}")
        raise typer.Exit


def _before(context: typer.Context, **given: Any) -> None:
    context.obj = {name: given[name] for name in COMMON}


_VERSION = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.", show_default=False)
]
_before.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *common_parameters(),
        inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, annotation=_VERSION, default=False),
    ]
)


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are printed on standard error."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    quick = QUICK.get(arguments[0]) if arguments else None
    try:
        call = find_call(import_module(f"keepstone.cli.{quick}").app, arguments) if quick else None
        if call is not None:
            code = call()
        else:
            gc.enable()
            code = build_app((quick,) if quick else MODULES)(arguments, prog_name="keepstone", standalone_mode=False)
        sys.stdout.flush()
        return int(code or OK)
    except (KeyboardInterrupt, typer.Abort) as stop:
        err().line()
        pressed = stop if isinstance(stop, KeyboardInterrupt) else stop.__cause__
        if isinstance(pressed, KeyboardInterrupt):  # else a confirmation was declined
            kept = "interrupted: every write that was confirmed is kept, the one under way may or may not be."
            err().line((str(pressed) or kept, "dim"))
        return INTERRUPTED
    except BrokenPipeError:
        return _discard_output()
    except SystemExit as left:  # Typer's reaction to a closed pipe
        return _discard_output() if isinstance(left.__context__, BrokenPipeError) else int(left.code or OK)
    except Exception as error:
        return _report_failure(error, "--json" in arguments)


def _prepare_streams() -> None:
    """Replace closed streams by the null device, and escape characters that the terminal's encoding lacks."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> int:
    """The reader closed the pipe: discard all further output, also that of the interpreter at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return OK


def _report_failure(error: Exception, as_json: bool) -> int:
    from keepstone.open import safe_message

    kind, message, code = type(error).__name__, str(error), UNEXPECTED
    if isinstance(error, KeepstoneError):
        code, message = code_for(error), in_command_words(message, OPTIONS.keys() - {"content", "query", "id"})
    elif isinstance(error, UsageError):
        kind, message, code = "UsageError", _usage_message(error), BAD_INPUT
    elif os.environ.get("KEEPSTONE_DEBUG"):
        raise error
    else:
        message = f"unexpected {kind}: {message} (set KEEPSTONE_DEBUG=1 for a traceback; please report it)"
    message = safe_message(message)
    if as_json:
        write_json({"error": {"type": kind, "message": message}}, cast(TextIO, sys.stderr))
    elif _is_help(error):
        err().line(message)
    else:
        err().line(("error: ", "bold red"), message)
    return code


def _is_help(error: Exception) -> bool:
    """Whether no command was named, so that the help is shown."""
    return type(error).__name__ == "NoArgsIsHelpError"


_UNREADABLE = re.compile(r"Input should be (?:a valid|an?) (\w+)[^.]*")  # typer's words for a value of another type
_TYPES = {"integer": "a whole number", "number": "a number", "boolean": "yes or no"}


def _usage_message(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    message = _UNREADABLE.sub(
        lambda found: f"it is not {_TYPES.get(found[1], f'a {found[1]}')}", str(cast(Any, error).format_message()).strip()
    )
    if context is None or _is_help(error):
        return message
    dash = " Put text that begins with a dash after --." if type(error).__name__ == "NoSuchOption" else ""
    end = "" if message.endswith(("?", ".")) else "."
    return f"{message}{end}{dash} See '{context.command_path} --help'."
