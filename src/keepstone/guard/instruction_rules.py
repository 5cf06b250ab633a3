"""The marks of instructions to a model, as rules for `instructions`. Data, compiled nowhere here.

A rule is worth its weight (0 to 1) once a family. Those of 0.5 and more are enough alone: hardly any honest page holds them. The
others count only beside another family. Texts are lowered before they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OVERRIDE: Final = "tells the reader to ignore earlier instructions"
ROLE: Final = "gives the reader another role, or takes its limits away"
TURNS: Final = "imitates a system message, a turn or a fence"
EXFILTRATION: Final = "asks for secrets, or for data to be sent somewhere"
TOOLS: Final = "tells the reader to use a tool or to run a command"
POISONING: Final = "tells the reader what to remember or to say from now on"
HIDDEN: Final = "asks to keep something from the user"
AUTHORITY: Final = "claims authority over other instructions"
COMPLIANCE: Final = "presses with policies or notices"
ADDRESSED: Final = "is addressed to an AI"
REPLY: Final = "says what the reader's answer must hold"
PLAIN: Final = "asks the reader to do something"


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one of the anchors (with semicolons between them) stands, the pattern has to match, and `before`, if any is given,
    has to lead up to it. An anchor begins with a sign, or its longest word is whole, or four letters or more of one."""

    reason: str
    weight: float
    anchors: str
    pattern: str
    before: str = ""


# G: the gap between two words of one sentence; words(n): up to n words in between. Words and gaps have no character in common and
# give nothing back, so that a try costs no more than the few words it reads.
G = r"[^\w.!?]{1,12}+"


def words(most: int) -> str:
    """Up to so many words, each with the gap after it."""
    return rf"(?:\w{{1,30}}+{G}){{0,{most}}}?"


SENTENCE = r"(?:(?<![^\n>\"“*(\[#-])|(?<=[.!?;:] )|(?<=[.!?]  )|(?<=\n[ *>#-])|(?<=\n[*>#-] ))"  # where a sentence may begin
LINE = r"(?:(?<![^\n])|(?<=\n[>#*\[ -])|(?<=\n[>#*-] )|(?<=\[))"  # where a line may begin
MODEL = (
    r"(?:(?:large )?language models?|ai (?:assistants?|agents?|systems?|models?|bots?)|ai|llms?|chat ?bots?"
    r"|(?:automated|autonomous) agents?)\b"
)
MODEL_ANCHORS = "ai ;llm;llms;language model;large language model;chatbot;chat bot;automated agent;autonomous agent"
AI = rf"(?:{MODEL}|(?:chatgpt|gpt(?:-\d)?|claude|gemini|copilot|assistants?)\b)"
ORDERS = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directions?|directives?|commands?|orders|constraints|guardrails|programming"
    r"|training)\b"
)
EARLIER = r"(?:previous|prior|above|earlier|preceding|former|foregoing|past|original|initial|system|your)\b"
IGNORE = (
    r"(?:\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|neglect|overrid(?:e|ing)|bypass|discard|set aside|pay no attention to"
    r"|not (?:follow|obey)|stop (?:following|obeying))|t (?:follow|obey))\b"
)
IGNORE_ANCHORS = (
    "ignore;ignoring;disregard;forget;neglect;override;overriding;bypass;discard;set aside;pay no attention;not follow;not obey"
    ";t follow;t obey;stop follow;stop obey"
)
ROMANCE_ORDERS = (
    r"(?:instru[cç]\w{3,6}|istruzioni|consignes?|r[eè]gles|reglas|regole|regras|indica[cz]ion[ei]s?|directi?ves|directrices"
    r"|diretrizes|direttive|orienta\w{3,5}|[oó]rdenes|ordini|ordens|comandos)"
)
ROMANCE_EARLIER = (
    r"(?:pr[eé]c[eé]dent\w{1,2}|ci-dessus|ant[eé]rieur|anterior|pr[eé]vi[ao]s|de arriba|acima|sopra|initiales|original)"
)
GIVE = (
    r"\b(?:send|forward|post|e-?mail|upload|transmit|append|leak|exfiltrate|submit|put|include|insert|embed|copy|attach|encode|tell"
    r"|show|print|output|list|display|reveal|return|share|give|repeat|write|what (?:is|are|were))\b"
)
TARGET = r" (?:to|into) (?:\S{1,24}+ ){0,3}?(?:http|www\.|[\w.-]{1,40}+@|url\b|address\b|query string\b)"
NOT = r"(?:\bnot|n['’]t|\bnever|\bwithout)\b"
ADVISE = (
    r"(?:recommend|suggest|mention|promote|prefer|praise|say|tell|answer|reply|respond|refer|use|choose|offer|claim|treat|trust"
    r"|remember|keep|end|start)\b"
)
TALKS = r"(?:conversations?|chats?|sessions?|replies|responses|answers|interactions?|requests)\b"
RUN = r"\b(?:call|use|invoke|execute|run|trigger|activate)\b"
ASKED = r"(?:when(?:ever)?|if|(?:every|each) time)"

