"""Finds secrets in a text: known shapes of keys, and values with the name of a secret.

`spans` searches the text itself and the text with its escapes resolved, so that `\\n`, `\\"`,
`\\u0041`, `%2D` and `&amp;` hide nothing, even if they are escaped twice. The time is linear in
the length of the text, whatever its content.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache

MARK = "[redacted]"
"""Stands for a secret."""
_LEVELS = 3
"""The levels of escapes that are resolved."""

Span = tuple[int, int]

_WORDY = r"[\w\-]"
_ALNUM = r"[A-Za-z0-9]"
_TOKENS = {
    "sk-": rf"{_WORDY}{{16,}}",
    "sk_live_": rf"{_ALNUM}{{8,}}",
    "sk_test_": rf"{_ALNUM}{{8,}}",
    "rk_live_": rf"{_ALNUM}{{8,}}",
    "rk_test_": rf"{_ALNUM}{{8,}}",
    "whsec_": r"[A-Za-z0-9+/=_\-]{16,}",
    **{f"gh{kind}_": r"\w{20,}" for kind in "pousr"},
    "github_pat_": r"\w{20,}",
    "gl": r"(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct|wt)-[\w\-.]{16,}",
    "GR1348941": rf"{_WORDY}{{16,}}",
    "xox": r"[a-z]-[A-Za-z0-9\-]{10,}",
    "xapp-": rf"{_WORDY}{{16,}}",
    **{f"{kind}": r"[0-9A-Z]{16}(?![0-9A-Za-z])" for kind in ("AKIA", "ASIA", "ABIA", "ACCA")},
    "LTAI": rf"{_ALNUM}{{12,30}}(?![0-9A-Za-z])",
    "AIza": rf"{_WORDY}{{35}}",
    "GOCSPX-": rf"{_WORDY}{{20,}}",
    "ya29.": rf"{_WORDY}{{10,}}",
    "1//0": rf"{_WORDY}{{30,}}",
    "hf_": rf"{_ALNUM}{{20,}}",
    "npm_": rf"{_ALNUM}{{20,}}",
    "pypi-": rf"{_WORDY}{{16,}}",
    "SG.": rf"{_WORDY}{{16,}}(?:\.{_WORDY}{{10,}})?",
    "dapi": r"[0-9a-zA-Z]{20,}(?:-\d)?",
    "SK": r"[0-9a-f]{32}(?![0-9A-Za-z])",
    "key-": r"[0-9a-f]{32}(?![0-9A-Za-z])",
    "shp": r"(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "sq0": rf"[a-z]{{3}}-{_WORDY}{{22,}}",
    "EAAA": rf"{_WORDY}{{56,}}",
    "do": r"[opr]_v1_[0-9a-f]{32,}",
    "lin_api_": rf"{_ALNUM}{{20,}}",
    "secret_": rf"{_ALNUM}{{40,}}",
    "ntn_": rf"{_ALNUM}{{30,}}",
    "PMAK-": rf"{_WORDY}{{20,}}",
    "pat": r"[A-Za-z0-9]{14}\.[0-9a-f]{64}",
    "gsk_": rf"{_ALNUM}{{20,}}",
    "xai-": rf"{_ALNUM}{{20,}}",
    "pplx-": rf"{_ALNUM}{{20,}}",
    "r8_": rf"{_ALNUM}{{20,}}",
    "tvly-": rf"{_WORDY}{{16,}}",
    "nvapi-": rf"{_WORDY}{{20,}}",
    "lsv2_": r"(?:pt|sk)_\w{20,}",
    "hvs.": rf"{_WORDY}{{20,}}",
    "hvb.": rf"{_WORDY}{{20,}}",
    "dp.": rf"(?:pt|st|sa|ct|scim|audit)\.{_WORDY}{{20,}}",
    "dckr_pat_": rf"{_WORDY}{{16,}}",
    "rubygems_": r"[0-9a-f]{32,}",
    "sbp_": r"[0-9a-f]{32,}",
    "pscale_": r"(?:tkn|pw|oauth)_[\w\-.]{20,}",
    "pul-": r"[0-9a-f]{32,}",
    "gls": r"a_\w{20,}",
    "glc_": r"[A-Za-z0-9+/=]{20,}",
    "NRAK-": rf"{_ALNUM}{{20,}}",
    "dt0c01.": r"[A-Z0-9.]{30,}",
    "sntry": r"[su]_[\w+/=\-]{20,}",
    "figd_": rf"{_WORDY}{{20,}}",
    "ATATT3": r"[\w\-=]{20,}",
    "ops_eyJ": r"[A-Za-z0-9+/=_\-]{40,}",
    "AGE-SECRET-KEY-1": r"[A-Z0-9]{40,}",
    "HRKU-": rf"{_WORDY}{{20,}}",
    "dkea": r"[0-9a-f]{32}(?:-\d)?",
    "dose": r"[0-9a-f]{32}(?:-\d)?",
    "dckr_oat_": rf"{_WORDY}{{16,}}",
    "api_org_": rf"{_ALNUM}{{20,}}",
    "sb_secret_": rf"{_WORDY}{{20,}}",
    "wandb_v1_": rf"{_WORDY}{{20,}}",
    "KGAT_": rf"{_ALNUM}{{20,}}",
    "nfp_": rf"{_ALNUM}{{32,}}",
    "vcp_": rf"{_ALNUM}{{20,}}",
    "fm2_": r"[\w+/=\-]{40,}",
    "fw_": rf"{_ALNUM}{{20,}}",
    "tgp_v1_": rf"{_WORDY}{{20,}}",
    "pcsk_": rf"{_WORDY}{{40,}}",
    "fc-": r"[0-9a-f]{32}(?![0-9A-Za-z])",
    "sk_": r"[0-9a-f]{48}(?![0-9A-Za-z])",
    "re_": rf"{_ALNUM}{{8}}_{_ALNUM}{{24}}",
    "xkeysib-": r"[0-9a-f]{40,}(?:-\w{10,})?",
    "rzp_": rf"live_{_ALNUM}{{14,}}",
    "ABSK": r"[A-Za-z0-9+/]{60,}={0,2}",
    "AKID": rf"{_ALNUM}{{32}}(?![0-9A-Za-z])",
    "ATBB": rf"{_ALNUM}{{24,}}",
    "ATCTT3": r"[\w\-=]{20,}",
    "CFPAT-": rf"{_WORDY}{{40,}}",
    "CCIPAT_": rf"{_WORDY}{{20,}}",
    "bkua_": r"[0-9a-f]{40}",
    "oy2": r"[a-z0-9]{43}(?![0-9A-Za-z])",
    "cio": rf"{_ALNUM}{{32}}(?![0-9A-Za-z])",
    "pnu_": rf"{_ALNUM}{{36}}",
    "sl.": rf"{_WORDY}{{60,}}",
    "sk.eyJ": rf"{_WORDY}{{20,}}\.{_WORDY}{{16,}}",
    "phx_": rf"{_ALNUM}{{32,}}",
    "eyJ": rf"{_WORDY}{{10,}}\.eyJ{_WORDY}{{10,}}\.{_WORDY}{{6,}}",
}
"""The beginnings of known keys, each with a pattern for the rest."""

_HOOKS = re.compile(
    r"(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/"
    r"|webhook\.office\.com/webhookb2/"
    r"|hooks\.zapier\.com/hooks/catch/"
    r"|(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/"
    r"|ifttt\.com/trigger/\w{1,80}/with/key/"
    r"|api\.telegram\.org/(?:file/)?bot)"
    r"(?P<secret>[^\s\"'`<>{}()\\\[\]]{8,})"
)
_TELEGRAM = re.compile(r"(?<!\d)\d{8,10}:AA[\w\-]{30,}")
_DISCORD = re.compile(r"(?<![\w\-.])[MNO][\w\-]{22,28}\.[\w\-]{6,7}\.[\w\-]{27,45}(?![\w\-])")
_WITHIN = {
    ":AA": _TELEGRAM,
    ".": _DISCORD,
    "Q~": re.compile(r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.\-]{31,34}(?![\w~\-])"),  # Azure
    "JQQJ9": re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{52}JQQJ9[A-Za-z0-9]{20,27}(?![A-Za-z0-9])"),
    "AZDO": re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{52}\w{20,24}AZDO\w{4}(?![A-Za-z0-9])"),
    ".atlasv1.": re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w\-]{60,}"),
    "-us": re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{32}-us\d{1,2}(?![0-9A-Za-z])"),
}
"""Keys that are known by a part in their middle, which comes first."""
_RUN = re.compile(r"[A-Za-z0-9_\-]{13,}")
_CUT = re.compile(r"\n?\[\.\.\. [\d,]{1,15} characters left out[^\]\n]{0,300}\]\n?")
_LAST_WORD = re.compile(r"[^\s\"'\\\[\]]{6,}\Z")
_FIRST_KEY_LINES = re.compile(
    r"(?P<secret>[^\s\"'\\\[\]]{6,}(?:\s{1,8}[A-Za-z0-9+/=]{16,80}(?![^\s\"'\\]))*+)"
)
_LIKE_A_KEY = re.compile(r"\d|[A-Za-z]{16}")
_WORD = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]")
_PEM = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LONGEST = 20_000
_PEM_LINE = re.compile(
    r"(?:(?:[\s\"'>|│+\-]|\\{1,4}[nr]){0,40}(?:\d{1,6}[ \t:|→]{1,4})?"
    r"[A-Za-z0-9+/=]{16,80}(?![^\s\"'\\…]))*+"
)
_IN_ADDRESS = re.compile(
    r"://[^\s/:@'\"\\{}<>]{0,100}:(?P<secret>[^\s/'\"\\{}<>]{3,200})(?=@[\w.\[-])"
)
_USER_IN_ADDRESS = re.compile(r"https?://(?P<secret>[\w\-.]{20,200})(?=@[\w.\[-])")
_BEARER = re.compile(
    r"bearer(?<![a-z0-9_]bearer)\s{1,4}(?=\S{0,200}?[0-9=~+/])(?P<secret>[a-z0-9._~+/=\-]{12,})"
)
_AUTHORIZATION = re.compile(
    r"authorization[\"'`\])]{0,2}\s{0,3}(?P<join>[:=,])\s{0,3}[rbuf]{0,2}(?P<quote>[\"'`]?)"
    r"(?:(?:aws4-hmac-sha256|[a-z][a-z\-]{1,24})\s{1,3})?+"
    r"(?P<secret>[^\s\"'`,;<>{}()\[\]$\\]{6,}(?:,\s{0,3}[\w\-]+=[^\s\"'`,;<>{}\\]+)*)"
)
_COOKIE = re.compile(
    r"cookie(?:[\"'`]\s{0,3},|[\"'`]?\s{0,3}[:=])\s{0,3}[rbuf]{0,2}[\"'`]?"
    r"(?P<secret>[\w.\-%$!]{1,100}=[^\s;\"'`{}<>$\\][^\r\n\"'`\\]{2,8000})"
)
_QUERY = re.compile(
    r"[?&#](?P<name>[\w.\-]{0,40}?(?:key|token|secret|sig|signature|auth|password|passwd|pwd|pass"
    r"|sas|jwt|hmac|session|sessionid|sid|appid|credential|assertion|code_verifier))"
    r"=(?P<secret>[^\s\"'`&<>#{}\\()\[\],]{3,2000})"
)
_HAS_CREDENTIALS = re.compile(r"[0-9=]|[a-z][A-Z]")
_PAIR = re.compile(
    r"(?:auth\s{0,3}=\s{0,3}\(|(?:basic|digest|proxy)auth\(|\.login\()\s{0,20}"
    r"[\"'][^\"'\n]{0,100}[\"']\s{0,3},\s{0,20}[\"'](?P<secret>[^\"'\n{}]{3,300})[\"']"
)
_NETRC = re.compile(
    r"(?:login\s{1,4}\S{1,100}\s{1,4}password\s{1,4}|sshpass -p ?)(?P<secret>[^\s\"'$\\]{3,300})"
)
_CREDENTIALS = re.compile(r"(?:[A-Za-z][A-Za-z0-9\-]{1,24}\s+)?(\S.{5,})", re.DOTALL)
_SAS = re.compile(r"(?<![a-z0-9_])sig=(?P<secret>[a-z0-9%+/_\-]{16,}={0,2})")
_OPTION = re.compile(
    r"--(?<![\w\-]--)(?=[a-z])[\w\-]{0,40}?(?:password|passwd|pwd|passphrase|token|secret|api-?key|access-?key"
    r"|secret-?key)\s{1,4}(?P<quote>[\"']?)(?P<secret>[^\s\"'`\-<>{}$\\][^\s\"'`<>{}\\]{2,300})"
)
_USER_OPTION = re.compile(
    r"(?:\s-u[ =]{0,3}|(?:--user|--proxy-user)[ =]{1,3})[\"']?[\w.@\-]{1,80}"
    r":(?P<secret>[^\s\"'`{}$\\]{3,300})"
)
_ENV_MAGIC = re.compile(
    r"%(?:set_)?env[ \t]{1,8}(?P<name>[A-Za-z_]\w{0,80})[ \t]{1,8}[\"']?"
    r"(?P<secret>[^\s\"'`<>{}$\\=][^\s\"'`<>{}\\]{2,300})"
)
_MYSQL = re.compile(
    r"(?i:mysql|mariadb)\w{0,12}[ \t][^\n|;]{0,200}?(?<=\s)(?:-p|--password[ =])"
    r"[\"']?(?P<secret>[^\s\"'`<>{}$\\\-][^\s\"'`<>{}\\]{2,300})"
)
_QUOTED_OPTION = re.compile(r"(?<=\s)-p(?P<quote>[\"'])(?P<secret>[^\s\"'\\:]{3,300})(?P=quote)")
"""A quoted `-p` option whose command's name was cut off."""
_REDIS = re.compile(
    r"redis-cli[ \t][^\n|;]{0,200}?(?<=\s)-a [\"']?(?P<secret>[^\s\"'`<>{}$\\]{3,300})"
)
_SQL = re.compile(
    r"(?:identified\s{1,4}(?:with\s{1,4}[\w'\"]{1,60}\s{1,4})?(?:by|as)\s{1,4}(?:password\s{1,4})?"
    r"|(?<![\w.])password\s{0,4}(?P<open>\(?)\s{0,4}(?<=[\s(]))"
    r"(?P<quote>[\"'])(?P<secret>[^\"'\n\\]{3,200})(?P=quote)"
)
_SQL_BEFORE = re.compile(
    r"(?:with|encrypted|role\s{1,4}\S{1,60}|user\s{1,4}\S{1,60}|login)\s{1,4}\Z"
)
_COOKIE_SET = re.compile(
    r"cookies?(?:\.set\(\s{0,4}|\[)(?P<mark>[\"'])[^\"'\n]{1,80}(?P=mark)\]?\s{0,4}[,=]\s{0,4}"
    r"(?P<quote>[\"'])(?P<secret>[^\"'\n\\]{4,2000})(?P=quote)"
)
_MANY = re.compile(
    r"(?P<core>passwords|passwds|passphrases|secrets|credentials|cookies)[\"'`]?\]?"
    r"(?:\s?:\s?[a-z][\w.\[\], ]{0,40}?)?\s{0,4}[:=]\s{0,4}"
    r"(?:(?:dict|list|tuple|set|frozenset)(?=\())?(?=[\[{(])"
)
_PIECE = re.compile(
    r"(?P<open>[\[{(])|(?P<close>[\]})])|(?P<name>[A-Za-z_]\w{0,80})\s?=(?!=)"
    r"|(?<!\\)(?:\"(?P<double>[^\"\\\n]{0,400})\"|'(?P<single>[^'\\\n]{0,400})')(?P<colon>\s{0,2}:)?"
)
_MANY_LONGEST = 4_000
"""Characters of a list or a mapping of secrets that are looked through."""
_MOST_UNCLOSED = 50
"""Lists and mappings without an end, in one text, in which others are looked for."""
_QUOTED_WORD = re.compile(r"(?P<quote>[\"'])(?P<secret>[^\s\"'\\\[\]]{4,300})(?P=quote)")
_XML = re.compile(
    r"<[\w.:\-]{0,40}?(?:password|passwd|pwd|secret|token|key)>(?P<secret>[^<>\s]{3,2000})(?=</)"
)

