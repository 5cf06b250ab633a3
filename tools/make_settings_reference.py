"""Writes docs/reference/settings.md from the Settings class.

python tools/make_settings_reference.py           # write the file
python tools/make_settings_reference.py --print   # show it
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from pathlib import Path

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"
HEAD = """# Settings

Made by `tools/make_settings_reference.py` from `keepstone.settings`; do not edit.

A setting is taken from the first of these that has it: the `settings` argument of `Memory.open`, the environment, the file
that `KEEPSTONE_SETTINGS` names or `keepstone.toml` in the current folder, the default.

| setting | environment | default | what it does |
|---|---|---|---|
"""
TAIL = """
```python
from keepstone import Memory

with Memory.open(":memory:", settings={"durable": False, "cache_mb": 64}) as memory:
    memory.remember("Settings can be given as a dictionary.")
```

As a file:

```toml
durable = true
cache_mb = 256

[sensitive]
card = "refuse"
email = "redact"
```
"""


def render() -> str:
    from keepstone.settings import PREFIX, Settings

    rows = []
    for each in fields(Settings):
        unset = each.default is None or each.default is MISSING or each.default == ""
        default = "unset" if unset else str(each.default).lower()
        least, most = each.metadata["least"], each.metadata["most"]
        bounds = "" if least is None else f" ({least:g} to {most:g})"
        rows.append(f"| `{each.name}` | `{PREFIX}{each.name.upper()}` | {default} | {each.metadata['text']}{bounds} |\n")
    return HEAD + "".join(rows) + TAIL


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(render(), end="")
    else:
        TARGET.write_text(render(), encoding="utf-8")
