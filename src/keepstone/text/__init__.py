"""Pure text work: words, token counts, times, clipping."""
