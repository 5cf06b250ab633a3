"""Where the encryption key of a file comes from: the setting itself, a file, a command or the system's keyring."""

from __future__ import annotations

from pathlib import Path

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.settings import Settings

_COMMAND_SECONDS = 60  # a password manager may ask its user
_MAX_KEY_CHARS = 4096


def encryption_key(settings: Settings) -> str | None:
    """The key that the settings name; None where they name none."""
    sources = {
        "encryption_key": lambda text: text,
        "encryption_key_file": read_key_file,
        "encryption_key_command": run_key_command,
        "encryption_key_keyring": _read_keyring,
    }
    named = [name for name in sources if getattr(settings, name)]
    if not named:
        return None
    if len(named) > 1:
        raise ConfigurationError(f"{' and '.join(named)} are both set: keep one of them.")
    return check_key(sources[named[0]](getattr(settings, named[0])), named[0])


def check_key(key: str, origin: str) -> str:
    """A key without the line end behind it; ConfigurationError if nothing is left."""
    key = key.rstrip("\r\n")
    if not key.strip() or len(key) > _MAX_KEY_CHARS or "\0" in key:
        raise ConfigurationError(f"{origin} gives no usable key: use a passphrase, or 64 hexadecimal digits for a random key.")
    return key


def read_key_file(path: str) -> str:
    """The key in a file."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(f"the key file {path!r:.200} cannot be read ({reason}): check its path and its owner.") from None


def run_key_command(command: str) -> str:
    """The key that a command prints; it is started without a shell."""
    import shlex
    import subprocess

    try:
        done = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=False
        )
        text = done.stdout.decode()
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"encryption_key_command could not be run ({type(error).__name__}): check it.") from None
    if done.returncode:
        raise ConfigurationError(f"encryption_key_command ended with status {done.returncode}: run it in a shell to see why.")
    return text


def _read_keyring(entry: str) -> str:
    service, separator, name = entry.rpartition("/")
    if not separator:
        raise ConfigurationError(f"encryption_key_keyring is {entry!r:.100}: write it as SERVICE/NAME.")
    try:
        import keyring
    except ImportError:
        raise ConfigurationError(f"the keyring needs a package: install it with {install_command('encrypted')}.") from None
    try:
        found = keyring.get_password(service, name)
    except keyring.errors.KeyringError as error:
        raise ConfigurationError(f"the keyring cannot be read ({type(error).__name__}): unlock it, or use a key file.") from None
    if found is None:
        raise ConfigurationError(f"the keyring has no entry {entry!r:.100}: add it with 'keyring set {service} {name}'.")
    return str(found)
