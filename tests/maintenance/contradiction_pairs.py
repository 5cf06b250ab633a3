"""Memories with a later message each, labelled by hand: those that contradict, and those that do not. No test lives here."""

from __future__ import annotations

# fmt: off
CONTRADICTING = """\
The user lives in Rome. | I moved to Oslo last month.
The user lives in Rome. | I live in Lisbon now, the weather is great.
The user works at Acme. | Started a new chapter: I work at Globex now.
The user works at Acme. | I no longer work at Acme.
The user's name is Dana. | My name is Dania, not Dana.
The user is vegetarian. | I'm not vegetarian anymore.
The user is vegetarian. | I'm vegan now.
The user's birthday is on May 3. | My birthday is on May 4.
The user's email is dana@old.example. | My email is dana@new.example.
The user has 3 cats. | I have 4 cats now.
The user has two children. | We have three children now.
The user's rent is $1200. | My rent is $1400 now.
The user's rent is 1,200 euros. | My rent went up to 1,350 euros.
The team has 12 people. | The team has 15 people now.
The team has 12 people. | We now have 15 people on the team.
The weekly meeting is on Tuesday at 3 pm. | The weekly meeting is on Thursday now.
The standup is at 9:30. | We moved the standup to 10:00.
The standup is at 9 am. | The standup was moved from 9 am to 10 am.
The launch is scheduled for May 3. | The launch is on May 10.
The launch is scheduled for May 3. | We pushed the launch to June 1.
The project deadline is 2026-05-01. | The project deadline is 2026-06-15.
The user's dentist appointment is on Tuesday. | My dentist appointment is on Friday.
The user's manager is Priya. | My manager is Tom now.
The user's manager is Priya. | My manager is Tom.
The user's landlord is Mr Weber. | My landlord is Mrs Schulz these days.
The user's favourite colour is blue. | My favourite colour is green.
The user's favorite band is Radiohead. | My favorite band is Portishead now.
The user reports to Anna. | I report to Ben now.
The user is married to Sam. | I'm married to Alex.
The user drinks coffee. | I don't drink coffee anymore.
The user drinks two cups of coffee every morning. | I no longer drink coffee.
The user smokes. | I quit smoking.
The user smokes. | I stopped smoking in January.
The user likes sushi. | I don't like sushi anymore.
The user loves running. | I hate running.
The user hates mushrooms. | I love mushrooms now.
The user doesn't eat meat. | I eat meat again.
The user has a Netflix subscription. | I cancelled my Netflix subscription.
The user drives a Tesla. | I sold my Tesla.
The user has a dog. | I don't have a dog anymore.
The user owns a car. | We sold the car.
The user uses Vim. | I switched from Vim to Emacs.
The user uses Vim as their editor. | I use Emacs instead of Vim.
The team uses Slack. | We migrated from Slack to Teams.
The project uses MySQL. | We replaced MySQL with Postgres.
The user uses an iPhone. | I switched from an iPhone to a Pixel.
The user prefers dark mode. | I prefer light mode.
The user prefers tea. | I prefer coffee over tea.
The user prefers window seats. | I prefer aisle seats now.
The user is single. | I'm married now.
The team meets weekly. | The team meets monthly now.
The user's car is red. | My car is blue now.
The API is hosted on Heroku. | The API is hosted on Fly now.
The backend is written in Python. | The backend is written in Go.
The server runs on Ubuntu. | The server runs on Debian now.
The company is headquartered in Berlin. | The company is headquartered in Munich now.
The office is on the 3rd floor. | The office is on the 5th floor now.
The user is learning Spanish. | I stopped learning Spanish.
The user plays the cello. | I don't play the cello anymore.
The user goes to the gym on Mondays. | I no longer go to the gym.
The user is a member of the chess club. | I left the chess club.
The user commutes by train. | I commute by bike instead of by train.
The user earns 4000 euros a month. | I earn 4500 euros a month now.
The user weighs 80 kg. | I weigh 76 kg.
The user takes insulin. | I don't take insulin anymore.
The user has a meeting with Tom at 2 pm. | The meeting with Tom is at 4 pm now.
The user's flight is at 7:15. | My flight is at 9:40 now.
The support plan costs $49. | The support plan costs $59 now.
The user is allergic to peanuts. | I'm not allergic to peanuts, the test was wrong.
The user's phone number is +49 170 1234567. | My phone number is +49 151 7654321.
The user's gym is FitX. | My gym is McFit now.
The app supports 5 languages. | The app supports 8 languages now.
The user studies at Heidelberg. | I study at Mannheim now.
The user works from home. | I don't work from home anymore.
The user lives in Munich with their partner. | Hey, quick update: we moved to Hamburg in spring, so use that for the weather.
User works for Siemens as a project lead. | I left Siemens, I'm working for Bosch now.
The user's wife is called Maria. | My wife's name is Marta, you keep getting it wrong.
The user has one daughter. | I have two daughters now!
The user runs three times a week. | I run five times a week now.
Invoices are sent on the 1st of each month. | Invoices are sent on the 15th of each month now.
The user's budget for the kitchen is 8000 euros. | The budget for the kitchen is 10000 euros now.
The sprint review is on Friday at 14:00. | FYI the sprint review was moved to Thursday.
The user's exam is on June 12. | My exam is on June 19, they changed it.
The production database is PostgreSQL 15. | The production database is PostgreSQL 17 now.
The user's laptop is a ThinkPad. | My laptop is a MacBook now.
The user's therapist is Dr Klein. | My therapist is Dr Vogel.
The user has a gym membership. | I cancelled my gym membership last week.
The user eats dairy. | I stopped eating dairy.
The user enjoys crossword puzzles. | I don't enjoy crossword puzzles any more.
The user is in a band. | I left the band.
The user uses Notion for notes. | I switched from Notion to Obsidian.
The company uses Jira. | We moved from Jira to Linear.
The user likes their coffee black. | I don't drink coffee anymore.
The user's favourite season is autumn. | My favourite season is spring.
The user's daughter is in 3rd grade. | My daughter is in 4th grade now.
The user sleeps 6 hours a night. | I sleep 8 hours a night now.
The release is planned for March 20. | The release is delayed to April 3.
The user has a cat named Miso. | I don't have a cat anymore.
The user commutes by car. | I don't commute by car anymore.
The user pays 45 euros for internet. | I pay 55 euros for internet now.
The user teaches chess on Saturdays. | I no longer teach chess.
The user prefers metric units. | I prefer imperial units.
The user is employed. | I'm unemployed.
The API limit is 100 requests per minute. | The API limit is 250 requests per minute.
The staging server is in Frankfurt. | The staging server is in Dublin now.
The user never eats breakfast. | I eat breakfast now.
The user doesn't have a driving licence. | I have a driving licence now!
The user's team lead is Olga. | Our team lead is Marek since Monday.
The user subscribes to Spotify. | I cancelled Spotify.
The user is training for a marathon. | I'm no longer training for a marathon.
The shop opens at 9 am. | The shop opens at 10 am now.
The user's doctor is Dr. Chen. | My doctor is Dr. Patel now.
The user has 2 monitors. | I have three monitors now.
The user takes the bus to work. | I don't take the bus to work anymore.
The user has a standing desk reservation on Wednesdays. | I cancelled the standing desk reservation.
The user's therapy session is at 17:00. | Could you note that? My therapy session is at 18:30 now.
The user lives in a flat in Leipzig. | I live in Dresden now.
The user drinks oat milk. | I stopped drinking oat milk, it upsets my stomach.
The user's savings goal is 10000 euros. | My savings goal is 15000 euros now.
The user is vegan. | I eat meat again these days.
The user has 5 employees. | We're growing: I have 7 employees now.
The user's startup is based in Tallinn. | The startup is based in Riga now.
The user uses Chrome. | I switched to Firefox from Chrome last week.
The user's mother is 67. | My mother is 68 now.
The user plays tennis with Oleg. | I don't play tennis with Oleg anymore.
The password rotation is quarterly. | The password rotation is monthly now.
The user's plant is called Fred. | My plant is called Ted.
The user likes horror films. | I don't like horror films.
The CI pipeline takes 20 minutes. | The CI pipeline takes 8 minutes now.
The user rents a garage. | I no longer rent the garage.
The user's wedding is on 12 September. | Our wedding is on 19 September now, the venue was double booked.
The user commutes on Tuesdays. | I no longer commute.
The user is allergic to cats. | I'm not allergic to cats anymore, the shots worked.
The user gets paid on the 25th. | I get paid on the 28th now.
The user's favourite language is Rust. | My favourite language is Zig.
The user takes vitamin D. | I quit vitamin D.
The user has dinner at 7 pm. | I have dinner at 6 pm now.
The orders table is in MySQL. | The orders table is in Postgres now.
The user is dating Robin. | I broke up with Robin.
"""
COMPATIBLE = """\
The user lives in Rome. | I visited Oslo last month.
The user lives in Rome. | My brother lives in Oslo.
The user lives in Rome. | Should I move to Oslo?
The user lives in Rome. | If I moved to Oslo, what would rent cost?
The user lives in Rome. | I might move to Oslo next year.
The user lives in Rome. | I used to live in Oslo.
The user lives in Rome. | I'm in Oslo for a week.
The user lives in Rome. | Anna said "I moved to Oslo".
The user lives in Rome. | I live in Rome, near the river.
The user lives in Rome. | I live in an apartment on the 3rd floor.
The user works at Acme. | My sister works at Globex.
The user works at Acme. | I work as an engineer.
The user works at Acme. | I have an interview at Globex tomorrow.
The user works at Acme. | I'm thinking of quitting Acme.
The user works at Acme. | I don't work on Fridays.
The user works at Acme. | I worked at Globex before Acme.
The user is vegetarian. | My wife is not vegetarian.
The user is vegetarian. | I'm not hungry.
The user is looking for a vegetarian restaurant. | I'm not vegetarian.
The user is vegetarian. | Is this dish vegetarian?
The user has 3 cats. | My neighbour has 4 cats.
The user has 3 cats. | I have 2 dogs.
The user has 3 cats. | I had 2 cats as a child.
The user has 3 cats. | In 2019 I had 5 cats.
The user has 3 cats. | I bought 4 bags of cat food.
The user has 3 cats. | Imagine I had 10 cats.
The user has 3 meetings on Monday. | I have 4 meetings on Tuesday.
The user has 3 meetings. | I have 5 meetings today.
The user paid 30 euros for lunch. | I paid 25 euros for lunch.
The user bought 2 tickets for the opera. | I bought 4 tickets for the game.
The user ran 5 km. | I ran 10 km.
The user runs 5 km every morning. | I ran 8 km today.
The weekly meeting is on Tuesday at 3 pm. | The budget meeting is on Thursday at 3 pm.
The weekly meeting is on Tuesday at 3 pm. | The weekly meeting is on Tuesday at 3 pm in room 4.
The weekly meeting is on Tuesday. | Can we move the weekly meeting to Thursday?
The weekly meeting is on Tuesday. | Tom asked to move the weekly meeting to Thursday.
The user has yoga on Tuesday. | I have yoga on Thursday.
The user has a dentist appointment on Tuesday. | I have a haircut on Friday.
The launch is scheduled for May 3. | The launch party is on May 5.
The launch is scheduled for May 3. | The launch is on May 3 at noon.
The launch is scheduled for May 3. | We might push the launch to June.
The project deadline is 2026-05-01. | The other project's deadline is 2026-06-15.
The user's manager is Priya. | My manager is great.
The user's manager is Priya. | My manager is on holiday.
The user's manager is Priya. | Tom's manager is Ben.
The user's manager is Priya. | My previous manager was Tom.
The user's friend is Tom. | My friend is Ben.
The user's brother is Tom. | My brother is Ben.
The user's favourite colour is blue. | My daughter's favourite colour is green.
The user's favourite colour is blue. | My favourite food is pizza.
The user's favourite colour is blue. | What's my favourite colour, green?
The user reports to Anna. | Ben reports to me.
The user drinks coffee. | I don't drink coffee in the evening.
The user drinks coffee. | I didn't drink coffee today.
The user drinks coffee. | I don't always drink coffee.
The user drinks coffee. | My wife no longer drinks coffee.
The user drinks coffee. | I also drink tea.
The user drinks coffee. | I don't like tea.
The user drinks coffee. | Do I still drink coffee?
The user drinks coffee. | I wish I no longer drank coffee.
The user prefers tea over coffee. | I no longer drink beer.
The user smokes. | My dad quit smoking.
The user smokes. | I'm trying to quit smoking.
The user likes sushi. | I don't like ramen.
The user likes sushi. | I love pizza.
The user likes hiking in the Alps. | I don't like hiking in the rain.
The user hates mushrooms. | I love olives.
The user doesn't eat meat. | My son eats meat.
The user doesn't eat meat. | I eat fish.
The user has a Netflix subscription. | I cancelled my gym subscription.
The user drives a Tesla. | I sold my bike.
The user has a dog. | I don't have a cat.
The user has a dog. | I don't have a dog walker.
The user's brother has a dog. | I don't have a dog anymore.
The user uses Vim. | I use Emacs.
The user uses Vim. | I use Postgres for storage.
The user uses Vim. | Bob switched from Vim to Emacs.
The user loves Rome. | I moved from Rome to Oslo.
The user visited Rome in 2019. | I moved from Rome to Oslo.
The team uses Slack. | The other team migrated from Slack to Teams.
The user prefers dark mode. | I prefer light meals.
The user prefers tea. | I prefer window seats.
The user prefers dark mode. | My boss prefers light mode.
The user prefers short answers. | Write a long answer for this one.
The user's car is red. | My bike is blue.
The backend is written in Python. | The frontend is written in TypeScript.
The API is hosted on Heroku. | The docs are hosted on Netlify.
The app runs on iOS. | The app runs on Android.
The office is on the 3rd floor. | The kitchen is on the 5th floor.
The user is learning Spanish. | I'm learning Portuguese.
The user speaks German. | I speak French.
The user plays the cello. | I play the piano.
The user plays the cello. | I don't play football anymore.
The user is allergic to peanuts. | I'm allergic to shellfish.
The user is allergic to peanuts. | I'm not allergic to shellfish.
The user earns 4000 euros a month. | I spend 900 euros a month.
The user weighs 80 kg. | My dog weighs 30 kg.
The user's flight is at 7:15. | My return flight is at 9:40.
The user takes insulin. | I don't take sugar in my tea.
Dana lives in Rome. | I moved to Oslo.
Dana drinks coffee. | I don't drink coffee anymore.
The user met Anna in Paris. | I met Ben in London.
The user visited Japan. | I never visited Korea.
The user works from home. | I don't work from home on Mondays.
The user goes to the gym on Mondays. | I go to the pool on Tuesdays.
The user's sister Mia lives in Bern. | I don't live in Bern.
The user decided to use Postgres. | We use Redis for the cache.
The user wants to learn Rust. | I don't know Rust.
The user is 34 years old. | My wife is 36 years old.
The user's daughter is 4. | My son is 6.
The user has a meeting with Tom at 2 pm. | I have a meeting with Anna at 4 pm.
The user was born in 1990. | I moved here in 2015.
The server runs on Ubuntu. | Here is the log: server runs on Debian now.
The support plan costs $49. | The enterprise plan costs $99.
The user uses Python 3.11. | Does it work with Python 3.12?
The user has a subscription to The Times. | I read the Guardian.
The user's email is dana@old.example. | Tom's email is tom@new.example.
The user prefers metric units. | The recipe uses imperial units.
The user lives in Munich. | My parents moved to Hamburg in spring.
The user lives in Munich. | I'm flying to Hamburg tomorrow.
The user lives in Munich. | I have an office in Hamburg.
The user works for Siemens. | We have a meeting at Bosch.
The user works for Siemens. | Siemens moved its office to Vienna.
The user's wife is called Maria. | My wife's boss is called Marta.
The user has one daughter. | My sister has two daughters.
The user runs three times a week. | I go to the gym five times a week.
Invoices are sent on the 1st of each month. | Salaries are sent on the 15th of each month.
The user's budget for the kitchen is 8000 euros. | The budget for the bathroom is 5000 euros.
The user's budget for the kitchen is 8000 euros. | I spent 3000 euros on the kitchen so far.
The sprint review is on Friday at 14:00. | The sprint planning is on Monday at 10:00.
The sprint review is on Friday at 14:00. | I can't come to the sprint review on Friday.
The sprint review is on Friday. | The sprint review is in room 5.
The user's exam is on June 12. | My second exam is on June 19.
The production database is PostgreSQL 15. | The test database is PostgreSQL 17.
The user's laptop is a ThinkPad. | My laptop is slow.
The user's laptop is a ThinkPad. | My work laptop is a MacBook.
The user's therapist is Dr Klein. | Dr Klein is on leave.
The user has a gym membership. | My partner cancelled her gym membership.
The user eats dairy. | I don't eat eggs.
The user enjoys crossword puzzles. | I don't have time for crossword puzzles this week.
The user is in a band. | I'm in a book club.
The user uses Notion for notes. | I use Todoist for tasks.
The user uses Notion for notes. | I don't use Notion for tasks.
The company uses Jira. | Our client moved from Jira to Linear.
The user likes their coffee black. | I like my tea with milk.
The user's favourite season is autumn. | My favourite season of Lost is the first.
The user's daughter is in 3rd grade. | My son is in 4th grade.
The user sleeps 6 hours a night. | I slept 8 hours last night.
The release is planned for March 20. | The next release is planned for April 3.
The user has a cat named Miso. | I don't have a cat named Tofu.
The user has a cat. | I have a dog now too.
The user commutes by car. | I don't commute on Fridays.
The user pays 45 euros for internet. | I pay 20 euros for my phone.
The user teaches chess on Saturdays. | I teach math on Mondays.
The user prefers metric units. | For this recipe use imperial units.
The API limit is 100 requests per minute. | The upload limit is 250 MB.
The staging server is in Frankfurt. | The production server is in Dublin.
The user never eats breakfast. | I had breakfast with Tom today.
The user doesn't have a driving licence. | My wife has a driving licence.
The user's team lead is Olga. | Olga's team lead is Marek.
The user subscribes to Spotify. | I cancelled the newspaper.
The user is training for a marathon. | I'm no longer training on Mondays.
The shop opens at 9 am. | The shop closes at 6 pm.
The shop opens at 9 am. | The shop on Main Street opens at 10 am.
The user's doctor is Dr. Chen. | My eye doctor is Dr. Patel.
The user has 2 monitors. | I have 3 keyboards.
The user takes the bus to work. | I don't take the bus when it rains.
The user wants to visit Japan. | I don't want to visit China.
The user is interested in history. | I'm not interested in politics.
The user asked for the report by Friday. | The report is 12 pages long.
The user speaks English and French. | I don't speak German.
The user knows Kubernetes. | I don't know Terraform.
The user owns a house in Kent. | I don't own a house in Spain.
The user's parents live in Leeds. | I don't live in Leeds.
The user's son plays football. | I don't play football.
The user went to Prague in May. | I'm going to Vienna in June.
The user has an appointment at 10 am. | I have another appointment at 3 pm.
The user reads one book a month. | I read 3 books on holiday.
The user uses tabs in Go code. | I use spaces in Python code.
The user dislikes phone calls. | I like video calls.
The user is afraid of spiders. | I'm not afraid of snakes.
The user thinks the offer is too low. | The offer is 5000 euros.
The user is a nurse. | I'm a big fan of jazz.
The user is a nurse. | I'm a mother of two.
The user's address is 12 Elm Street. | The office address is 40 Oak Street.
The user deploys on Thursdays. | We didn't deploy on Thursday.
The user has meetings in the morning. | I have no meetings today.
The user likes long walks. | I like short stories.
The user wears glasses. | I don't wear ties.
The user has a standing desk reservation on Wednesdays. | I cancelled the meeting room for Wednesday.
The user's therapy session is at 17:00. | My train is at 18:30.
The user lives in a flat in Leipzig. | The flat has two bathrooms.
The user drinks oat milk. | The kids stopped drinking oat milk.
The user's savings goal is 10000 euros. | I saved 500 euros this month.
The user is vegan. | I cooked meat for my guests.
The user has 5 employees. | My competitor has 7 employees now.
The user's startup is based in Tallinn. | Our investor is based in Riga.
The user uses Chrome. | My mom switched to Firefox.
The user's mother is 67. | My father is 68.
The user plays tennis with Oleg. | I don't play tennis with Ivan.
The password rotation is quarterly. | The key rotation is monthly.
The user's plant is called Fred. | My cat is called Ted.
The user likes horror films. | My girlfriend doesn't like horror films.
The CI pipeline takes 20 minutes. | The deploy takes 8 minutes.
The user rents a garage. | I don't rent the apartment upstairs.
The user's wedding is on 12 September. | My cousin's wedding is on 19 September.
The user commutes on Tuesdays. | I commute on Thursdays too.
The user is allergic to cats. | I'm not allergic to dogs.
The user gets paid on the 25th. | The rent is due on the 28th.
The user's favourite language is Rust. | Zig is a nice language.
The user takes vitamin D. | I take magnesium now.
The user has dinner at 7 pm. | I have breakfast at 6 am.
The orders table is in MySQL. | The users table is in Postgres.
The user is dating Robin. | Alex broke up with Sam.
The user wants a new bike. | I don't have a bike.
The user is writing a thesis. | I haven't written anything today.
The user has a blog. | I have two blogs to read every day.
The user owes Tim 20 euros. | Tim owes me 35 euros.
The user's team ships on Fridays. | We shipped on Thursday.
The user finds Kafka hard. | I don't find Redis hard.
The user works late on Mondays. | I didn't work late.
The user has tried keto. | I'm not on keto right now.
The user collects stamps. | I don't collect coins.
The user's boss is Helen. | Helen's boss is Frank.
The review of chapter 3 is on Friday. | The review of chapter 4 is on Friday.
Ticket 1204 is assigned to Mei. | Ticket 1207 is assigned to Mei.
"""
# fmt: on


def pairs(text: str) -> list[tuple[str, str]]:
    """(memory, later message) of each line."""
    return [(memory.strip(), message.strip()) for memory, _, message in (line.partition(" | ") for line in text.splitlines())]
