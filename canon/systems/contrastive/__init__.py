"""Networks that learn without labels, by telling views of one example from views of others."""
