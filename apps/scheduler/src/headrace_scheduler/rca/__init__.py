"""Root-cause reports: evidence of a span of time, rules that find causes in it, and a report for people."""
