"""Memory tests: what an agent must recall, and must not, written in a file and run by `keepstone test` or pytest.
Imports: the standard library; each module is imported by who needs it, as pytest loads the plugin in every project."""

import re

NAMES = re.compile(r"memtest([_.-].*)?\.(ya?ml|json)", re.IGNORECASE)  # memtest.yaml, memtest_theme.yml, memtest.json
