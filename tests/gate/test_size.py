"""The size gate sees what it should, and its exceptions need a reason and a date."""

import datetime

from scripts.check_size import Excess, complaints, excesses

LONG = Excess("src/x.py", "f", "lines", 70, 60)


def test_long_file_is_found_and_tests_may_be_longer() -> None:
    text = "x = 1\n" * 501
    assert [e.size for e in excesses("src/x.py", text)] == [501]
    assert list(excesses("tests/x.py", text)) == []
    assert [e.limit for e in excesses("tests/x.py", text * 2)] == [800]


def test_long_function_is_found_inside_a_class() -> None:
    text = "class A:\n  async def f(self):\n" + "    x = 1\n" * 60
    assert [(e.name, e.size) for e in excesses("src/x.py", text)] == [("A.f", 61)]


def test_public_methods_are_counted_once_for_overloads() -> None:
    text = "class A:\n" + "".join(f"  def m{n}(self): ...\n" for n in range(15))
    more = "  def m0(self): ...\n  def _m(self): ...\n"
    assert list(excesses("src/x.py", text + more)) == []
    assert [e.size for e in excesses("src/x.py", text + "  def m(self): ...\n")] == [16]


def test_an_exception_needs_a_reason_and_a_date() -> None:
    bare = {"path": "src/x.py", "name": "f", "limit": 80}
    full = {**bare, "reason": "a table", "date": datetime.date(2026, 1, 31)}
    assert list(complaints([LONG], [])) == ["src/x.py: f has 70 lines; the limit is 60"]
    assert list(complaints([LONG], [full])) == []
    assert ["reason" in line for line in complaints([LONG], [bare])] == [True]


def test_an_exception_that_is_not_needed_fails() -> None:
    entry = {"path": "src/x.py", "limit": 9, "reason": "r", "date": datetime.date(2026, 1, 31)}
    assert ["remove" in line for line in complaints([], [entry])] == [True]
