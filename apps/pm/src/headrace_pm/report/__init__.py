"""The report for people: what became of files, how long they took, what is missing and what went wrong, on one page."""
