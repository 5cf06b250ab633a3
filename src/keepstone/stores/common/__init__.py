"""What happens inside a store, whatever the engine: the rules of records, trail, lineage and upkeep, over named statements."""