# A name, what joins it to a value, the value -----------------------------------------------------

_SITE = re.compile(
    r"(?P<core>pass(?:word|wd|phrase|code)?|pwd|pw(?<![a-z0-9]pw)|secret|token|key|credentials?|signature)"
    r"\d{0,2}(?P<close>[\"'`]?\]?)"
    r"(?P<join>\s{0,12}(?:=>|:=|=(?![=~])|:(?![:=/]))|\s?,(?=\s?[rbuf]{0,2}[\"'])|\s(?:is|was):?(?=\s))"
)
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789_-"
_FIRST_WORDS = ("api ", "access ", "secret ", "auth ", "private ", "account ", "bearer ", "bot ")
_ANNOTATION = re.compile(r"\s{0,4}[A-Za-z_][\w.]*(?:\[[\w. |,]*\])?(?:\s?\|\s?None)?\s{0,4}=(?!=)")
_OPENING = re.compile(
    r"\s{0,12}(?:\w{0,20}[Ss]ecret\w{0,20}\()?[rbufRBUF]{0,2}(?P<quote>\"\"\"|'''|[\"'`])"
)
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.)*+", re.DOTALL) for quote in ('"', "'", "`")}
_BARE = re.compile(r"[ \t]{0,12}(?P<value>[^\s\"'`,;&<>()\[\]{}|\\]{3,400})(?P<after>\s*.)?")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_NUMBER = re.compile(r"[+\-]?[\d.,_]+(?:[eE][+\-]?\d+)?%?")
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w.\-/ ]*|[A-Za-z]:[\\/].*"
    r"|[\w.\-/]+\.(?:pem|key|crt|json|ya?ml|txt|env|py|toml)"
)
_PLACEHOLDER = re.compile(
    r"(?i)[x*.•…#?_\-]+|<.*|\$.*|%[(s].*|@\w+|[^.…]{0,8}(?:\.\.\.|…).*|.*(?:\{|\[redacted\]|<\||</).*"
    r"|(?:your|my|the|some|enter|insert|put|dummy|fake|example)[ _\-].*|\[[a-z_]+\]"
    r"|(?:user_?)?pass(?:word|wd|phrase)?|passwort|pwd|secret|tokens?|api[_\-]?keys?|key|none|null|nil"
    r"|true|false|str|string|text|bytes|int|float|bool|any|object|optional|required|hidden|prompt"
    r"|empty|unset|undefined|default|not[_\-]?needed|lm[_\-]studio|username|literal|secret(?:str|bytes)|string\?"
)
_PROSE = re.compile(
    r"\b(?:the|a|an|of|for|to|is|are|your|user|must|enter|please|passwords?|keys?|tokens?|not|in|or"
    r"|and|with|from|this|that|be|if|it|no|on|by)\b|[\"'=:(){}\[\]]"
)
_RANDOM_RUN = re.compile(r"(?=[A-Za-z]{0,64}\d)(?=\d{0,64}[A-Za-z])[A-Za-z0-9]{8,}")
_KEYS = (
    *("api", "access", "secret", "account", "private", "signing", "encryption", "master", "auth"),
    *("subscription", "service", "storage", "functions", "app", "application", "deploy", "hmac"),
    *(
        "jwt",
        "consumer",
        "client",
        "webhook",
        "admin",
        "role",
        "anon",
        "session",
        "license",
        "azure",
    ),
)
_TOKEN_KINDS = (
    *("access", "auth", "api", "refresh", "id", "bearer", "bot", "private", "session", "security"),
    *(
        "personal",
        "deploy",
        "github",
        "gitlab",
        "hf",
        "slack",
        "npm",
        "pypi",
        "csrf",
        "xsrf",
        "job",
    ),
    *("registration", "service", "admin", "root", "vault", "oauth", "client", "user", "telegram"),
)
_OF_TEXTS = ("eos", "bos", "pad", "unk", "sep", "cls", "mask", "special", "sub", "end", "start")
_OTHER_KEYS = ("primary", "foreign", "public", "sort", "partition", "cache", "host", "unique")
_HOLDERS = ("passwords", "passwds", "passphrases", "secrets", "credentials", "cookies")
_HOLDS_SEVERAL = re.compile("|".join((*_HOLDERS, "cookie")))
_ABOUT = (
    *("name", "domain", "path", "expires", "samesite", "priority", "url", "host", "user"),
    *("username", "login", "type", "title", "description", "format", "mode", "provider", "backend"),
    *("region", "endpoint", "version", "issuer", "scope", "scopes", "audience", "driver"),
)
"""Names of values beside a secret that are no secrets."""
_OF_SESSION = re.compile(r"(?i)sess|sid|auth|token|csrf|xsrf|jwt")
_PASSWORD, _KEY, _WEAK, _NOTHING = 3, 2, 1, 0
_CODE_WORDS = re.compile(r"(?i)passw|pwd|^pw|token|secret|key|_")


