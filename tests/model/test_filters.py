"""The filter language: what is read, and where a mistake is pointed at."""

import pytest

import holdfast as hf
from holdfast.model.filters import Term, parse
from holdfast.model.labels import KEYS, NO_LABELS, Labels, checked_labels

NOW = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
HOUR = 3_600_000_000

READ = {
    "": (),
    "  \t\n ": (),
    "status:failed,blocked": (Term("status", ":", ("failed", "blocked")),),
    "-tag:vip": (Term("tag", ":", ("vip",), True),),
    'tag:"a b",c': (Term("tag", ":", ("a b", "c")),),
    r"tag:'it\'s'": (Term("tag", ":", ("it's",)),),
    "id:-x": (Term("id", ":", ("-x",)),),
    "reason:TimeOut": (Term("reason", ":", ("timeout",)),),
    "customer=42": (Term("attribute", "=", (42, "42"), name="customer"),),
    'customer="42"': (Term("attribute", "=", ("42",), name="customer"),),
    'customer=""': (Term("attribute", "=", ("",), name="customer"),),
    "amount>10": (Term("attribute", ">", (10,), name="amount"),),
    "amount>=1e3": (Term("attribute", ">=", (1000.0,), name="amount"),),
    "a.b-c<-0.5": (Term("attribute", "<", (-0.5,), name="a.b-c"),),
    "due<=2026-01-31": (Term("attribute", "<=", ("2026-01-31",), name="due"),),
    f"n={2**63}": (Term("attribute", "=", (float(2**63), str(2**63)), name="n"),),
    "n=1e999": (Term("attribute", "=", ("1e999",), name="n"),),
    "n=nan": (Term("attribute", "=", ("nan",), name="n"),),
    "since:1h": (Term("since", ":", (NOW - HOUR,)),),
    "before:2026-01-01": (Term("before", ":", (NOW,)),),
    "before:2026-01-01T01:00:00+01:00": (Term("before", ":", (NOW,)),),
    "Lamp": (Term("text", ":", ("lamp",)),),
    '"status:failed"': (Term("text", ":", ("status:failed",)),),
    "10:30": (Term("text", ":", ("10:30",)),),
    "- a": (Term("text", ":", ("-",)), Term("text", ":", ("a",))),
    "-Lamp,x": (Term("text", ":", ("lamp", "x"), True),),
}

WRONG = {
    "statuz:failed": (1, "no key 'statuz' (did you mean 'status'?)", "Keys are status,"),
    "tag:x customer:42": (7, "no key 'customer'", "An attribute is written customer=value"),
    "http://x": (1, "no key 'http'", "a word with a colon goes into quotes"),
    "status:failled": (8, "no status 'failled' (did you mean 'failed'?)", "There are: pending,"),
    "status=failed": (1, "status takes ':'", "Write status:failed"),
    "customer!=42": (1, "'!=' is no operator", "Write -customer=..."),
    "tag:": (5, "a value is missing", '"" is the empty text'),
    "tag:a,": (7, "a value is missing", ""),
    "tag:,a": (5, "a value is missing", ""),
    'tag:"a': (5, "this quote is never closed", ""),
    'tag:a"b"': (6, "a quote in the middle", ""),
    'tag:"a"b': (8, "a quote in the middle", ""),
    "since:yesterday": (7, "'yesterday' is no time", "1h, 7d"),
    "since:1h,2h": (7, "since takes one time", ""),
    "a\0b": (2, "'\\x00' cannot be in a filter", ""),
    "\ud800": (1, "cannot be in a filter", ""),
    "x" * 5_000: (4_097, "more than 4096 characters", ""),
    "x " * 40: (65, "more than 32 conditions", ""),
    "id:" + ",".join("x" * 70): (4, "more than 64 values", ""),
}


@pytest.mark.parametrize("text", READ, ids=repr)
def test_a_filter_is_read(text: str) -> None:
    assert parse(text, NOW) == READ[text]


@pytest.mark.parametrize("text", WRONG, ids=lambda text: ascii(text[:20]))
def test_a_mistake_is_pointed_at(text: str) -> None:
    column, problem, hint = WRONG[text]
    with pytest.raises(hf.InvalidFilter) as caught:
        parse(text, NOW)
    assert caught.value.column == column
    assert problem in caught.value.problem
    assert hint in caught.value.hint
    assert f"column {column}" in str(caught.value)


def test_a_filter_that_is_no_text_is_refused() -> None:
    with pytest.raises(hf.InvalidFilter, match="a filter is a text"):
        parse(12, NOW)  # type: ignore[arg-type]


BAD_LABELS = {
    "a text for a list": ("vip", {}, "is no list"),
    "too many tags": (["x"] * 33, {}, "at most 32"),
    "an empty tag": ([""], {}, "has 0 characters"),
    "a long tag": (["x" * 257], {}, "has 257 characters"),
    "a tag that is no text": ([1], {}, "is a int, not a text"),
    "a line break": (["a\nb"], {}, "cannot be printed"),
    "a lone surrogate": (["\ud800"], {}, "cannot be printed"),
    "attributes as a list": ([], ["x"], "is no mapping"),
    "too many attributes": ([], {f"a{n}": n for n in range(33)}, "at most 32"),
    "a name with a space": ([], {"a b": 1}, "cannot be written in a filter"),
    "a name that is a key": ([], {"status": "x"}, "is a key of the filter language"),
    "a long text": ([], {"a": "x" * 257}, "has 257 characters"),
    "no number": ([], {"a": float("nan")}, "is not finite"),
    "a huge number": ([], {"a": 2**63}, "has more than 64 bits"),
    "a list": ([], {"a": [1]}, "is a list"),
    "nothing": ([], {"a": None}, "is a NoneType"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_labels_that_cannot_be_stored_are_refused(case: str) -> None:
    tags, attributes, problem = BAD_LABELS[case]
    with pytest.raises(hf.InvalidTag, match=problem):
        checked_labels(tags, attributes)  # type: ignore[arg-type]


def test_labels_are_sorted_and_counted_once() -> None:
    labels = checked_labels(["b", "a", "b"], {"y": 1, "x": ""})
    assert labels == Labels(("a", "b"), {"x": "", "y": 1})
    assert list(labels.attributes) == ["x", "y"]
    assert checked_labels([], {}) is NO_LABELS


def test_no_attribute_can_be_taken_for_a_key() -> None:
    for key in KEYS:
        with pytest.raises(hf.InvalidTag):
            checked_labels([], {key: 1})