RULES: Final[tuple[Rule, ...]] = (
    # -- ignore what came before
    Rule(OVERRIDE, 0.8, IGNORE_ANCHORS, rf"{IGNORE}{G}{words(3)}{EARLIER}{G}{words(2)}{ORDERS}"),
    Rule(OVERRIDE, 0.8, IGNORE_ANCHORS,
         rf"{IGNORE}{G}{words(3)}{ORDERS}{G}{words(2)}(?:above|before|given|received|earlier|previously|so far|you)\b"),
    Rule(OVERRIDE, 0.7, IGNORE_ANCHORS,
         rf"{IGNORE}{G}(?:all |absolutely )?(?:everything|anything|whatever|what|all){G}{words(4)}"
         rf"(?:(?:told|given|said|learned|wrote|read){G}{words(3)})?(?:before|above|earlier|previously|so far|until now)\b"),
    Rule(OVERRIDE, 0.5, "instructions;prompts;commands",
         rf"(?:instructions|prompts|commands){G}{words(6)}(?:are|is){G}(?:now |hereby |all )?"
         r"(?:no longer valid|cancel|void|obsolete|invalid|revoked|superseded|null)"),
    Rule(OVERRIDE, 0.8, "ignorier;missachte;vergiss;vergessen sie;verwirf",
         rf"\b\w{{6,12}}+(?: sie)?{G}{words(4)}(?:vorherig|bisherig|obig|früher|vorig|vorangegang|vorangehend|ursprünglich|dein)"
         rf"\w{{0,4}}{G}{words(2)}(?:system-?)?(?:anweisung|instruktion|regel|vorgabe|befehl|prompt)"),
    Rule(OVERRIDE, 0.6, "anweisungen;instruktionen",
         rf"(?:anweisungen|instruktionen){G}{words(3)}(?:oben|ungültig|aufgehoben|ignorier|hinfällig)"),
    Rule(OVERRIDE, 0.8, "ignor;oubli;olvid;dimentic;esque;descart;desconsider;compte d;caso;trascura",
         rf"\b(?:ignor[aeo]\w{{0,4}}|oubli\w{{1,4}}|olvid\w{{1,5}}|dimentic\w{{1,5}}|esque[cç]\w{{1,3}}|descart\w{{1,4}}"
         rf"|desconsider\w{{1,3}}|trascura\w{{0,3}}|compte|caso(?: omiso)?){G}{words(4)}"
         rf"(?:{ROMANCE_ORDERS}{G}{words(2)}{ROMANCE_EARLIER}|(?:precedenti|previas|anteriores|précédentes|tes|tus|tue|tuas|suas|vos){G}{ROMANCE_ORDERS})"),
    Rule(OVERRIDE, 0.8, "игнорир;проигнорир;забудь;не обращай;отмени;не следуй",
         rf"\w{{2,14}}+{G}{words(4)}(?:предыдущ|прежн|прошл|выше|сво|данн)\w{{0,8}}{G}{words(1)}"
         r"(?:инструкц|указани|правил|команд|промпт|директив)"),
    Rule(OVERRIDE, 0.8, "忽略;无视;無視;忘记;忘記;忘掉;不要理会;不要遵守",
         r"\w{2,4}?[^。！？\n]{0,12}?(?:之前|以上|上面|先前|前面|此前|上述|所有|你的|原来)[^。！？\n]{0,8}?"
         r"(?:指令|指示|规则|規則|提示|命令|要求|设定)"),
    Rule(OVERRIDE, 0.8, "これまで;以前;上記;先ほど;今まで;前の",
         r"\w{2,4}?[^。\n]{0,8}?(?:指示|命令|ルール|プロンプト|規則|指令)[^。\n]{0,12}?(?:無視|忘れ|従わな|破棄)"),
    # -- another role, no limits
    Rule(ROLE, 0.6, "you are;you're;you’re;you will now",
         rf"\byou(?: a|['’])re?(?: now| no longer| going to be)?{G}{words(5)}(?:unrestricted|unfiltered|uncensored|jailbroken)\b"
         rf"|\byou(?: a|['’])re? (?:now|no longer|going to be){G}{words(6)}(?:{MODEL}|assistant\b(?! \w)|dan\b|freed)"
         rf"|\byou will now{G}{words(7)}(?:{MODEL}|dan\b|unrestricted)"),
    Rule(ROLE, 0.2, "you are now;you will now", r"\byou (?:are|will) now\b"),
    Rule(ROLE, 0.6, "act as;respond as;answer as;behave as;reply as;speak as",
         rf"\b\w{{3,7}} as{G}{words(2)}(?:dan\b|stan\b|unrestricted|unfiltered|uncensored|jailbroken|evil |(?:an? )?{MODEL})"),
    Rule(ROLE, 0.7, "do anything now;jailbreak mode;god mode;dan mode;developer mode enabled;developer mode you",
         r"do anything now\b|(?:jailbreak|god|dan) mode\b(?=:| and|,)|developer mode (?:enabled|you (?:answer|can|will|must))"),
    Rule(ROLE, 0.5, "pretend;imagine;roleplay;role-play;playing the part;play the part;play the role;simulate",
         rf"\b[\w-]{{4,9}}+{G}{words(6)}(?:{MODEL}|assistant with)"),
    Rule(ROLE, 0.6, "safety;content polic;ethical;guardrails",
         r"(?:safety (?:guideline|rule|filter|layer|check|polic|restriction)|content polic|ethical (?:guideline|rule|constraint)"
         r"|guardrails)\w{0,3}+(?=[^.!?]{0,40}?\b(?:off|stay|disabled|answer|you)\b|[.,;]|$)",
         rf"\b(?:no|without|drop|disabl\w{{1,3}}|bypass|turn off|switch\w{{0,3}} off|skip|ignor\w{{1,3}}|every){G}{words(2)}\Z"),
    Rule(ROLE, 0.6, "ai ;chatbot;model ;assistant ;unrestricted;unfiltered;uncensored",
         rf"\b(?:ai|chatbot|model|assistant)\b{G}{words(3)}(?:no|without|never|not){G}{words(2)}"
         r"(?:restrictions?|rules|filters?|limits|refuse|guidelines|morals)\b"
         r"|\bun(?:restricted|filtered|censored) (?:ai|model|chatbot|assistant|mode|bot)\b"),
    # -- turns and fences
    Rule(TURNS, 0.8, "<|;[inst];[/inst];<<sys>>;<start_of_turn;<end_of_turn",
         r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text)\|>"
         r"|\[/?inst\]|<<sys>>|<(?:start|end)_of_turn>"),
    Rule(TURNS, 0.6, "</memor;</context;</tool_re;</function_re;</untrusted;</user_;</retrieved;</search_re;</system;</assistant;"
         "</instruction;</prompt;</conversation;<system;<assistant",
         r"<(?:/(?:memory|memories|context|tool_results?|tool_response|function_results?|untrusted\w{0,9}|user_data|user_input"
         r"|retrieved\w{0,9}|search_results?|system|assistant|instructions?|prompt|conversation)"
         r"|system|system[_-](?:prompt|message|reminder)|assistant)>"),
    Rule(TURNS, 0.5, "##", r"#{2,4}+ ?(?:system|instruction|assistant|human|response)(?: (?:prompt|message))?s?:"),
    Rule(TURNS, 0.5, "human:;user:", rf"{LINE}(?:human|user):[^\n]{{0,200}}+\n{{1,3}}+ ?assistant:"),
    Rule(TURNS, 0.5, "system:;system];system message;system prompt:;system note;system override;system instruction",
         rf"{LINE}system(?: (?:message|prompt|note|override|instructions?))?\]?:?[^.!?]{{0,60}}?"
         r"\b(?:you|user|assistant|safety|orders|session|obey|verified|restrictions)\b"),
    Rule(TURNS, 0.2, "system message:;system:", rf"{LINE}system(?: message)?:"),
    Rule(TURNS, 0.7, "end of;ends here",
         rf"\bends?{G}(?:of|here)\b(?:{G}{words(3)}\w{{2,12}}+)?\W{{0,12}}+(?:begin |start )?"
         r"(?:(?:new|next|real|your|additional|updated) ){1,3}+(?:tasks?|instructions?|job|orders|prompt|objective)\b"),
    Rule(TURNS, 0.5, "new instructions;new orders;new system prompt;updated instructions;real instructions;actual instructions",
         rf"{SENTENCE}(?:new|updated|real|actual) (?:instructions?|orders|system prompt)(?: for you)?:"),
    Rule(TURNS, 0.5, "your new;your next;your real;your only;your actual",
         r"\byour (?:new|next|real|only|actual) (?:task|job|mission|goal|objective|instructions?) (?:is|are)\b"),
    # -- secrets, and data sent away
    Rule(EXFILTRATION, 0.7, "system prompt;hidden instruction;initial instruction;original instruction;secret instruction;"
         "instructions you;everything above;context window;your instructions;your prompt",
         r"(?:system prompt|(?:hidden|initial|original|secret) instructions?|instructions you (?:were|have been)|everything above"
         r"|context window|your (?:prompt|instructions))\b", rf"{GIVE}{G}{words(6)}\Z"),
    Rule(EXFILTRATION, 0.6, "user's;user’s;customer's p",
         rf"(?:user|customer)['’]s{G}{words(3)}(?:api keys?|passwords?|credit|tokens?|e-?mails?|location|private|messages?|notes"
         r"|files|data|secrets|memor(?:y|ies)|contacts|credentials|phone|home)\b", rf"{GIVE}{G}{words(7)}\Z"),
    Rule(EXFILTRATION, 0.6, "of the user", r"of the user\b",
         rf"{GIVE}{G}{words(4)}(?:tokens?|passwords?|keys?|secrets|data|messages|history){G}\Z"),
    Rule(EXFILTRATION, 0.7, "conversation;chat;context window;memory;memories;passwords;credentials;api key;token;secrets;"
         "private;contacts;every file;all files;system prompt",
         rf"[^\n]{{0,60}}?{TARGET}", rf"{GIVE}{G}{words(5)}\Z"),
    Rule(EXFILTRATION, 0.5, "stored;hidden;you have stored;you know;saved",
         r"(?:stored|hidden|saved) (?:secrets|credentials|passwords|instructions|prompt)|you have (?:stored|saved)",
         rf"{GIVE}{G}{words(8)}\Z"),
    Rule(EXFILTRATION, 0.5, "contents of your",
         rf"contents of your\W{{1,3}}+{words(1)}(?:configuration|env|api|source|system|memory|context|prompt)\b",
         rf"{GIVE}{G}{words(3)}\Z"),
    # -- tools and commands
    Rule(TOOLS, 0.5, "tool", r"tool\b",
         rf"{RUN}{G}(?:the |your )?[`\"']?(?:\w{{1,20}}_\w{{1,30}}|shell|terminal|browser|e-?mail|calendar|payment)[`\"']? \Z"
         r"|\byour (?:browser|calendar|shell|e-?mail|terminal|search|file|web) \Z"),
    Rule(TOOLS, 0.5, "_memory;_memories;_fact", r"_(?:memory|memories|facts?)\b",
         rf"{RUN}{G}(?:the )?[`\"']?(?:write|save|store|update|delete|forget|add|create|remember|remove|clear)\Z"),
    Rule(TOOLS, 0.5, "invoke the;trigger the;call the",
         r"\b\w{4,7}+ the (?:function )?[`\"']?(?:send|delete|transfer|drop|remove|create|forget|pay|grant|disable|update)_"
         r"\w{1,30}+[`\"']?(?: function)? (?:with|to|and|for)\b"),
    Rule(TOOLS, 0.3, "following command;this command;following code;this code", "",
         rf"\b(?:run|execute|type|enter){G}{words(3)}\Z"),
    # -- planted memories
    Rule(POISONING, 0.6, "from now on;permanently;henceforth", "",
         rf"\b(?:remember|memori[sz]e|store|keep in mind){G}(?:(?:this|that|it|the following){G})?{words(1)}\Z"),
    Rule(POISONING, 0.6, "from now on;henceforth",
         rf"(?:from now on|henceforth){G}{words(2)}"
         r"(?:remember|you (?:must|will|are|should|always|only)|always|recommend|obey|mention|answer|respond)\b"),
    Rule(POISONING, 0.6, "future;later;subsequent",
         rf"(?:future|later|subsequent) {TALKS}{G}{words(3)}(?:{ADVISE}|you\b|always|never)",
         rf"\b(?:in|for|during|at){G}(?:all |any |every |each |your )?\Z"),
    Rule(POISONING, 0.6, "future;later;subsequent", rf"(?:future|later|subsequent) {TALKS}",
         rf"\b{ADVISE}{G}{words(8)}(?:in|for){G}(?:all |any |every |each |your )\Z"),
    Rule(POISONING, 0.6, "always",
         rf"always {ADVISE}[^.!?]{{0,80}}?\b{ASKED} (?:(?:the|a) )?(?:users?|you are|asked(?! to))\b"),
    Rule(POISONING, 0.6, "when;whenever;if the user;if a user;if asked;every time;each time",
         rf"{ASKED} (?:(?:(?:the|a) )?users? (?:asks?|wants|mentions|requests|needs)|(?:you are )?asked)\b[^.!?]{{0,60}}?"
         rf"\b(?:always|from now on|you (?:must|should)|only)\b"),
    Rule(POISONING, 0.6, "your", rf"your{G}{words(2)}(?:memory|knowledge(?! of| on))\b",
         rf"\b(?:remember|memori[sz]e|store|save|record|note|commit|add|write|put|keep){G}{words(4)}(?:in|into|to){G}\Z"),
    Rule(POISONING, 0.6, "your", rf"your{G}{words(2)}memory\b", rf"\b(?:update|edit|change|modify|overwrite){G}\Z"),
    Rule(POISONING, 0.6, "as a;to memory;in memory;into memory", r"(?:as a (?:\w{1,12} )?fact|(?:to|in|into) memory)\b",
         rf"\b(?:store|save|record|remember|write|treat|commit){G}(?:this|that|it|the following){G}{words(2)}\Z"),
    Rule(POISONING, 0.5, "the user",
         r"the user(?:['’]s \w{1,20}+)? (?:prefers|wants|likes|trusts|has agreed|always)\b[^.!?]{0,80}?"
         r"(?:\bwhenever|\bpermanently|\ball (?:replies|answers)|\bevery (?:reply|answer)|\bfrom now on)"),
    # -- behind the user's back
    Rule(HIDDEN, 0.6, "user;human;person you", r"(?:user|human|person you)\b(?! interface| agent)",
         rf"{NOT} (?:\w{{1,12}}+ )?(?:tell|inform|mention|reveal|alert|notif|let|disclos|warn)\w{{0,5}}+{G}{words(4)}\Z"
         rf"|\b(?:hide|conceal|keep){G}{words(4)}from{G}the{G}\Z"),
    Rule(HIDDEN, 0.6, "user must;user should;user need;user does;user may;user can;without the user",
         r"user (?:must|should|need|does|may|can)(?: ?not|n['’]t| never) (?:know|see|notice|learn|find|be told)"
         r"|without the user['’]s? (?:knowledge|knowing|consent)"),
    Rule(HIDDEN, 0.5, "mention;reveal;disclose",
         rf"(?:mention|reveal|disclose){G}(?:this|these){G}(?:hidden )?"
         r"(?:message|instruction|note|text|step|line|prompt|rule)s?\b",
         rf"{NOT}{G}{words(1)}\Z"),
    # -- borrowed authority
    Rule(AUTHORITY, 0.6, "precedence over;priority over;overrides;supersedes",
         rf"\b\w{{8,10}}+(?: over)?{G}{words(3)}(?:instructions|system prompt|prompts?\b|directives|rules? (?:the|your) assistant"
         r"|rules? (?:you|your)|(?:other|your) (?:rules?|guidelines))"),
    Rule(AUTHORITY, 0.5, "override:;override code", "",
         r"\b(?:admin(?:istrator)?|system|developer|root|security|emergency|policy|safety) \Z"),
    Rule(AUTHORITY, 0.5, "your developer;your creator;your operator;openai;anthropic", "",
         rf"\bi am \Z|\b(?:message|notice|instructions?|directive|update|comes|request){G}(?:is )?(?:directly )?from \Z"),
    Rule(AUTHORITY, 0.4, f"{MODEL_ANCHORS};the assistant",
         rf"(?:the assistant|{MODEL}){G}(?:(?:is|are|has been|have been|agents?){G})?(?:now |hereby )?"
         r"(?:must|required to|has to|have to|authori[sz]ed to|obliged to|shall)\b"),
    Rule(COMPLIANCE, 0.3, "updated;new;latest;revised",
         rf"(?:updated|new|latest|revised){G}{words(2)}(?:policy|guidelines|directive){G}{words(3)}"
         rf"(?:you|the assistant|{MODEL}){G}(?:must|have|has|are|shall)\b"),
    Rule(COMPLIANCE, 0.3, "comply with;team directive;compliance notice;compliance directive",
         r"comply with (?:the|this|all|every) (?:request|message|instructions?)|team directive|compliance (?:notice|directive)"),
    # -- addressed to an AI
    Rule(ADDRESSED, 0.6, "note to;note for;notes for;message to;message for;messages for;instructions for;instructions to;"
         "notice to;notice for;memo to;reminder for;reminder to;warning to;attention;dear;hey;hello;hi ",
         rf"{SENTENCE}(?:(?:note|message|instruction|notice|memo|reminder|warning)s? (?:to|for)|attention|dear|hey|hello|hi){G}"
         rf"(?:the |any |all |an |every )?{AI}(?!['’]s\b|-)"),
    Rule(ADDRESSED, 0.6, f"{MODEL_ANCHORS};chatgpt;claude;gemini;copilot", rf"{AI}[^.!?\n]{{0,30}}?:",
         rf"{SENTENCE}to (?:the |any |all |every )?\Z"),
    Rule(ADDRESSED, 0.5, "ai:;ai,;ai assistant;ai agent;llm:;llms:;assistant:;assistant, ",
         rf"{SENTENCE}(?:(?:ai|llm) (?:assistant|agent|model)s?[:,] "
         r"|(?:ai|llm|assistant)[:,] (?:please|when|you|run|use|ignore|send|now|do|open|always|call|say|write)\b)"),
    Rule(ADDRESSED, 0.6, "if you;if an;if any;if a",
         rf"if (?:you(?: a|['’])re{G}(?:an? |the )?(?:\w{{3,12}}+ )?{AI}"
         rf"|an?y? {MODEL} (?:is|reads|reading|sees|processes|summari))"),
    Rule(ADDRESSED, 0.6, MODEL_ANCHORS,
         rf"{MODEL}{G}{words(2)}(?:reading|processing|summari[sz]ing|reviewing|parsing|evaluating|scanning) (?:this|it)\b"),
    # -- the reader's answer
    Rule(REPLY, 0.5, "modify;augment;enhance;adjust;alter",
         r"\w{5,7}+ your (?:answer|response|reply)\b(?! times?| rates?)"),
    Rule(REPLY, 0.5, "your answer;your response;your reply", r"your (?:answer|response|reply) must (?:begin|start|end) with"),
    Rule(REPLY, 0.3, "your answer;your response;your reply;your message", r"your (?:answer|response|reply|message)\b"),
)  # fmt: skip

