"""Secrets are taken out, and everything else is left alone."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_texts import HOLDING, ORDINARY

from jupyter_agent.core.redact import (
    MARK,
    keep_secret,
    redact,
    redact_json,
    secret_values,
    without_secrets,
)

# Put together from pieces, so that no scanner takes a test for a leak.
LETTERS = "Abc1Def2Ghi3Jkl4Mno5Pqr6Stu7Vwx8"
PEM = "PRIVATE " + "KEY-----"
SHAPES = {
    "anthropic": "sk-" + "ant-api03-" + LETTERS + "-_" + LETTERS,
    "openai": "sk-" + LETTERS,
    "openai project": "sk-" + "proj-" + LETTERS,
    "openai service": "sk-" + "svcacct-" + LETTERS,
    "openrouter": "sk-" + "or-v1-" + LETTERS.lower(),
    "github classic": "gh" + "p_" + LETTERS,
    "github oauth": "gh" + "o_" + LETTERS,
    "github server": "gh" + "s_" + LETTERS,
    "github fine-grained": "github" + "_pat_" + LETTERS,
    "slack": "xox" + "b-" + "123456789012-" + LETTERS,
    "aws": "AK" + "IA" + "ABCDEFGHIJKLMNOP",
    "google": "AI" + "za" + LETTERS + "abc",
    "hugging face": "h" + "f_" + LETTERS,
    "gitlab": "gl" + "pat-" + LETTERS,
    "jwt": "ey" + "J" + LETTERS + ".ey" + "J" + LETTERS + "." + LETTERS,
    "private key": f"-----BEGIN RSA {PEM}\nMIIE\nabc=\n-----END RSA {PEM}",
    "bare private key": f"-----BEGIN {PEM}\nMIIE\n-----END {PEM}",
}
AROUND = ("{}", "key={}", '"{}"', "a {} b", "({})", "line\n{}\nline", "'{}',", "https://u:{}@h/x")


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("around", AROUND)
def test_known_shapes(kind: str, around: str) -> None:
    """A key of a known shape is replaced anywhere; the words around it stay."""
    secret = SHAPES[kind]
    if kind == "google" and around == "https://u:{}@h/x":
        around = "{}"
    redacted = redact(around.format(secret))
    assert redacted == around.format(MARK)


def test_several_at_once() -> None:
    """Several secrets are replaced, and the text between them stays."""
    text = " and ".join(SHAPES.values())
    assert redact(text) == " and ".join([MARK] * len(SHAPES))


@pytest.mark.parametrize(
    ("header", "redacted"),
    [
        ("Authorization: Bearer abc.DEF-123_456", f"Authorization: Bearer {MARK}"),
        ("authorization: bearer abcDEF123456==", f"authorization: bearer {MARK}"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", f"Authorization: Basic {MARK}"),
        ('{"Authorization": "Bearer abcDEF123456"}', f'{{"Authorization": "Bearer {MARK}"}}'),
        ("'Authorization': 'Bearer abcDEF123456'", f"'Authorization': 'Bearer {MARK}'"),
        ("-H 'Authorization: Bearer abcDEF123456'", f"-H 'Authorization: Bearer {MARK}'"),
        ("BEARER abcDEF123456/+~", f"BEARER {MARK}"),
        (
            r"{\"Authorization\": \"Basic dXNlcjpwYXNzd29yZA==\"}",
            rf"{{\"Authorization\": \"Basic {MARK}\"}}",
        ),
        ("postgres://me:hunter22@db.example.org/x", f"postgres://me:{MARK}@db.example.org/x"),
        ("redis://:hunter22@[::1]:6379", f"redis://:{MARK}@[::1]:6379"),
    ],
)
def test_headers(header: str, redacted: str) -> None:
    """The credentials of a header are removed, and its name stays."""
    assert redact(header) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "28d7bf7 agent: the loop",
        "28d7bf7c1b2a3d4e5f60718293a4b5c6d7e8f901",
        "123e4567-e89b-12d3-a456-426614174000",
        "sha256:" + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "keyboard, monkey, tokenizer, secretary, passwords are hashed",
        "sk-learn and sk-image",
        "The key is in the drawer; the token was spent.",
        "risk-adjusted-return-on-capital",
        "task-force-on-climate-change-report.pdf",
        "mask-rcnn-resnet50-fpn-v2-weights",
        "disk-utilization-monitoring-tool",
        "a bearer of good news",
        "uses bearer authentication",
        "the standard bearer representatives",
        "Authorization: none",
        "https://example.org/very/long/path/without/any/secret?page=3",
        "http://localhost:8888/@me and git@example.org:me/it",
        'f"postgres://{user}:{password}@db/x"',
        "eyJ is how base64 of a brace begins",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "df.groupby('species')['body_mass_g'].mean()",
        "Gentoo 5,076.0 g ± 89.1",
        "ü 😀 \u2028",
        "",
    ],
)
def test_what_stays(text: str) -> None:
    """Hashes, ids and ordinary words are not redacted."""
    assert redact(text) == text


def found_in(environ: dict[str, str]) -> set[str]:
    """The secrets of an environment, without those that other tests have configured."""
    return set(secret_values(environ)) - set(secret_values({}))


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "PGPASSWORD",
        "OPENAI_APIKEY",
        "AZURE_CLIENT_SECRET",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "my_secret",
        "TOKEN",
        "passwd",
    ],
)
def test_names_of_secret_variables(name: str) -> None:
    """These names mark a variable as secret."""
    assert found_in({name: "a-long-value"}) == {"a-long-value"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KEYBOARD_LAYOUT", "de-nodeadkeys"),
        ("TOKENIZERS_PARALLELISM", "disabled-here"),
        ("PATH", "/usr/bin:/bin"),
        ("MONKEY", "a-long-value"),
        ("SECRETARY", "a-long-value"),
        ("API_KEY", "short"),
        ("API_KEY", ""),
    ],
)
def test_variables_that_are_no_secret(name: str, value: str) -> None:
    """Other names, and values too short to search for, mark no secret."""
    assert found_in({name: value}) == set()


def test_values_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values come from the process, longest first, so that none hides in another."""
    monkeypatch.setenv("A_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("B_TOKEN", "hunter2-hunter2-and-more")
    values = secret_values()
    assert values.index("hunter2-hunter2-and-more") < values.index("hunter2-hunter2")
    text = "use hunter2-hunter2-and-more, or hunter2-hunter2."
    assert redact(text, values) == f"use {MARK}, or {MARK}."


def test_values_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is set, changed or removed counts from then on."""
    assert "hunter2-hunter2" not in secret_values()
    monkeypatch.setenv("A_TOKEN", "hunter2-hunter2")
    assert "hunter2-hunter2" in secret_values() and "hunter2-hunter2" in secret_values()
    monkeypatch.setenv("A_TOKEN", "another-word-now")
    assert "another-word-now" in secret_values() and "hunter2-hunter2" not in secret_values()
    monkeypatch.delenv("A_TOKEN")
    assert "another-word-now" not in secret_values()


def test_an_environment_without_secrets() -> None:
    """Variables with the name of a secret, or a secret in their value, are left out."""
    kept = {"PATH": "/bin", "LANG": "C", "SEASON": "summer", "EMPTY": "", "COPY": "of-nothing"}
    secret = {
        "MY_TOKEN": "short",
        "OPENAI_API_KEY": "sk-of-the-person-1234",
        "BACKUP": "sk-of-the-person-1234",
        "DATABASE": "postgres://me:hunter2222@db.example/it",
    }
    assert without_secrets({**kept, **secret}) == kept


def test_a_configured_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that comes from the settings counts as soon as it is known."""
    monkeypatch.setattr("jupyter_agent.core.redact._CONFIGURED", set())
    assert "k-configured-1234" not in secret_values()
    keep_secret("k-configured-1234")
    assert "k-configured-1234" in secret_values()


def test_json() -> None:
    """Each string in a value is redacted, also as a key; the rest stays."""
    key = SHAPES["openai"]
    value = {"a": [key, 1, None, True, 2.5], "b": {"c": (f"x {key}",)}, key: "d"}
    redacted = redact_json(value)
    assert key not in json.dumps(redacted)
    assert redacted["a"] == [MARK, 1, None, True, 2.5]
    assert redacted["b"] == {"c": [f"x {MARK}"]}


@given(st.text(max_size=80), st.sampled_from(list(SHAPES.values())))
def test_redacting_twice_changes_nothing(text: str, secret: str) -> None:
    """The mark is no secret, so that texts can be compared after one or more passes."""
    once = redact(f"{text} {secret} {text}")
    assert secret not in once
    assert redact(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "sk-" * 300_000,
        "eyJ" * 300_000,
        "-----BEGIN " * 20_000,
        "bearer " * 100_000,
        "://a:" * 200_000,
        "Authorization" + "-" * 1_000_000,
    ],
)
@pytest.mark.timeout(10)
def test_long_texts_take_no_time(text: str) -> None:
    """No pattern takes long on a long text."""
    redact(text)


