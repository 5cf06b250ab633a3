"""Ctrl-C while a module is being imported."""

from __future__ import annotations

import importlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone.cli import interrupts_outside_imports


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_import_is_completed_before_ctrl_c_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "interrupted_module.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nCOMPLETE = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with interrupts_outside_imports():
        importlib.import_module("interrupted_module")
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60)
    assert sys.modules.pop("interrupted_module").COMPLETE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_outside_imports_ctrl_c_interrupts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_outside_imports():
        signal.raise_signal(signal.SIGINT)


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_outside_imports():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
