"""What is sure about markings: how replies of a model are read, kept in bounds and put together."""

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

THRESHOLD = 0.4
WEIGHTS = {
    "marking_clarity": 0.30,
    "marking_consistency": 0.25,
    "spatial_coverage": 0.15,
    "enhancement_impact": 0.10,
    "alternative_count": 0.10,
    "detection_legibility": 0.10,
}
Share = Annotated[float, AfterValidator(lambda value: min(max(value, 0.0), 1.0))]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Filter(Frozen):
    brightness: Annotated[int, AfterValidator(lambda value: min(max(value, 0), 200))] = 100
    contrast: Annotated[int, AfterValidator(lambda value: min(max(value, -100), 100))] = 0
    saturation: Annotated[int, AfterValidator(lambda value: min(max(value, 0), 200))] = 100


class Marking(Frozen):
    text: str
    location: Literal["header", "footer", "margin", "body"]
    legibility: Share
    faded: bool = False


class Detection(Frozen):
    """What was found on a page. Page and image are ours to say, whatever the model says."""

    page_number: int = 0
    original_image_id: str = ""
    enhanced_image_id: str | None = None
    markings_found: list[Marking]
    clarity_score: Share
    filter_suggestion: Filter | None = None


class Alternative(Frozen):
    classification: str
    probability: Share
    reason: str = ""


class Classification(Frozen):
    classification: str
    alternative_readings: list[Alternative] = []
    marking_summary: list[str] = []
    rationale: str = ""


class Factor(Frozen):
    name: str
    score: Share
    weight: Share
    description: str = ""


class Confidence(Frozen):
    overall_score: Share
    factors: list[Factor] = []
    recommendation: str = ""


Reply = TypeVar("Reply", bound=BaseModel)


class ParseFailed(ValueError):
    """A reply that is not what was asked for. The next one may be: the node is tried again."""


def parsed(text: str, shape: type[Reply]) -> Reply:
    """Read a reply: as it is, or what its first fenced block holds. Raises `ParseFailed`."""
    fenced = re.search(r"```(?:json)?\s*\n(.*?)```", text, re.DOTALL)
    for found in (text.strip(), fenced.group(1) if fenced else ""):
        with contextlib.suppress(json.JSONDecodeError, ValidationError):
            return shape.model_validate(json.loads(found))
    raise ParseFailed(f"no {shape.__name__} in {text[:80]!r}")


def needs_enhancement(found: Detection, threshold: float = THRESHOLD) -> bool:
    """Tell whether a page should be looked at again, through the filter that was suggested."""
    is_dim = any(marking.legibility < threshold for marking in found.markings_found)
    return found.filter_suggestion is not None and is_dim


def merged(before: Detection, after: Detection, threshold: float = THRESHOLD) -> Detection:
    """Put two looks at one page together: the second counts only where it saw more."""
    found = {(each.text, each.location): each for each in before.markings_found}
    for each in after.markings_found:
        old = found.get((each.text, each.location))
        is_weak = old is None or old.faded or old.legibility < threshold
        if is_weak and (old is None or each.legibility > old.legibility):
            found[each.text, each.location] = each
    changes = {
        "markings_found": list(found.values()),
        "clarity_score": max(before.clarity_score, after.clarity_score),
        "enhanced_image_id": after.enhanced_image_id,
        "filter_suggestion": None,
    }
    return before.model_copy(update=changes)


def recommended(given: Confidence) -> Confidence:
    """Keep a recommendation that is one of ours; derive it from the score if it is not."""
    if given.recommendation in ("ACCEPT", "REVIEW", "REJECT"):
        return given
    score = given.overall_score
    derived = "ACCEPT" if score >= 0.9 else "REVIEW" if score >= 0.7 else "REJECT"
    return given.model_copy(update={"recommendation": derived})


def totals(pages: Sequence[Detection]) -> dict[str, float]:
    """Sum up what was found, for the one who judges how sure it is."""
    markings = [marking for page in pages for marking in page.markings_found]
    edged = sum(any(m.location in ("header", "footer") for m in p.markings_found) for p in pages)
    return {
        "pages": len(pages),
        "mean_clarity": sum(page.clarity_score for page in pages) / len(pages),
        "mean_legibility": sum(m.legibility for m in markings) / max(len(markings), 1),
        "coverage": edged / len(pages),
        "unique_markings": len({marking.text for marking in markings}),
    }