def test_folders_and_numbers_are_no_secrets() -> None:
    """Folders and numbers are not redacted: removing `PWD` would break every path in code."""
    environ = {
        "PWD": "/home/ann/project",
        "SSH_KEY_PATH": "/home/ann/.ssh/id",
        "TOKEN_LIMIT": "800000000",
        "DB_PASS": "correct-horse",
    }
    assert found_in(environ) == {"correct-horse"}


def _as_dash(text: str) -> str:
    return json.dumps({"c": f"x\n{text}"}).replace("-", r"\u002d").replace("=", r"\u003d")


WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "after a line": lambda text: f"first\n{text}",
    "in JSON": lambda text: json.dumps({"code": f"a = 1\n{text}\nb = 2"}),
    "in JSON in JSON": lambda text: json.dumps({"code": json.dumps({"x": f"a\n\t{text}"})}),
    "in JSON that was cut": lambda text: json.dumps({"code": f"a\n{text}"})[:-2],
    "with letters by their numbers": _as_dash,
    "as Python shows it": lambda text: repr(f"a\n{text}"),
    "in a page": lambda text: f"<p>{html.escape(text)}</p>",
}


@pytest.mark.parametrize("way", WRITTEN)
def test_secrets_however_they_are_written(way: str) -> None:
    """Escapes hide no secret; the text around it stays, and a second pass changes nothing."""
    write = WRITTEN[way]
    for text, secret in HOLDING:
        redacted = redact(write(text))
        forms = {secret, json.dumps(secret)[1:-1], html.escape(secret), _as_dash(secret)[10:-2]}
        assert not [form for form in forms if form in redacted], text
        assert MARK in redacted and redact(redacted) == redacted, text
        if way.startswith("in JSON") and "cut" not in way:
            assert isinstance(json.loads(redacted), dict), text


