"""The account on PostgreSQL, in schema `headrace`: one round trip per claim and per settlement."""
