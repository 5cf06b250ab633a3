"""Patterns for messages and sentences: pasted text, doubt, requests, notes.

No pattern has an unbounded repeat inside another, so matching time stays linear; a test checks them all.
"""

from __future__ import annotations

import re

from keepstone.learning.values import ANSWERS, LANGUAGES, any_of, pattern, words
from keepstone.text import english
from keepstone.text.english import WEEKDAY_PATTERN

# -- the message as a whole --

INJECTION = pattern(
    r"\b(?:ignore|disregard|forget|override|bypass) (?:\w+ ){0,3}(?:instructions?|prompts?|rules|above|guidelines|directives)\b"
    r"|\bsystem prompt\b|\byou are now\b|\bdeveloper mode\b|\bjailbreak|<\||\[/?inst\]|</?(?:system|user|assistant"
    r"|instructions?)>"
    r"|\bnew (?:system )?instructions?:|^\s{0,9}#{2,9} ?(?:system|instruction)|\byour (?:new|real) (?:task|instructions?|role)"
    r" (?:is|are)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Another person's text, or a text to work on: nothing in it is the speaker's own statement.
PASTED = pattern(
    r"^[^\S\n]{0,20}(?:user|human|assistant|bot|ai|chatbot|me|q|a|speaker \d|interviewer|customer|agent) ?:"
    r"|^[^\S\n]{0,20}(?:from|to|cc|subject|sent|re|fwd):|^[^\S\n]{0,20}dear\b[^\n]{0,60},[^\S\n]{0,20}$"
    r"|^[^\S\n]{0,20}[\[{]\s{0,20}[\"{\[]"
    r"|</?[a-z][a-z0-9]{0,9}[ >/]"
    r"|\b(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|shorten|polish|reword|edit|correct|analy[sz]e) "
    r"(?:this|it|that|these|the above|my (?:text|essay|paragraph|sentences?))\b"
    r"|\b(?:how (?:do|would|can) (?:you|i|we) say|what does) (?:this|it|the above)\b",
    re.IGNORECASE | re.MULTILINE,
)
# What follows is material, fiction, or another person's words.
NOT_MINE = pattern(
    r"\b(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|transcribe|reword)\b"
    r"|\b(?:fix|correct|check|improve) (?:the|my|this) (?:grammar|spelling|text|sentence|essay|paragraph)\b"
    r"|\b(?:write|draft|compose|generate|create|make up|come up with|craft) (?:(?:me|us|up) )?(?:an? |the |some |my |\d+"
    r" )?(?:\w+ ){0,3}"
    r"(?:e-?mail|letter|story|poem|song|bio|biography|essay|speech|script|dialogue|scene|sentences?|post|message|paragraph"
    r"|resume|cv"
    r"|statement|introduction|profile|tweet|caption|novel|review|article|report|summary|prompt|blog|chapter|monologue|text)s?\b"
    r"|\b(?:pretend|imagine|suppose|supposing|assume|assuming|hypothetically|let's say|lets say|role-?play(?:ing)?|role play"
    r"|act as"
    r"|act like|acting as|play the role|make believe|(?:finish|complete|continue) the (?:lyrics|sentence|story|line)|for the"
    r" sake of argument|you are|you're (?:a|an|my|the)|picture this)\b"
    r"|\b(?:in|of) (?:the|my|this|a|our) (?:\w+ )?(?:story|novel|game|book|film|movie|play|dream|scene|scenario|song|poem"
    r"|script|campaign|show"
    r"|example|exercise|simulation)\b"
    r"|(?:^|\n|[.!?] )say i(?:'m)?\b"
)
LOG_LINE = pattern(
    r"^[^\S\n]{0,20}(?:>|\||\d{4}-\d\d-\d\d[ t]\d|\[?\d\d:\d\d|(?:error|info|warn|warning|debug|fatal|trace)\b ?[:\]]|#include"
    r"|import |def |class |return |//"
    r"|[\w.]{1,40}\(|\w{1,40} ?=[^=]|(?:    |\t)[^\s\-*\d])[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
CODE = pattern(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]{1,200}`", re.DOTALL)
LISTED_AFTER = pattern(r":[^\S\n]{0,20}\n", re.IGNORECASE)
ABOUT_ME = pattern(r"\b(?:about me|facts?|remember|note|context|background|know)\b")
QUOTED = pattern(r"\"[^\"\n]{0,600}(?:\"|$)|(?<![\w'])'(?=\w)[^'\n]{0,300}(?:'\w[^'\n]{0,300}){0,20}'(?!\w)", re.MULTILINE)
SECRET = pattern(
    r"\b(?:passwords?|passcode|passphrase|pin|pin (?:code|number)|cvv|cvc|ssn|social security number|(?:credit |debit |bank"
    r" )?card number"
    r"|api key|secret key|private key|seed phrase)(?:'s| is| are| =|:)"
)
SENTENCE_END = re.compile(r"[.!?…]{1,8}(?=[\"')\]]{0,4}(?:\s|\Z))|\n+")
ABBREVIATIONS = english.ABBREVIATIONS | words("ft inc a.m p.m dept")

# -- the sentence --

# Before a statement these cancel it: a condition, a wish, a doubt, or another speaker.
DOUBT = pattern(
    r"\b(?:if|whether|wish|hope|hoping|maybe|perhaps|suppose|imagine|pretend|says?|said|saying|tells?|told|thinks?|thought"
    r"|guess|believes?"
    r"|claims?|asks?|asked|dreamed|dreamt|apparently|assum\w{1,3}|hypothetically|unless|not sure|according to|lyrics|song"
    r"|quote|quoted|title"
    r"|character|as though|joke|joked|kidding|until|once|whenever|before|used to|wonder|wondering|sentence|phrase|e\.g)\b"
    r"|^\s*(?:when|while|where|as (?!i\b|you\b))"
)
TAKEN_BACK = pattern(
    r"\bin (?:this|that|the|my|a) (?:scenario|story|game|novel|dream|film|movie|book|play|example|exercise|roleplay"
    r"|campaign)\b|\b(?:he|she|they) (?:say|says|said)\b"
    r"|\blanguage model\b|\b(?:respond|reply|answer|speak) as (?:the|an?|my)\b|\bi(?:'m| am) an ai\b|\b(?:just|i'm|am)"
    r" (?:kidding|joking)\b|\bjk\b|\b(?:not really|or something|i"
    r" said|i"
    r" think|i guess|or maybe|i wish)\W*$"
)
ASKING = pattern(
    r"(?:(?:^|[,;:] ?| - |\b(?:and|but|so|then) )(?:(?:what|how|where|which|who|why|when|any)(?:'s|'re)? \w|what's \w"
    r"|(?:can|could|would|will|do|does|did|are|is|should|have|has|may) (?:you|i|we|there|it|that|they|these|the|any)"
    r" (?!not\b)\w))"
    r"|\b(?:can|could|would) (?:you|i|we) \w|\bwhat (?:can|should|could|would|are|is|do)\b|\bdo you \w|\bany (?:idea|tip"
    r"|suggestion|recommendation|advice)"
)
CORRECTS = pattern(
    r"\b(?:actually|no|nope|sorry|correction|scratch that|wait|oops|i meant?|on second thoughts?|my mistake|apologies|to"
    r" correct)\b"
)
_SINCE = r"(?:now|today|yesterday|(?:this|last) (?:week|month|year)|(?:(?:this|last) )?" + WEEKDAY_PATTERN + r")"
# At the end of a clause these only say that it holds now.
NOW = pattern(
    r" (?:(?P<moment>right now|at the moment|at present)|now(?! and (?:then|again)\b)|these days|nowadays|currently"
    r"|(?:as of|since) " + _SINCE + r")\b(?=\s*(?:$|[,;:!?.)(…–—]|-{1,2}\s"
    r"|(?:and|but|so|because|since|though|although|instead|not|btw|thanks|lol|haha|too|i|i'm|im|we)\b))"
)
# "Oh great, I'm a therapist now": said in jest.
IN_JEST = pattern(
    r"^\W*(?:(?:oh|great|wow|ah|ok|okay|well|so|guess)\W{1,3}){1,3}i(?:'?m| am) an? |\b(?:apparently|supposedly|lol|haha|lmao)\b"
)
# What may stand between the start of a clause and its statement.
FILLERS = pattern(
    r"(?:^|(?<=[\s,.:;!(*•-]))(?:hi|hello|hey|hiya|greetings|good (?:morning|afternoon|evening)|thanks|thank you|well|so|ok"
    r"|okay|oh|ah|um|yes|yeah|yep|no|nope|sure"
    r"|also|btw|by the way|fyi|actually|sorry|correction|scratch that|wait|oops|i meant?|on second thoughts?|my mistake"
    r"|apologies|and|but|plus|because"
    r"|since|given that|considering(?: that)?|just|just so you know|for the record|for context|for reference|for what it's"
    r" worth|honestly|personally"
    r"|as you know|as i (?:said|mentioned)|like i said|i should (?:mention|add)(?: that)?|i told you(?: that)?|to be clear"
    r"|in case you|please|quick note"
    r"|about me|(?:quick |short )?intro|one more thing|another thing|besides|right|great|cool|there|however|though|although"
    r"|now|then|these days|nowadays|as of " + _SINCE + r"|to be honest"
    r"|tbh|anyway|in fact|basically"
    r"|currently|a bit about me|you should know(?: that)?|i am saying|note to self|important|update|heads up|first(?: of"
    r" all)?|second(?:ly)?|finally|ps|p\.s"
    r"|(?:hi|hello|hey|thanks|thank you|wow|yeah|oh|sure|ok|okay|no|yes|sorry)(?: there| again|,)? [a-z]\w{1,15})(?=$|[\s,.:;!-])"
)
CONDITION = words("at on in during when for after before while with under as from between by every whenever without")

# Where one clause ends and the next begins.
_SUBJECT = any_of(
    "i im i'm i've i'd i'll i'm my we we're we've our he she it it's they they're you you're you'll your his her their this "
    "that that's there there's these those please can could "
    "would do don't does am was have haven't need want wants looking trying hoping thinking wondering will then also never "
    "always what what's how not just "
    "currently recently let let's let me is are has had everyone people nobody somebody someone where when who why feel "
    "think got went would was were love "
    "hate prefer like live work planning thanks sorry call usually often always really especially maybe if even nothing both "
    "all one"
)
CUT = pattern(
    r",?\s(?:and|but|so|or|because|since|as|while|though|although|plus|however|yet) (?=" + _SUBJECT + r"\b)"
    r"|\s(?:so|but|though|although|which|where|whose|who|whereas|except|hence|therefore) |[;!?(…]|\s[-–—]{1,3}\s|—|:\s|\n"
    r"|,\s|[\U0001f300-\U0001faff☀-➿]"
    r"|(?P<run>\s)(?=" + any_of("i im i'm i've i'd can_you could_you what_should what_can please thanks we're we") + r"\b)"
)
GOES_ON = words(
    "when whenever if with in of on at to for from by and or near than over about because like while before "
    "after since all that as is where what how"
)
STARTS_CLAUSE = pattern(
    r"(?:and |but |so )?" + _SUBJECT + r"\b|(?:but|so|which|though|thanks|thank|right|btw|by|lol|haha"
    r"|not|nice|which|because|since|especially|although)\b"
)
TRAILING = pattern(
    r"(?:,? ?\b(?:btw|by the way|thanks|thank you|please|lol|haha|though|too|as well|fyi|tbh|honestly|actually|you know"
    r"|instead|and so on|etc|so much|a lot"
    r"|in case you need it)|[\s,.:;!*_])$"
)
NOT_TAIL = pattern(r"[, ]+(?:and )?not (?!only\b|just\b|sure\b)[^,.;!?]{1,60}")

# -- standing requests to the assistant --

_STYLE = (
    r"(?:emojis?|metric|imperial|celsius|fahrenheit|units|bullet(?: |-)?points?|bullets|lists|tables?|markdown|headings"
    r"|headers|spelling|(?:british |american )?english|"
    + any_of(" ".join(sorted(LANGUAGES)))
    + r"|tone|language|exclamation (?:marks|points)|em(?: |-)dash(?:es)?|jargon|slang|(?:24|12)[- ]hour|dates?|prices|euros"
    r"|dollars|pounds|links|sources|citations|references|comments|type hints"
    r"|dark mode|light mode|tabs|spaces|sarcasm|profanity|acronyms|abbreviations|contractions|hashtags|passive voice|oxford"
    r" commas?|my (?:first |last |full )?name|code blocks?|kilomet(?:re|er)s)"
)
STANDING = pattern(
    r"(?:please )?(?P<ask>(?:always|never|from now on,?|don't ever|do not ever|in (?:the )?future,?)(?: please)?(?: only)? "
    r"(?:(?:answer|reply|respond|talk|speak|write|explain|write back)(?: things| to me| me)?(?: only)? (?:in|with|as|using"
    r"|like|briefly|concisely|formally|informally|politely|to the point)\b"
    r"|(?:use|include|show|add|write|avoid|give(?: me)?|put|insert|format|send me|convert|spell) (?:[\w-]{1,15} ){0,3}"
    + _STYLE
    + r"\b"
    r"|(?:call|address) me (?:by|as)\b|apologi[sz]e\b|keep (?:your |the |all )?" + ANSWERS + r" \w|(?:cite|quote) (?:your"
    r" )?sources?\b|greet me\b|(?:swear|curse)\b"
    r"|(?:start|end|begin|finish) (?:your |a |every |each )" + ANSWERS + r"\b|(?:ask|tell|remind) me (?:before|first|about)\b))"
)
ONE_TASK = pattern(r"\b(?:here|this|that|these|below|above|following|c|file|code review|function)\b")
ASKED_TOPICS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "user.prefers.language",
        pattern(
            r"\bin (?:british |american |brazilian |simple )?"
            + any_of(" ".join(sorted(LANGUAGES)))
            + r"$|\buse (?:british |american )"
            + r"(?:english|spelling)$"
        ),
    ),
    ("user.prefers.units", pattern(r"\b(?:metric|imperial)(?: units| system)?$|\b(?:celsius|fahrenheit|kilomet(?:re|er)s)$")),
    ("user.prefers.currency", pattern(r"\bin (?:euros|(?:us )?dollars|pounds|eur|usd|gbp)$")),
    (
        "user.prefers.tone",
        pattern(
            r"\b(?:formal|informal|casual|friendly|professional) (?:tone|language|style)(?: with me|"
            r" please)?$"
        ),
    ),
    (
        "user.prefers.length",
        pattern(
            r"\b(?:" + ANSWERS + r" )(?:short|brief|concise|long|detailed)$|\b(?:briefly|concisely)$"
            r"|\b(?:short|brief|concise|long|detailed) " + ANSWERS + "$"
        ),
    ),
    ("user.prefers.theme", pattern(r"\b(?:dark|light) mode$")),
    ("user.prefers.clock", pattern(r"\b(?:24|12)[- ]hour (?:clock|time|format)$")),
)

# -- notes --

REMEMBER = pattern(
    r"(?P<ask>(?:please |pls |kindly )?(?:always )?(?P<verb>remember|don't forget|do not forget|keep in mind|bear in mind"
    r"|make a note|take a note|note(?: down)?|for (?:future|your) reference|for later)"
    r"(?P<this> this| the following)?(?P<link> that|:|,| -)?) "
)
NOTE_START = re.compile(r"(?:the|The|all|All|every|Every|each|Each|you|You|on|at|there's|\d\S{0,20}|[A-Z]\S{0,30})\s")
AT_HAND = pattern(
    r"\b(?:here|this|code|function|script|file|error|version|compiles?|program|method|class|variable|query|bug"
    r"|example)\b"
)
KINDLY = pattern(r"(?:please|pls|kindly)\b")
ADDRESSEE = pattern(r"\byou(?:r|rs|'\w{1,3})?\b")
TOGETHER = pattern(r"\b(?:we|we're|we've|our|us|you|your|you're|let's)\b")
MY = pattern(r"\bmy\b")
ME = pattern(r"\bme\b")
FIRST_PERSON = pattern(r"\b(?:i|i'm|i've|i'll|i'd|my|me|mine|myself|we|we're|we've|our|ours|us)\b")
SPEAKER = pattern(r"\b(?:i|i'm|i've|i'll|i'd|mine|myself|we|we're|we've|we'll|our|ours|us|you|you're|your|yours|you'll|let's)\b")
DEICTIC = pattern(
    r"(?:it|it's|this|that|that's|he|she|they|these|those|to|when|how|what|where|who|why|me|if|is|are|not|time"
    r"|the time)\b"
)
I_VERB = pattern(
    r"i(?:(?P<be>'m| am)|(?P<have>'ve| have)|(?P<will>'ll)|(?P<nt> don't| do not)| (?P<same>was|can|can't|cannot|will|won't"
    r"|should|must|had|[a-z]{3,12}ed|got|went|bought|left|met|made|found|gave)|"
    r" (?P<verb>need|want|like|love|hate|work|live|prefer|use|own|drive|play|study|take|teach|run|sleep|wake|start|finish"
    r"|keep|eat|drink|know|speak|travel|rent|manage))(?= )"
)
