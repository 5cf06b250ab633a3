"""Rules for who a person is: names, home, work, dates, numbers, languages, diet. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from keepstone.learning import phrases as ph
from keepstone.learning import values as va
from keepstone.learning.clauses import (
    AM,
    OFTEN,
    TIMED,
    Fact,
    Found,
    Rule,
    Spot,
    clause_end,
    is_place,
    lasting,
    lately,
    name_end,
    persons,
    told,
    told_verb,
    trimmed,
    words_of,
)


def exact(value: re.Pattern[str], said: str, key: str | None, confidence: float = 0.93) -> Rule:
    """A value of one form right after the head, told with it."""

    def rule(spot: Spot, match: re.Match[str]) -> Found | None:
        found = value.match(spot.plain, match.end(), spot.end)
        if found is None:
            return None
        return told(spot, f"{spot.subject}{said}", match.end(), found.end(), "profile", key, confidence)

    return rule


def listed(verb: str) -> Rule:
    """Something said with a list of things: an allergy."""

    def rule(spot: Spot, match: re.Match[str]) -> Found | None:
        end = trimmed(spot, match.end(), clause_end(spot, match.end(), "list"))
        value = spot.plain[match.end() : end]
        if (
            not lasting(value, 12)
            or set(words_of(value)) & va.JOKES
            or words_of(value)[0] in va.NOT_LIKED - {"the", "most", "all", "some"}
        ):
            return None
        how = (match["how"] or "").lower()
        return told(spot, f"{spot.subject} {verb.format(how=how)} ", match.end(), end, "profile", None, 0.95)

    return rule


def _name(spot: Spot, match: re.Match[str]) -> Found | None:
    end = name_end(spot, match.end())
    which = (match["which"] or "").strip().lower()
    key = {"": "user.name", "full": "user.name", "first": "user.first_name", "last": "user.last_name", "middle": None}[which]
    shown = f"{which} name" if which else "name"
    return None if end < 0 else told(spot, f"{spot.subject}'s {shown} is ", match.end(), end, "profile", key, 0.97)


def _introduced(spot: Spot, match: re.Match[str]) -> Found | None:
    """ "Hi, I'm Dana": only after a greeting and with a capital."""
    greeted = re.match(r"\s*(?:hi|hello|hey|greetings|good\s\w+)\b", spot.plain, re.IGNORECASE) is not None
    if spot.casual or not greeted or not spot.alone or spot.start > 40:
        return None
    end = name_end(spot, match.end())
    if end < 0 or set(words_of(spot.plain[match.end() : end])) & (va.NATIONS | va.LANGUAGES):
        return None
    return told(spot, f"{spot.subject}'s name is ", match.end(), end, "profile", "user.name", 0.85)


def _called(spot: Spot, match: re.Match[str]) -> Found | None:
    end = name_end(spot, match.end())
    if end < 0:
        return None
    return told(spot, f"{spot.subject} is called ", match.end(), end, "profile", "user.called", 0.9)


def _home(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "place"))
    value = spot.plain[match.end() : end]
    if va.SHORT_STAY.search(spot.plain, match.end(), spot.end) or va.WENT_BACK.search(spot.plain, end, spot.end):
        return None
    if len(value.split()) > 14:
        return None
    house = va.HOUSE.match(value)
    if not house and not is_place(spot, value):
        return None
    said = told_verb(spot, match)
    return told(spot, f"{spot.subject} {said} ", match.end(), end, "profile", None if house else "user.home", 0.93)


def _gone(spot: Spot, match: re.Match[str]) -> Found | None:
    """What no longer holds."""
    end = clause_end(spot, match.end(), "place")
    value = spot.plain[match.end() : end].rstrip()
    over = re.search(r"\sany ?more$", value, re.IGNORECASE)
    if (match["no"].lower() != "no longer" and not over) or not value[:1].isupper() or len(value.split()) > 6:
        return None
    verb = re.sub(r"\s+", " ", match["verb"].lower())
    said = "no longer " + verb.replace(" ", "s ", 1) if match["no"].lower() == "no longer" else "doesn't " + verb
    key = "user.home" if verb.startswith("live") else "user.employer"
    return told(replace(spot, corrects=True), f"{spot.subject} {said} ", match.end(), end, "profile", key, 0.85)


def _origin(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "place"))
    value = spot.plain[match.end() : end]
    if not is_place(spot, value) or len(value.split()) > 5:
        return None
    return told(
        spot,
        f"{spot.subject} is {'originally ' if 'originally' in match[0].lower() else ''}from ",
        match.end(),
        end,
        "profile",
        None,
        0.88,
    )


def _employer(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "none"))
    value = spot.plain[match.end() : end]
    parts = words_of(value)
    if not value or va.SHORT_STAY.search(value) or len(parts) > 12 or va.PASSING & set(parts):
        return None
    if spot.casual and not value[0].isupper():
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
    return told(spot, f"{spot.subject} {told_verb(spot, match)} ", match.end(), end, "profile", "user.employer", 0.92)


def _job(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "none"))
    value = spot.plain[match.end() : end]
    found = va.OCCUPATION.match(spot.plain, match.end(), spot.end)
    asked = "as" in match["verb"].lower() if match["verb"] else False
    if (
        va.PASSING & set(words_of(value))
        or len(value.split()) > 14
        or re.search(r"\bquestion|\bof life\b", value)
        or va.SHORT_STAY.search(value)
    ):
        return None
    if found is None and not (
        asked
        and re.match(r"an?\s\w{4,}", value)
        and len(value.split()) <= 8
        and not re.search(r"\b(?:team|group|part|result)\b", value)
    ):
        return None
    if set(words_of(found[0] if found else value)[:-1]) & (va.NOT_JOB - ({"in", "at", "for", "of"} if asked else set())):
        return None
    said = told_verb(spot, match) if asked else "is"
    return told(spot, f"{spot.subject} {said} ", match.end(), end, "profile", "user.job", 0.9)


def _birthday(spot: Spot, match: re.Match[str]) -> Found | None:
    date = va.DATE.match(spot.plain, match.end(), spot.end)
    if date is None:
        return None
    born = match["what"] is None
    end = max(date.end(), clause_end(spot, match.end(), "date")) if born else date.end()
    said = (
        f"{spot.subject} was born on " if born else f"{spot.subject}'s {match['what'].lower()} is {(match['on'] or '').lower()}"
    )
    return told(spot, said, match.end(), end, "profile", "user.birthday", 0.95)


def _born_in(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "place"))
    value = spot.plain[match.end() : end]
    if not re.match(r"(?:19|20)\d\d\b", value) and (not is_place(spot, value) or va.SHORT_STAY.search(value)):
        return None
    return told(spot, f"{spot.subject} {match['verb'].lower()} ", match.end(), end, "profile", None, 0.9)


def _identifier(spot: Spot, match: re.Match[str]) -> Found | None:
    what = re.sub(r"\s+", " ", match["what"].lower().replace("e-mail", "email"))
    form = va.EMAIL if "email" in what else va.PHONE if re.search(r"phone|mobile|cell", what) else va.CODE_VALUE
    value = form.match(spot.plain, match.end(), spot.end)
    if value is None or not va.AFTER_VALUE.match(spot.plain, value.end(), spot.end):
        return None
    name = (
        "email"
        if "email" in what
        else "phone"
        if form is va.PHONE
        else what.replace(" ", "_").replace("customer_number", "customer_id")
    )
    key = None if match["whose"] else f"user.{name}"
    said = spot.raw[match.start() + 3 : match.end("what")]
    end = value.end()
    return Found(Fact(f"{spot.subject}'s {said} is {spot.raw[match.end() : end]}.", "profile", key, 0.95,
                      spot.corrects or ph.NOT_TAIL.match(spot.plain, end, spot.end) is not None), end)  # fmt: skip


def _pronouns(spot: Spot, match: re.Match[str]) -> Found | None:
    verb = "uses" if "use" in match[0].lower() else "goes by"
    return exact(va.PRONOUNS, f" {verb} ", "user.pronouns")(spot, match)


def _zone(spot: Spot, match: re.Match[str]) -> Found | None:
    said = spot.plain[match.start() + 3 : match.end()].lower()
    return exact(va.ZONE, f"'s {said}", "user.timezone")(spot, match)


def _speaks(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "list"))
    parts = set(words_of(spot.plain[match.end() : end]))
    if not parts & va.LANGUAGES or parts - va.LANGUAGES - va.LANGUAGE_EXTRAS:
        return None
    return told(spot, f"{spot.subject} speaks ", match.end(), end, "profile", None, 0.93)


def _native(spot: Spot, match: re.Match[str]) -> Found | None:
    language = re.compile(r"[A-Za-z]+").match(spot.plain, match.end(), spot.end)
    if language is None or language[0].lower() not in va.LANGUAGES:
        return None
    return told(
        spot, f"{spot.subject}'s {match['what'].lower()} is ", match.end(), language.end(), "profile", "user.language", 0.93
    )


def _started(spot: Spot, match: re.Match[str]) -> Found | None:
    """A new employer; "joined Hooli" alone may be a club, a call or a service, so it must say as what."""
    name = va.NAME.match(spot.plain, match.end(), spot.end)
    if name is None or va.STARTED_ONCE.search(spot.plain, match.end(), spot.end):
        return None
    if match["joined"] and words_of(name[0])[0] in va.NO_PLACE:
        return None
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "none"))
    when = va.STARTED_WHEN.match(spot.plain, name.end(), end)
    known_as = va.IN_OFFICE.search(spot.plain, name.end(), end)
    if (
        name.end() > end
        or when is None
        or (match["joined"] and known_as is None)
        or len(spot.plain[name.end() : end].split()) > 10
    ):
        return None
    if when["day"]:
        end = name.end()
    said = persons(re.sub(r"\s+", " ", match["verb"].lower()))
    return told(spot, f"{spot.subject} {said} ", match.end(), end, "profile", "user.employer", 0.85)


_NO_NAME = re.compile(r"(?!(?:the\s)?[^\W\d_a-z])")  # "working at the library now": today's desk, perhaps


STATEMENTS: list[tuple[re.Pattern[str], Rule]] = [
    (va.pattern(head), rule)
    for head, rule in (
        (r"(?:my|the) (?P<which>full |first |last |middle )?name(?:'s| is)(?: actually)? ", _name),
        (
            r"(?:(?:please |just |you can |you may |feel free to ){0,2}call me|(?:everyone|everybody|people|my friends|friends"
            r"|all my friends|my family|folks|most people)(?: \w{4,7}| just)? calls? me" + r"|" + AM + r"(?:usually "
            r"|mostly |also )?(?:called|known as)|i (?:usually |mostly |also )?go by(?: the name(?: of)?)?|i(?: prefer| like)(?:"
            r" to be)?(?: called)" + r"|(?:please )?(?:address|refer to) me as) ",
            _called,
        ),
        (r"i (?:use|go by) (?=\w+/)", _pronouns),
        (r"my pronouns are ", exact(va.PRONOUNS, "'s pronouns are ", "user.pronouns")),
        (AM + r"(?:also )?(?P<how>(?:severely|very|highly|deathly|mildly|deadly) )?allergic to ", listed("is {how}allergic to")),
        (
            r"i have (?=an? (?:[\w-]{2,15} ){0,3}(?:allergy|intolerance)\b)",
            exact(
                va.pattern(
                    r"an? (?:[\w-]{2,15}"
                    r" ){0,3}(?:allergy|intolerance)(?: to [\w-]{3,20})?"
                ),
                " has ",
                None,
            ),
        ),
        (AM + OFTEN, lately(exact(va.DIET, " is ", "user.diet"))),
        (AM + OFTEN, exact(va.CONDITIONS, " is ", None)),
        (r"i keep (?=kosher)", exact(va.pattern(r"kosher"), " keeps ", "user.diet")),
        (r"i (?:only )?eat (?=halal|kosher)", exact(va.pattern(r"halal|kosher"), " eats ", "user.diet")),
        (
            r"i follow (?=an? )",
            exact(
                va.pattern(
                    r"an? (?:strict )?(?:keto|vegan|vegetarian|paleo|mediterranean|gluten-free"
                    r"|plant-based|low-carb|halal|kosher|low-fodmap|ketogenic) diet"
                ),
                " follows ",
                "user.diet",
            ),
        ),
        (r"i(?P<helper>) " + TIMED + r"(?P<verb>(?:live|reside) (?:in|near)|(?:moved|relocated)(?: back)? to) ", _home),
        (
            r"i(?P<helper>'?m| am|'?ve| have) " + TIMED + r"(?P<verb>(?:based|living|located) (?:in|near|out of)|(?:moved"
            r"|relocated)(?: back)? to) ",
            _home,
        ),
        (r"i (?P<no>no longer|don'?t|do not) (?P<verb>live in|work (?:at|for)) ", _gone),
        (AM + r"(?:originally )?from ", _origin),
        (r"i(?P<helper>) " + TIMED + r"(?P<verb>work (?:at|for)) ", lately(_employer)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>working for|employed (?:at|by)) ", lately(_employer)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>working at) ", lately(_employer, _NO_NAME)),
        (r"i(?P<helper>) " + TIMED + r"(?P<verb>work as) ", lately(_job)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>working as) ", lately(_job)),
        (r"i(?P<helper>'?m| am) " + TIMED + r"(?P<verb>)(?=an? )", lately(_job)),
        (r"i " + OFTEN + r"work in ", lately(exact(va.FIELDS, " works in ", None, 0.85))),
        (
            r"i(?:'?ve| have)? (?P<verb>(?:(?:just|recently|finally) )?(?:started (?:(?:a|my) new job (?:at|with)"
            r"|work(?:ing)? (?:at|for))|(?:got|landed) (?:a|my) (?:new )?job (?:at|with)|(?P<joined>joined|started at))) ",
            _started,
        ),
        (r"my (?P<what>birthday|date of birth|birth date|dob)(?:'s| is)(?: actually)? (?P<on>(?:on|in) )?", _birthday),
        (r"i was born on (?P<what>(?!))?", _birthday),
        (r"i (?P<verb>was born(?: and raised)? in) ", _born_in),
        (
            r"my (?P<whose>(?:work|personal|private|home|office|other|school|new|old|second|business|bank|savings|checking)"
            r" )?(?P<what>e-?mail(?: address)?|(?:mobile |cell |tele)?phone(?: number)?|mobile(?: number)?"
            r"|account number|customer (?:number|id)|employee (?:id|number)|member(?:ship)? (?:id|number)|student (?:id"
            r"|number)|staff id|user id|passport number|frequent flyer number)(?:'s| is)(?: actually)? ",
            _identifier,
        ),
        (r"my time ?zone is(?: actually)? ", _zone),
        (
            AM + r"(?:in|on) (?=(?:the )?[A-Z]\w+ (?:standard |daylight )?time ?zone)",
            exact(
                va.pattern(
                    r"(?:the )?[a-z]{3,10}"
                    r" (?:standard |daylight )?time ?zone"
                ),
                " is in ",
                "user.timezone",
            ),
        ),
        (r"i (?:also |can )?speak ", _speaks),
        (r"my (?P<what>(?:native|first|main|primary) language|mother tongue) is ", _native),
        (AM + OFTEN, _introduced),
    )
]
