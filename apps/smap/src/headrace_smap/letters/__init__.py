"""Letters in `analytics.errors`: what is read of them, and what keeps the queue true. Analytics write them."""
