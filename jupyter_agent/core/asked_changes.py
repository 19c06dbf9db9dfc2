"""Whether a task asks to change a variable, or names it only as an input."""

from __future__ import annotations

import re
from typing import Literal

Asked = Literal["change", "input", "unsure"]

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
_MAKES = re.compile(
    r"\b(?:apply|build|construct|create|define|exclude|filter|generate|group|import|invent|join"
    r"|keep|let|load|make|melt|merge|parse|pivot|prepare|put|read|reduce|restrict|round|save"
    r"|simulate|split|store|write)\b",
    re.IGNORECASE,
)
"""Words after which a name may be the place for something new."""
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
    about, others = [], []
    for sentence in _SENTENCE.split(task):
        (about if own.search(sentence) else others).append(sentence)
    if any(_LEFT_ALONE.search(sentence) for sentence in about):
        return "input"
    if any(_is_asked(sentence, name) for sentence in about):
        return "change"
    if any(_CHANGES.search(sentence) or _MAKES.search(sentence) for sentence in others):
        return "unsure"
    return "unsure" if any(map(_MAKES.search, about)) else "input"


def _is_asked(sentence: str, name: str) -> bool:
    marked = rf"[`@'\"*]*{re.escape(name)}\b"
    is_target = re.search(
        rf"{marked}[`'\"*]*\s*(?:[-+*/%&|^]|//|\*\*)?=(?!=)"
        rf"|\b(?:into|as|named|called)\s+(?:the\s+)?(?:variable\s+)?{marked}",
        sentence,
    )
    if is_target or _CHANGES.search(sentence):
        return True
    if _STORES.search(sentence) and re.search(
        rf"\b(?:in|to|under)\s+(?:the\s+)?{marked}", sentence
    ):
        return True
    new = r"(?:(?:an?|the|new|some|example|sample|variable|[a-z]*data\w*)\s+)*"
    return any(
        re.match(rf"\s+{new}{marked}", sentence[made.end() :]) for made in _MAKES.finditer(sentence)
    )
