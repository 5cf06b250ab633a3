"""The read path: candidates, signals, fusion, budget, rendering, explanation. Pure but for flow.py and access.py."""
