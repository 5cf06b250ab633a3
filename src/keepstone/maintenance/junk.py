"""What is no memory at all: greetings, empty facts, noise of tools, talk about the talk. Pure.

Every rule asks for the whole text, or for its beginning, so that one detail more ("the user asked a question about tax in Malta")
makes a memory of it. What no rule knows is kept: junk left behind costs little, a memory lost costs the user.
"""

from __future__ import annotations

import json
import re
import unicodedata

_HEAD = 20_000  # characters that are looked at
_SHORT = 200  # longer texts are never chatter
_TELLING = 16  # words of a statement about the talk itself
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_ONE_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]{0,29}")
_SPACED = re.compile(r"[a-zà-ɏͰ-ӿ]*", re.IGNORECASE)  # scripts that put spaces between words

_CHATTER_TEXT = """
hello | hello there | hello again | hi | hi there | hi again | hey | hey there | heya | hiya | howdy | yo | sup | what's up
whats up | good morning | good afternoon | good evening | good night | goodnight | morning | evening | greetings | welcome
welcome back | how are you | how are you doing | how are you today | how's it going | how is it going | nice to meet you
pleased to meet you | i'm fine | i am fine | i'm good | i'm fine thanks | i'm doing well | and you | you too | bye | bye bye
goodbye | good bye | see you | see you later | see you soon | see ya | cya | later | talk later | talk to you later
take care | have a nice day | have a good day | have a great day | have a nice weekend | thanks | thank you | thx | ty | tysm
thanks a lot | thanks so much | thank you so much | thank you very much | many thanks | cheers | thanks again
thanks for your help | thank you for your help | thanks for the help | much appreciated | appreciate it | you're welcome
no problem | np | no worries | my pleasure | don't mention it | anytime | ok | okay | okey | k | kk | okie | alright
all right | right | sure | sure thing | of course | certainly | absolutely | definitely | yes | yeah | yep | yup | ya
yes please | please | no | nope | nah | no thanks | no thank you | not really | maybe | perhaps | agreed | got it | i see
i understand | understood | noted | makes sense | that makes sense | fair enough | sounds good | that sounds good
sounds great | perfect | great | good | nice | cool | awesome | amazing | excellent | wonderful | fine | wow | very good
very nice | that's great | that's good | that's nice | that's cool | that's perfect | looks good | looks great | well done
good job | great job | hm | hmm | hmmm | hm ok | uh | um | uhm | er | ah | aha | oh | oh ok | oh i see | huh | lol | haha
hahaha | hehe | rofl | lmao | xd | sorry | i'm sorry | my bad | oops | whoops | pardon | excuse me | never mind | nevermind
nvm | go on | continue | go ahead | next | done | test | testing | test test | this is a test | just testing | just a test
asdf | asdfasdf | qwerty | foo | bar | foo bar | baz | blah | lorem ipsum | lorem ipsum dolor sit amet | na | none
null | nil | undefined | nan | unknown | n a | todo | tbd | placeholder | i don't know | idk | not sure | i'm not sure | no idea
i guess | whatever | anything else | that's all | that's it | nothing | nothing else | hallo | guten morgen | guten tag
guten abend | gute nacht | moin | moin moin | servus | grüß gott | grüezi | wie geht's | wie geht es dir | wie geht es ihnen
danke | danke schön | dankeschön | danke sehr | vielen dank | vielen lieben dank | danke dir | danke ihnen | bitte
bitte schön | bitteschön | gerne | gern geschehen | tschüss | tschüs | ciao | auf wiedersehen | bis später | bis bald
bis morgen | schönen tag noch | ja | jawohl | nein | genau | klar | na klar | alles klar | in ordnung | passt | super | prima
gut | sehr gut | verstanden | bonjour | bonsoir | bonne nuit | bonne journée | salut | coucou | ça va | comment ça va
comment allez vous | merci | merci beaucoup | merci bien | de rien | je vous en prie | au revoir | à bientôt | à demain
à plus | à plus tard | oui | non | d'accord | très bien | parfait | bien sûr | entendu | s'il vous plaît | s'il te plaît
enchanté | hola | buenos días | buenas tardes | buenas noches | buenas | qué tal | cómo estás | cómo está | gracias
muchas gracias | mil gracias | de nada | adiós | hasta luego | hasta mañana | hasta pronto | sí | vale | claro | por supuesto
perfecto | muy bien | de acuerdo | por favor | entendido | mucho gusto | olá | oi | bom dia | boa tarde | boa noite | tudo bem
tudo bom | como vai | obrigado | obrigada | muito obrigado | muito obrigada | tchau | até logo | até amanhã | até mais | sim
não | com certeza | perfeito | muito bem | tá bom | tá | beleza | buongiorno | buon giorno | buonasera | buona sera
buonanotte | buona notte | salve | come stai | come va | come sta | grazie | grazie mille | molte grazie | prego | arrivederci
a presto | a domani | a dopo | sì | va bene | certo | certamente | perfetto | molto bene | d'accordo | per favore | capito
piacere
"""
_CHATTER = frozenset(
    tuple(_WORD.findall(phrase.casefold().replace("’", "'")))
    for line in _CHATTER_TEXT.strip().splitlines()
    for phrase in line.split(" | ")
)
_PHRASE = max(map(len, _CHATTER))
_FILLERS = frozenset("so very then now again everyone all guys friend and assistant claude chatgpt bot too just well".split())

