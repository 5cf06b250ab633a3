"""What a memory does with the everyday statements of people: `python -m bench everyday`.

`development/` and `test/` hold one person or team a file, written by hand. Ranking may be tuned on the first folder only.
`people` reads the files, `asking` asks a store, `figures` computes what is printed, `command` is the command.
"""

from bench.everyday.command import main as main
