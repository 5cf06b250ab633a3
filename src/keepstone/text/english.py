"""English: the words and phrases that text analysis knows.

The lists for the comparison of memories are small on purpose: a missing word leaves a duplicate behind, a wrong one loses a fact.
"""

from __future__ import annotations

from keepstone.text.language import Language


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- every reader -------------------------------------------------------------------------------------------------------
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
FIRST_PERSON = _words("i me my mine myself we us our ours")
ABBREVIATIONS = _words(
    "mr mrs ms dr prof st sr jr mt vs no nr vol fig eq sec ch pp e.g i.e cf ca approx bzw z.b d.h u.a rev gen ave tel ext"
)
FINAL_ABBREVIATIONS = _words("etc inc ltd co corp a.m p.m est jan feb mar apr jun jul aug sep sept oct nov dec usw al")
TITLE_PATTERN = "(?:dr|mr|mrs|ms|prof|st)"
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
ENGLISH = Language(
    code="en",
    months=MONTHS,
    weekdays=WEEKDAYS,
    cardinals=UNITS | TENS,
    stop_words=STOP_WORDS,
    negations=NEGATIONS,
    first_person=FIRST_PERSON,
    abbreviations=ABBREVIATIONS,
    final_abbreviations=FINAL_ABBREVIATIONS,
)

# -- the comparison of memories -----------------------------------------------------------------------------------------
ARTICLES = _words("a an the this these those")
# Grammar without content. Prepositions, modals and negations are not here: they turn facts round.
GRAMMAR = _words("that which who it there do does itself themselves himself herself")
BE_NOW = _words("is are am 's 're 'm")
BE_THEN = _words("was were")
HAVE = _words("have has 've")
POSSESSIVES = _words("my our your his her their its user's")
USER = _words("user i we")
USER_OBJECT = _words("me us myself")

# Dropped, but a wording with a hedge says less than one without. The verbs also stand for "is".
HEDGE_VERBS = _words("seems seem appears appear")
HEDGES = _words("seemingly apparently evidently reportedly")
# Dropped, though a wording that has them says a little more than one that has not. After "not" they count.
FILLERS = _words(
    "currently now presently nowadays still already also actually really very quite extremely absolutely totally "
    "definitely certainly obviously basically please kindly indeed"
)
MANNERS = _words("clearly strongly simply personally deeply honestly greatly highly truly")  # fillers only before a word
STARTERS = _words("so well anyway ok okay")  # fillers only at the start
# One has a house one rents, but does not own it; with these, having and owning stay apart.
PROPERTY = _words("house flat apartment home cottage land farm shop store business company firm restaurant bakery cafe")
# Beside these "today" and "feeling" add nothing that lasts.
MOODS = _words(
    "happy sad tired angry anxious calm nervous excited stressed frustrated bored lonely upset cheerful worried "
    "content relaxed exhausted annoyed depressed glad proud unhappy overwhelmed grumpy motivated confused hopeful"
)

NEGATING_TERMS = _words(
    "not never nolonger without neither nor hardly barely scarcely stop lack fail refuse avoid nobody nothing none"
)
FREQUENCIES = _words("usual often sometimes always rarely mostly daily weekly monthly yearly hourly nightly once")
PREPOSITIONS = _words(
    "of at by for from in into on onto to up with about than over under near during before after since until till "
    "through across between against without within if unless when while as because per via along around behind "
    "beside below above toward towards off out down where why how rather instead except"
)
JOINERS = _words("and or & nor plus")
CLAUSE_ENDS = _words(". ; ! ? but whereas although though however")
ORDERED = _words("then later before after first until since")  # clauses around these are not free to change places

SYMBOLS = {"€": "eur", "$": "usd", "£": "gbp", "euro": "eur", "euros": "eur", "dollar": "usd", "dollars": "usd",
           "pounds": "gbp", "percent": "%"}  # fmt: skip

