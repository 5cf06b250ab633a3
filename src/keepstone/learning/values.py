"""Patterns and word lists for values: names, places, jobs, dates, numbers, languages, likes.

No pattern has an unbounded repeat inside another, so matching time stays linear; a test checks them all.
"""

from __future__ import annotations

import re

from keepstone.text.english import MONTH_NAMES, MONTH_PATTERN, WEEKDAYS


def words(text: str) -> frozenset[str]:
    """The words of a list written as one text."""
    return frozenset(text.split())


def any_of(text: str) -> str:
    """A pattern for any of these words, the longest first; an underscore stands for a space."""
    return "(?:" + "|".join(re.escape(word).replace("_", r"\s") for word in sorted(text.split(), key=len, reverse=True)) + ")"


def pattern(text: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """A compiled pattern; a space in the text matches any one white space."""
    return re.compile(text.replace(" ", r"\s"), flags)


NOT_NAMES = words(
    "not on in at too very the a an hard spelled pronounced mud long short unique common important being also really so "
    "never always what irrelevant weird "
    "here there back later when maybe if tomorrow tonight now today old out up over again anytime asap please crazy lazy "
    "paranoid cynical naive stupid "
    "old-fashioned biased whatever anything names sir after before for from to by my your his her this that it they them we "
    "us and or but with about "
    "as is was be only just still pretty quite actually probably different listed well easy difficult often misspelled "
    "written taken missing known "
    "mondays weird picky silly sentimental selfish dumb mad "
    "skeptical pessimistic optimistic "
    "bus train foot car bike plane instinct feel gut memory ear sight away off upon into ready looking trying new sorry "
    "happy glad fine good great "
    "back interested wondering curious working thinking planning sure excited done going having stuck confused afraid tired "
    "hungry sick not"
).union(MONTH_NAMES, WEEKDAYS)
NATIONS = words(
    "american australian austrian belgian brazilian british canadian chinese danish dutch egyptian english european finnish "
    "french german greek indian irish "
    "israeli italian jamaican japanese jewish kenyan korean mexican muslim christian catholic hindu buddhist nigerian "
    "norwegian pakistani polish portuguese "
    "romanian russian scottish spanish swedish swiss turkish ukrainian vietnamese welsh asian african latino latina black "
    "white gay bi trans"
)
_PARTICLE = r"(?:de|la|van|von|der|den|al|bin|el|da|dos|di|du|le|ter|ibn)"
NAME = re.compile(
    r"(?:(?:Dr|Mr|Mrs|Ms|Prof|Sir|Dame)\.?\s)?[^\W\d_a-z][\w'’]*(?:-[\w'’]+){0,3}\.?"
    r"(?:\s(?:" + _PARTICLE + r"\s){0,2}[^\W\d_a-z][\w'’]*(?:-[\w'’]+){0,3}){0,4}"
)
LOWER_NAME = re.compile(r"[a-z][a-z'-]{1,20}(?:\s(?!(?:and|but|or|btw|by|from|please|so)\b)[a-z][a-z'-]{1,20})?")
AFTER_NAME = pattern(
    r"\s*(?:$|[,;:!.)(…\"]|[-–—]{1,2} |(?:and|but|so|by the way|btw|please|from|nice|thanks|instead|for"
    r" short|if|i'm|lol|too|now|or|—|–)(?:\W|$))|\s*[^\w\s'’-]"
)
PLACE = re.compile(
    r"(?:the\s|St\.?\s|downtown\s|central\s|upstate\s|north(?:ern)?\s|south(?:ern)?\s|east(?:ern)?\s"
    r"|west(?:ern)?\s){0,2}[^\W\d_a-z][^\W\d_]{1,}"
)
HOUSE = pattern(
    r"(?!the (?:city|town|house)\b)(?:an?|the) (?:[\w-]{1,20} ){0,4}(?:apartment|flat|house|home|studio|condo|city|town"
    r"|village|suburbs?|countryside|farm|cabin|cottage|dorm|townhouse|loft|neighbou?rhood|bungalow|duplex)\b"
)
NO_PLACE = words(
    "linux windows mac macos ubuntu android iphone ios python java javascript typescript rust go golang ruby kotlin postgres "
    "postgresql mysql aws azure gcp vim "
    "neovim emacs slack notion github gitlab git chrome firefox react vue angular docker kubernetes sales marketing hr "
    "engineering finance legal support "
    "product accounting plan option step level chapter phase stage version part section page world word excel google "
    "outlook gmail spotify "
    "fear hope peace denial misery silence harmony luxury poverty pain bed strike dismiss tears next another back my this "
    "that it here there a an what "
    "your our one constant sin exile same different sync"
).union(MONTH_NAMES, WEEKDAYS)
SHORT_STAY = pattern(
    r"\b(?:this (?:week|month|weekend|summer|semester)|for now|temporar\w{2,4}|for (?:a|an|one|two|three|four|five|\d+|a few"
    r"|a couple of) (?:days?|weeks?|months?|years?|nights?|while|bit)"
    r"|until|today|tonight|at the moment|right now|next \w+|in this|when|if|would|hotel|airbnb|hostel|briefly|then|soon"
    r"|tomorrow|would)\b"
)
WENT_BACK = pattern(r"\b(?:but|then|and then)\b.{0,40}\b(?:back|came|left|returned|moved|hated)\b")
# After "started a new job at Hooli": when, where or as what, and what shows that it is over or was long ago.
STARTED_WHEN = pattern(
    r"\s*(?:$|(?:as an?|last|this|recently|in "
    + MONTH_PATTERN
    + r"|in (?-i:[A-Z])\w+|on \w{3,6}day)\b|(?P<day>today|yesterday)\b)"
)
STARTED_ONCE = pattern(
    r"\b(?:(?:19|20)\d\d|ago|left|quit|fired|laid off|turned|declined|rejected|until|then|back|years?|when|straight|before|once"
    r"|after|first job|didn't|but)\b"
)
AFTER_VALUE = pattern(r"\s*(?:$|[,;:!.)(…\"]|[-–—]{1,2} |(?:and|but|so|not|if|in case|btw|please|thanks|now|instead)\b)")
ORGANISATION = pattern(
    r"(?:an?|the) (?:[\w'-]{1,20} ){0,4}(?:company|hospital|school|startup|start-up|bank|firm|shop|store|bakery|university"
    r"|college|restaurant|café|cafe|clinic|agency|factory|lab|laboratory"
    r"|library|museum|charity|non-?profit|ngo|government|council|city|city of \w+|state|hotel|studio|bookstore|bookshop"
    r"|pharmacy|brewery|bar|organi[sz]ation|corporation|post office|"
    r"publisher|newspaper|farm|gym|salon|law firm|consultancy|department|ministry|airline|airport|nursery|warehouse"
    r"|supermarket|zoo|theat(?:re|er)|church|university of \w+)\b"
)
_OCCUPATIONS = any_of(
    "accountant actor actress actuary administrator analyst animator anthropologist architect archaeologist artist "
    "astronomer attorney auditor author baker banker "
    "barber barista bartender biologist bookkeeper botanist builder bus_driver butcher carpenter cashier chef chemist "
    "chiropractor cleaner coach "
    "comedian composer consultant contractor copywriter counselor counsellor curator dancer data_scientist dentist designer "
    "developer dietitian director "
    "dj doctor economist editor electrician engineer entrepreneur epidemiologist farmer filmmaker firefighter fisherman "
    "flight_attendant florist gardener "
    "geologist hairdresser historian illustrator interpreter investor janitor jeweler journalist judge landscaper lawyer "
    "lecturer librarian linguist "
    "locksmith machinist manager marketer mason mathematician mechanic midwife musician neurologist nurse nutritionist "
    "optometrist painter paralegal paramedic "
    "pastor pediatrician personal_trainer pharmacist philosopher photographer physician physicist physiotherapist pilot "
    "plumber podcaster police_officer "
    "politician postdoc potter principal producer professor programmer psychiatrist psychologist radiologist realtor "
    "receptionist recruiter reporter researcher "
    "sailor salesperson scientist sculptor secretary security_guard singer social_worker software_engineer soldier "
    "sound_engineer statistician student "
    "surgeon surveyor tailor taxi_driver teacher technician therapist tour_guide translator truck_driver tutor tutor "
    "undertaker veterinarian vet waiter waitress "
    "welder writer yoga_instructor zookeeper stay-at-home_mom stay-at-home_dad homemaker"
)
IN_OFFICE = pattern(r"as an? (?:[\w-]{2,20} ){0,4}?(?!student\b)" + _OCCUPATIONS + r"\b")
OCCUPATION = pattern(
    r"an? (?:[\w-]{2,20} ){0,4}?" + _OCCUPATIONS + r"(?=$|[,;.!()…]| (?:at|in|for|with|by|from|and|but"
    r"|so|working|based|specializing|specialising|living|of|here|now|currently|myself)\b)"
)
NOT_JOB = words(
    "bad terrible horrible wannabe aspiring former ex future amateur good great decent natural born better big total real "
    "budding lousy slow fast huge "
    "would-be hopeful beginner frustrated worried hobby hobbyist self-taught better visual quick lifelong fellow potential "
    "second-rate great little fan of for in at to "
    "avid curious keen people true bit lot non not"
)
DATE = pattern(
    r"(?:(?:the )?\d{1,2}(?:st|nd|rd|th)?(?: of)? "
    + MONTH_PATTERN
    + r"\b|"
    + MONTH_PATTERN
    + r"\b(?: (?:the )?\d{1,2}(?:st|nd|rd|th)?\b)?"
    r"|\d{1,4}[./-]\d{1,2}(?:[./-]\d{1,4})?|the \d{1,2}(?:st|nd|rd|th)(?! (?:best|time)))(?:,? \d{4}\b)?"
)
EMAIL = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")
PHONE = re.compile(r"[+(]?\d[\d ()./-]{4,20}\d")
CODE_VALUE = re.compile(r"(?=\S{0,40}\d)[\w#][\w#/.:+-]{0,39}(?<![.:])")
PRONOUNS = pattern(
    r"(?:(?:she|he|they|it|xe|ze|fae|any|ey)(?: ?/ ?(?:her|hers|him|his|them|theirs|they|she|he|it|its|xem"
    r"|hir|zir|faer|any)){1,3}|any(?= pronouns|$|[,.;!]))(?: pronouns)?",
    re.IGNORECASE,
)
ZONE = re.compile(
    r"(?:[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_]+){1,2}|(?:UTC|GMT)(?:\s?[+−-]\s?\d{1,2}(?::?\d\d)?)?|(?:[ECMP][SD]T|ET|PT|CT|MT"
    r"|CET|CEST|EET|EEST|WET|BST|IST|JST|KST|AEST|AEDT|NZST|SGT|HKT|MSK|AKST|HST)\b"
    r"|(?:US\s)?(?:Eastern|Pacific|Central|Mountain|Atlantic)(?:\s(?:Standard|Daylight|European))?(?:\s[Tt]ime)?)"
)
LANGUAGES = words(
    "afrikaans albanian amharic arabic armenian basque bengali bulgarian cantonese catalan chinese croatian czech danish "
    "dutch english esperanto estonian finnish "
    "french galician georgian german greek gujarati hausa hebrew hindi hungarian icelandic igbo indonesian irish italian "
    "japanese kannada korean kurdish latin "
    "latvian lithuanian malay malayalam maltese mandarin marathi mongolian nepali norwegian persian farsi polish portuguese "
    "punjabi romanian russian serbian "
    "sinhala slovak slovenian somali spanish swahili swedish tagalog tamil telugu thai turkish ukrainian urdu vietnamese "
    "welsh xhosa yoruba zulu"
)
LANGUAGE_EXTRAS = words(
    "and or a little bit of some fluent basic native both conversational fluently natively languages "
    "brazilian mandarin sign american british at home with my family only"
)
RELATION = any_of(
    "wife husband partner spouse girlfriend boyfriend fiancé fiancée fiance fiancee son daughter child kid baby mother mom "
    "mum father dad brother sister twin aunt uncle "
    "cousin niece nephew grandmother grandma grandfather grandpa grandson granddaughter friend best_friend roommate flatmate "
    "housemate boss manager colleague coworker "
    "neighbor neighbour dog puppy cat kitten parrot hamster rabbit horse fish goldfish bird turtle tortoise snake lizard "
    "guinea_pig pet teacher doctor therapist dentist vet "
    "stepson stepdaughter stepmother stepfather godson goddaughter landlord landlady gp assistant mentor"
)
# Relations with one holder at a time, with the last part of their key.
HOLDERS = {
    name: key
    for key, names in (
        ("manager", "manager boss"),
        ("partner", "partner wife husband spouse girlfriend boyfriend fiancé fiancée fiance fiancee"),
        ("mother", "mother mum mom"),
        ("father", "father dad"),
        ("landlord", "landlord landlady"),
        ("doctor", "doctor gp"),
        ("roommate", "roommate flatmate housemate"),
        ("therapist", "therapist"),
        ("dentist", "dentist"),
        ("vet", "vet"),
    )
    for name in names.split()
}
# Before a relation these name the current holder; "old", "late", "bank" or "dance" name another.
SAME_HOLDER = words("new current present direct line immediate own lovely dear wonderful amazing beautiful family primary care")
# Capitalised words after "my boss is …" that are no names.
NOT_HOLDERS = (
    NATIONS
    | LANGUAGES
    | words(
        "north south east west northern southern eastern western central native first second gen type mr head vice "
        "afghan african-american alaskan algerian angolan arab aussie bangladeshi belarusian bolivian bosnian brit chilean "
        "colombian congolese cuban cypriot czech dominican dutchman ecuadorian emirati ethiopian filipino filipina frenchman "
        "ghanaian guatemalan haitian hawaiian hispanic honduran icelander indonesian iranian iraqi jordanian kazakh kiwi "
        "kosovar kuwaiti lankan latinx lebanese libyan malaysian moroccan namibian nepali nicaraguan omani palestinian "
        "panamanian paraguayan peruvian puerto qatari rican rwandan salvadoran saudi scot serb sikh singaporean slovene "
        "somali southerner sudanese swede syrian taiwanese tanzanian texan tibetan tunisian turk ugandan uruguayan uzbek "
        "venezuelan welshman yemeni zambian zimbabwean new yorker londoner parisian berliner "
        "anglican atheist baptist evangelical jain lutheran methodist mormon orthodox presbyterian protestant quaker "
        "democrat republican labour tory conservative liberal libertarian navy army "
        "aries taurus gemini cancer leo virgo libra scorpio sagittarius capricorn aquarius pisces "
        "vegan vegetarian god satan hitler voldemort superman santa jesus chatgpt claude gpt siri alexa google downtown "
        "team pro marine born"
    )
) - words("leo")
TITLES = words("Dr Mr Mrs Ms Prof Sir Dame")
NAMED_LIKE_PEOPLES = words(
    "adrian bastian brian cassian cillian cristian damian dorian fabian florian gillian hadrian ian jillian julian kilian "
    "killian lilian lillian marian maximilian octavian sebastian trish tristian vivian xian"
)
PET = any_of(
    "dog puppy cat kitten parrot hamster rabbit horse goldfish turtle tortoise snake lizard guinea_pig retriever "
    "poodle terrier beagle corgi labrador shepherd collie bulldog "
    "dachshund husky tabby siamese chihuahua pug spaniel son daughter brother sister twin wife husband partner "
    "girlfriend boyfriend pony canary cockatiel ferret"
)
DIET = pattern(
    r"(?:an? )?(?:strict |lifelong |mostly )?(?:vegetarian|vegan|pescatarian|pescetarian|flexitarian|gluten-free|gluten free"
    r"|dairy-free|dairy free)"
    r"(?=$|[,;.!()…]| (?:and|but|so|now|since|because|who|i|i'm|what|can|could|too|btw|by the way|myself|though)\b)"
)
CONDITIONS = pattern(
    r"(?:an? )?(?:lactose intolerant|lactose-intolerant|gluten intolerant|gluten-intolerant|diabetic|type"
    r" \d diabetic|c(?:o)?eliac|colou?rblind|colou?r blind|left-handed|dyslexic|deaf|nearsighted|asthmatic)"
    r"(?=$|[,;.!()…]| (?:and|but|so|since|because|i|i'm|what|can|could|too|btw|by the way|though)\b)"
)
FIELDS = pattern(
    r"(?:the )?(?:[\w-]{3,15} )?(?:marketing|finance|sales|hr|human resources|tech|it|healthcare|education"
    r"|advertising|publishing|construction|hospitality|retail|logistics|insurance|consulting|law|real estate|banking"
    r"|software|cybersecurity|biotech|journalism|academia|manufacturing|agriculture|public relations|customer"
    r" service)(?: industry| sector| department)?(?=$|[,;.!()…]| (?:and|but|so|at|for)\b)"
)

# Words about the conversation itself or about now are not lasting likes.
JOKES = words("nonsense bullshit stupidity work people drama mornings commitment exercise mondays fun idiots")
NOT_LIKED = words(
    "whichever "
    "that this it it's its the your you you're what how when where who why whatever him her them me us these those both "
    "either neither a an my our one ones some any everything "
    "nothing anything something seeing hearing knowing meeting and as so more most all if just not having each no every also "
    "their his its"
)
PASSING = words(
    "you your you're yours this that that's these those it it's its here there option options idea ideas suggestion "
    "suggestions plan plans version recommendation recommendations "
    "approach now today tonight tomorrow yesterday one ones him her them already if would more better lately sound proposal "
    "draft theme's concept answer above below latter former instead "
    "though both number their his itself mondays thing everything anything something"
)
NOT_TO = words(
    "think say know see hear add ask point thank imagine be believe admit break note mention learn make have get "
    "do go try keep start use find hear consider call"
)
ANSWERS = r"(?:answers?|replies|reply|responses?|explanations?|messages|summaries|text|feedback)"
_VERSUS = r"(?: (?:over|to|rather than|instead of|than|not|and not)\b.{1,60})?"
TOPICS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (f"user.prefers.{name}", pattern(r"(?:the |an? |my |having |using |to use |to have )?(?:" + text + r")" + _VERSUS))
    for name, text in (
        ("theme", r"(?:dark|light) (?:mode|themes?)"),
        ("seat", r"(?:window|aisle|middle|exit row) seats?"),
        (
            "language",
            r"(?:"
            + ANSWERS
            + r" |to (?:chat|talk|speak) )in (?:british |american |brazilian |simple )?"
            + any_of(" ".join(LANGUAGES)),
        ),
        (
            "units",
            r"(?:the )?(?:metric|imperial)(?: units| system| measurements)?|celsius|fahrenheit|kilomet(?:re|er)s?"
            r"|miles|kilograms|pounds|degrees celsius",
        ),
        (
            "length",
            r"(?:very )?(?:short|brief|concise|long|detailed|in-depth|thorough|terse|succinct|shorter|longer"
            r"|one-line)(?:,? (?:and )?\w+)? " + ANSWERS,
        ),
        (
            "tone",
            r"(?:formal|informal|casual|friendly|professional|neutral|direct|playful|warm)(?: (?:and|but) \w+)? (?:tone"
            r"|language|style|" + ANSWERS + ")",
        ),
        (
            "date_format",
            r"(?:dates? (?:as|in|formatted as|written as) )?(?:yyyy-mm-dd|dd/mm/yyyy|mm/dd/yyyy|dd\.mm\.yyyy|iso"
            r" 8601|iso)(?: dates| date format| format)?",
        ),
        ("editor", r"vim|neovim|emacs|vs ?code|sublime(?: text)?|nano|pycharm|intellij|helix|zed|notepad\+\+"),
        (
            "currency",
            r"(?:(?:prices|amounts|costs) )?in (?:euros?|(?:us )?dollars|pounds|yen|eur|usd|gbp|chf|francs)"
            r"|(?:euros?|eur|usd|gbp)",
        ),
        ("clock", r"(?:the )?(?:24|12)[- ]hour (?:clock|time|format)"),
        ("indent", r"tabs|spaces"),
    )
)
FAVOURITES = {
    name: name
    for name in "food drink animal number season movie book song band sport team author singer artist "
    "fruit flower game cuisine dessert".split()
} | {"colour": "colour", "color": "colour", "film": "movie"}
NOT_FAVOURITE = words("part thing things one ones bit aspect way about of this that so far time moment memory line quote option")
