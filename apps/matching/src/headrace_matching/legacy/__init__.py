"""What is left of the event names that are gone; nothing else in the project knows them."""