_SMALL = "one|two|three|four|five|six|seven|eight|nine|ten"
_OWNER = "(?:the |my |our |his |her |their |user's )?"
# Phrases read as one word (or none): what the text must contain, the pattern, what stands for it. The order matters.
PHRASES: tuple[tuple[str, str, str], ...] = (
    (".", r"\b(dr|mr|mrs|ms|st|prof|vs)\.", r"\1"),
    ("'ve", r"'ve\b", " have"),
    ("'ll", r"'ll\b", " will"),
    ("'d ", r"'d (?=like|love|rather|prefer)", " would "),
    ("won't", r"\bwon't\b", "will not"),
    ("can", r"\b(?:can't|cannot) (?:stand|bear)\b", "hates"),
    ("can", r"\b(?:can't|cannot)\b", "can not"),
    ("able to", r"(?:\bis |\bare |\bam |'m )?\b(?:unable|not able) to\b", "can not"),
    ("able to", r"(?:\bis|\bare|\bam|'m) able to\b", "can"),
    ("n't", r"n't\b", " not"),
    ("no longer", r"\bno longer\b", "nolonger"),
    ("used to", r"(?<!\bis )(?<!\bare )(?<!\bgot )\bused to\b", "formerly"),
    (" got", r"\b(?:has|have)( also| already)? got\b", r"has\1"),
    ("would l", r"\bwould (?:like|love)\b", "wants"),
    ("would ", r"\bwould (?:rather|prefer)\b", "prefers"),
    (" to", r"\b(?:has|have|needs?) to\b", "must"),
    (" up", r"\b(?:gave|given|gives?|giving) up\b", "stopped"),
    ("g to ", r"\bis going to (?=(?:be|have|get|start|move|buy|run|visit)\b)", "will "),
    (" than", r"\b(?:likes?|loves?|enjoys?) (.{2,60}?) (?:more|better) than\b", r"prefers \1 over"),
    ("prefer", r"\bprefers? (?!to\b)(.{2,60}?) (?:to|rather than|instead of)\b", r"prefers \1 over"),
    (
        "preference",
        r"\b(?:has |have |indicated |expressed |stated |showed )?an? (?:strong )?preference for\b",
        "prefers",
    ),
    ("preference", r"\bpreference is(?: for)?\b", "prefers"),
    (" of", r"\b(?:a )?(?:big |huge |great )?(?:fan|lover) of\b", "loves"),
    ("fond of", r"\bfond of\b", "likes"),
    ("ask", r"\basked for\b", "requested"),
    ("ask", r"\basks? for\b", "requests"),
    (" for", r"\b(?:planned|scheduled|slated|set) for\b", "scheduled for"),
    ("born on", r"\bwas born on\b", "birthday is"),
    ("allergy", r"\b(?:has|have) an? (?:(severe|mild|serious) )?(\w+) allergy\b", r"is \1 allergic to \2"),
    ("allergy", r"\b(?:has|have) an? (?:(severe|mild|serious) )?allergy to\b", r"is \1 allergic to"),
    ("", rf"(?:~|\b(?:about|around|approximately|approx\.?|circa) )(?=\d|(?:{_SMALL})\b)", "roughly "),
    ("", r"\b(?:at the moment|right now|as of now|as of today|these days|at present|for now)\b", "currently"),
    ("", r"\b(?:very much|by far|a great deal|for sure|of course|by the way|in fact)\b", "really"),
    ("at all times", r"\bat all times\b", "always"),
    ("as well", r"\bas well\b", "also"),
    (" too", r",? too(?=[.,;]|$)", " also"),
    ("happen", r"\bhappens? to\b", ""),
    (" to be", r"\b(?:seems?|appears?) to be\b", "seems"),
    (" to", r"\b(?:seems?|appears?) to\b", "apparently"),
    ("claim", r"\bclaims? to\b", "reportedly"),
    (" as ", r"\b(?:works?|working|employed) as (?:an? |the )", ""),
    (" as ", r"\b(?:works?|working|employed) (?:at|for) (.{2,40}?) as (?:an? |the )", r"at \1 is "),
    (" of ", rf"\b(name|owner|title|author|address|colou?r|password|birthday) of {_OWNER}(\w+)", r"\2's \1"),
    ("", r"\b(?:takes? place|is held|happens)\b", ""),
    (" up", r"\b(?:wak(?:es?|ing)|get(?:s|ting)?) up\b", "arises"),
    (" for", r"\b(?:look(?:s|ing)?|search(?:es|ing)?) for\b", "seeks"),
    ("sci-fi", r"\bsci-fi\b", "science fiction"),
    ("mail", r"\be-?mails?\b", "email"),
    ("", r"\b(?:every|each|per) (day|week|month|year|hour|night|morning|evening)\b", r"\1-ly"),
    ("ly", r"\b(week|month|year|hour|night)ly\b", r"\1-ly"),
    ("daily", r"\bdaily\b", "day-ly"),
    (" a", r"(\d.{0,40}) an? (day|week|month|year|hour|night)\b", r"\1 \2-ly"),
    ("ings", r"\bin the (morning|evening)s\b", r"\1-ly"),
    ("days", rf"\b(?:on |every |each |on every )?({WEEKDAY_PATTERN})s\b", r"each-\1"),
    ("day", rf"\b(?:every|each|on every) ({WEEKDAY_PATTERN})\b", r"each-\1"),
)

