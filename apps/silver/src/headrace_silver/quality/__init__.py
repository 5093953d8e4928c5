"""How good the data is, and the data itself for those who look into it."""
