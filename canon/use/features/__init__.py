"""Features of queries and documents for learning to rank: of text fields, of links and addresses, of click logs."""
