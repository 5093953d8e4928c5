"""Crawlers: where raw posts come from. Which one serves a platform is a setting; others register by entry point."""
