"""Secrets: every provider's form, whole, broken and disguised, is found; talk about secrets and stand-ins for them are not."""

from __future__ import annotations

import random
import string

import pytest

from keepstone.guard.secrets import find_keys
from keepstone.guard.sensitive import find_sensitive

WORD = string.ascii_letters + string.digits
SAFE = WORD + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
BASE64 = WORD + "+/"
# What each key is made of: texts as they are, (alphabet, count) for random parts.
FORMS: dict[str, tuple[str | tuple[str, int], ...]] = {
    "AWS access key": ("AKIA", (BASE32, 16)),
    "AWS temporary key": ("ASIA", (BASE32, 16)),
    "GitHub ghp": ("ghp_", (WORD, 36)),
    "GitHub gho": ("gho_", (WORD, 36)),
    "GitHub ghs": ("ghs_", (WORD, 36)),
    "GitHub ghu": ("ghu_", (WORD, 36)),
    "GitHub fine-grained": ("github_pat_", (WORD, 22), "_", (WORD, 59)),
    "GitLab": ("glpat-", (SAFE, 20)),
    "Slack bot": ("xoxb-", (string.digits, 12), "-", (string.digits, 12), "-", (WORD, 24)),
    "Slack user": ("xoxp-", (string.digits, 11), "-", (string.digits, 11), "-", (string.digits, 12), "-", (HEX, 32)),
    "Slack webhook": ("https://hooks.slack.com/services/T", (UPPER, 8), "/B", (UPPER, 8), "/", (WORD, 24)),
    "Stripe live": ("sk_live_", (WORD, 24)),
    "Stripe restricted": ("rk_live_", (WORD, 24)),
    "Stripe webhook": ("whsec_", (WORD, 32)),
    "OpenAI": ("sk-", (WORD, 48)),
    "OpenAI project": ("sk-proj-", (SAFE, 74), "T3BlbkFJ", (SAFE, 74)),
    "Anthropic": ("sk-ant-api03-", (SAFE, 93), "AA"),
    "Google API": ("AIza", (SAFE, 35)),
    "Google OAuth": ("ya29.", (SAFE, 60)),
    "SendGrid": ("SG.", (SAFE, 22), ".", (SAFE, 43)),
    "Twilio": ("SK", (HEX, 32)),
    "npm": ("npm_", (WORD, 36)),
    "PyPI": ("pypi-AgEIcHlwaS5vcmc", (SAFE, 70)),
    "Hugging Face": ("hf_", (WORD, 34)),
    "DigitalOcean": ("dop_v1_", (HEX, 64)),
    "Shopify": ("shpat_", (HEX, 32)),
    "Telegram": ((string.digits, 10), ":AA", (SAFE, 33)),
    "JWT": ("eyJhbGciOiJIUzI1NiJ9.eyJ", (WORD, 40), ".", (SAFE, 43)),
    "age": ("AGE-SECRET-KEY-1", (UPPER, 58)),
    "1Password": ("A3-", (UPPER, 6), "-", (UPPER, 6), "-", (UPPER, 5), "-", (UPPER, 5), "-", (UPPER, 5), "-", (UPPER, 5)),
    "Databricks": ("dapi", (HEX, 32)),
    "Groq": ("gsk_", (WORD, 52)),
    "Notion": ("ntn_", (WORD, 46)),
    "Mailgun": ("key-", (HEX, 32)),
    "Docker": ("dckr_pat_", (SAFE, 27)),
    "Vault": ("hvs.", (SAFE, 90)),
}
# Forms that a broken key cannot be put together for: nothing at their beginning tells them.
WHOLE_ONLY = ("Telegram",)
SENTENCES = (
    "{}",
    "my key is {} please keep it",
    "export TOKEN={}\nexport NEXT=1",
    '{{"value": "{}", "n": 1}}',
    "Use `{}`.",
    "({})",
    "key:{},",
    "Der Schlüssel – {} – läuft morgen ab",
)


def made(form: str, dice: random.Random) -> str:
    """A key of this form, with at least three digits as nearly every one has."""
    while True:
        key = "".join(part if isinstance(part, str) else "".join(dice.choices(part[0], k=part[1])) for part in FORMS[form])
        if sum(map(str.isdigit, key)) >= 4 and key[-1].isalnum():
            return key


def covered(text: str, value_start: int, value_end: int) -> bool:
    """Whether a secret was found that leaves nothing of the value outside."""
    return any(found.kind == "secret" and found.start <= value_start and found.end >= value_end for found in find_sensitive(text))


def wide(text: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text)


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_found_in_any_sentence(form: str) -> None:
    dice = random.Random(form)
    for sentence in SENTENCES:
        for _ in range(5):
            key = made(form, dice)
            text = sentence.format(key)
            start = text.index(key)
            bare = start + len("https://") if key.startswith("https://") else start
            assert covered(text, bare, start + len(key)), (form, sentence)


