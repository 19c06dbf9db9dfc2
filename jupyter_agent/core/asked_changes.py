"""Whether a task asks to change a variable, or names it only as an input."""

from __future__ import annotations

import re
from typing import Literal

Asked = Literal["change", "input", "unsure"]
INPUTS = "_agent_inputs"
"""The name in the kernel of a dict with inputs that the agent's code has rebound."""
SPOILT = "spoilt_inputs"
"""The key in a result's details of what its code did to inputs."""

_CHANGES = re.compile(
    r"\b(?:add|adjust|amend|anonymi[sz]e|append|assign|cast|change|clean|clear|convert|correct"
    r"|dedup|deduplicate|del|delete|drop|edit|encode|erase|extend|fill|fix|impute|increment|insert"
    r"|mask|modify|mutate|normali[sz]e|overwrite|patch|pop|preprocess|purge|reassign|rebind"
    r"|redefine|reindex|remove|rename|reorder|repair|replace|reset|resample|reshape|reverse|scale"
    r"|(?<!a )(?<!the )(?<!data )set|shuffle|sort|standardi[sz]e|strip|swap|transform|trim|truncate"
    r"|update|in[- ]?place|(?:new|extra|additional|another) columns?|(?:create|make) .*columns?)\b",
    re.IGNORECASE,
)
"""Words that ask for a change: imperatives, so no `added` and no `sorted`."""
_STORES = re.compile(r"\b(?:store|save|put|write|keep|hold)\b", re.IGNORECASE)
_CREATES = re.compile(
    r"\b(?:build|construct|create|define|generate|import|invent|let|load|make|simulate)\b",
    re.IGNORECASE,
)
"""Words whose object is something new."""
_DERIVES = re.compile(
    r"\b(?:apply|exclude|filter|keep|melt|parse|pivot|prepare|put|read|reduce"
    r"|restrict|round|save|split|store|write)\b",
    re.IGNORECASE,
)
"""Words that may ask for a change, or for something new that is computed from the variable."""
_COMPARED = re.compile(r"\b(?:as \w+ as|same(?: \w+)? as|such as|as well as)\b", re.IGNORECASE)
_LEFT_ALONE = re.compile(
    r"\b(?:without|not|never|n't|no|avoid|instead of)\b[^.;\n]*?"
    r"\b(?:chang|modif|overwrit|rebind|mutat|alter|touch|replac|updat|edit)\w*"
    r"|\b(?:unchanged|untouched|unmodified|as it is|read[- ]only|a (?:new )?copy)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n+")


def asked_change(task: str, name: str) -> Asked:
    """Whether a task asks for another value of a variable that it names.

    `change`: the sentence with the name has an imperative of changing (`add`, `replace`, `sort`,
    `rename`, …), or the name is the place for something (`into X`, `X = …`, `create X`).
    `input`: no word of the task can be meant so, or it asks to leave the variable as it is.
    `unsure`: another sentence has such a word, which may be about the variable.

    Args:
        task: The task in the person's words.
        name: A variable that stands in the task as a word.
    """
    own = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    # A column `df.add` or "the set of" is rare enough: a doubt counts for the change.
    about: list[str] = []
    others: list[str] = []
    for sentence in _SENTENCE.split(task):
        (about if own.search(sentence) else others).append(sentence)
    if any(_LEFT_ALONE.search(sentence) for sentence in about):
        return "input"
    if any(_is_asked(sentence, name) for sentence in about):
        return "change"
    words = (_CHANGES, _CREATES, _DERIVES)
    if any(word.search(sentence) for word in words for sentence in others):
        return "unsure"
    doubtful = (_CREATES, _DERIVES)
    return "unsure" if any(word.search(each) for word in doubtful for each in about) else "input"


def _is_asked(sentence: str, name: str) -> bool:
    sentence = _COMPARED.sub(" ", sentence)
    marked = rf"[`@'\"*]*{re.escape(name)}\b"
    is_target = re.search(
        rf"{marked}[`'\"*]*\s*(?:[-+*/%&|^]|//|\*\*)?=(?!=)"
        rf"|\b(?:into|as|named|called)\s+(?:the\s+)?(?:variable\s+)?{marked}",
        sentence,
    )
    if is_target or _CHANGES.search(sentence):
        return True
    place = rf"\b(?:in|to|under)\s+(?:the\s+)?{marked}"
    if _STORES.search(sentence) and re.search(place, sentence):
        return True
    new = r"(?:(?:an?|the|new|some|example|sample|variable|frame|table|data\w*)\s+)*"
    return any(
        re.match(rf"\s+{new}{marked}", sentence[made.end() :])
        for made in _CREATES.finditer(sentence)
    )
