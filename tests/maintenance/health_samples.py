"""Labelled memories for the junk check: what is worth keeping, near-misses among it, and what is no memory."""

from __future__ import annotations

USEFUL = [
    line.strip()
    for line in """
    The user is allergic to peanuts.
    User prefers dark mode in all editors
    Dana lives in Porto
    Ana's birthday is on 3 March
    The user works as a nurse at St. Mary's hospital
    User's dog is called Biscuit
    Prefers metric units
    Speaks German and a little Polish
    The staging database runs on port 5433
    Deploys happen every Thursday after 16:00
    User wants short answers
    The user prefers brief responses without greetings
    User dislikes it when the assistant says "As an AI language model"
    The user asked for no greetings
    The user asked how to renew a passport in Malta
    User asked a question about tax in Portugal
    User asked for help with the visa form for Japan
    User asked the assistant to answer in French
    The user said hello to Maria at the Lisbon meetup
    User thanked Jonas for the bike repair
    User said yes to the job offer from Siemens
    The user agreed to a budget of 4,000 euros
    The user confirmed the appointment with Dr. Weiss
    User needs help with walking after the knee surgery
    The user has a preference for window seats
    User has a problem with the boiler
    User has a goal of running a marathon
    User likes something spicy in the morning
    User hates questions about age
    She loves her job
    User hates his name
    The user has a good memory
    User has two children
    User is vegan
    User is a beekeeper
    User is from Ghana
    The user is a person with type 1 diabetes
    User is using Django 5 with Postgres
    The user is testing the beta of the billing page
    User is looking for a flat near the river
    The customer asked for a refund of order 88213
    The client sent the signed contract on Monday
    The customer wants an invoice by mail
    Conversation with the landlord went badly
    Session tokens expire after 15 minutes
    The chat widget must load in under 200 ms
    The assistant must never mention prices
    The agent should greet users with their first name
    The assistant may not share personal details
    Assistant name: Nova
    Answers should be in Spanish
    No meetings on Fridays
    No nuts, no shellfish
    No dairy
    Nothing spicy, please
    There is no parking at the office
    Thanks to Lena the project got funded
    Good coffee is at Café Central
    Hello Kitty is the daughter's favourite character
    Morning runs at 6:30
    OK Computer is the favourite album
    Sorry Not Sorry is her favourite song
    Sure-footed on rock, afraid of ice
    Yes is his favourite band
    Next.js is used for the frontend
    Test environment: eu-west-2
    Tests run with pytest -q
    Foo Fighters concert in Berlin on 12 June
    Bar exam is in July
    Null values are stored as empty strings
    Unknown callers go to voicemail
    TODO comments are not allowed in the main branch
    Continue.dev is the preferred plugin
    Cheers is the sitcom they watch on Sundays
    Great Dane named Otto
    Fine dining on anniversaries
    Bitte immer auf Deutsch antworten
    Der Nutzer wohnt in Köln und arbeitet bei der Bahn
    Guten Morgen Vietnam ist sein Lieblingsfilm
    Danke-Karten gehen an das Team von Frau Albers
    L'utilisateur préfère le thé vert
    Elle habite à Lyon depuis 2019
    Merci d'utiliser le tutoiement
    Prefiere respuestas cortas
    Vive en Sevilla con su hermana
    Gracias a la beca estudia en Salamanca
    Prefere café sem açúcar
    Mora no Porto e trabalha em casa
    Preferisce il treno all'aereo
    Abita a Torino con due gatti
    用户喜欢喝茶
    東京に住んでいる
    Пользователь живёт в Казани
    Blood type: 0 negative
    Shoe size 43
    Wi-Fi name: HollyHouse5G
    Time zone: Europe/Lisbon
    Pronouns: they/them
    IBAN is kept in the password manager
    Flight LH1172 on 4 May, seat 14A
    Car: blue Volvo V60, plate ends in 27
    git push --force is forbidden on main
    Use ruff, not flake8
    ssh key is in ~/.ssh/id_work
    The API returns 429 after 60 requests a minute
    HTTP/2 is switched off on the proxy
    Error 1045 means that the password of the replica is wrong
    Traceback in billing.py line 80 was fixed by upgrading to stripe 9
    The build fails with ENOENT when the cache folder is missing
    The deploy script prints "process exited with code 0" when it worked
    Error: disk full on node 3, solved by clearing /var/log
    The result of tool X is cached for an hour
    Logs use the format 2024-05-01 12:00:00 INFO message
    The commit 9fceb02d0ae598e95dc970b74767f19372d61af8 broke the login
    data: URLs are blocked by the content policy
    As an AI engineer, Priya reads papers every evening
    As a virtual assistant for a law firm, Tom works from home
    I'm sorry I missed the meeting; I had the flu
    Sorry, I can't eat gluten
    I can't help my brother move in August
    I don't have access to a car
    Unfortunately I cannot drive at night
    I am fine with aisle seats
    I don't know how to swim
    I see Dr. Okafor every month
    I understand Dutch but do not speak it
    How can I help you with my garden was his first message
    The user is curious about medieval music
    The user is interested in adopting a cat
    The user expressed an interest in pottery
    The user mentioned a trip to Oslo
    The user shared that their mother is ill
    The user started a conversation with the council about noise
    User ended the chat with the bank without a result
    User gave the assistant permission to book hotels
    User sent a message to Lea about the rent
    User provided three references
    They need support for Windows 7
    Human resources contact: Mrs. Adler
    The user never wants help with homework done in full
    Wants more details in code reviews
    42 is the door code of the storage room
    555-0134
    https://wiki.example.org/onboarding
    ana@example.com
    Aisle seat
    Black coffee
    Left-handed
    Lactose intolerant
    """.strip().splitlines()
]

