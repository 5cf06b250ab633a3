"""Rules for a person's profile: names, home, work, dates, numbers, languages, diet."""

from __future__ import annotations

import re
from dataclasses import replace

from keepstone.learning import phrases as ph
from keepstone.learning import values as va
from keepstone.learning.clauses import (
    AM,
    OFTEN,
    TIMED,
    Clause,
    Fact,
    FactMatch,
    Rule,
    build_match,
    find_clause_end,
    find_name_end,
    is_lasting,
    is_place,
    read_value,
    split_words,
    third_person_verb,
    to_third_person,
    trim_end,
    with_now,
)


def exact_value(value: re.Pattern[str], said: str, key: str | None, confidence: float = 0.93) -> Rule:
    """A rule for a value of one form right after the head."""

    def rule(clause: Clause, match: re.Match[str]) -> FactMatch | None:
        value_match = value.match(clause.plain, match.end(), clause.end)
        if value_match is None:
            return None
        return build_match(clause, f"{clause.subject}{said}", match.end(), value_match.end(), "profile", key, confidence)

    return rule


def value_list(verb: str) -> Rule:
    """A rule for a list of things after the head, such as allergies."""

    def rule(clause: Clause, match: re.Match[str]) -> FactMatch | None:
        value, end = read_value(clause, match, "list")
        if (
            not is_lasting(value, 12)
            or set(split_words(value)) & va.JOKES
            or split_words(value)[0] in va.NOT_LIKED - {"the", "most", "all", "some"}
        ):
            return None
        how = (match["how"] or "").lower()
        return build_match(clause, f"{clause.subject} {verb.format(how=how)} ", match.end(), end, "profile", None, 0.95)

    return rule