# Said about the saying, not about the world; taken off the front, several times if need be.
FRAMES = (
    r"(?:the )?(?:user|i|we|they)(?: has| have)? (?:said|says|stated|states|mentioned|mentions|noted|notes|told me|"
    r"explained|explains|shared|confirmed|reported|reports|expressed|indicated|added|pointed out|let me know)"
    r"(?: that(?: they| he| she| i)?\b| (?:they|he|she|i)\b)",
    r"according to (?:the )?user,?",
    r"as far as (?:i|we) (?:know|can tell),?",
    r"it (?:seems|appears|looks)(?: like| that| as if)?",
    r"(?:(?:please )?(?:note|remember|reminder)(?: that\b|[,:])|please (?:note|remember)\b)",
    r"(?:fyi|for the record|just so you know|by the way|btw)\b[,:]?",
)

# Groups of synonyms, the first word names the group. Inflections of a word belong to it; a word in -ed stands only for itself.
SYNONYMS = tuple(
    group.split()
    for group in (
        "live reside dwell based | work employed | buy purchase | want wish | use utilize utilise | like enjoy | "
        "own have possess | favourite favorite preferred | begin start commence | stop cease | film movie | "
        "flat apartment | child kid children kids | mother mum mom | father dad | grandmother grandma granny | "
        "grandfather grandpa granddad | bicycle bike | photo picture photograph | manager boss | job position | "
        "brief short concise terse | often frequently | usual usually generally typically normally | "
        "sometimes occasionally | rarely seldom | mostly mainly | afraid scared | plan intend | move relocate | "
        "colour color | answer reply response | ask request | must need | big large | company firm | holiday vacation | "
        "doctor physician | repair fix | help assist | sofa couch | lawyer attorney | deployment deploy | "
        "repository repo | database db | configuration config | documentation docs | application app | javascript js | "
        "typescript ts | kubernetes k8s | postgres postgresql | birthday birthdate | severe severely | grey gray"
    ).split(" | ")
)

BASE_FORMS = {
    "using": "use", "uses": "use", "going": "go", "goes": "go", "doing": "do", "has": "have", "'ve": "have",
    "having": "have", "wives": "wife", "people": "person", "men": "man", "women": "woman", "mice": "mouse",
    "lying": "lie", "dying": "die", "tying": "tie",
}  # fmt: skip
# Verbs of four letters that lose their e before -ing and -ed.
E_VERBS = _words("lov liv mov lik hat bak mak tak giv rid bik hik hop sav rat nam tim fil dat car typ cod cur wir los us wip tun")
NOT_PAST = _words(
    "need speed feed seed weed deed reed sled bred fred breed indeed embed shed bleed proceed exceed succeed naked "
    "sacred wicked hundred"
)
NOT_GERUND = _words(
    "morning evening ceiling wedding pudding spring string thing king ring during something nothing anything "
    "everything sibling wing"
)
SAME_IN_PAST = _words("read put set cut let hit cost hurt shut bet quit")
SECRETS = _words("password passphrase passcode token key secret code pin username login")
NOT_OUR = _words("hour four your our pour sour tour flour")  # not the British -our
ONLY_PLURAL = _words("news glasses goods customs jeans")
STATES = _words("live work own be like need want know speak study teach use")  # "has lived" is not "lived" for these
# Slips of the pen are forgiven (tomorow, recieve), but not between words that both exist.
REAL_PAIRS = _words(
    "desert dessert casual causal marital martial silver sliver latter later dinner diner supper super united untied "
    "planed planned staring starring filing filling hoping hopping taping tapping pining pinning griping gripping "
    "bellow below carrot carat sacred scared calvary cavalry conversation conservation nuclear unclear reserve reverse "
    "tinging tingling barely barley bating batting caning canning"
)
