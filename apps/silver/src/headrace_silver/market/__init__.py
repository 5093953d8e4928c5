"""The Vietnamese exchanges: days of trading, and what a price can look like."""
