"""Importing exports of other memory systems and chat products, and folders of notes.

`import_from` imports a path, `import_each` yields the outcome of every entry. There is a module per system; those that the health
report reads too are in `maintenance.external_exports`.
"""

from keepstone.importing.entries import Entry, ImportSummary, Outcome
from keepstone.importing.flow import FORMATS, import_each, import_from, recognise

__all__ = ["FORMATS", "Entry", "ImportSummary", "Outcome", "import_each", "import_from", "recognise"]
