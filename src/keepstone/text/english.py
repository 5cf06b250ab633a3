"""English: the words that every reader of text knows."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MONTH_NAMES = tuple("january february march april may june july august september october november december".split())
MONTHS = {name: number for number, name in enumerate(MONTH_NAMES, 1)}
MONTHS |= {name[:3]: number for name, number in MONTHS.items()} | {"sept": 9}
MONTH_PATTERN = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)"
)
CLEAR_MONTH_PATTERN = "(?:" + "|".join(name for name in MONTH_NAMES if name != "may") + ")"  # "may" is also a verb
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
WEEKDAY_PATTERN = "(?:" + "|".join(name.removesuffix("day") for name in WEEKDAYS) + ")day"
UNITS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen".split()
    )
}
TENS = {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "k": 1000, "dozen": 12}
ORDINALS = {
    word: f"{n}th"
    for n, word in enumerate("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(), 1)
}
UNIT_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}  # the longest of each
# Words of nearly every text. Negations are not among them: they reverse a fact.
STOP_WORDS = _words(
    "a an the and or but if then so as of at by for from in into on onto to up with about than that this these "
    "those it its is am are was were be been being do does did done have has had having will would shall should "
    "can could may might must i me my mine we us our ours you your yours he him his she her hers they them their "
    "theirs who whom what which when where why how there here also just very too s t d ll m re ve"
)
NEGATIONS = _words("not no never")
ABBREVIATIONS = _words(
    "mr mrs ms dr prof st sr jr mt vs no nr vol fig eq sec ch pp e.g i.e cf ca approx bzw z.b d.h u.a rev gen ave tel ext"
)
FINAL_ABBREVIATIONS = _words("etc inc ltd co corp a.m p.m est jan feb mar apr jun jul aug sep sept oct nov dec usw al")
# Irregular verbs: the base, then its past forms.
PAST_FORMS = {
    form: verb.split()[0]
    for verb in (
        "be been | begin began begun | buy bought | bring brought | break broke broken | build built | "
        "choose chose chosen | come came | do did done | drink drank drunk | drive drove driven | eat ate eaten | "
        "fall fell fallen | feel felt | find found | fly flew flown | forget forgot forgotten | get got gotten | "
        "give gave given | go went gone | grow grew grown | have had | hear heard | hold held | keep kept | "
        "know knew known | lend lent | lose lost | make made | meet met | pay paid | ride rode ridden | run ran | "
        "say said | see saw seen | sell sold | send sent | sing sang sung | sit sat | sleep slept | speak spoke spoken | "
        "spend spent | stand stood | stop quit | swim swam swum | take took taken | teach taught | tell told | "
        "think thought | understand understood | wake woke woken | wear wore worn | win won | write wrote written"
    ).split(" | ")
    for form in verb.split()[1:]
}
