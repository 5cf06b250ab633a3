"""Memory tests: what an agent must recall, and must not, written in a file and run by `keepstone test` or pytest."""

import re

NAMES = re.compile(r"memtest([_.-].*)?\.(ya?ml|json)", re.IGNORECASE)  # memtest.yaml, memtest_theme.yml, memtest.json