_TALKS = frozenset("conversation chat dialogue discussion session interaction exchange".split())
_SUBJECTS = _TALKS | frozenset("user users human customer client person they he she i assistant ai agent bot chatbot".split())
_ACTS = _TALKS | frozenset(
    """
    said says saying wrote sent replied replies responded responds typed answered asked asks asking greeted greets
    greeting thanked thanking thanks welcomed acknowledged continued continues started begun began initiated ended ongoing
    resumed exchanged engaged engaging chatting talking speaking interacting conversing provided provide gave give offered
    offers offering shared share sharing helped helping seeking requested requesting mention mentioned specify reveal
    found extracted detected
    """.split()
)
_ABOUT_TALK = (  # a text of these words alone, with an act among them, says only that somebody spoke
    _SUBJECTS
    | _ACTS
    | frozenset(
        """
    the a an this our some another several many more further new any no other follow up followup initial brief casual
    general say ask having had over hello hi hey goodbye bye thank you ok okay yes question questions query queries
    message messages text input prompt reply response answer greetings pleasantries help assistance information support
    clarification something anything else details facts preferences personal relevant to with for in of by and or back is
    are was were has have been being just again yet currently politely simply how it can could may if needs need did does
    do not didn't doesn't hasn't haven't about themselves available nothing there memories memory
    """.split()
    )
)
_WISH = re.compile(  # what was asked for may be how to behave
    r"\bto (?!the\b|an?\b|this\b|our\b|some\b|another\b|(?:assistant|ai|agent|bot|chatbot|user|them)\b)"
    r"|\b(?:ask(?:s|ed|ing)?|request(?:s|ed|ing)?|needs?) .*\b(?:no|not|brief|casual|other)\b"
    r"|\b(?:may|can|could)(?: not)? (?:share|provide|give|ask|say|mention|reveal|specify)\b"
)
_NOTHING = re.compile(
    r"(?:there (?:is|was) )?nothing (?:new |else )?to (?:remember|store|save|extract|report|add)\W*", re.IGNORECASE
)
_GOOD_DAY = re.compile(r"\bgood (?:morning|afternoon|evening|night)\b", re.IGNORECASE)
_HOLLOW = frozenset(  # and a text of these alone states nothing in particular
    """
    the a an some certain various many several their his her its specific different personal particular own few user users
    human customer client person they he she i individual being someone somebody has have had holds expressed expresses
    mentioned mentions likes like prefers prefer knows uses does did thinks is are am was exists wants want needs need
    works lives speaks and preference preferences interest interests hobby hobbies issue issues problem problems opinion
    opinions thought thoughts idea ideas feeling feelings goal goals concern concerns thing things something stuff
    anything everything fact facts request requests topic topics information detail details help assistance
    """.split()
)
_USING = re.compile(
    r"(?:the )?(?:user|customer|human) is (?:using|testing|trying(?: out)?) (?:the |this |an? )?"
    r"(?:ai )?(?:app|application|system|assistant|chat|chatbot|ai|bot|service|tool|platform)\W*",
    re.IGNORECASE,
)

_CANNOT = r"(?:can(?:no|')t|am unable to|am not able to|'m unable to|'m not able to|won't be able to)"
_SORRY = r"(?:i(?:'m| am) sorry|i apologi[sz]e|sorry|unfortunately)[,.]?(?: for [^.]{1,40}[,.])? (?:but )?"
_REFUSAL = re.compile(
    r"(?:(?:assistant|ai|bot|answer|response)\s*:\s*)?[\"'“]?(?:"
    rf"(?:{_SORRY})?as an? (?:ai|artificial intelligence|large language model|language model|virtual assistant)"
    r"(?: (?:language )?(?:model|assistant))?(?: (?:made|trained|created|developed) by \w+)?(?:,| i\b)"
    rf"|{_SORRY}i ?{_CANNOT} (?:assist|help|comply|fulfill|provide|answer|access|generate|continue|share|discuss)\b"
    rf"|i ?{_CANNOT} (?:assist|help(?: you)?|comply|fulfill|provide|answer)\b(?: with)? (?:that|this|your request|such)"
    r"|i (?:do not|don't) have (?:access to (?:your|real-?time|the internet|previous|past)|any memory of"
    r"|memories of|personal (?:opinions|feelings|experiences|preferences))"
    r"|how (?:can|may) i (?:help|assist) you(?: (?:today|further|with (?:that|this)))?\W*$"
    r"|is there anything else (?:i can|you)"
    r")",
    re.IGNORECASE,
)
_TOOL = re.compile(
    r"(?:(?i:\[?(?:tool|function)[_ ]?(?:call|calls|result|results|output|response|use)\]?)\s*[:({\[<]"
    r"|<(?:tool_call|tool_result|function_call|function_results?|tool_use|tool_response)\b"
    r"|(?:calling|called|invoking|executing) (?:tool|function)\s*[:`'\"(]"
    r"|HTTP/\d(?:\.\d)? \d{3}\b|npm (?:ERR!|WARN)|(?i:process|command) (?:exited|finished) with (?:exit )?(?:code|status) \d+\W*$"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?\s+\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|TRACE|FATAL|CRITICAL)\b"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]+:|\$ (?:ls|cd|cat|git|npm|pip|docker|kubectl|curl)\b[^\n]*\n)",
)
_TOOL_MARKS = frozenset(
    "error errors stdout stderr exit_code returncode tool tool_name tool_call_id tool_use_id is_error ok success status".split()
)
_TOOL_FIELDS = _TOOL_MARKS | frozenset(
    "code result results message output type name arguments args id content data time timestamp duration_ms".split()
)
_FRAME = re.compile(
    r"\s*(?:File \"[^\"]+\", line \d+|at [\w.$<>/\[\] ]+\(.*\)|at (?:async )?\S+:\d+:\d+|goroutine \d+ \[|\.{3} \d+ more"
    r"|Caused by:|Traceback \(most recent call last\)|thread '[^']+' panicked at|[\w.]+(?:Error|Exception)\b(?::|$)|\^+\s*$"
    r"|\d+: 0x[0-9a-f]+)"
)
_BLOB = re.compile(r"(?:data:[\w/+.-]+;base64,)?([A-Za-z0-9+/_=\n\r-]{80,})")
_RUN = re.compile(r"(.{1,4}?)\1{5,}\W*", re.DOTALL)


