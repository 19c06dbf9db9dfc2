# ruff: noqa: E501 (a text of data a line)
"""Two thousand entries and questions about them in other words, for the search of memory.

Forty problems for fifty subjects. A problem has a title and a text, two questions and a line of
other words as whoever saves the entry would note them, and one question as somebody asks it later.
One author wrote them all, and the weights of the search were set on them: the share of hits is
likely higher than with a model's words and a stranger's questions. The problems' questions were
left as they were once their hits were known; some of the subjects' names were changed after that.
The entry calls a subject by its formal name, a question that is
asked by its everyday name; of the saved questions the first has the formal one and the second the
everyday one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_agent.memory.entries import MemoryEntry, Provenance, source_of

QUESTIONS = 250

SUBJECTS = """
orders table | purchases
invoices export | bills
customer registry | client list
clickstream | web visits
sensor feed | device measurements
payroll ledger | salaries
inventory snapshot | stock levels
shipment tracker | parcels
loan portfolio | credits
patient cohort | hospital cases
seismic archive | earthquake recordings
weather grid | forecast maps
tariff catalogue | price list
survey panel | questionnaire answers
ad impressions | advert views
chat transcripts | support conversations
call records | phone logs
genome variants | mutations
satellite tiles | pictures from space
election returns | vote counts
energy meters | electricity usage
fleet telemetry | truck positions
library loans | borrowed books
ticket queue | helpdesk requests
recipe corpus | cooking texts
exam results | student grades
stock ticks | share quotes
insurance claims | damage reports
flight schedule | departures
hotel bookings | room reservations
land parcels | property plots
water samples | river tests
crash dumps | failure reports
license inventory | software permits
audit trail | change history
email archive | old messages
product reviews | buyer opinions
donation ledger | gifts
traffic counters | car counts
museum catalogue | exhibits
refund journal | money given back
subscription roster | paying members
warehouse scans | barcode reads
lab notebook | experiment notes
soil survey | ground probes
bike rentals | hired bicycles
court filings | lawsuits
song metadata | music tracks
job postings | vacancies
tax returns | declarations
"""

PROBLEMS = """
Decode the {} as latin-1
The export of the {} is no UTF-8: read_csv raises UnicodeDecodeError at the first umlaut. Pass encoding="latin-1".
why does reading the {} fail with strange letters?
garbled accents when loading the {}
encoding problem, mojibake, garbled or broken characters, accents, import of a CSV fails, charset, UTF-8
special characters of the {} are broken after import
===
Join the {} on two keys
A merge of the {} by id alone multiplies rows, since ids repeat per region. Merge on id and region with validate="m:1".
why are there more rows after merging the {}?
duplicate lines when the {} are combined with another frame
too many rows after a join, duplicated rows, many-to-many, fan-out, longer frame, merge keys
joining makes my {} much longer than before
===
Store timestamps of the {} in UTC
Naive datetimes of the {} shift at daylight saving. Localize with tz_localize and convert to UTC before resampling.
one hour is missing or doubled in the {}, what now?
clock change in March and October breaks the {}
daylight saving, summer and winter time, clock change, hour missing or twice, time zone, offset
hours of the {} look wrong in summer
===
Read the {} in chunks
Loading the {} at once exhausts RAM and the kernel dies. Iterate with chunksize=200000 and aggregate as you go.
out of memory while opening the {}
how can the {} be processed when they are too big?
out of memory, kernel crashes, file too big, large data, does not fit into RAM, stream, batches
notebook crashes because the {} do not fit on my machine
===
Categorical dtype for the {}
Object columns of the {} take eight times the space. Cast low-cardinality strings with astype("category").
how to shrink the memory footprint of the {}?
text columns make the {} heavy, can they be made smaller?
reduce memory, save space, smaller frame, strings, compact types, too heavy
reduce how much space the loaded {} occupy
===
Deduplicate the {} by latest version
The {} keep superseded revisions. Sort by updated_at and drop_duplicates(subset="id", keep="last").
which row of the {} is the current one?
several copies of the same record in the {}
duplicates, repeated records, several versions, keep the newest, most recent row, older copies
keep only the newest of repeated {}
===
Null markers of the {}
In the {} missing values are written as -999 and "n/a". Declare na_values, or means are off.
why is the average of the {} so low or negative?
placeholder numbers instead of blanks in the {}
missing values, placeholders, dummy numbers, blanks, gaps, sentinel, wrong mean, NaN
gaps in the {} are filled with odd dummy figures
===
Decimal comma in the {}
Amounts in the {} use comma decimals and dots for thousands. Parse with decimal="," and thousands=".".
numbers of the {} are read as text, why?
European number format of the {}
European number format, numbers are strings, thousands separator, text instead of figures, conversion
sums over the {} fail as figures are strings
===
Partition the {} by month
Queries scan the whole {} since the Parquet dataset has one file. Write with partition_cols=["month"].
why is filtering the {} by date slow?
split the {} on disk so that less is read
slow filter, read less, split by date, faster queries over a period, Parquet layout, monthly files
faster access to a short period of the {}
===
Index on the foreign key of the {}
The nightly report over the {} does sequential scans. CREATE INDEX on account_id brought 40 s down to 0.3 s.
database query on the {} takes forever
speed up lookups in the {} by account
slow query, SQL takes long, database performance, full table scan, lookup, speed up, missing index
SQL statement for {} needs ages to return
===
Retry with backoff when pulling the {}
The endpoint of the {} throttles with status 429. Use tenacity with exponential jitter and respect Retry-After.
too many requests error while fetching the {}
the server blocks me when I download the {} quickly
rate limit, too many requests, throttled, blocked by the server, download, wait and repeat
rate limited by the service that delivers {}
===
Rotate credentials of the {}
The service account for the {} expires after 90 days. Renew it through the vault, and never commit it.
access denied to the {} although it worked last quarter
password for the {} ran out, what is to be done?
expired password, access denied, login fails, key renewal, secret, permission, token no longer valid
login for {} suddenly stopped being accepted
===
Pin pandas for the {}
pandas 3 changed copy semantics, and the pipeline of the {} relied on chained assignment. Pin below 3 until rewritten.
after an upgrade the {} script does nothing to the columns
which library version does the code for the {} need?
upgrade broke it, library version, new release, dependency, columns unchanged, incompatible
new release of a package broke processing of {}
===
Idempotent loads of the {}
Reruns appended the {} twice. Load into a staging area, then MERGE by natural key within a transaction.
running the job again doubles the {}
make the import of the {} safe to repeat
run twice, doubled rows, repeat safely, job again, upsert, double import, rerun
starting the ingestion of {} twice gives everything double
===
Schema contract for the {}
Upstream renamed a column of the {} without notice. Validate with pandera at the border, and fail early.
how do we notice that fields of the {} changed?
check structure of incoming {} automatically
column renamed, structure changed, unexpected fields, validation of input, headers, supplier, check
supplier altered headers of the {} and nobody saw it
===
Mask identifiers in the {}
The {} hold names and addresses. Pseudonymize with a keyed hash before anything leaves the trusted zone.
may the {} be shared with analysts outside?
personal details in the {} need protection
privacy, personal data, anonymize, sharing with others, GDPR, names, protection, pseudonym
anonymise people who appear in the {}
===
Outliers of the {} are real
The peaks in the {} come from quarter-end batches, and are no errors. Winsorize for plots alone.
should extreme values of the {} be removed?
spikes at the end of the quarter in the {}
spikes, extreme values, remove outliers, peaks, anomalies, quarter end, jumps
huge jumps in the {} every three months, delete them?
===
Stratified split for the {}
The classes of the {} are skewed 97 to 3. A random split leaves folds without positives: use StratifiedKFold.
model on the {} always predicts the majority
how do I divide the {} for training with rare cases?
imbalanced classes, rare cases, train and test split, cross validation, few positives, majority
validation score for {} is fine, but it never finds the few positives
===
Leakage in the {} features
The target of the {} was computed from closed_at, which was among the features. Exclude columns known only afterwards.
accuracy on the {} is suspiciously perfect
which columns of the {} must the model not see?
too good results, perfect accuracy, suspicious score, future information, forbidden columns, prediction
prediction with the {} looks too good to be true
===
Seed the sampling of the {}
Figures from the {} differed at each run. Give numpy's Generator a fixed seed, and sort before sampling.
results for the {} change every time, why?
make the analysis of the {} reproducible
random, reproducible, different results on each run, same numbers, seed, change every time
same notebook, other numbers for {} on each execution
===
Log scale for the {}
Histograms of the {} show one bar, as the distribution is lognormal. Plot log1p, and say so on the axis.
chart of the {} has just a single column
how to visualise the {} with such a long tail?
skewed distribution, long tail, histogram with one bar, chart, visualise, plot, axis
graph of {} squeezed into one corner
===
Rolling median for the {}
The mean over the {} reacts to glitches. A rolling median of seven days is robust, and what the dashboard shows.
how is the trend of the {} smoothed?
noise in the {} hides the development
smooth, noise, trend, jitter, moving average, curve, glitches, window
curve of the {} is too jittery to read
===
Timezone of the scheduler for the {}
Cron for the {} runs in UTC, while the cut-off is local midnight. Set CRON_TZ, or the last day is incomplete.
why is yesterday missing in the {}?
job for the {} starts at the wrong hour
cron, wrong hour, missing day, incomplete yesterday, schedule, midnight, start time, last day
final day of the {} has too few records
===
Disk full by the {} spool
Temporary files of the {} were never purged, and /var filled. A systemd-tmpfiles rule removes those older than three days.
no space left on device because of the {}
clean up leftovers of the {} import
no space left, disk full, storage ran out, clean up, delete temporary files, server, leftovers
server ran out of storage due to {}
===
Health check of the {} worker
The worker for the {} hung without exiting, so it was not restarted. Add a liveness probe on its heartbeat file.
processing of the {} stalls silently
how is a stuck consumer of the {} detected?
stuck process, hangs, no alarm, stalled, restart, monitoring, silent failure, heartbeat
nothing arrives from {} and no alarm was raised
===
Deadlock among {} writers
Two jobs locked rows of the {} in opposite order. Lock by ascending id, and keep transactions short.
processes updating the {} wait for each other
database aborts one of the updates of the {}
processes block each other, wait forever, lock, transaction aborted, concurrent updates, order
simultaneous changes to {} block forever
===
Backfill order of the {}
Backfills of the {} must run oldest first, since state carries over. Never in parallel.
how do I recompute history of the {}?
old periods of the {} processed again, in which sequence?
recompute history, old periods, rebuild the past, reprocess, sequence, previous months, from scratch
rebuild past months of the {} from scratch
===
Compression of the {} archive
gzip of the {} is single threaded. zstd level 6 halves the time at the same size.
packing the {} takes hours
which format for storing old {} compactly?
compress, zip, pack, archive takes long, storage format, smaller and faster, gzip
make the nightly zip of {} quicker
===
Late arrivals in the {}
Up to four percent of the {} come in two days after the event. Close a day at T+3, and restate.
why do totals of the {} still change afterwards?
when is a day of the {} final?
totals change afterwards, delay, final figures, numbers grow, days later, revised, close the day
numbers for {} grow days after publication
===
Currency of the {}
Amounts of the {} are in the local currency of each branch. Convert by the daily rate before you add them.
can values of the {} from different countries be summed?
exchange rates for the {}
exchange rate, different currencies, euros and dollars, sum amounts, countries, convert
totals of {} mix dollars and euros
===
Surrogate keys for the {}
Natural ids of the {} are recycled after deletion. Use the surrogate key, or histories of strangers merge.
two different people appear as one in the {}
are numbers in the {} reused?
reused ids, recycled numbers, two people mixed up, identity, wrong history, deleted records
identity mixed up in {} after something was erased
===
Vectorize the {} transform
apply with a lambda over the {} took eleven minutes. np.select does the same in two seconds.
row by row function on the {} is slow
speed up python loop over the {}
slow loop, row by row, apply is slow, speed up, faster calculation, each line, numpy
calculation for each line of {} lasts too long
===
Circular import in the {} package
models and views of the {} import each other. Move the shared types to a third module.
cannot import name, partially initialized, in the {} code
modules for the {} depend on one another
ImportError, cannot import name, modules depend on each other, partially initialized, startup, cycle
python complains at startup of the {} project about half loaded files
===
Async client for the {}
Requests for the {} ran one after the other. httpx with a semaphore of eight cut the pull to a tenth.
download pages of the {} concurrently
fetching the {} sequentially is wasteful
parallel requests, concurrency, faster download, one after the other, asyncio, network, many at once
get many {} over the network at once
===
Mock the clock in {} tests
Tests of the {} fail on the first of a month. Freeze time with a fixture in place of datetime.now.
flaky checks for the {} depending on the calendar
why do unit tests of the {} break some days?
flaky tests, fail on some days, date, calendar, month start, time in unit tests, freeze
test suite about {} red only at month start
===
Pickle of the {} model breaks
The stored model for the {} could not be unpickled after an upgrade of scikit-learn. Save as ONNX with its version.
saved estimator for the {} cannot be loaded any more
persist the predictor of the {} in a durable way
cannot load saved model, unpickle error, artefact, versions, persist, estimator, old file
opening last year's trained artefact for {} raises an error
===
Feature flag for the {} rewrite
The rewrite for the {} is behind a flag, default off. Compare both outputs for a week before switching.
how do we roll out the new {} code safely?
turn the replacement for the {} on and off
roll out, switch on and off, gradual release, new code, compare old and new, toggle, safe
gradual release of the changed {} logic
===
Ownership of the {}
The data platform team answers for the {}; changes need their review. Ask in their channel, not by mail.
who is responsible for the {}?
whom do I contact about the {}?
who is responsible, contact, owner, approve changes, team, person to ask, maintainer
person to approve modifications of {}
===
Retention of the {}
By contract the {} are deleted after 24 months. Aggregates may stay.
how long may we store the {}?
do old {} have to be erased?
how long to keep, deletion, legal limit, erase old data, contract, storage period, months
legal limit for keeping {}
===
Golden sample of the {}
A hundred hand-checked rows of the {} lie in tests/golden. Compare each release with them.
how do I know the {} pipeline is still correct?
reference rows for the {}
regression test, reference data, correct output, trusted rows, compare results, verify, check
something trustworthy to compare output for {} against
"""


@dataclass(frozen=True)
class Question:
    """A question, and the title of the entry that answers it."""

    text: str
    title: str


def entries(saved: int) -> list[MemoryEntry]:
    """The two thousand entries.

    Args:
        saved: What was saved with each: 0 nothing, 2 two questions, 3 other words as well.
    """
    made = []
    for number, (problem, subject) in enumerate(_pairs()):
        title, content, first, second, words, _ = problem
        formal, everyday = subject
        entry_id = f"l-{number:010x}"
        answers = (first.format(formal), second.format(everyday), words)[:saved]
        made.append(
            MemoryEntry(
                "lesson",
                title.format(formal),
                content.format(formal),
                "debugging",
                ("data",),
                "2026-01-01",
                entry_id,
                source_of(entry_id, Provenance("agent")),
                answers,
            )
        )
    return made


def questions() -> list[Question]:
    """The questions, spread evenly over problems and subjects."""
    pairs = list(_pairs())
    # A step without a common divisor with 2,000 meets every problem and every subject.
    chosen = (pairs[number * 1_237 % len(pairs)] for number in range(QUESTIONS))
    return [
        Question(problem[5].format(names[number % 2]), problem[0].format(names[0]))
        for number, (problem, names) in enumerate(chosen)
    ]


def _pairs() -> Iterator[tuple[tuple[str, ...], tuple[str, str]]]:
    problems = [tuple(part.strip().split("\n")) for part in PROBLEMS.split("===")]
    assert all(len(problem) == 6 for problem in problems)
    for problem in problems:
        for line in SUBJECTS.strip().split("\n"):
            formal, _, everyday = line.partition(" | ")
            yield problem, (formal, everyday)