def spans(text: str) -> list[Span]:
    """The places of the secrets in a text, in order and without overlaps."""
    return merged(_spans(text, _LEVELS))


def merged(found: list[Span]) -> list[Span]:
    """The places in order; overlapping ones are merged."""
    result: list[Span] = []
    for start, end in sorted(found):
        if result and start < result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((start, end))
    return result


def replaced(text: str, found: list[Span]) -> str:
    """The text with `[redacted]` in these places, which are in order and do not overlap."""
    parts: list[str] = []
    last = 0
    for start, end in found:
        parts += text[last:start], MARK
        last = end
    return "".join([*parts, text[last:]])


def part_of(name: str, value: str) -> Span | None:
    """The place of the secret in a value with the name of a secret; None if it holds none.

    For decoded data, for instance `{"password": …}` or `{"Authorization": "Basic …"}`.
    """
    if not _may_name_secret(name[-100:]):
        return None
    lowered = name.lower()
    if lowered.endswith("authorization"):
        found = _CREDENTIALS.fullmatch(value)
        is_one = found is not None and _HAS_CREDENTIALS.search(found[1])
        return found.span(1) if found and is_one and MARK not in value else None
    if lowered.endswith(("cookie", "cookies")):
        return (0, len(value)) if "=" in value.strip("=") and MARK not in value else None
    site = _SITE.search(f"{lowered[-100:]}: ")
    assert site is not None  # `_may_name_secret` found one
    strength = _strength(_before(lowered[-100:], site.start()), site["core"], name)
    return (0, len(value)) if _is_quoted_secret(value, strength) else None


