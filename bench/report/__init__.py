"""Pages and charts from the saved results of the benchmarks. Run with `python -m bench report`.

`results` reads what was saved, `beside`, `everyday`, `growth`, `floor`, `languages`, `faults` and `goals` are the pages, `charts`
draws on the paper of `svg`, `figures` says how a number is shown, `stamp` is what a benchmark says of the machine. No number is
typed by hand.
"""

from bench.report.command import main as main
