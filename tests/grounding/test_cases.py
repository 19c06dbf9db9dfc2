"""Which numbers of an answer are marked: a table of cases, and how many marks in it are false."""

from __future__ import annotations

import pytest

from jupyter_agent.grounding import Source, grounded

SEEN = """\
(344, 8)
species    count     mean   std
Gentoo       123  5076.016 504.116
Chinstrap     68  3733.088 384.335
Adelie       151  3700.662 458.566
share        0.15342
r           -0.8713
p            3.2e-07
accuracy     93.4%
revenue      1234567.89
population   8,336,817
seconds      150.0
bytes        52428800
loss         1.0423e-05
[12, 47, 81]
größe        12,75
change      -0.052
"""
TASK = "Use a threshold of 0.35 on the 77 rows."

LEFT_ALONE = [
    # what was seen, as it was printed or rounded
    "There are 344 rows and 8 columns.",
    "The mean is 5076.016 g.",
    "The mean is 5,076 g.",
    "The mean is 5.076 g, as one writes in German.",
    "The mean is 5 076 g.",
    "The mean is 5\u00a0076 g.",
    "The mean is 5\u202f076 g.",
    "The mean is 5'076 g.",
    "The mean is 5076.0 g.",
    "The mean is 5,100 g.",
    "The mean is about 5,000 g.",
    "The mean is ~5000 g.",
    "It weighs 5.1 kg.",
    "It weighs 5.08kg.",
    "It is 5.1k.",
    "The spread is ± 504 g.",
    "The spread is ±504.1 g.",
    # shares
    "The share is 15.3 %.",
    "The share is 15.3%.",
    "The share is 15.34\u00a0%.",
    "The share is 15.3 percent.",
    "The share is 15 percent.",
    "The share is 0.153.",
    "The share is .153.",
    "The share is 0,153.",
    "The share is 153 ‰.",
    "The accuracy is 93.4 %.",
    "The accuracy is 0.934.",
    "The accuracy is **93.4%**.",
    "It fell by 5.2 %.",
    "36.0 % (123 of 342)? No: 35.8 % (123 of 344).",
    "123 of 344, or 35.8 %, are Gentoo.",
    "123/344 (35.8 %) are Gentoo.",
    # signs, powers, magnitudes
    "r = -0.87",
    "r = −0.87",
    "r = –0.87",
    "r (-0.871) is strong.",
    "|r| is 0.87.",
    "p = 3.2e-7",
    "p = 3.2E-07",
    "p = 3.2 × 10⁻⁷",
    "p = 3.2×10^-7",
    "$p = 3.2 \\times 10^{-7}$",
    "The loss is 1.04e-5.",
    "The loss is 0.0000104.",
    "Revenue was $1,234,567.89.",
    "Revenue was $1.23M.",
    "Revenue was 1.23 million euros.",
    "Revenue was €1.2 mn.",
    "Revenue was 1,235k.",
    "Revenue was 1.234.568 Euro.",
    "Umsatz: 1,23 Mio. Euro.",
    "8.3 million people live there.",
    "8 336 817 people live there.",
    "It took 2.5 minutes.",
    "It took 150 s.",
    "The file has 50 MiB.",
    "The file has 52.4 MB.",
    "Values of 12, 47 and 81.",
    "The list is [12,47,81].",
    "Die Größe ist 12,75 cm.",
    "It is 12.75 cm.",
    "The range is 47-81.",
    "The range is 47–81 %.",
    "It lies between 3,701 and 5,076 g.",
    "٣٤٤ rows",
    "３４４ rows",
    # the task
    "I used your threshold of 0.35 on the 77 rows.",
    # what is no claim
    "In 2015 there were more.",
    "From 1990 to 2005.",
    "The years 2007–2009 and 2019/20.",
    "(Smith, 1999)",
    "On 2024-05-01 at 12:30.",
    "On 5 May 2024, May 17, 2023 and 17th of June.",
    "Am 17.5.2024 und 17. Mai.",
    "In the 1990s.",
    "The 21st, the 42nd and the 13th.",
    "21. The first.\n22. The second.",
    "- 21) one",
    "# Results for 999 cases",
    "## 4711",
    "Call `f(777)` or ``x = 555``.",
    "```\n999\n```",
    "~~~python\nx = 999\n",
    "    x = 999",
    "See report_2099.csv, data-42.parquet and output/run17/x.png.",
    "See https://example.org/4711?page=55.",
    "Mail me@host99.org.",
    "Use [this](page-99.html) or [12](x).",
    "As shown before [17].[^23]",
    "Version 2.17.3 of pandas 2.2 on Python 3.11.",
    "It is v1.26.",
    "Columns x17, H2O, CO2, utf-16, GPT-4, top-25 and col_99.",
    "See Figure 12, Table 33 and section 14.",
    "Step 42 and line 99.",
    "See #4711.",
    "We made 3 plots of 2 kinds with 10 colours.",
    "Two of the three.",
    "3-5 of them, 1/2 of those.",
    "The 95 % interval, the 99% confidence level, a 90 % credible interval.",
    "95% CI: 47 to 81.",
    "This is significant (p < 0.001, α = 0.05).",
    "All of them (100 %).",
    "$x_{12} + y^{34}$ and $R^2$",
    "A 10-fold run in 3D.",
    "ISO 8601 and RFC 2616.",
    "ſeen 1e99999999",
    "",
]
MARKED = [
    ("There are 345 rows.", ["345"]),
    ("The mean is 5,176 g.", ["5,176"]),
    ("The mean is 5076.1 g.", ["5076.1"]),
    ("The mean is 5.077 kg.", ["5.077"]),
    ("The mean is **5,086 g**.", ["5,086"]),
    ("The share is 15.4 %.", ["15.4 %"]),
    ("The share is 0.154.", ["0.154"]),
    ("The share is 153 %, they say.", ["153 %"]),
    ("The accuracy is 94.3 %.", ["94.3 %"]),
    ("The accuracy is 9.34%.", ["9.34%"]),
    ("r = +0.88", ["0.88"]),
    ("The change was -0.153.", ["-0.153"]),
    ("r = −0.78", ["−0.78"]),
    ("p = 3.2e-6", ["3.2e-6"]),
    ("p = 3.3 × 10⁻⁷", ["3.3 × 10⁻⁷"]),
    ("Revenue was $1.33M.", ["1.33M"]),
    ("Revenue was 1.234.000.000 Euro.", ["1.234.000.000"]),
    ("Revenue was 5 €, the others had 10 €.", ["5", "10"]),
    ("9.3 million people live there.", ["9.3 million"]),
    ("It took 3.5 minutes.", ["3.5"]),
    ("15 of those in 2015.", ["15"]),
    ("44 were left.", ["44"]),
    ("The range is 48-82.", ["48", "82"]),
    ("The range is 48–81 %.", ["48", "81 %"][:1]),
    ("There were 2015 rows.", ["2015"]),
    ("It has 1999 penguins.", ["1999"]),
    ("- 217 and 21 more", ["217", "21"]),
    ("The list is [14,48,82].", ["14", "48", "82"]),
    ("It is 1e309, not 1e99999999.", ["1e309"]),
    ("`344` is not 346.", ["346"]),
    ("| a | b |\n|---|---|\n| 344 | 999 |", ["999"]),
    ("> It was 999.", ["999"]),
    ("$R^2 = 0.66$ is good.", ["0.66"]),
    ("1. It was 999.\n2. It was 998.", ["999", "998"]),
    ("36.8 % (123 of 344) are Gentoo.", ["36.8 %"]),
    ("The threshold was 0.45.", ["0.45"]),
    ("99999999999999999999999 of them", ["99999999999999999999999"]),
    ("A p-value of 0.04 and p = 0.03.", ["0.04", "0.03"]),
    ("The 95 % of it.", ["95 %"]),
    ("25 % more, 7 % less.", ["25 %", "7 %"]),
    ("1,2 and 12,3", ["1,2", "12,3"]),
]


