"""Texts of many kinds and how many tokens three real tokenizers make of them."""

from __future__ import annotations

# (kind, cl100k_base, o200k_base, the tokenizer of the first Claudes, text)
SAMPLES: tuple[tuple[str, int, int, int, str], ...] = (
    (
        "english",
        53,
        53,
        53,
        "We moved the meeting to Thursday because Priya will be travelling on Wednesday, and nobody"
        " wanted to decide about the budget without her. Please bring the figures for the second qu"
        "arter and a short list of open questions; the rest can wait until the new office is ready.",
    ),
    (
        "english",
        37,
        33,
        39,
        "I don't think she'd mind, but it's safer to ask first. My sister is allergic to peanuts, p"
        "refers window seats, and has been learning the cello since March.",
    ),
    (
        "german",
        53,
        39,
        60,
        "Die Besprechung wurde auf Donnerstag verschob"
        "en, weil niemand ohne die Abteilungsleiterin "
        "über die Haushaltsplanung entscheiden wollte."
        " Bitte bringt die Zahlen für das zweite Viert"
        "eljahr mit.",
    ),
    (
        "french",
        49,
        35,
        53,
        "La réunion a été déplacée à jeudi, car person"
        "ne ne voulait décider du budget sans elle. Me"
        "rci d'apporter les chiffres du deuxième trime"
        "stre et une liste des questions ouvertes.",
    ),
    (
        "spanish",
        45,
        34,
        50,
        "La reunión se ha trasladado al jueves porque "
        "nadie quería decidir sobre el presupuesto sin"
        " ella. Traed, por favor, las cifras del segun"
        "do trimestre y las preguntas pendientes.",
    ),
    (
        "polish",
        62,
        52,
        68,
        "Spotkanie przeniesiono na czwartek, ponieważ "
        "nikt nie chciał podejmować decyzji o budżecie"
        " bez niej. Proszę przynieść dane za drugi kwa"
        "rtał i krótką listę pytań.",
    ),
    (
        "turkish",
        65,
        46,
        76,
        "Toplantı perşembeye alındı çünkü kimse bütçe "
        "hakkında onsuz karar vermek istemedi. Lütfen "
        "ikinci çeyreğin rakamlarını ve açık soruların"
        " kısa bir listesini getirin.",
    ),
    (
        "vietnamese",
        63,
        39,
        103,
        "Cuộc họp được chuyển sang thứ Năm vì không ai"
        " muốn quyết định về ngân sách khi thiếu cô ấy"
        ". Xin hãy mang theo số liệu của quý hai và da"
        "nh sách câu hỏi.",
    ),
    (
        "russian",
        74,
        41,
        80,
        "Встречу перенесли на четверг, потому что никт"
        "о не хотел решать вопрос о бюджете без неё. П"
        "ожалуйста, принесите цифры за второй квартал "
        "и список открытых вопросов.",
    ),
    (
        "greek",
        132,
        50,
        164,
        "Η συνάντηση μεταφέρθηκε την Πέμπτη, γιατί καν"
        "είς δεν ήθελε να αποφασίσει για τον προϋπολογ"
        "ισμό χωρίς εκείνη. Φέρτε τα στοιχεία του δεύτ"
        "ερου τριμήνου.",
    ),
    (
        "arabic",
        99,
        38,
        129,
        "تم نقل الاجتماع إلى يوم الخميس لأن أحدا لم ير"
        "غب في اتخاذ قرار بشأن الميزانية بدونها. يرجى "
        "إحضار أرقام الربع الثاني وقائمة قصيرة بالأسئل"
        "ة.",
    ),
    (
        "hebrew",
        114,
        48,
        106,
        "הפגישה נדחתה ליום חמישי כי אף אחד לא רצה להחל"
        "יט על התקציב בלעדיה. נא להביא את הנתונים של ה"
        "רבעון השני ורשימה קצרה של שאלות.",
    ),
    (
        "hindi",
        148,
        42,
        156,
        "बैठक गुरुवार को कर दी गई क्योंकि कोई भी उनके बिना बजट पर निर्णय नहीं लेना चाहता था। कृपया दूसरी तिमाही के आँकड़े और प्रश्नों की सूची लाएँ।",
    ),
    ("thai", 113, 51, 217, "การประชุมถูกเลื่อนไปเป็นวันพฤหัสบดีเพราะไม่มีใครอยากตัดสินใจเรื่องงบประมาณโดยไม่มีเธอ กรุณานำตัวเลขของไตรมาสที่สองมาด้วย"),
    (
        "chinese",
        73,
        45,
        62,
        "会议改到星期四，因为没有人愿意在她不在的时候决定预算。请带上第二季度的数据和一份简短的问题"
        "清单，其余的可以等新办公室准备好以后再说。",
    ),
    (
        "chinese",
        95,
        60,
        86,
        "會議改到星期四，因為沒有人願意在她不在的時候決定預算。請帶上第二季的數據和一份簡短的問題清"
        "單，其餘的可以等新辦公室準備好以後再說。",
    ),
    (
        "japanese",
        68,
        46,
        68,
        "彼女がいないところで予算を決めたい人はいなかったので、会議は木曜日に変更されました。第二四"
        "半期の数字と質問の一覧を持ってきてください。",
    ),
    (
        "korean",
        62,
        42,
        70,
        "그녀 없이 예산을 결정하고 싶어 하는 사람이 없어서 회의가 목요일로 옮겨졌습니다."
        " 이분기 수치와 짧은 질문 목록을 가져와 주세요.",
    ),
    (
        "python",
        57,
        57,
        58,
        'def within(hits, limit):\n    """Those that fit."""\n    kept, used = [], 0\n    for hit in h'
        "its:\n        cost = estimate(hit.content)\n        if used + cost <= limit:\n            kep"
        "t.append(hit)\n            used += cost\n    return kept\n",
    ),
    (
        "javascript",
        64,
        63,
        69,
        "export async function load(url, { retries = 3 } = {}) {\n  for (let i = 0; i < retries; i++"
        ") {\n    const res = await fetch(url);\n    if (res.ok) return res.json();\n  }\n  throw new E"
        "rror(`gave up on ${url}`);\n}\n",
    ),
    (
        "minified",
        69,
        70,
        90,
        '!function(e,t){"object"==typeof exports?module.exports=t():e.lib=t()}(this,function(){var '
        "n={};function r(e){if(n[e])return n[e].x;var o=n[e]={i:e,l:!1,x:{}};return o.x}return r.m="
        "n,r(0)});",
    ),
    (
        "c",
        69,
        68,
        84,
        "static int parse_header(const char *buf, size_t len, struct header *out)\n{\n\tif (len < size"
        "of(*out) || buf == NULL)\n\t\treturn -EINVAL;\n\tmemcpy(out, buf, sizeof(*out));\n\treturn ntohl("
        "out->magic) == 0xCAFEBABE ? 0 : -1;\n}\n",
    ),
    (
        "rust",
        66,
        66,
        81,
        "impl<T: Ord> Heap<T> {\n    pub fn pop(&mut self) -> Option<T> {\n        let last = self.it"
        "ems.len().checked_sub(1)?;\n        self.items.swap(0, last);\n        let top = self.items."
        "pop();\n        self.sift_down(0);\n        top\n    }\n}\n",
    ),
    (
        "sql",
        66,
        66,
        78,
        "SELECT u.id, u.name, COUNT(o.id) AS orders FROM users AS u LEFT JOIN orders AS o ON o.user"
        "_id = u.id WHERE u.created_at >= '2026-01-01' GROUP BY u.id, u.name HAVING COUNT(o.id) > 3"
        " ORDER BY orders DESC LIMIT 20;",
    ),
    (
        "json",
        85,
        85,
        83,
        '{"id": "m_0193", "kind": "fact", "tags": ["home", "pets"], "score": 0.8731, "source": {"ch'
        'annel": "user", "trust": 0.9}, "history": [{"at": "2026-03-01T09:30:00Z", "content": "has '
        'a cat"}], "expires": null}',
    ),
    (
        "html",
        53,
        53,
        60,
        '<ul class="menu">\n  <li><a href="/docs/start.html" title="Start here">Getting started</a><'
        '/li>\n  <li><img src="logo.png" alt="" width="120" height="40"/></li>\n</ul>\n',
    ),
    (
        "yaml",
        43,
        43,
        43,
        'services:\n  db:\n    image: postgres:16\n    environment:\n      POSTGRES_PASSWORD: "${DB_PAS'
        'SWORD}"\n    ports:\n      - "5432:5432"\n    restart: unless-stopped\n',
    ),
    (
        "shell",
        66,
        67,
        65,
        'for f in "$@"; do\n  [ -f "$f" ] || { echo "no such file: $f" >&2; exit 1; }\n  gzip -dc "$f'
        '" | grep -vE \'^(#|$)\' | sort -u > "${f%.gz}.txt"\ndone\n',
    ),
    (
        "diff",
        44,
        44,
        58,
        "--- a/src/app.py\n+++ b/src/app.py\n@@ -12,7 +12,7 @@ def main():\n-    return run(args.path)"
        "\n+    return run(args.path, retries=args.retries)\n",
    ),
    (
        "trace",
        61,
        62,
        66,
        'Traceback (most recent call last):\n  File "/srv/app/worker.py", line 214, in handle\n    re'
        'sult = self.store.get(key)\n  File "/srv/app/store.py", line 88, in get\n    raise KeyError('
        "key)\nKeyError: 'session:48213'\n",
    ),
    (
        "log",
        81,
        81,
        79,
        "2026-03-01 09:30:12,481 INFO [worker-3] request id=7f3a9c2e status=200 path=/v1/items took"
        "=18ms\n2026-03-01 09:30:12,977 WARN [worker-1] retry 2/5 after 0.5s: connection reset by pe"
        "er\n",
    ),
    (
        "numbers",
        58,
        58,
        42,
        "3.14159 2.71828 1,024 65,536 17 4096 1000000 -0.00031 6.022e23 299792458 42 1999 2026 8675309 123456789012",
    ),
    ("dates", 54, 54, 49, "2026-03-01T09:30:00Z 2025-12-24 18:00 01/02/2024 11:59:59.999 +02:00 Q3 FY27 1999-12-31"),
    (
        "base64",
        101,
        89,
        94,
        "lZfkkVY+XqFr57/U5YzRaT0mJ3bQxWvNc8eHs1LgPZuKd4oFi2Vy9tEwDjAhB6nMfRkSxGqUCp7IlOzTbYvX0mQa5sLd3uJrHeWgNi8Kc1oPf4EtBy==",
    ),
    (
        "hex",
        66,
        66,
        68,
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 da39a3ee5e6b4b0d3255bfef95601890afd80709",
    ),
    (
        "uuid",
        79,
        79,
        81,
        "3f2b8c1e-9d47-4a6f-b0e5-7c1d2a9f8e34\n0a1b2c3d-4e5f-4678-9abc-def012345678\nc56a4180-65aa-42ec-a945-5fd21dec0538\n",
    ),
    (
        "url",
        38,
        38,
        46,
        "https://docs.example.org/guides/getting-started?lang=en&ref=newsletter#install http://api."
        "example.com:8080/v2/users/48213/orders.json",
    ),
    (
        "table",
        66,
        66,
        65,
        "| name | plan | seats | since |\n|------|:----:|------:|-------|\n| Acme | pro | 120 | 2023-"
        "04 |\n| Globex | free | 3 | 2025-11 |\n| Initech | team | 48 | 2024-07 |\n",
    ),
    (
        "blank",
        48,
        48,
        51,
        "a\n\n\n\n        b\t\t\tc\n    \n    d                    e\r\n\r\nf\n\t\n\tg\na\n\n\n\n        b\t\t\tc\n    \n    d"
        "                    e\r\n\r\nf\n\t\n\tg\na\n\n\n\n        b\t\t\tc\n    \n    d                    e\r\n\r\nf\n\t\n"
        "\tg\n",
    ),
    ("emoji", 86, 53, 79, "😀😂🥰👍🏽👩\u200d👩\u200d👧\u200d👦🇩🇪🇯🇵❤️🚀🎉🧑🏿\u200d💻🏳️\u200d🌈🤷🏻\u200d♀️✨🔥"),
    (
        "mixed",
        52,
        44,
        58,
        "Meet at 東京駅 at 18:30 👍 — Größe L, Preis 24,90"
        ' €; see `config["retry"]` и позвони Ане. http'
        "s://maps.example/x?q=35.68",
    ),
    (
        "capitals",
        25,
        25,
        25,
        'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUD'
        "ING FITNESS FOR A PARTICULAR PURPOSE.",
    ),
)