@pytest.mark.parametrize("way", WRITTEN)
def test_ordinary_texts_stay(way: str) -> None:
    """Code and prose about keys and passwords stay as they are."""
    for text in ORDINARY:
        written = WRITTEN[way](text)
        assert redact(written) == written


@given(st.permutations(HOLDING[:40]), st.sampled_from(["\n", "\t", "\\n", '"', " ", "\n\n  "]))
@settings(max_examples=20, deadline=None)
def test_secrets_beside_each_other(texts: list[tuple[str, str]], between: str) -> None:
    """Neighbouring secrets are all found, in any order."""
    redacted = redact(json.dumps(between.join(text for text, _ in texts[:12])))
    assert not [secret for _, secret in texts[:12] if secret in redacted]


def test_what_a_key_says() -> None:
    """A decoded value is secret if its key says so; numbers and structure stay."""
    value = {
        "password": "swordfish",
        "nested": [{"x-api-key": "abcd1234efgh", "n": 1.10, "token": 5}],
        "passwords": {"a": 1},
        "Authorization": "Basic dXNlcjpwYXNz",
        "Cookie": "sid=abc",
        "pairs": [["X-Auth-Token", "abcd1234efgh"], ["password", "username1"]],
        "arguments": '{"password": "swordfish", "n": 1}',
        "key": "value1234567890",
        "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk",
    }
    assert redact_json(value) == {
        **value,
        "password": MARK,
        "nested": [{"x-api-key": MARK, "n": 1.10, "token": 5}],
        "Authorization": f"Basic {MARK}",
        "Cookie": MARK,
        "pairs": [["X-Auth-Token", MARK], ["password", "username1"]],
        "arguments": f'{{"password": "{MARK}", "n": 1}}',
    }