@pytest.mark.parametrize("form", [form for form in FORMS if form not in WHOLE_ONLY])
@pytest.mark.parametrize("disguise", ["spaced", "zero-width", "full-width", "newline", "indented", "crlf", "space"])
def test_a_disguised_key_is_found(form: str, disguise: str) -> None:
    dice = random.Random(form + disguise)
    for sentence in ("the token {} is mine", "{}", "TOKEN={}"):
        for _ in range(5):
            key = made(form, dice).removeprefix("https://")
            middle = dice.randrange(len(key) // 3, len(key) - 8)
            if disguise == "spaced":
                shown = " ".join(key)
            elif disguise == "zero-width":
                shown = "\u200b".join(key)
            elif disguise == "full-width":
                shown = wide(key)
            else:
                gap = {"newline": "\n", "indented": " \n    ", "crlf": "\r\n", "space": " "}[disguise]
                shown = key[:middle] + gap + key[middle:]
            text = sentence.format(shown)
            start = text.index(shown)
            assert covered(text, start, start + len(shown)), (form, disguise, sentence)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("my password is hunter2", "hunter2"),
        ("My password is hunter2.", "hunter2"),
        ("password: Tr0ub4dor&3", "Tr0ub4dor&3"),
        ("the wifi password is Sunny-Day42!", "Sunny-Day42"),
        ("password for the router is qwerty99", "qwerty99"),
        ("I changed my password to B1gSecret77 yesterday", "B1gSecret77"),
        ("DB_PASSWORD=s3cr3t_pw", "s3cr3t_pw"),
        ('"password": "pa55word!"', "pa55word!"),
        ("passwd = 'abc!def'", "abc!def"),
        ("pwd: 12345678", "12345678"),
        ("api_key=9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
        ("apiKey: 'Zx81kQ02mmP4r7'", "Zx81kQ02mmP4r7"),
        ("client_secret=ab12CD34ef56GH78", "ab12CD34ef56GH78"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzz1", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzz1"),
        ("AKIAIOSFODNN7EXAMPLE / wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzz1", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzz1"),
        ("Authorization: Bearer 4f9d2c1b8a7e6f5d4c3b2a19", "4f9d2c1b8a7e6f5d4c3b2a19"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZDE=", "dXNlcjpwYXNzd29yZDE="),
        ("postgres://app:s3cr3t@db.example.org:5432/app", "s3cr3t"),
        ("redis://:p4ssw0rd@cache:6379/0", "p4ssw0rd"),
        ("mysql://root:p@ss@10.0.0.5/db", "p@ss"),
        (
            "private key: 0x" + "4c0883a69102937d6231471b5dbb6204fe512961708279f3e1d1c1f0d6b5a2e7",
            "4c0883a69102937d6231471b5dbb6204",
        ),
        ("DefaultEndpointsProtocol=https;AccountKey=" + "Ab3/" * 21 + "Zw==;", "Ab3/" * 21 + "Zw=="),
    ],
)
def test_words_in_front_tell_a_secret(text: str, secret: str) -> None:
    start = text.index(secret)
    assert covered(text, start, start + len(secret))


KEY_BODY = "\n".join("".join(random.Random(line).choices(BASE64, k=64)) for line in range(6))


@pytest.mark.parametrize(
    "name",
    ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"],
)
@pytest.mark.parametrize("footer", [True, False])
def test_private_key_blocks(name: str, footer: bool) -> None:
    block = f"-----BEGIN {name}-----\n{KEY_BODY}" + (f"\n-----END {name}-----" if footer else "")
    for text in (block, f"here it is:\n{block}\n\nthank you", block.replace("\n", "\\n"), block.replace("-----", "—")):
        found = [each for each in find_sensitive(text) if each.kind == "secret"]
        start = text.index("BEGIN")
        last = text.rindex("END " + name) if footer else text.index(KEY_BODY[-20:])
        assert found
        assert found[0].start <= start
        assert found[0].end >= last
        assert "thank you" not in text[found[0].start : found[0].end]


def test_a_putty_key() -> None:
    head = "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 2"
    text = f"{head}\n{KEY_BODY}\nPrivate-Lines: 1\n{KEY_BODY[:60]}\nPrivate-MAC: 00ff00ff"
    (found,) = find_sensitive(text)
    assert (found.kind, found.start, found.end, found.detail) == ("secret", 0, len(text), "private key")


@pytest.mark.parametrize(
    "text",
    [
        "my password is not working",
        "the password field is required",
        "I forgot my password again!",
        "Password: (at least 8 characters)",
        "password is 8-20 characters long",
        "a password must have 12+ characters",
        "password: ********",
        "password=<YOUR_PASSWORD>",
        "password = os.environ['DB_PASSWORD']",
        "password = getpass.getpass()",
        "password: ${DB_PASSWORD}",
        "The password policy changed in 2024.",
        "Is the secret ingredient 2x4 or what?",
        "The secret to success: 10,000 hours of practice",
        "api_key=YOUR_API_KEY_HERE",
        "api_key = <YOUR_API_KEY>",
        "export OPENAI_API_KEY=sk-...",
        "keys look like sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "a token such as ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_ tokens have 40 characters, gho_ tokens too",
        "the task-force is risk-free, sk-learn-based-pipeline-2024-final",
        "a token is about 4 characters; 1000 tokens: 750 words",
        "token: claude-sonnet-4",
        "The key is practice, 3 times a week",
        "Keep the header -----BEGIN PRIVATE KEY----- and the footer in mind when you paste the file into the form field",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQG\n-----END CERTIFICATE-----",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "550e8400-e29b-41d4-a716-446655440000",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
        "memory m_abc123 and record r_01HZX3",
        "https://user@example.org/path",
        "[redacted:secret] and password: [redacted:secret]",
    ],
)
def test_talk_about_secrets_stays(text: str) -> None:
    assert [each for each in find_sensitive(text) if each.kind == "secret"] == []


def test_chance_prefixes_inside_long_base64_are_data() -> None:
    """An image as URL-safe base64 holds "-sk-…" now and then; taking that out would spoil the image."""
    key = "sk-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 2
    blob = "QmFzZTY0X2RhdGE-" * 64
    for text in (f"{blob}{key}{blob}", f"{blob}{key}", f"AB-{key}{blob}"):
        assert list(find_keys(text, text.lower(), True)) == []
    for text in (key, f"the key {key}", f"{blob} {key}", f'{{"key":"{key}"}}'):
        found = [text[start:end] for _, start, end, _ in find_keys(text, text.lower(), True)]
        assert found == [key], text
