"""The collector service: a project becomes crawl tasks, tasks become raw posts."""
