"""encrypt, decrypt and rekey: a file is written anew under another key."""

from __future__ import annotations

from typing import Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli.invocation import Invocation
from keepstone.encryption_keys import check_key, encryption_key, read_key_file, run_key_command
from keepstone.errors import ConfigurationError
from keepstone.settings import Settings

app = typer.Typer()


def _key() -> str:
    key = encryption_key(Settings.load())
    if key is None:
        raise ConfigurationError("no encryption key is set: set KEEPSTONE_ENCRYPTION_KEY (or …_FILE, …_COMMAND, …_KEYRING).")
    return key


def _change(call: Invocation, old: str | None, new: str | None, done: str) -> None:
    from keepstone.maintenance.store_migration import change_encryption

    change_encryption(call.db, old, new)
    call.answer({"path": call.db, "encrypted": new is not None}, lambda out: out.line((done, "bold green"), f"  {call.db}"))


@o.command(app, "encrypt")
def encrypt(call: Invocation) -> None:
    """Encrypt a store file with the key in the settings.

    No other process may have it open. A new file is written and takes the place of the old one when it is on disk; after a kill
    the old one is there, and the command can be run again. Backups and exports that were made before stay as they are.
    """
    _change(call, None, _key(), "encrypted")


@o.command(app, "decrypt")
def decrypt(call: Invocation) -> None:
    """Decrypt a store file.

    No other process may have it open. The settings must hold the file's key.
    """
    _change(call, _key(), None, "decrypted")


@o.command(app, "rekey")
def rekey(
    call: Invocation,
    new_key_file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with the new key.", show_default=False)] = None,
    new_key_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="A command that prints the new key.", show_default=False)
    ] = None,
) -> None:
    """Encrypt a store file with another key.

    The key in the settings is the old one. No other process may have the file open. Backups keep the key they were made with.
    """
    if (new_key_file is None) == (new_key_command is None):
        raise ConfigurationError("the new key is missing: use one of --new-key-file and --new-key-command.")
    if new_key_file is not None:
        new = check_key(read_key_file(new_key_file), "--new-key-file")
    else:
        new = check_key(run_key_command(new_key_command or ""), "--new-key-command")
    _change(call, _key(), new, "rekeyed")
