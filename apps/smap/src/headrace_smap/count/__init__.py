"""The count of a project: the truth in the database, the ledger that shows it, and what keeps both equal."""