# Letters that stood apart, put together: no gaps are left to read.
JOINED: Final[tuple[Rule, ...]] = (
    Rule(OVERRIDE, 0.8, "ignore;disregard;forget;override;bypass",
         r"\w{6,9}?(?:all|any|the|your|my|of|these|those|previous|prior|above|earlier|preceding|system){0,4}+"
         r"(?:instruction|rule|prompt|guideline|direction|command)"),
    Rule(EXFILTRATION, 0.7, "reveal;show;print;repeat",
         r"\w{4,6}?(?:me)?(?:the|your)(?:system|hidden|secret)?(?:prompt|instructions|password)"),
)  # fmt: skip

PLAIN_WEIGHT: Final = 0.1
PLAIN_TASK: Final = (  # at the beginning of a sentence
    r"(?:please |kindly |now )?(?:write|draft|compose|develop|provide|explain|describe|translate"
    r"|summari[sz]e|list|add|replace|use|convert|integrate|include|modify|enhance|augment|rearrange|remove|group|combine|introduce"
    r"|misspell|scramble|jumble|substitute|render|anagram|tell|give|create|make|show|send|call|open|go|turn|put|take|set|run|click"
    r"|visit|buy|download|install|check|choose|mix|cut|read|ask|break|answer|repeat|do not|never|always|what|who|how|why|can you"
    r"|could you)\b"
)
