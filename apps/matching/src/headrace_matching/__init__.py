"""matching: products found in videos by independent services, whose phases each begin exactly once."""
