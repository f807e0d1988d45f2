"""Stands for a store of documents, and for a model that sees and reads. Both are always here.

A page is lines of `location|text|ink`; what the model reads of it grows with ink and contrast.
"""

import base64
import json
import re

TOKEN = "model-4711"
DOCUMENTS = {
    "treaty": ["header|SECRET//NOFORN|0.9\nfooter|SECRET//NOFORN|0.95", "header|SECRET|0.3"],
    "memo": ["header|UNCLASSIFIED|0.97\nfooter|UNCLASSIFIED|0.97"],
    "blank": [],
}
LEVELS = ("UNCLASSIFIED", "CONFIDENTIAL", "SECRET", "TOP SECRET")


def render(document: str, page: int, contrast: int = 0) -> bytes:
    """Return a page as a picture: of the same page and filter, always the same one."""
    return f"{contrast}\n{DOCUMENTS[document][page - 1]}".encode()


def data_uri(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()


async def vision(prompt: str, picture: str, token: str) -> str:
    """Look at a picture, and answer as models do: with words around what was asked for."""
    _allow(token)
    contrast, *lines = base64.b64decode(picture.partition(",")[2]).decode().split("\n")
    markings, least = [], 1.0
    for location, text, ink in (line.split("|") for line in lines):
        seen = float(ink) * (1 + int(contrast) / 100)  # may be more than 1: bounds are the reader's
        is_faded = float(ink) < 0.5 and contrast == "0"
        markings.append({"text": text, "location": location, "legibility": seen, "faded": is_faded})
        least = min(least, seen)
    advice = {"brightness": 120, "contrast": 150, "saturation": 100} if least < 0.5 else None
    answer = {"markings_found": markings, "clarity_score": least, "filter_suggestion": advice}
    return f"Here is what I see:\n```json\n{json.dumps(answer)}\n```\n"


async def chat(prompt: str, token: str) -> str:
    """Answer a question about markings that were found, or about how sure an answer is."""
    _allow(token)
    if "How sure" in prompt:
        clarity = float(re.findall(r"mean_clarity: ([\d.]+)", prompt)[0])
        factor = {"name": "marking_clarity", "score": clarity, "weight": 0.3}
        return json.dumps({"overall_score": clarity, "factors": [factor], "recommendation": "ok?"})
    read = sorted(set(re.findall(r"- (.+?) \(", prompt)), key=_level)
    others = [{"classification": text, "probability": 0.2} for text in read[:-1]]
    answer = {"classification": read[-1], "alternative_readings": others, "marking_summary": read}
    return f"```\n{json.dumps(answer)}\n```"


def _level(text: str) -> tuple[int, str]:
    return LEVELS.index(text.partition("//")[0]), text


def _allow(token: str) -> None:
    if token != TOKEN:
        raise PermissionError("the token is not known")
