"""Counting tokens without a tokenizer. Pure.

A text is cut into pieces as tokenizers cut it (a word with the space before it, a number, a run of signs, a run of white space),
and each piece is given a cost. The tables are fitted so that the sum is hardly ever low against cl100k, o200k and the tokenizer
of the first Claudes, whichever makes most; a newer tokenizer often makes fewer of a text that is neither English nor code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise

Counter = Callable[[str], int]
"""What counts the tokens of a text."""

_LOWER = "a-zß-öø-ÿ\u0100-\u024f\u1e00-\u1eff"
_UPPER = "A-ZÀ-ÖØ-Þ"
_SIGNS = r"!-/:-@\[-`{-~"
_PIECES = re.compile(
    rf" ?(?:[{_UPPER}]?[{_LOWER}]+|[{_UPPER}]+(?![{_LOWER}])|[0-9]+|[{_SIGNS}]+|[^\x00-\x7f\s{_UPPER}{_LOWER}]+)|\s+(?!\S)|\s+|."
)
_RUNS = re.compile(r"((?:\r\n)|[\s\S])\1*")
_KEPT = 30  # characters of the longest piece whose cost is remembered
_MANY = 20_000  # pieces whose costs are remembered

# Words that are one token in each of the three after a space, in lower case or capitalised.
_KNOWN = frozenset(
    """
    af an ar as at be bg br by ca cc cn cs da db de do el em en eq es eu fa fi fn fo fr ga gb gl go gt he hr hu ia id if im in
    io is it ja js kk ko li ll lt lv mc me ms my nb nl nn no oc of ok on or os pl pt px py re ro ru sh sk sl so sq sr sv to tr
    ts tw up us ve vi we zh abs acc act add adv aff age ago air all alt amb and ang ann ans ant any api app are arg arm arr art
    ask ass att aud auf aut aws bad bar bas bed beg beh bel ben bet bey big bin bit bon box boy bre bro btn buf bug bul bur bus
    but buy cal cam can cap car cas cat che cho cin cit cli clo cmd col com con cop cor cos cou cpp cre css ctx cur cut dam das
    dat day deb dec def deg del dem den dep der des det dev did die dif dig dim dir dis div doc dog dom don dos dro due dyn ear
    eas eat een eff ein emb emp enc end eng enh ens ent env equ err esc ess est etc eth exc exe exp ext eye fac fam fan far fat
    fem few fig fil fim fin fit fix fmt foc foo for fra fre fri ful fun fur gar gas gay gcc gen get git got gre gun guy hab had
    har has her him his hit hom hon hop hor hot how hum ide idx ign ill img imm imp inc ind inf ing inj inn ins int inv isn iso
    iss ist its jav job jud key las lat law led leg len les let lib lik lim loc log los lot low mac mag mal man map mar mat max
    may med mem men mer met mid mil min mir mis mit mix mod mom mon mor mot mov msg mur mus mut nav neg net new nil non nor not
    nov now num obj obs obt occ off oid oil old one opp ops opt ord org our out own pan par pas pat pay pen per pet pie pkg ple
    plt png pod pol pop por pos pot pow pre pro ptr pub pul pun pur put que qui rad rap raw rec red ref reg rel rem ren rep req
    res ret rev rot row rst run saf sal san sat saw say sch sec see seg sem sen sep ser set sex she sig sil sim sin sit six sol
    som son sou spe sql squ src ssl std ste str sub sum sun sup sur sus svg sym syn sys tab tag tal tax tem ten ter the thr tim
    tit tls tmp ton too top tor tot tre tri tro try two txt typ ult una und une uns uri url use usr utf val van var vec veh ver
    via vim vir vis vol von vot war was way web wer who why win wom won wor www xml xxx yes yet you able addr adds alex also
    anal anim anti appe arch area aren args argv attr auth auto away axis baby back ball band bank base bash bath been best beta
    bill bind bits blog blue body bold book bool both brit bugs bull burn byte call came camp capt card care cart case cash cast
    cele cell cent cert char chat chem circ city club code coll comb come comm como comp conc conf cong conn cons cont conv cook
    cool copy core cost cour cout cred crit ctrl cult dans dark data date days dead deal decl deep desc dest dict didn died dies
    diff dirs disc dise disk dist docs does doll done door doub down draw drop drug each earn east easy echo econ edge edit educ
    elif else ends enum eval even ever evid exam exec exit expl eyes face fact fail fair fall fans fant farm fast fear feed feel
    feet felt file fill film find fine fire firm fish five flag flex flor flow font food foot fore form four frag free from fuck
    full func fund gain game gave gets gift girl give glob goal goes gold gone good goto grad grat grep grid grow guys hair half
    hand happ hard hash have head hear heat held help here hide high hill hold home hook hope host hour href html http huge icon
    idea imag impl inde indu infl info init inst into item iter jack java jobs john join json july jump june just keep kept keys
    kids kill kind king knew know kore lack land lang larg last late laws lead left less life like line link list live load lock
    logs long look loop loss lost love mach made magn mail main make male many mark mart mask mass math mean meas meet menu meta
    mich mill mime mind mini misc miss mist mock mode more most move much mult must name nano navy near need news next nice node
    none norm note null once ones only onto open oper opin opts orig over pack page paid pain pair para park part pass past path
    paul perl pers phil phot phys pick plan play plot plus poll pool poor porn port poss post pour prec pred prem pres pret prev
    prim priv prob proc prof prom prop pros prot prov pull pure push qual quit race rand rank rare rate read real rece rect redu
    rent repe repl requ rest reve rich risk road rock role roll room root rout rows rule runs russ rust safe said sale same sand
    save says scan scen scre seek seem seen self sell send sens sent sept serv sets sett ship shop shot show side sign sing site
    size skin skip slow slug soft sold some song soon sort span spec spot star stat stay step stop stre stud subs such suff suit
    sure surv sync tags take talk task team tele tell temp tend term test text than that them then they this thom thus time todo
    told took tool tort tour town tree trip true turn type uint unit unix upon used user uses util uuid vari vars vers vert very
    vict view viol void vote wait walk wall want warm warn wash wasn ways weak week well went were west what when whom wide wife
    wiki wild will wish with wood word work wrap writ yaml year york your zero abort about above accur achie activ added admin
    adult after again agent agree ahead album alert alias align alleg alloc allow alone along alpha alter among analy apple
    apply appro april areas array ascii asked async audio autom avoid await aware based basic basis batch began begin being
    belie below benef birth black blank block blood board books boost bound brain brand break brief bring broad build built
    bytes cache calls cards cargo carry cases catch cause cells chain chang charg check child china citiz civil claim class
    clean clear click clock clone close cloud coach color comes compl const contr costs could count court cover cross crush
    daily david death debug delay demon depth deter doesn doing draft dream dress drink drive early eight elect email empty
    endif energ enjoy enter entry equal error event every exact exerc exist exper explo extra fails false fatal favor fetch
    field fight files final first fixed flags flash float floor focus force forms found frame frequ fresh front fully games
    gener girls given gives gmail goals going gover grand graph great green group guard guess guest guide hands happy heard
    heart heavy hello helps holds hours house hover https human ideas ident image impro incre index india indic indiv influ
    inner input inter invol issue items james javax known knows label large later latin layer learn least leave legal legis
    level light limit lines links linux lists liter lives local logic login looks lower macro maint major makes march match
    maybe means meant media medic merge micro might miles milit minor model money month motor mount mouse moved movie multi
    music named names needs never nicht night nodes north notes numer numpy obama offer offic often older oppos optim order
    organ other outer owner pages paint pairs panel panic paper param parse parts party patch paths phone photo piece place
    plans plant point polic polit posts power pract press price print prior produ props prote proto psych purch query quest
    queue quick quiet quite quote radio raise range ranks rates reach react ready refer regex relig reset retry right round
    route rules sales saved scale scene sched scope score seems sense separ serve setup seven sever shall shape share shell
    shift shoot short shown shows since sites sleep slice small smart solid sound south space spawn speak speed spend spent
    split stack staff stage stand start state steps still stock store story strip study stuff style super table taken takes
    teach teams techn terms tests texas their theme there these thing think third those thous three throw times title today
    token tools topic torch total touch track trade traff trail train trait trans treat tried trump trust truth tuple turbo
    types undef under union units unset until upper usage users using utils valid value video views visit voice wants watch
    water weeks where which while white whole whose width woman women words works world worth would write wrong wrote xmlns
    years yield young accept access across action active actual adding adjust advert affect agreed allows almost altern always
    amazon amount answer anyone apache appear append applic around arrest assert assess assign assist associ attack august
    author batter battle became become before behind better beyond binary blocks border bottom branch broken budget buffer
    button cached calcul called caller camera canada cancel candid cannot career caused causes celebr center chance change
    charge checks choice choose christ church claims clause client closed coding colors column coming commit common compan
    compar compet comple comput config consum contin copied copies corner corpor couldn county couple course create credit
    cursor custom cutoff damage danger dating decode define degree delete demand democr depend design detail detect device
    dialog differ direct django domain double driver during easier easily edited editor effect effort either employ enable
    encode energy engine enough ensure entire entity errors escape escort europe events excell except exists expand expect
    experi expert export extern extrem factor failed family father female fields figure filter finish folder follow footer
    forces format former french friday friend future german github giving global google govern ground groups growth handle
    happen having header health height helper hereby hidden higher highly histor ignore images impact import income indent
    indian inform inline insert inside instit integr intent intern invest issues itself kernel killed labels larger latest
    launch layout leader length letter levels liable likely linked listed listen little living loaded logger london longer
    looked lookup macros making manage manual margin marker market master matrix matter mechan member memory method middle
    mobile models modern modify module moment monday months mother moving myself nation native nature nearly necess needed
    nested normal notice number object obtain offers office offset online option origin others output owners params parent
    parser partic passed people period permit person photos places played player please plugin points police policy posted
    pragma prefix pretty prices printf proble proced prompt proper public python random rather reader really reason recent
    recogn recomm record reduce regard region reject remain remote remove render repeat report resize result return review
    rights robert safety sample satisf saying schema scheme school scient screen script search season second secret select
    sender serial series server sexual shadow shared should showed signal signed simple simply single sizeof skills slight
    social socket source spaces speech spread stable starts states static status stderr stdout stored stream street stress
    strict string strong struct strugg suffer suffix summer sunday supply switch symbol syntax system tables taking target
    temper terror things though thread threat throws tokens toward tracks traits travel trying turned typeof typing ubuntu
    unique united unless unused unwrap update upload useful values vector verify videos vision volume wanted weight window
    within wonder worked wouldn writer writes ability account actions address against allowed already amazing america android
    another appears applied applies archive arising article attacks attempt austral authors average backend balance because
    believe benefit between biggest billion boolean british brought browser builder buttons caching calling capital central
    certain changed changes channel chapter chinese choices classes cleanup clients clinton cluster collect college columns
    comfort command comment company compare compile complet complex compute concept concern conduct confirm connect consist
    console consult contact contain content context contrib control convers convert cookies copying correct counter country
    covered created creates culture current damages decided declare default defined defines deleted deliver depends derived
    desktop despite destroy details develop devices digital disable discuss disease display distrib dynamic earlier economy
    edition effects efforts element enabled enables encoded english entries exactly example exclude execute explain exports
    express extends extract factory failure feature federal feeling filters finally fitness flatten follows foreach foreign
    forward friends further general generic getattr getting globals granted greater growing handler happens harmony headers
    highest himself history however hundred ignored implied improve include inherit initial install instead integer introdu
    invalid invoked january journal keyword largest latency leaders leading library license limited listing literal loading
    located logging looking machine manager mapping massage matches maximum meaning measure medical meeting members mention
    message methods michael million minimum minutes missing modules monitor morning natural neither network nothing numbers
    numeric objects obvious october opening options outputs outside overall package padding parents partial partner passing
    patient pattern payload payment pending percent perfect perform perhaps persons picture players playing pointer popular
    predict present prevent preview primary princip printed private problem process produce product profile program project
    promise promote protect protest provide publish purpose quality quarter quickly reached reading reality reasons receive
    records reflect regular related release remains removed replace reports request require resolve respect respond respons
    restart restore results returns reverse reviews running runtime schools science scripts seconds section serious service
    session setting several sidebar similar society someone sources special specify started startup station storage stories
    strateg strings student studies subject success suggest summary support surface symbols syscall systems tagging talking
    targets testing thought threads through timeout towards trigger tuesday twitter typedef unicode unknown updated updates
    upgrade usually variant variety various vehicle verbose version virtual visible waiting warning warrant website whether
    windows without workers working wrapper writing written absolute abstract accounts activity actually addition advanced
    although american analysis anything approach appropri approved argument assigned behavior benefits building business
    callable callback campaign capacity category changing chapters checking children commands comments communic compared
    compiled compiler complain complete computer congress consider constant contains contents continue contract controls
    creating creation customer database datetime december decision defaults defining demonstr describe designed determin
    directly director disabled discover dispatch displays distance document download duration economic election elements
    encoding estimate european everyone evidence examples existing expanded expected explicit exported external facebook
    families favorite features february filename finished followed function generate handling happened hardware hospital
    identify identity imported included includes increase independ indicate industry instance instruct intended interest
    internal internet investig involved iterable iterator keyboard language learning licensed licenses lifetime location
    majority manually manufact matching material messages metadata military modified movement multiple national negative
    normally official operator optional original overflow override overview packages parallel particip partners password
    pathname patients personal physical platform portions position positive possible powerful practice pressure previous
    printing priority probably problems products programs progress projects properly property protocol provided provides
    purchase question readline readonly received recently redirect register registry relative released relevant remember
    repeated replaced reported republic requests required requires research reserved resource response restrict retrieve
    returned saturday sections security selected selector separate sequence services settings signific software solution
    specific standard starting straight strategy strength students supplied supports template terminal thinking thursday
    together training transfer typename unsigned upstream username validate variable variants versions vertical warnings
    warranty whatever yourself according alternate americans announced arbitrary arguments attention attribute automatic
    available beautiful beginning certainly challenge character christian community companies compiling completed component
    condition configure connected constants constrain contained container continued copyright correctly countries currently
    customers depending described determine developed different difficult direction directory displayed education effective
    employees endpoints equipment essential establish exception execution extension financial following formatted functions
    generally generated generator highlight immutable implement important including increased indicates installed instances
    insurance interface interview knowledge liability libraries licensing locations marketing materials microsoft namespace
    necessary officials operating operation otherwise overrides packaging parameter permitted political potential president
    procedure protected prototype providers providing published qualified questions reasoning recommend reference regarding
    relations represent reproduce requested resources responses resulting searching selection sensitive separated september
    shortcuts signature situation something sometimes specified specifies standards statement streaming structure supported
    temporary therefore transform translate transport treatment typically undefined variables verbosity wednesday workspace
    activities additional applicable assignment associated attributes background california characters collection commercial
    compatible completely completion compliance components conditions configured connection considered consistent containing
    controller conversion correspond definitely definition department dependency deprecated developers difference distribute
    equivalent especially everything exceptions executable experience explicitly expression extensions foundation government
    identifier implements increasing individual installing instanceof interested isinstance management operations parameters
    particular permission population positional previously processing production profession properties references repository
    represents similarity specifying successful technology themselves throughout understand university validation visibility
    vocabulary washington whitespace alternative annotations application appropriate certificate constructor definitions
    description destination development directories distributed environment immediately implemented individuals information
    instruction interesting limitations opportunity performance permissions placeholder programming responsible restriction
    significant traditional transaction applications architecture construction contributors dependencies distribution
    installation modification organization particularly professional relationship requirements respectively successfully
    administrator autogenerated automatically compatibility configuration documentation functionality international
    investigation modifications understanding administration configurations implementation
    """.split()
)

# How likely a word breaks between two letters, in tenths above "0": a row for the left one, a column for the right one, both in
# the order of _LETTERS; the two last rows are for a word's beginning after a space and after anything else.
_BREAKS = (
    "910059096:7031=2;000563007;@<",
    "6;9748A>5340:73<>50;37996;@FK",
    "275717736>018;28606047;=3;@DK",
    ":985491<6>567:96<72<78386=ACJ",
    "2710635:9>;564752216;5014<?B<",
    "5<<842:;3@54:43=608437492=>B<",
    "967845828=>4756<:0299;8;99BBJ",
    "3335165<6?869119;462798;6?AGK",
    "4200330;9=8140007300;162=2;BG",
    "49:929;;5767:231:51;398=5::=<",
    "968121455;9616941:48:;1?69<<B",
    "65:549975;:279568745577;0>>CK",
    "34600=9?4;963;418<088:2;1<<CJ",
    "691132065<64:555;:0063297<;AG",
    "232182296:823002=02413111=EAF",
    "618628517A:239439122681;2>>B<",
    ";8;9:;:98=;17:A:85922=;:9=;<<",
    "6912244:6<765552;304:6590?@AJ",
    ":86558;68B;8<:855<056;3C5=?BJ",
    "533512702?83044171367<0>0=<BK",
    "4003052;5<:01281=00297=79=:@J",
    "69:9073<498:7975=:686<493=>EG",
    "67<445955<83920:;24:<:;;:@?@<",
    ":83:6=<77=<<5=;0=847;=:426D<<",
    ":89;9<:<3>;86:86?849@57@;9=CC",
    "679416;76:879547:9636964589?<",
    "57:93875;;967617:535;8599:6EK",
    "743166668>327395:3:9;;8<747@<",
    "><;<<<<<><<<====<<<>=<<<=<JBE",
    "4320324448734564710566064:=DI",
    "54614365588446646416654549AF=",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"  # then those of Latin-1, of the other European languages, and of Vietnamese
_ROWS = tuple(tuple((ord(each) - 48) / 10 for each in row) for row in _BREAKS)

_OFFSET, _UPPERCASE, _CAPITAL, _UPPERCASE_LETTER = -1.600, -0.380, 0.450, 0.117
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_COLUMNS = {
    chr(code): 26 if code < 0x100 else 27 if code < 0x1E00 else 28
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if code not in (0xD7, 0xF7)
}
_COLUMNS |= {each: at for at, letter in enumerate(_LETTERS) for each in (letter, letter.upper())}

# Pairs of signs that are one token.
_PAIRS = {
    "!": "\"'),.=[\\]",
    '"': "#$%&'()*+,-./:;<>?[\\]_`{|}",
    "#": '!",.:[',
    "$": "(,.:\\_{",
    "%": '"(),-.;\\',
    "&": "#",
    "'": '"#$%()*+,-./:;<=>?[\\]^_{}',
    "(": "!\"#$%&')*+-./:<?@[\\_`{~",
    ")": "!\"#$%&'(*+,-./:;<=>?[\\]^_`{|}",
    "*": '"(),-./:=[\\_',
    "+": "\"$'(),-./=[\\]",
    ",": "\"#$%'()*+-.:[\\_{",
    "-": "\"$%'()*,.=>[\\{",
    ".": "\"$%'()*+,-/:;<[\\]_{|",
    "/": "\"#$%'()*+,-.:<>?@[\\_{~",
    ":": "\"#$%'(*+,-./<=@[\\]_`{",
    ";": "\"%&'-/<\\}",
    "<": "!(-/=>?_",
    "=": "\"#$%&'(-./:<>?[\\_{",
    ">": "\"$%&'()*,-./:;<=[\\]`{",
    "?": "!\"'),.:<[\\",
    "@": '"\\',
    "[": "\"%'(*,-/:@\\]^_{",
    "\\": "\"$'(-./<[",
    "]": "\"%'()*+,-./:;<=>?[\\^{|}",
    "^": "(-.[\\{",
    "_": "\"%'()*,-./:;<=[\\]{|",
    "`": "),.:;\\",
    "{": "\"$%'-:\\|}",
    "|": "(-\\",
    "}": "\"$%&'(),-./:;<=>?[\\]_`{|",
    "~": ",-/",
}

# Characters of Chinese and Korean that are one token by themselves.
_COMMON = frozenset(
    "一万三上下不与专业东两个中串为主么义之也书了事二于五些交产京人今从他付代以们件价任份企优会传但位体何余作你使例供保信"
    "修值停像元先入全公共关其具内册再写出击分列则初利别到制前力功加务动動包化北区十华单南即历原去县参及反发取变口只可台右"
    "号司合同名后向否含启告员周命和品哈商器四回因国图土在地场址型城基報場填增处备复外多大天失头好如始子字存学安完定实客家"
    "容密对导将小少尔就局展山州工左已市布常平年并广序库应店度建开异式引张当录形影径待後得微心必志态思性总息您情意感成我或"
    "户所手打找技投报拉持指按换据排接推提播支收改放政效数整文料断新方族无日时明易星是時景更最月有服期未本机权束条来板构析"
    "果查标样核格案检模次止正此步段每比民水求江没治法注活流海消清游源点然片版物特率环现理生用由电画界登的监目直相省看真知"
    "码确示社票种科秒称移程空立站章端符第等签简算管箱类系素索约级线组经结给络统编网置老考者而联能自至色节英藏行表装西要见"
    "规视角解言計计认议记论设证评试话询该详语误说请读调象责败账购费资起超路身车转软载辑输达过运近还这进连述退送选通速造道"
    "邮部都配释里重量金钮链销错键长開間関门闭问间队阳陆限院除集需非面音页项预频题额首验高黑"
    "가간값개게경고과구그기나내는니다당대도동되된드들라래러력로료를름리만면문미번보복부분사산상색서성세소수스습시식아야어"
    "에여열오와요용우원위으은을음의이인일입자작장재전정제주지째치크터트하한할해호화환"
)

# Tokens a character by the range it ends: the last character of a range and its cost.
_RANGES = (
    (0x00BF, 1.3), (0x024F, 1.2), (0x036F, 2.0), (0x03FF, 1.3), (0x045F, 0.6), (0x052F, 2.0), (0x058F, 2.1),
    (0x05FF, 1.15), (0x06FF, 1.08), (0x08FF, 2.0), (0x097F, 1.6), (0x09FF, 2.1), (0x0AFF, 2.95), (0x0DFF, 2.3),
    (0x0EFF, 1.8), (0x0FFF, 3.0), (0x10FF, 2.1), (0x1DFF, 3.0), (0x1FFF, 2.6), (0x201F, 1.1), (0x2026, 1.0),
    (0x2BFF, 2.3), (0x2E7F, 3.0), (0x2FFF, 3.0), (0x303F, 1.1), (0x30FF, 1.0), (0x32FF, 3.0), (0x33FF, 4.5),
    (0x4DBF, 3.0), (0x9FFF, 2.25), (0xABFF, 3.0), (0xD7AF, 2.4), (0xDFFF, 3.0), (0xF8FF, 3.0), (0xFAFF, 3.0),
    (0xFDEF, 4.0), (0xFDFF, 12.0), (0xFE0F, 2.0), (0xFEFF, 3.0), (0xFF0F, 1.1), (0xFFFF, 2.6), (0x1F1FF, 4.0),
    (0x1FAFF, 2.9), (0x10FFFF, 4.0),
)  # fmt: skip


def estimate_tokens(text: str) -> int:
    """About how many tokens a model's tokenizer makes of a text; leans to too many rather than too few.

    >>> estimate_tokens("Dana prefers dark mode.")
    7
    """
    return math.ceil(round(sum(map(_costs.__getitem__, _PIECES.findall(text))), 6))


class _Costs(dict[str, float]):
    """The costs of pieces seen before; others are counted as they come."""

    def __missing__(self, piece: str) -> float:
        cost = _cost(piece)
        if len(self) >= _MANY:
            self.clear()
        if len(piece) <= _KEPT:
            self[piece] = cost
        return cost


_costs = _Costs()


def _cost(piece: str) -> float:
    """What a piece costs, by what it begins with."""
    bare = piece[1:] if piece[0] == " " else piece
    if not bare:
        return 1.0
    first = bare[0]
    if first in _COLUMNS:
        return _word(bare, len(bare) < len(piece))
    if "0" <= first <= "9":
        return max((len(piece) > len(bare)) + (len(bare) + 2) // 3, 0.43 * len(bare))
    if first.isspace():
        return _blank(piece)
    if first in _PUNCTUATION:
        return _signs(bare)
    return (0.6 if first.isalpha() else 0.1) + sum(map(_character, bare)) if first > "\x7f" else 1.0


def _word(word: str, spaced: bool) -> float:
    """A word of Latin letters: one token, and more the more unusual its pairs of letters are."""
    if len(word) == 1 and word < "\x7f":
        return 1.0
    upper = len(word) > 1 and word.isupper()
    total = _OFFSET + (_UPPERCASE + _UPPERCASE_LETTER * len(word) if upper else _CAPITAL if word[0].isupper() else 0.0)
    row = _ROWS[29 if spaced else 30]
    for letter in word:
        column = _COLUMNS[letter]
        total += row[column]
        row = _ROWS[column]
    cost = 1 + (math.log1p(math.exp(total)) if total < 30 else total)
    # Less by one, not one: a word that is nearly there must not cost much more than the whole.
    return max(1.0, cost - 1) if not upper and word.lower() in _KNOWN else cost


def _signs(run: str) -> float:
    """A run of ASCII signs: repeats and usual pairs are mostly one token, others are not."""
    total, usual = 1.0, 0
    for left, right in pairwise(run):
        if left == right:
            total += 0.04
        elif right in _PAIRS.get(left, ""):
            usual += 1
            total += 0.2 if usual < 3 else 0.5  # two or three signs are often one token, a long row of pairs never
        else:
            total += 1.06
    return total


def _blank(run: str) -> float:
    """White space: a token for each run of the same, and a third of one for blanks beside a line's end."""
    runs = [(each[1], each.end() - each.start()) for each in _RUNS.finditer(run)]
    total = sum(1 + length * (0.02 if kind == " " else 0.07 if kind == "\n" else 0.13) for kind, length in runs)
    return total - 0.7 if len(runs) == 2 and "\n" in run else total


def _character(each: str) -> float:
    """A character beyond Latin: by its script, and whether it is a common one."""
    if each in _COMMON:
        return 1.0
    code = ord(each)
    return next(cost for last, cost in _RANGES if code <= last)
