"""The numbers of an answer as quantities to compute anew."""

from __future__ import annotations

import pytest

from jupyter_agent.grounding import Index, Source
from jupyter_agent.grounding.quantities import quantities, without_numbers

TASK = "How long are trips over 30 minutes, and how many of the 3 lines have them?"
ANSWER = """# 1,250 trips

Of 1,250 trips over 30 minutes, **12.4 %** begin in 2015; the mean is -7.25 km at `df["km"].mean()`
on 2 of the 3 lines.

| line | trips |
| --- | --- |
| U1 | 850 |

```python
print(1250)
```
"""


def test_numbers_are_taken_out_of_the_text() -> None:
    """Claims get names, with their units in place; bare counts too. Numbers of headings and code go
    as well, and calls; what the task says, years and names stay."""
    index = Index([Source(TASK, "task"), Source("1250 12.4 -7.25 850 2", "output")])
    wanted, left_out = quantities(ANSWER, index, 40)
    assert [each.text for each in wanted] == ["1,250", "12.4 %", "-7.25", "2", "850"]
    text = without_numbers(ANSWER, wanted, index)
    assert text.startswith("# … trips")
    assert "Of [q1] trips over 30 minutes, **[q2] %** begin in 2015" in text
    assert "the mean is [q3] km at `…`\non [q4] of the 3 lines." in text
    assert "| U1 | [q5] |" in text and "print" not in text and "1250" not in text
    assert left_out == 0 and quantities(ANSWER, index, 2)[1] == 3


@pytest.mark.parametrize(
    ("answer", "computed", "agreement"),
    [
        ("It is 16.94.", 16.9375, "agrees"),
        ("It is 16.94.", 16.9351, "agrees"),
        ("It is 16.94.", 16.9349, "differs"),
        ("It is 16.9.", 16.94, "agrees"),
        ("A share of 35.8 % is left.", 0.3577, "agrees"),
        ("A share of 35.8 % is left.", 35.77, "agrees"),
        ("A share of 35.8 % is left.", 0.35, "differs"),
        ("About 1.2 million rows.", 1_234_000, "agrees"),
        ("There are 1,234 rows.", 1234, "agrees"),
        ("There are 1,234 rows.", 1235, "differs"),
        ("It is -4.5 lower.", -4.5, "agrees"),
        ("It is -4.5 lower.", 4.5, "sign"),
        ("It fell by 4.5 points.", -4.5, "sign"),
        ("There are 7 rows.", 7, "agrees"),
        ("There are 7 rows.", 6, "differs"),
        ("A loss of 0.0 is left.", -0.0, "agrees"),
    ],
)
def test_rounding_is_that_of_the_answer(answer: str, computed: float, agreement: str) -> None:
    """A number computed anew agrees where the answer's may have been rounded from it."""
    (wanted,), _ = quantities(answer, Index(), 40)
    assert wanted.compare(computed) == agreement
