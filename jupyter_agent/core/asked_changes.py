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
    r"\b(?:apply|bin|bucket|categori[sz]e|discreti[sz]e|exclude|extract|filter|flag|keep|label|map"
    r"|mark|melt|parse|pivot|prepare|put|read|reduce"
    r"|restrict|round|save|split|store|tag|write)\b",
    re.IGNORECASE,
)
"""Words that may ask for a change, or for something new that is computed from the variable."""
_COMPARED = re.compile(r"\b(?:as \w+ as|same(?: \w+)? as|such as|as well as)\b", re.IGNORECASE)
_CHANGE_WANTED = re.compile(
    r"(?i)\b(?:add|append|appl|assign|cast|chang|clean|clip|convert|correct|creat|delet|drop|edit|"
    r"encod|eras|fill|fix|impute|in-?place|insert|load|lower|make|mak|modif|mov(?!em)"
    r"|normali(?!ty)|overwrit|"
    r"pars|read|import(?!an)|reload|re-?index|re-?nam|re-?order|re-?plac|re-?set|re-?shap|remov|"
    r"sav|scal|set|shift|shuffl|split|standardi|stor|strip|swap|transform|turn|updat|upper)\w*\b"
    r"|\bin place\b|\bnew column"
)
"""Words of tasks that may ask to change something, by their beginnings, whatever they name."""
_STATE = re.compile(r"(?i)\b(?:is|are|was|were|been|already)\s+(?:\w+ly\s+)?\w+ed\b")
"""What is already so: "is loaded as", "were already removed"."""
_DATA_WANTED = re.compile(
    r"(?i)\b(?:re-?load|load|read|import|download|fetch|open|parse)(?:ing|s)?\b"
    r"|\b(?:build|construct|creat|defin|generat|invent|mak|simulat)(?:es?|ing)?\b[^.\n]*"
    r"\b(?:data ?frames?|data ?sets?|tables?|series|samples?|examples?|data|df)\b"
    r"|\b(?:example|sample|random|dummy|synthetic) (?:data|tables?|values)\b"
)
"""Words of tasks that may ask for other data than those that are loaded."""
_LEFT_ALONE = (
    r"(?:\b(?:without|not|never|no|avoid|instead of)|n't)\b[^.;\n]*?"
    r"\b(?:chang|modif|overwrit|rebind|mutat|alter|touch|replac|updat|edit)\w*\s+"
    r"(?:(?:the|my|original|variable|data|frame|table)\s*)*(?:{0}|it\b|original\b|input\b)"
    r"|{0}[^.;\n]*\b(?:unchanged|untouched|unmodified|as it is|read[- ]only)\b"
    r"|\bcopy of\s+(?:the\s+)?{0}"
)
"""A pattern that says of the variable {0} that it stays as it is."""
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
    left_alone = re.compile(_LEFT_ALONE.format(_marked(name)), re.IGNORECASE)
    if any(left_alone.search(sentence) for sentence in about):
        return "input"
    if any(_is_asked(sentence, name) for sentence in about):
        return "change"
    words = (_CHANGES, _CREATES, _DERIVES)
    if any(word.search(sentence) for word in words for sentence in others):
        return "unsure"
    doubtful = (_CREATES, _DERIVES)
    return "unsure" if any(word.search(each) for word in doubtful for each in about) else "input"


def may_ask_for_change(task: str) -> bool:
    """True if a task may ask to change some variable; a question for a value does not.

    For code that is looked at before it runs, when no name in the task says what is meant.
    """
    return _CHANGE_WANTED.search(_STATE.sub(" ", task)) is not None


def may_ask_for_data(task: str) -> bool:
    """True if a task may ask to read a file or to make up data; one about loaded data does not."""
    return _DATA_WANTED.search(_STATE.sub(" ", task)) is not None


def _is_asked(sentence: str, name: str) -> bool:
    sentence = _COMPARED.sub(" ", sentence)
    marked = _marked(name)
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


def _marked(name: str) -> str:
    """A pattern for a name with the marks of code and emphasis before it."""
    return rf"[`@'\"*]*{re.escape(name)}\b"