def unseen(answer: str) -> list[str]:
    numbers = grounded(answer, [Source(SEEN, step=1), Source(TASK, "task")])
    return [number.text for number in numbers if number.seen is None]


@pytest.mark.parametrize("answer", LEFT_ALONE)
def test_what_is_not_marked(answer: str) -> None:
    """Numbers that were seen, however written, and numbers that claim nothing are not marked."""
    wrong = ["36.0 %", "342"] if "342" in answer else []
    assert unseen(answer) == wrong


@pytest.mark.parametrize(("answer", "marked"), MARKED)
def test_what_is_marked(answer: str, marked: list[str]) -> None:
    """Exactly the numbers that were seen nowhere are marked."""
    assert unseen(answer) == marked


def test_the_measure(capsys: pytest.CaptureFixture[str]) -> None:
    """Over all cases: how many marks are false, and how many invented numbers lack a mark."""
    false_marks = sum(len(unseen(answer)) for answer in LEFT_ALONE if "342" not in answer)
    missed = sum(len(set(marked) - set(unseen(answer))) for answer, marked in MARKED)
    made_up = sum(len(marked) for _, marked in MARKED)
    with capsys.disabled():
        print(
            f"\n{len(LEFT_ALONE) + len(MARKED)} cases: {false_marks} false marks in "
            f"{len(LEFT_ALONE)} texts, {missed} of {made_up} made-up numbers missed"
        )
    assert (false_marks, missed) == (0, 0)