def test_what_stands_under_a_key() -> None:
    """Several secrets below one key are redacted; their names and schemas stay."""
    value = {
        "passwords": {"ada": "swordfish", "n": 3, "older": ["swordfish", "abc", None]},
        "secrets": {"db": {"main": "abcd1234efgh"}},
        "pw": "hunter22",
        "Cookies": [{"name": "sessionid", "value": "k3jdh7qpz", "domain": "example.org"}],
        "cookies": {"theme": "dark", "sessionid": "abcdef"},
        "properties": {"passwords": {"type": "object", "title": "ManyPasswords1"}},
    }
    assert redact_json(value) == {
        **value,
        "passwords": {"ada": MARK, "n": 3, "older": [MARK, "abc", None]},
        "secrets": {"db": {"main": MARK}},
        "pw": MARK,
        "Cookies": [{"name": "sessionid", "value": MARK, "domain": "example.org"}],
        "cookies": {"theme": "dark", "sessionid": MARK},
    }


@pytest.mark.parametrize(
    "value", ["p@ss/w0rd&1", 'quo"te\\d-one', "plain-secret-1", "grün-und-geheim"]
)
def test_values_however_they_are_written(value: str) -> None:
    """An environment value is found escaped, percent-encoded, or in base64 with a user's name."""
    secrets = secret_values({"MY_API_KEY": value})
    forms = [json.dumps(value), json.dumps(json.dumps(value)), quote(value, safe=""), repr(value)]
    forms += [html.escape(value), f"{value}{value}", f"x{value}x"]
    for name in ("a", "ab", "abc", "someone"):
        forms.append(b64encode(f"{name}:{value}".encode()).decode())
        forms.append(urlsafe_b64encode(f"{name}:{value}:more".encode()).decode())
    for form in forms:
        assert MARK in redact(f"<{form}>", secrets), form
        left = redact(form, secrets).replace(MARK, "").strip("\"'\\x=")
        assert len(left) < 6, (form, left)


@pytest.mark.parametrize(
    "text",
    [
        "password=" * 20_000,
        'secret="' * 20_000,
        "token: x-" * 20_000,
        "\\n" * 100_000,
        "%41" * 60_000,
        "&amp;" * 40_000,
        "\\\\\\\\" * 40_000,
        "-----BEGIN PRIVATE KEY-----" * 6_000,
        "cookie: a=" * 20_000,
        "authorization: x" * 12_000,
        "--password" * 20_000,
        "?a=1&token=" * 18_000,
        "xoxa-1.xoxb-2." * 14_000,
        "eyJ.eyJaaaaaaaaaaaaa." * 10_000,
        "cookies={" * 20_000,
        'passwords=["' * 16_000,
        "secrets=[" + "'a1b2c3d4'," * 16_000,
        "%env API_KEY " * 14_000,
        "mysql -" * 25_000,
        "mysql " + "a -b " * 30_000,
        "redis-cli " * 18_000,
        "identified by '" * 12_000,
        "password (" * 18_000,
        "identified with " + "a" * 150_000,
        "cookies['" * 18_000,
        "pw=" * 60_000,
        " -uaaaa" * 25_000,
    ],
)
@pytest.mark.timeout(10)
def test_hostile_texts_take_no_time(text: str) -> None:
    """Redaction takes linear time, whatever the text."""
    redact(text)


def test_values_that_a_cut_ends() -> None:
    """A description cuts long values: the beginning of a secret is replaced, too, and of a key."""
    value = LETTERS * 2
    for length in (8, 29, 40):
        cut = f"a, {value[:length]}…, b…"
        assert redact(cut, (value,)) == f"a, {MARK}…, b…"
    assert redact(f"{value[:7]}… {value[:20]} and …", (value,)) == (
        f"{value[:7]}… {value[:20]} and …"
    )
    lines = f"-----BEGIN {PEM}\n" + f"{LETTERS * 2}\n" * 9
    for text in (json.dumps({"k": lines}), json.dumps(json.dumps({"k": lines}))):
        for length in (120, 200, 333):
            assert LETTERS not in redact(f"{text[:length]}…")
