"""What a task becomes: payload, record or reject, by rules that ask no database."""
