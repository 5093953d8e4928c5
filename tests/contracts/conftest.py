"""A failing contract shows its values, as a test of one's own would."""

import pytest

pytest.register_assert_rewrite("headrace.testing.contracts")
