"""The truth laid beside what the ledger shows: the rules, the loop, and what it counts."""