_TRACE = """Traceback (most recent call last):
  File "app.py", line 12, in <module>
    main()
  File "app.py", line 8, in main
    raise ValueError("bad")
ValueError: bad"""
_JAVA = """Exception in thread "main" java.lang.NullPointerException: x
    at com.example.App.run(App.java:14)
    at com.example.App.main(App.java:5)"""
_NODE = """TypeError: x is not a function
    at Object.<anonymous> (/srv/app.js:3:1)
    at Module._compile (node:internal/modules/cjs/loader:1105:14)"""
_BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg=="

JUNK = [
    line.strip()
    for line in """
    hi
    Hello!
    hello there
    Good morning
    good evening, everyone
    hey hey
    How are you?
    Thanks!
    thank you so much
    ok
    OK, thanks.
    okay cool
    yes
    no
    yep, sounds good
    Got it 👍
    I see.
    makes sense
    lol
    haha
    bye
    See you later!
    hmm
    test
    testing testing
    asdf
    lorem ipsum dolor sit amet
    n/a
    None
    ...
    ???
    👍👍
    🙂
    !!!
    -
    Vegetarian
    Python
    Interesting.
    Guten Morgen!
    Hallo, wie geht's?
    Vielen Dank
    ja genau
    Alles klar, danke
    Tschüss!
    Bonjour
    Merci beaucoup !
    d'accord
    Salut, ça va ?
    Hola
    ¡Buenos días!
    muchas gracias
    vale, perfecto
    Olá, tudo bem?
    Bom dia
    muito obrigada
    Buongiorno!
    Grazie mille
    va bene
    ciao
    The user said hello.
    User said hi
    The user said thanks
    User greeted the assistant
    The user thanked the assistant for the help
    The user asked a question.
    User asked questions
    User asked for help
    The user is asking for information
    The user sent a message
    The user started a conversation with the assistant
    The user is talking to the assistant.
    The user and the assistant exchanged greetings
    The conversation has just started
    The conversation ended
    The assistant offered help
    The assistant answered the question
    The assistant asked how it can help
    The user did not share any personal information
    No new information was provided
    There are no relevant facts in the conversation
    Nothing to remember
    No personal details found in this message
    The user responded
    User acknowledged the response
    The user needs help
    User has a preference
    The user has preferences.
    User likes things
    The user has interests and hobbies
    User wants something
    The user has an opinion
    The user mentioned something
    The user is a person
    The user is using the app
    The user
    As an AI language model, I cannot have preferences.
    I'm sorry, but as an AI I can't remember earlier chats
    I'm sorry, but I can't assist with that.
    I cannot help with that request
    I don't have access to your previous conversations
    How can I help you today?
    Is there anything else I can help you with?
    Assistant: As a large language model, I do not have feelings.
    Tool call: search(query="weather")
    [tool_result] {"ok": true}
    <tool_call>{"name": "lookup"}</tool_call>
    {"status": "ok", "error": null}
    {"stdout": "", "stderr": "", "exit_code": 0}
    2024-05-01 12:00:00,123 INFO worker started
    npm ERR! code ELIFECYCLE
    HTTP/1.1 200 OK
    Process exited with code 0
    aaaaaaaaaaaa
    hahahahahahahaha
    ==========
    The user seems to be chatting
    User made small talk
    The user is satisfied with the answer
    """.strip().splitlines()
] + [_TRACE, _JAVA, _NODE, _BASE64, "data:image/png;base64," + _BASE64]