def _read_name(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    end = find_name_end(clause, match.end())
    which = (match["which"] or "").strip().lower()
    key = {"": "user.name", "full": "user.name", "first": "user.first_name", "last": "user.last_name", "middle": None}[which]
    shown = f"{which} name" if which else "name"
    return None if end < 0 else build_match(clause, f"{clause.subject}'s {shown} is ", match.end(), end, "profile", key, 0.97)


def _read_introduction(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    """ "Hi, I'm Dana": only after a greeting and with a capital."""
    greeted = re.match(r"\s*(?:hi|hello|hey|greetings|good\s\w+)\b", clause.plain, re.IGNORECASE) is not None
    if clause.casual or not greeted or not clause.alone or clause.start > 40:
        return None
    end = find_name_end(clause, match.end())
    if end < 0 or set(split_words(clause.plain[match.end() : end])) & (va.NATIONS | va.LANGUAGES):
        return None
    return build_match(clause, f"{clause.subject}'s name is ", match.end(), end, "profile", "user.name", 0.85)


def _read_called_name(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    end = find_name_end(clause, match.end())
    if end < 0:
        return None
    return build_match(clause, f"{clause.subject} is called ", match.end(), end, "profile", "user.called", 0.9)


def _read_home(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "place")
    if va.SHORT_STAY.search(clause.plain, match.end(), clause.end) or va.WENT_BACK.search(clause.plain, end, clause.end):
        return None
    if len(value.split()) > 14:
        return None
    house = va.HOUSE.match(value)
    if not house and not is_place(clause, value):
        return None
    said = third_person_verb(clause, match)
    return build_match(clause, f"{clause.subject} {said} ", match.end(), end, "profile", None if house else "user.home", 0.93)


def _read_ended(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    """A home or an employer that no longer holds."""
    end = find_clause_end(clause, match.end(), "place")
    value = clause.plain[match.end() : end].rstrip()
    over = re.search(r"\sany ?more$", value, re.IGNORECASE)
    if (match["no"].lower() != "no longer" and not over) or not value[:1].isupper() or len(value.split()) > 6:
        return None
    verb = re.sub(r"\s+", " ", match["verb"].lower())
    said = "no longer " + verb.replace(" ", "s ", 1) if match["no"].lower() == "no longer" else "doesn't " + verb
    key = "user.home" if verb.startswith("live") else "user.employer"
    return build_match(replace(clause, is_correction=True), f"{clause.subject} {said} ", match.end(), end, "profile", key, 0.85)


def _read_origin(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "place")
    if not is_place(clause, value) or len(value.split()) > 5:
        return None
    return build_match(
        clause,
        f"{clause.subject} is {'originally ' if 'originally' in match[0].lower() else ''}from ",
        match.end(),
        end,
        "profile",
        None,
        0.88,
    )


def _read_employer(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "none")
    parts = split_words(value)
    if not value or va.SHORT_STAY.search(value) or len(parts) > 12 or va.PASSING & set(parts):
        return None
    if clause.casual and not value[0].isupper():
        good = len(parts) <= 2 and parts[0] not in va.NO_PLACE | {
            "home",
            "night",
            "noon",
            "free",
            "fun",
            "myself",
            "hours",
            "money",
            "peanuts",
            "pay",
            "work",
            "heights",
            "least",
            "all",
        }
    else:
        good = value[0].isupper() or re.match(r"the\s[A-Z]", value) is not None
    if not good and not va.ORGANISATION.match(value):
        return None
    return build_match(
        clause, f"{clause.subject} {third_person_verb(clause, match)} ", match.end(), end, "profile", "user.employer", 0.92
    )


def _read_job(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "none")
    occupation = va.OCCUPATION.match(clause.plain, match.end(), clause.end)
    asked = "as" in match["verb"].lower() if match["verb"] else False
    if (
        va.PASSING & set(split_words(value))
        or len(value.split()) > 14
        or re.search(r"\bquestion|\bof life\b", value)
        or va.SHORT_STAY.search(value)
    ):
        return None
    if occupation is None and not (
        asked
        and re.match(r"an?\s\w{4,}", value)
        and len(value.split()) <= 8
        and not re.search(r"\b(?:team|group|part|result)\b", value)
    ):
        return None
    if set(split_words(occupation[0] if occupation else value)[:-1]) & (
        va.NOT_JOB - ({"in", "at", "for", "of"} if asked else set())
    ):
        return None
    said = third_person_verb(clause, match) if asked else "is"
    return build_match(clause, f"{clause.subject} {said} ", match.end(), end, "profile", "user.job", 0.9)


def _read_birthday(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    date = va.DATE.match(clause.plain, match.end(), clause.end)
    if date is None:
        return None
    born = match["what"] is None
    end = max(date.end(), find_clause_end(clause, match.end(), "date")) if born else date.end()
    said = (
        f"{clause.subject} was born on "
        if born
        else f"{clause.subject}'s {match['what'].lower()} is {(match['on'] or '').lower()}"
    )
    return build_match(clause, said, match.end(), end, "profile", "user.birthday", 0.95)


def _read_birth_place(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "place")
    if not re.match(r"(?:19|20)\d\d\b", value) and (not is_place(clause, value) or va.SHORT_STAY.search(value)):
        return None
    return build_match(clause, f"{clause.subject} {match['verb'].lower()} ", match.end(), end, "profile", None, 0.9)


def _read_identifier(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    what = re.sub(r"\s+", " ", match["what"].lower().replace("e-mail", "email"))
    form = va.EMAIL if "email" in what else va.PHONE if re.search(r"phone|mobile|cell", what) else va.CODE_VALUE
    value = form.match(clause.plain, match.end(), clause.end)
    if value is None or not va.AFTER_VALUE.match(clause.plain, value.end(), clause.end):
        return None
    name = (
        "email"
        if "email" in what
        else "phone"
        if form is va.PHONE
        else what.replace(" ", "_").replace("customer_number", "customer_id")
    )
    key = None if match["whose"] else f"user.{name}"
    said = clause.raw[match.start() + 3 : match.end("what")]
    end = value.end()
    return FactMatch(Fact(f"{clause.subject}'s {said} is {clause.raw[match.end() : end]}.", "profile", key, 0.95,
                      clause.is_correction or ph.NOT_TAIL.match(clause.plain, end, clause.end) is not None), end)  # fmt: skip


def _read_pronouns(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    verb = "uses" if "use" in match[0].lower() else "goes by"
    return exact_value(va.PRONOUNS, f" {verb} ", "user.pronouns")(clause, match)


def _read_timezone(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    said = clause.plain[match.start() + 3 : match.end()].lower()
    return exact_value(va.ZONE, f"'s {said}", "user.timezone")(clause, match)


def _read_languages(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    end = trim_end(clause, match.end(), find_clause_end(clause, match.end(), "list"))
    parts = set(split_words(clause.plain[match.end() : end]))
    if not parts & va.LANGUAGES or parts - va.LANGUAGES - va.LANGUAGE_EXTRAS:
        return None
    return build_match(clause, f"{clause.subject} speaks ", match.end(), end, "profile", None, 0.93)


def _read_native_language(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    language = re.compile(r"[A-Za-z]+").match(clause.plain, match.end(), clause.end)
    if language is None or language[0].lower() not in va.LANGUAGES:
        return None
    return build_match(
        clause, f"{clause.subject}'s {match['what'].lower()} is ", match.end(), language.end(), "profile", "user.language", 0.93
    )


def _read_new_employer(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    """A new employer; "joined Hooli" alone may be a club, a call or a service, so it must say as what."""
    name = va.NAME.match(clause.plain, match.end(), clause.end)
    if name is None or va.STARTED_ONCE.search(clause.plain, match.end(), clause.end):
        return None
    if match["joined"] and split_words(name[0])[0] in va.NO_PLACE:
        return None
    end = trim_end(clause, match.end(), find_clause_end(clause, match.end(), "none"))
    when = va.STARTED_WHEN.match(clause.plain, name.end(), end)
    known_as = va.IN_OFFICE.search(clause.plain, name.end(), end)
    if (
        name.end() > end
        or when is None
        or (match["joined"] and known_as is None)
        or len(clause.plain[name.end() : end].split()) > 10
    ):
        return None
    if when["day"]:
        end = name.end()
    said = to_third_person(re.sub(r"\s+", " ", match["verb"].lower()))
    return build_match(clause, f"{clause.subject} {said} ", match.end(), end, "profile", "user.employer", 0.85)


_NO_NAME = re.compile(r"(?!(?:the\s)?[^\W\d_a-z])")  # "working at the library now": today's desk, perhaps


STATEMENTS: list[tuple[re.Pattern[str], Rule]] = [
    (va.pattern(head), rule)
    for head, rule in (
        (r"(?:my|the) (?P<which>full |first |last |middle )?name(?:'s| is)(?: actually)? ", _read_name),
        (
            r"(?:(?:please |just |you can |you may |feel free to ){0,2}call me|(?:everyone|everybody|people|my friends|friends"
            r"|all my friends|my family|folks|most people)(?: \w{4,7}| just)? calls? me" + r"|" + AM + r"(?:usually "
            r"|mostly |also )?(?:called|known as)|i (?:usually |mostly |also )?go by(?: the name(?: of)?)?|i(?: prefer| like)(?:"
            r" to be)?(?: called)" + r"|(?:please )?(?:address|refer to) me as) ",
            _read_called_name,
        ),
        (r"i (?:use|go by) (?=\w+/)", _read_pronouns),
        (r"my pronouns are ", exact_value(va.PRONOUNS, "'s pronouns are ", "user.pronouns")),
        (
            AM + r"(?:also )?(?P<how>(?:severely|very|highly|deathly|mildly|deadly) )?allergic to ",
            value_list("is {how}allergic to"),
        ),
        (
            r"i have (?=an? (?:[\w-]{2,15} ){0,3}(?:allergy|intolerance)\b)",
            exact_value(
                va.pattern(
                    r"an? (?:[\w-]{2,15}"
                    r" ){0,3}(?:allergy|intolerance)(?: to [\w-]{3,20})?"
                ),
                " has ",
                None,
            ),
        ),
        (AM + OFTEN, with_now(exact_value(va.DIET, " is ", "user.diet"))),
        (AM + OFTEN, exact_value(va.CONDITIONS, " is ", None)),
        (r"i keep (?=kosher)", exact_value(va.pattern(r"kosher"), " keeps ", "user.diet")),
        (r"i (?:only )?eat (?=halal|kosher)", exact_value(va.pattern(r"halal|kosher"), " eats ", "user.diet")),
        (
            r"i follow (?=an? )",
            exact_value(
                va.pattern(
                    r"an? (?:strict )?(?:keto|vegan|vegetarian|paleo|mediterranean|gluten-free"
                    r"|plant-based|low-carb|halal|kosher|low-fodmap|ketogenic) diet"
                ),
                " follows ",
                "user.diet",
            ),
        ),
        (r"i(?P<helper>) " + TIMED + r"(?P<verb>(?:live|reside) (?:in|near)|(?:moved|relocated)(?: back)? to) ", _read_home),
        (
            r"i(?P<helper>'?m| am|'?ve| have) " + TIMED + r"(?P<verb>(?:based|living|located) (?:in|near|out of)|(?:moved"
            r"|relocated)(?: back)? to) ",
            _read_home,
        ),
        (r"i (?P<no>no longer|don'?t|do not) (?P<verb>live in|work (?:at|for)) ", _read_ended),
        (AM + r"(?:originally )?from ", _read_origin),
        (r"i(?P<helper>) " + TIMED + r"(?P<verb>work (?:at|for)) ", with_now(_read_employer)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>working for|employed (?:at|by)) ", with_now(_read_employer)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>working at) ", with_now(_read_employer, _NO_NAME)),
        (r"i(?P<helper>) " + TIMED + r"(?P<verb>work as) ", with_now(_read_job)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>working as) ", with_now(_read_job)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>)(?=an? )", with_now(_read_job)),
        (r"i " + OFTEN + r"work in ", with_now(exact_value(va.FIELDS, " works in ", None, 0.85))),
        (
            r"i(?:'?ve| have)? (?P<verb>(?:(?:just|recently|finally) )?(?:started (?:(?:a|my) new job (?:at|with)"
            r"|work(?:ing)? (?:at|for))|(?:got|landed) (?:a|my) (?:new )?job (?:at|with)|(?P<joined>joined|started at))) ",
            _read_new_employer,
        ),
        (r"my (?P<what>birthday|date of birth|birth date|dob)(?:'s| is)(?: actually)? (?P<on>(?:on|in) )?", _read_birthday),
        (r"i was born on (?P<what>(?!))?", _read_birthday),
        (r"i (?P<verb>was born(?: and raised)? in) ", _read_birth_place),
        (
            r"my (?P<whose>(?:work|personal|private|home|office|other|school|new|old|second|business|bank|savings|checking)"
            r" )?(?P<what>e-?mail(?: address)?|(?:mobile |cell |tele)?phone(?: number)?|mobile(?: number)?"
            r"|account number|customer (?:number|id)|employee (?:id|number)|member(?:ship)? (?:id|number)|student (?:id"
            r"|number)|staff id|user id|passport number|frequent flyer number)(?:'s| is)(?: actually)? ",
            _read_identifier,
        ),
        (r"my time ?zone is(?: actually)? ", _read_timezone),
        (
            AM + r"(?:in|on) (?=(?:the )?[A-Z]\w+ (?:standard |daylight )?time ?zone)",
            exact_value(
                va.pattern(
                    r"(?:the )?[a-z]{3,10}"
                    r" (?:standard |daylight )?time ?zone"
                ),
                " is in ",
                "user.timezone",
            ),
        ),
        (r"i (?:also |can )?speak ", _read_languages),
        (r"my (?P<what>(?:native|first|main|primary) language|mother tongue) is ", _read_native_language),
        (AM + OFTEN, _read_introduction),
    )
]
