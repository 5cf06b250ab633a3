"""What adapters of hosted services share."""