@lru_cache(2_000)
def _may_name_secret(name: str) -> bool:
    lowered = name.lower()
    if lowered.endswith(("authorization", "cookie", "cookies")):
        return True
    found = _SITE.search(f"{lowered}: ")
    return found is not None and bool(
        _strength(_before(lowered, found.start()), found["core"], name)
    )


# The text with its escapes resolved --------------------------------------------------------------

_ESCAPE = re.compile(
    r"\\(?:u00(?P<u>[2-7][0-9a-fA-F])|x(?P<x>[2-7][0-9a-fA-F])|(?P<c>[\"'\\/bfnrt]))"
    r"|%(?P<p>[2-7][0-9A-Fa-f])"
    r"|&(?:(?P<named>amp|quot|apos|lt|gt)|#(?:x(?P<h>[2-7][0-9a-fA-F])|0?(?P<d>[3-9]\d|1[01]\d)));"
)
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ENTITIES = {"amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">"}


def _spans(text: str, levels: int) -> list[Span]:
    found = list(_plain_spans(text))
    if levels and ("\\" in text or "%" in text or "&" in text):
        view, places, origins = _unescaped(text)
        if places:

            def origin(place: int) -> int:
                at = bisect_right(places, place) - 1
                return place if at < 0 else origins[at] + place - places[at]

            found += [(origin(start), origin(end)) for start, end in _spans(view, levels - 1)]
    return found


def _unescaped(text: str) -> tuple[str, list[int], list[int]]:
    """The text with its escapes resolved, the start of each of its parts there, and in `text`."""
    parts: list[str] = []
    places: list[int] = []
    origins: list[int] = []
    last = length = 0
    for match in _ESCAPE.finditer(text):
        start, end = match.span()
        length += start - last
        parts += text[last:start], _character(match)
        places += length, length + 1
        origins += start, end
        length += 1
        last = end
    return "".join([*parts, text[last:]]), places, origins


def _character(match: re.Match[str]) -> str:
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    if kind == "c":
        return _CHARACTERS.get(value, value)
    if kind == "named":
        return _ENTITIES[value]
    return chr(int(value, 10 if kind == "d" else 16))


# One text as it stands ---------------------------------------------------------------------------


def _plain_spans(text: str) -> Iterator[Span]:
    if len(text) < 6:
        return
    yield from _tokens(text)
    lowered = text.lower()
    if len(lowered) != len(text):  # some letters become two: lower ASCII alone
        lowered = text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    if "://" in text:
        yield from _all(_IN_ADDRESS, text)
        yield from (span for span in _all(_USER_IN_ADDRESS, text) if _is_random(text, *span))
    if "private key" in lowered:
        yield from _pems(text)
    if "hook" in lowered or "api.telegram" in lowered or "ifttt" in lowered:
        yield from _all(_HOOKS, lowered)
    if " characters left out" in text:
        yield from _beside_cuts(text)
    if "=" in text:
        yield from _queries(text, lowered)
    if "auth" in lowered or "bearer" in lowered or "cookie" in lowered:
        yield from _headers(text, lowered)
    if "login" in lowered or "sshpass" in text:
        yield from _all(_NETRC, lowered)
        yield from _all(_PAIR, lowered)
    yield from _commands(text, lowered)
    if "identified" in lowered or "password" in lowered:
        yield from _statements(text, lowered)
    if _HOLDS_SEVERAL.search(lowered):
        yield from _many(text, lowered)
        yield from _set_cookies(text, lowered)
    yield from _assigned(text, lowered)


def _all(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for match in pattern.finditer(text):
        start, end = match.span("secret")
        if MARK not in text[start:end] and not text.startswith("$", start):
            yield start, end


def _tokens(text: str) -> Iterator[Span]:
    """Keys with a known beginning and a long run of letters and digits, rare in words."""
    done = 0
    within = [pattern for part, pattern in _WITHIN.items() if part in text]
    for run in _RUN.finditer(text):
        if run.end() <= done or not _is_random(text, *run.span()):
            continue
        for word in _WORD.finditer(text, max(done, run.start() - 12), run.end()):
            if word.start() >= done and (key := _token().match(text, word.start())):
                done = key.end()
                if _is_random(text, *key.span()):
                    yield key.span()
        before = max(0, run.start() - 40)
        for pattern in within:
            if found := pattern.search(text, before, min(run.end() + 40, before + 300)):
                yield found.span()


@cache
def _token() -> re.Pattern[str]:
    ways = []
    for prefix, tail in _TOKENS.items():
        apart = r"(?<![A-Za-z0-9])"
        if prefix == "eyJ":  # not behind a hyphen, but for that of a diff: this takes linear time
            apart = r"(?:(?<![A-Za-z0-9_-])|(?<=[\s\"'>|]-)|(?<=\A-))"
        ways.append(rf"{apart}{re.escape(prefix)}{tail}")
    return re.compile("|".join(ways))


def _is_random(text: str, start: int, end: int) -> bool:
    """True if the text is neither a word nor words joined by hyphens."""
    return _LIKE_A_KEY.search(text, start, end) is not None


def _pems(text: str) -> Iterator[Span]:
    for match in _PEM.finditer(text):
        ending = _PEM_END.search(text, match.end(), match.end() + _PEM_LONGEST)
        if ending is not None:
            yield match.start(), ending.end()
        elif body := _PEM_LINE.match(text, match.end()):  # it was cut
            yield match.start(), body.end()


def _beside_cuts(text: str) -> Iterator[Span]:
    """Possible secrets beside the cuts of a shortened text, whose names are cut off.

    They are halves of keys, and the quoted words of the first line.
    """
    for cut in _CUT.finditer(text):
        before = _LAST_WORD.search(text, max(0, cut.start() - 200), cut.start())
        if before and _RANDOM_RUN.search(before[0]):
            yield before.span()
        after = _FIRST_KEY_LINES.match(text, cut.end())
        if after and _RANDOM_RUN.search(after[0][:200]):
            yield after.span("secret")
        end = text.find("\n", cut.end() + 1)
        first_line = (cut.end(), min(cut.end() + 300, len(text) if end < 0 else end))
        yield from (found.span("secret") for found in _QUOTED_WORD.finditer(text, *first_line))


def _queries(text: str, lowered: str) -> Iterator[Span]:
    if "?" in text or "&" in text or "#" in text:
        for match in _QUERY.finditer(lowered):
            start, end = match.span("secret")
            value = text[start:end]
            common = match["name"] in (
                "key",
                "session",
                "sid",
                "auth",
                "pass",
                "appid",
                "signature",
            )
            if common and not _RANDOM_RUN.search(value):
                continue
            if not _PLACEHOLDER.fullmatch(value) and not _CONSTANT.fullmatch(value):
                yield start, end
    if "sig=" in lowered:
        for start, end in _all(_SAS, lowered):
            if any(map(str.isdigit, text[start:end])):
                yield start, end


def _headers(text: str, lowered: str) -> Iterator[Span]:
    yield from _all(_BEARER, lowered)
    for match in _AUTHORIZATION.finditer(lowered):
        start, end = match.span("secret")
        value = text[start:end]
        is_name = match["join"] == "=" and not match["quote"] and _IDENTIFIER.fullmatch(value)
        is_code = text[end : end + 1] in ("(", "[", ")", ",") and _IDENTIFIER.fullmatch(value)
        if not _HAS_CREDENTIALS.search(value) or value.lower().startswith("x-"):
            continue
        if not is_name and not is_code and not _PLACEHOLDER.fullmatch(value):
            yield start, end
    yield from _all(_COOKIE, lowered)
    yield from _all(_PAIR, lowered)


def _options(text: str, lowered: str) -> Iterator[Span]:
    for match in _OPTION.finditer(lowered):
        start, end = match.span("secret")
        value, after = text[start:end], text[end : end + 3]
        is_word = value.isalpha() and not match["quote"] and after.lstrip()[:1] not in ("-", "")
        if not is_word and not _PLACEHOLDER.fullmatch(value) and not _PATH.fullmatch(value):
            yield start, end


def _commands(text: str, lowered: str) -> Iterator[Span]:
    """Arguments of magics and programs."""
    if "--" in text:
        yield from _options(text, lowered)
    if " -u" in text or "--user" in text or "--proxy-user" in text:
        yield from _all(_USER_OPTION, lowered)
    if "env " in text or "env\t" in text:
        for match in _ENV_MAGIC.finditer(text):
            if _may_name_secret(match["name"]) and _is_argument(match["secret"]):
                yield match.span("secret")
    if "mysql" in lowered or "mariadb" in lowered:
        yield from (found.span("secret") for found in _MYSQL.finditer(text))
    if " -p" in text:
        yield from _all(_QUOTED_OPTION, text)
    if "redis-cli" in text:
        yield from _all(_REDIS, text)


def _is_argument(value: str) -> bool:
    return not (_PLACEHOLDER.fullmatch(value) or _PATH.fullmatch(value))


def _statements(text: str, lowered: str) -> Iterator[Span]:
    """Passwords in statements of SQL."""
    for match in _SQL.finditer(lowered):
        start, end = match.span("secret")
        value = text[start:end]
        is_sql = match["open"] is None or _SQL_BEFORE.search(
            lowered, max(0, match.start() - 80), match.start()
        )
        if not _is_quoted_secret(value, _PASSWORD if is_sql else _KEY):
            continue
        if is_sql or _is_mixed(value):
            yield start, end


def _many(text: str, lowered: str) -> Iterator[Span]:
    """Secrets in a list or a mapping whose name says that it holds several."""
    done = unclosed = 0
    for site in _MANY.finditer(lowered):
        if site.start() < done:
            continue
        done = end = min(site.end() + _MANY_LONGEST, len(text))
        inside: list[bool] = []  # for each open bracket: is it a call's or a subscript's?
        name = ""
        for piece in _PIECE.finditer(text, site.end(), end):
            part = "double" if piece["double"] is not None else "single"
            if piece["open"]:
                before = text[piece.start() - 1]
                inside.append(bool(inside) and (before.isalnum() or before in "_)]"))
            elif piece["close"]:
                inside.pop()
                if not inside:
                    done = piece.end()
                    break
            elif piece["name"] or piece["colon"]:
                name = piece["name"] or piece[part]
            elif not any(inside):
                if is_one_of(site["core"], name, piece[part]):
                    yield piece.span(part)
                name = name if len(inside) > 1 else ""
        if inside and unclosed < _MOST_UNCLOSED:
            # Its end was cut off: the search goes on right behind its start.
            unclosed, done = unclosed + 1, site.end()


def _set_cookies(text: str, lowered: str) -> Iterator[Span]:
    """Cookies that are set by a call or by a key."""
    for match in _COOKIE_SET.finditer(lowered):
        if _is_quoted_secret(text[slice(*match.span("secret"))], _PASSWORD):
            yield match.span("secret")


def holds_secrets(name: str) -> bool:
    """True if the name of a mapping or a list says that its items are secret."""
    return name.lower().endswith(_HOLDERS)


def is_one_of(holder: str, name: str, value: str) -> bool:
    """True if a text in a mapping or a list of secrets is secret itself.

    Args:
        holder: The name of the mapping or list, for instance `passwords` or `cookies`.
        name: The text's own key; empty if it has none.
        value: The text.
    """
    if name.lower() in _ABOUT or holder.lower() in value.lower():
        return False
    is_surest = holder.lower().endswith("cookies") and _OF_SESSION.search(name)
    return not any(map(str.isspace, value)) and _is_quoted_secret(
        value, _PASSWORD if is_surest else _KEY
    )


def _assigned(text: str, lowered: str) -> Iterator[Span]:
    if "</" in text:
        yield from _all(_XML, lowered)
    done = 0
    for site in _SITE.finditer(lowered):
        if site.start() < done:
            continue
        before = _before(lowered, site.start())
        core_end = site.end("core")
        strength = _strength(before, site["core"], text[site.start() - len(before) : core_end])
        span = _value(text, site, before, strength) if strength else None
        if span is not None:
            yield span
            done = span[1]


def _before(lowered: str, start: int) -> str:
    """The part of a name before its last word."""
    chunk = lowered[max(0, start - 40) : start]
    name = chunk[len(chunk.rstrip(_NAME)) :]
    if not name and chunk.endswith(_FIRST_WORDS):
        return chunk[chunk.rstrip().rfind(" ") + 1 :]
    return name


@lru_cache(2_000)
def _strength(before: str, core: str, name: str) -> int:
    """How surely a name says that its value is secret.

    Args:
        before: The name up to its last word, in small letters.
        core: Its last word: `password`, `key`, …
        name: The whole as it is written.
    """
    kind = re.sub(r"[_\- ]", "", before)
    is_variable = name.isupper() and before.endswith("_")
    if core == "pass":
        return _PASSWORD if not before or before[-1] in "_-" else _NOTHING
    if core == "pw":
        return _KEY  # it may be a width or a power as well
    if core.startswith("p"):
        return _PASSWORD
    if core == "secret":
        return _KEY
    if core == "key":
        if kind.endswith(_KEYS):
            return _KEY
        return _WEAK if is_variable and not kind.endswith(_OTHER_KEYS) else _NOTHING
    if core == "token":
        if kind.endswith((*_OF_TEXTS, "publickey")):
            return _NOTHING
        return _KEY if is_variable or (kind and kind.endswith(_TOKEN_KINDS)) else _WEAK
    if core == "signature":
        return _WEAK if "-" in before else _NOTHING
    return _WEAK


def _value(text: str, site: re.Match[str], before: str, strength: int) -> Span | None:
    """The place of the value that is joined to a name; None if it is no secret."""
    place = site.end()
    join = site["join"].strip()
    if join == ":" and (annotation := _ANNOTATION.match(text, place)):
        place = annotation.end()
    opening = _OPENING.match(text, place)
    if opening is None:
        return None if join == "," else _bare_value(text, site, before, strength, place)
    quoted = _QUOTED[opening["quote"][0]].match(text, opening.end())
    if quoted is None:
        return None
    value = quoted[0][:4_000]
    if join in (",", "is", "was") or (site["close"] == "" and join == ":" and value[:1] in " ),"):
        strength = min(strength, _KEY)
        if not _RANDOM_RUN.search(value) and not (join != "," and _is_mixed(value)):
            return None
    if join == "," and (
        not site["close"] or _IN_LIST.search(text, max(0, site.start() - 60), site.start())
    ):
        return None
    return quoted.span() if _is_quoted_secret(value, strength) else None


def _is_quoted_secret(value: str, strength: int) -> bool:
    if _PLACEHOLDER.fullmatch(value) or _CONSTANT.fullmatch(value) or "[redacted]" in value:
        return False
    if value[:1] in " \t),]};+" or _PATH.fullmatch(value) or re.match(r"\w+://", value):
        return False
    if any(map(str.isspace, value)):
        scheme = re.fullmatch(r"(?:Bearer|Basic|Token)\s+(\S+)", value)
        if scheme is not None:
            return _is_quoted_secret(scheme[1], strength)
        return strength == _PASSWORD and 8 <= len(value) <= 100 and not _PROSE.search(value)
    if strength == _PASSWORD:
        return len(value) >= 4
    if strength == _KEY:
        return (_is_mixed(value) and len(value) >= 6) or (
            len(value) >= 8 and (value.isalnum() or len(value) >= 24)
        )
    return len(value) >= 10 and _RANDOM_RUN.search(value) is not None


def _is_mixed(value: str) -> bool:
    """True if the value mixes letters and digits, or has signs that no word has."""
    has_letter = any(map(str.isalpha, value))
    return has_letter and (any(map(str.isdigit, value)) or any(c in "!@#$%^&*+=~?" for c in value))


def _bare_value(
    text: str, site: re.Match[str], before: str, strength: int, place: int
) -> Span | None:
    """The place of a secret value without quotation marks: in settings and logs, not in code."""
    found = _BARE.match(text, place)
    if found is None:
        return None
    start, end = found.span("value")
    value = text[start:end].rstrip(".:!?") if site["join"].strip() != "=" else text[start:end]
    end = start + len(value)
    if len(value) < 3 or _PLACEHOLDER.fullmatch(value) or _CONSTANT.fullmatch(value):
        return None
    if _NUMBER.fullmatch(value) and strength < _PASSWORD:
        return None
    if _PATH.fullmatch(value) or re.match(r"\w+://", value) or _may_be_call(text, end):
        return None
    is_code = _is_code(text, site, start, end, before)
    if _IDENTIFIER.fullmatch(value):
        if is_code and (not any(map(str.isdigit, value)) or _CODE_WORDS.search(value)):
            return None
        if "." in value and is_code:
            return None
        if is_code and strength < _PASSWORD and not _is_no_name(value):
            return None
    if _is_mixed(value) or (strength == _PASSWORD and _NUMBER.fullmatch(value) and not is_code):
        least = {_PASSWORD: 4, _KEY: 6, _WEAK: 10}[strength]
        if strength == _WEAK and not _RANDOM_RUN.search(value):
            return None
        return (start, end) if len(value) >= least else None
    least = {_PASSWORD: 4, _KEY: 12, _WEAK: 1_000}[strength]
    is_word = site["join"].strip() in ("is", "was")
    return (start, end) if not is_code and not is_word and len(value) >= least else None


def _is_no_name(value: str) -> bool:
    """True if a value with the form of a name is too random for one."""
    digits = sum(map(str.isdigit, value))
    return len(value) >= 16 and digits >= 3 and "_" not in value and "." not in value


def _may_be_call(text: str, end: int) -> bool:
    return text[end : end + 1] in ("(", "[", "{")


_IN_LIST = re.compile(r"\[\s*[\"'][\w\-]*\Z")
_LINE_BEFORE = re.compile(
    r"(?:^|[\"'`>])[ \t]*(?:\d{1,6}[ \t:|→]{1,4})?[+\-|│>*•# \t]{0,12}"
    r"(?:(?:export|set|env|run)[ \t]+)?[\w.\-]*\Z",
    re.IGNORECASE,
)
_PAIR_BEFORE = re.compile(r"=[^\s,;()\[\]{}=]+[; ][ ]?[\w ]*\Z|;[ ]?[\w ]*\Z|[?&][\w.\-]*\Z")


def _is_code(text: str, site: re.Match[str], start: int, end: int, before: str) -> bool:
    """True if a value without quotation marks may be a variable's name rather than a text.

    It is a text in a line `password: …` or `DB_PASSWORD=…` of its own, among other pairs
    (`host=… password=…`, `Uid=…;Pwd=…`), in an address, and after a header's name.
    """
    begins = text.rfind("\n", max(0, site.start() - 100), site.start()) + 1
    line_start = text[max(begins, site.start() - 100) : site.start()]
    after = text[end : end + 1]
    join = site["join"]
    if "-" in before and not site["close"]:
        return False  # no variable's name has a hyphen
    if _PAIR_BEFORE.search(line_start):
        return after in (")", ",")
    is_line = _LINE_BEFORE.search(line_start) is not None
    rest = text[end : end + 200].split("\n", 1)[0].strip()
    if not is_line:
        return join.strip() not in ("is", "was")
    if join == ":":
        return bool(site["close"]) or (bool(rest) and rest[0] not in "#\"'`<")
    name = text[site.start() - len(before) : site.end("core")]
    return not (join == "=" and name.isupper() and after not in (",", ")"))
