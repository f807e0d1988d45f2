"""The shipped suite's asserts explain themselves, as those of our own test files do."""

import pytest

pytest.register_assert_rewrite("holdfast.testing.conformance")
