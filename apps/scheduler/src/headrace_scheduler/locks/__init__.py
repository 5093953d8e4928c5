"""Locks for people and for programs in any language: what the command line does with them."""
