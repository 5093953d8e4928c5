"""Real servers for tests: on loopback, a private port and a directory of their own, and gone with the test run."""
