"""Importing: what other memory systems, chat products and folders of notes have kept, brought into a memory.

`import_from` does all of it, `import_each` tells of every entry as it goes. One file a system; `reading.py` opens files, folders
and archives, `writing.py` writes with the public verbs alone, so that a memory and a client of a server are the same to it.
"""

from keepstone.importing.entries import Entry, ImportSummary, Outcome
from keepstone.importing.flow import import_each, import_from
from keepstone.importing.registry import FORMATS, recognise

__all__ = ["FORMATS", "Entry", "ImportSummary", "Outcome", "import_each", "import_from", "recognise"]
