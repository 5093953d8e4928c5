"""Key performance indicators: formulas over counters, and their values by hour and day."""
