"""Languages beyond English: detection, times and plain statements, from one data file per language."""