def junk_reason(content: str) -> str | None:
    """Why a text is no memory, in plain words; None where it may be one.

    >>> junk_reason("ok, thanks!"), junk_reason("The user asked a question.")
    ('a greeting or an acknowledgement', 'says only that something was said')
    >>> junk_reason("The user asked how to renew a passport in Malta.") is None
    True
    """
    text = unicodedata.normalize("NFKC", content[:_HEAD]).replace("’", "'").strip()
    if not any(letter.isalnum() for letter in text):
        return "has neither a word nor a number"
    if len(text) <= _SHORT:
        if _chatter(text):
            return "a greeting or an acknowledgement"
        if _one_word(text):
            return "a single word without a key"
        if (told := _told(text)) is not None:
            return told
    if _REFUSAL.match(text):
        return "a model's own phrase, not a memory"
    return _noise(text)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _chatter(text: str) -> bool:
    """Whether a text is made of greetings and acknowledgements alone."""
    words = _words(text)
    at = 0
    found = False
    while at < len(words):
        for length in range(min(_PHRASE, len(words) - at), 0, -1):
            if tuple(words[at : at + length]) in _CHATTER:
                at, found = at + length, True
                break
        else:
            if not found or words[at] not in _FILLERS:
                return False
            at += 1
    return found and (not any(sign in text for sign in "=@#/\\") or words == ["n", "a"])


def _one_word(text: str) -> bool:
    bare = text.strip(" \t\n.!?…,;:\"'“”()*-")
    return bool(_ONE_WORD.fullmatch(bare) and _SPACED.fullmatch(bare.replace("'", "").replace("’", "").replace("-", "")))


def _told(text: str) -> str | None:
    if _NOTHING.fullmatch(text):
        return "says only that something was said"
    words = _words(_GOOD_DAY.sub("hello", text))
    if len(words) > _TELLING or not (_SUBJECTS.intersection(words) or words[0] in ("no", "nothing", "there")):
        return None
    if _ABOUT_TALK.issuperset(words) and _ACTS.intersection(words) and not _WISH.search(" ".join(words)):
        return "says only that something was said"
    hollow = (len(words) > 1 and _HOLLOW.issuperset(words)) or _USING.fullmatch(text)
    return "states nothing in particular" if hollow else None


def _noise(text: str) -> str | None:
    if _TOOL.match(text) or _tool_answer(text):
        return "noise of a tool"
    lines = [line for line in text.splitlines() if line.strip()]
    frames = sum(bool(_FRAME.match(line)) for line in lines)
    if frames >= 2 and (2 * frames >= len(lines) or text.startswith(("Traceback (most", "goroutine ", "Exception in thread"))):
        return "a stack trace"
    blob = _BLOB.search(text)
    if blob is not None and len(blob[0]) >= 0.8 * len(text) and _mixed(blob[1]):
        return "a block of encoded data"
    return "the same signs over and over" if _RUN.fullmatch(text) and not text.isdigit() else None


def _tool_answer(text: str) -> bool:
    if not text.startswith("{") or not text.endswith("}"):
        return False
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(read, dict) and bool(read) and read.keys() <= _TOOL_FIELDS and bool(read.keys() & _TOOL_MARKS)


def _mixed(run: str) -> bool:
    """Whether a run of signs is an encoding, and not a long word or a ruled line."""
    return any(sign.isdigit() for sign in run) and any(sign.isalpha() for sign in run) and len(set(run)) >= 12
