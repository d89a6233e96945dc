"""Domains of culture and learning: library, cinema, museum, university, football league. Invariant: data only."""

from __future__ import annotations

from fields import (
    cat,
    code,
    dates,
    day,
    dec,
    flag,
    ints,
    key,
    label,
    later,
    mix,
    moment,
    money,
    note,
    num,
    one_of,
    ordinal,
    person,
    ref,
    tenths,
    times,
)
from model import Domain, Entity
from words import ADJECTIVES, CITIES, COUNTRIES, NOUNS, TOWNS

# fmt: off

TITLE = one_of(
    mix("The {} {}", ADJECTIVES, NOUNS),
    mix("{} of the {}", NOUNS, NOUNS),
    mix("A {} {}", ("Crimson", "Quiet", "Distant"), NOUNS),
    mix("{} in {}", NOUNS, TOWNS),
)

LIBRARY = Domain(
    "library",
    (
        Entity("authors", "author", "authors", (
            key("author_id", "author id"),
            label("full_name", "name", person),
            cat("country", "home country", "home countries", COUNTRIES, "from {v}"),
            day("born_on", "date of birth", "born", dates("1930-01-01", "1995-01-01"), blank=0.12),
        ), (14, 20)),
        Entity("books", "book", "books", (
            key("book_id", "book id"),
            label("title", "title", TITLE, quote=True),
            ref("author_id", "authors", "author", of="written by {v}", has="has written", have="have written",
                hasnt="have not written any", whose="the author of {v}"),
            cat("genre", "genre", "genres", ("crime", "fantasy", "biography", "poetry", "history", "science"),
                "in the genre {v}"),
            num("pages", "page count", ints(84, 912), more="with more than {v} pages",
                less="with fewer than {v} pages", top="longest", low="shortest", summable=True),
            dec("price", "purchase price", money(6, 60), top="most expensive", low="cheapest", unit="euros",
                summable=True),
            day("published_on", "publication date", "published", dates("1990-01-01", "2024-06-01")),
            flag("reference_only", "reference-only mark", "marked as reference only",
                "not marked as reference only", 0.25),
        ), (34, 50)),
        Entity("members", "member", "members", (
            key("member_id", "member id"),
            label("full_name", "name", person),
            cat("city", "city", "cities", CITIES[:7], "living in {v}"),
            day("joined_on", "joining date", "registered", dates("2015-01-01", "2023-12-31")),
            cat("email_domain", "e-mail provider", "e-mail providers", ("postbox.example", "mailhub.example",
                "letterly.example"), "with the e-mail provider {v}", blank=0.25),
        ), (18, 28)),
        Entity("loans", "loan", "loans", (
            code("loan_no", "loan number", "LN-{n}"),
            ref("book_id", "books", "book", of="of {v}", has="has been the subject of",
                have="have been the subject of", hasnt="have not been the subject of any",
                whose="the book lent in {v}"),
            ref("member_id", "members", "member", of="made by {v}", has="has made", have="have made",
                hasnt="have not made any", whose="the member who made {v}"),
            day("loaned_on", "loan date", "started", dates("2024-01-01", "2025-03-01")),
            day("returned_on", "return date", "returned", later("loaned_on", 2, 60), blank=0.2),
            dec("fine", "fine", money(0.5, 18, 50), more="with a fine above {v} euros",
                less="with a fine below {v} euros", unit="euros", summable=True, blank=0.45),
        ),
            (45, 75),
            spans=(("loaned_on", "returned_on", "loan duration"),),
        ),
    ),
    (
        "I work at the circulation desk of a city library.",
        "The library board meets tonight and wants exact figures.",
        "We are checking the records of our public library.",
    ),
)

CINEMA = Domain(
    "cinema",
    (
        Entity("films", "film", "films", (
            key("film_id", "film id"),
            label("title", "title", TITLE, quote=True),
            cat("genre", "genre", "genres", ("drama", "comedy", "thriller", "animation", "documentary"),
                "in the genre {v}"),
            cat("country", "country of origin", "countries of origin", COUNTRIES[:7], "produced in {v}"),
            num("runtime_min", "running time", ints(71, 198), more="running for more than {v} minutes",
                less="running for less than {v} minutes", top="longest", low="shortest", unit="minutes",
                summable=True),
            dec("rating", "critics' rating", tenths(3, 9.9), digits=1, blank=0.12),
            day("released_on", "release date", "released", dates("2019-01-01", "2025-02-01")),
            flag("subtitled", "subtitle mark", "shown with subtitles", "shown without subtitles"),
        ), (26, 40)),
        Entity("halls", "hall", "halls", (
            key("hall_id", "hall id"),
            label("hall_name", "name", mix("{} {}", ("Blue", "Red", "Grand", "Studio", "Garden", "Skyline"),
                ("Hall", "Room", "Screen"))),
            num("seats", "seat count", ints(38, 420), more="with more than {v} seats",
                less="with fewer than {v} seats", top="largest", low="smallest", summable=True),
            cat("projection", "projection system", "projection systems", ("laser", "xenon", "35 mm"),
                "equipped with {v} projection"),
        ), (8, 12)),
        Entity("screenings", "screening", "screenings", (
            code("screening_no", "screening number", "SC{n}"),
            ref("film_id", "films", "film", of="of {v}", has="has had", have="have had", hasnt="have not had any",
                whose="the film shown in {v}"),
            ref("hall_id", "halls", "hall", of="held in {v}", has="has hosted", have="have hosted",
                hasnt="have not hosted any", whose="the hall of {v}"),
            moment("starts_at", "starting time", "starting", times("2025-03-01", "2025-05-15", from_hour=10)),
            num("tickets_sold", "number of tickets sold", ints(3, 380), more="with more than {v} tickets sold",
                less="with fewer than {v} tickets sold", summable=True),
            dec("ticket_price", "ticket price", money(6, 16, 50), unit="euros"),
            note("remark", "remark", ("sound check needed", "introduced by the director", "school group booked",
                "late cleaning"), blank=0.6),
        ),
            (50, 80),
            products=(("tickets_sold", "ticket_price", "ticket revenue"),),
        ),
    ),
    (
        "I plan the programme of a small cinema.",
        "The cinema's owner asked me for this over the phone.",
        "This is for the cinema's quarterly review.",
    ),
)

MUSEUM = Domain(
    "museum",
    (
        Entity("artists", "artist", "artists", (
            key("artist_id", "artist id"),
            label("full_name", "name", person),
            cat("country", "home country", "home countries", COUNTRIES, "from {v}"),
            ordinal("birth_year", "year of birth", ints(1810, 1985), top="youngest", low="oldest",
                more="born after the year {v}", less="born before the year {v}", blank=0.1),
        ), (14, 20)),
        Entity("galleries", "gallery", "galleries", (
            key("gallery_id", "gallery id"),
            label("gallery_name", "name", mix("{} {}", ("East", "West", "Upper", "Lower", "Courtyard", "Tower"),
                ("Gallery", "Wing", "Cabinet"))),
            ordinal("floor_no", "floor number", ints(0, 4)),
            dec("area_m2", "floor area", tenths(35, 310), digits=1, top="largest", low="smallest",
                unit="square metres", summable=True),
        ), (8, 11)),
        Entity("artworks", "artwork", "artworks", (
            key("artwork_id", "artwork id"),
            label("title", "title", TITLE, quote=True),
            ref("artist_id", "artists", "artist", of="created by {v}", has="has created", have="have created",
                hasnt="have not created any", whose="the artist of {v}"),
            ref("gallery_id", "galleries", "gallery", of="displayed in {v}", has="displays", have="display",
                hasnt="do not display any", whose="the gallery that displays {v}"),
            cat("medium", "medium", "media", ("oil", "watercolour", "bronze", "photograph", "ceramic", "textile"),
                "with the medium {v}"),
            num("height_cm", "height", ints(12, 310), more="taller than {v} cm", less="shorter than {v} cm",
                top="tallest", low="shortest", unit="centimetres"),
            dec("insured_value", "insured value", money(500, 90000, 5000), unit="euros", summable=True, blank=0.15),
            day("acquired_on", "acquisition date", "acquired", dates("1985-01-01", "2024-12-01")),
        ), (40, 60)),
        Entity("restorations", "restoration", "restorations", (
            code("job_no", "job number", "R{n}"),
            ref("artwork_id", "artworks", "artwork", of="carried out on {v}", has="has undergone",
                have="have undergone", hasnt="have not undergone any", whose="the artwork treated in {v}"),
            day("started_on", "start date", "started", dates("2020-01-01", "2024-10-01")),
            day("finished_on", "completion date", "finished", later("started_on", 10, 240), blank=0.25),
            dec("cost", "cost", money(120, 7000, 500), top="most expensive", low="cheapest", unit="euros",
                summable=True),
        ),
            (22, 40),
            spans=(("started_on", "finished_on", "duration"),),
        ),
    ),
    (
        "I am a registrar at an art museum.",
        "We are preparing the museum's loan catalogue.",
        "An insurer asked the museum about this.",
    ),
)

UNIVERSITY = Domain(
    "university",
    (
        Entity("departments", "department", "departments", (
            key("department_id", "department id"),
            label("department_name", "name", mix("{}", ("Physics", "History", "Economics", "Chemistry",
                "Linguistics", "Geology", "Philosophy", "Statistics", "Biology", "Architecture", "Music", "Law"))),
            cat("campus", "campus", "campuses", ("North Campus", "River Campus", "Hill Campus"), "on {v}"),
            dec("annual_budget", "annual budget", money(200000, 2500000, 100000), unit="euros", summable=True),
        ), (8, 11)),
        Entity("courses", "course", "courses", (
            key("course_id", "course id"),
            label("title", "title", mix("{} {}", ("Introduction to", "Advanced", "Topics in", "Methods of",
                "Seminar on"), ("Data Analysis", "Field Work", "Modern Theory", "Ethics", "Climate", "Networks",
                "Writing", "Archives", "Markets")), quote=True),
            ref("department_id", "departments", "department", of="offered by {v}", has="offers", have="offer",
                hasnt="do not offer any", whose="the department that offers {v}"),
            cat("level", "level", "levels", ("bachelor", "master", "doctoral"), "at {v} level"),
            num("credits", "number of credits", ints(2, 15), more="worth more than {v} credits",
                less="worth fewer than {v} credits", summable=True),
            num("capacity", "capacity", ints(12, 180), top="largest", low="smallest", unit="seats", summable=True),
        ), (24, 36)),
        Entity("students", "student", "students", (
            key("student_id", "student id"),
            label("full_name", "name", person),
            ref("department_id", "departments", "department", of="belonging to {v}", has="has admitted",
                have="have admitted", hasnt="have not admitted any", whose="the department of {v}"),
            day("enrolled_on", "enrolment date", "enrolled", dates("2019-09-01", "2024-10-01")),
            cat("home_city", "home city", "home cities", CITIES[:6], "from {v}", blank=0.15),
            flag("part_time", "part-time status", "studying part-time", "studying full-time", 0.3),
        ), (32, 46)),
        Entity("enrolments", "course registration", "course registrations", (
            code("registration_no", "registration number", "REG-{n}"),
            ref("student_id", "students", "student", of="made by {v}", has="has made", have="have made",
                hasnt="have not made any", whose="the student who made {v}"),
            ref("course_id", "courses", "course", of="for {v}", has="has received", have="have received",
                hasnt="have not received any", whose="the course of {v}"),
            dec("grade", "grade", tenths(1, 10), digits=1, blank=0.25),
            day("registered_on", "registration date", "dated", dates("2023-09-01", "2025-02-15")),
        ), (55, 85)),
    ),
    (
        "I work in the registrar's office of a university.",
        "The dean needs this for a faculty meeting.",
        "We are auditing the university's course records.",
    ),
)

FOOTBALL = Domain(
    "football",
    (
        Entity("clubs", "club", "clubs", (
            key("club_id", "club id"),
            label("club_name", "name", mix("{} {}", TOWNS, ("United", "Rovers", "Athletic", "Town", "Wanderers"))),
            cat("region", "region", "regions", ("Coast", "Lakes", "Uplands", "Capital"), "from the {v} region"),
            ordinal("founded", "founding year", ints(1878, 1996), more="founded after the year {v}",
                less="founded before the year {v}", top="youngest", low="oldest"),
            dec("stadium_fee", "stadium fee", money(900, 9000, 2500), unit="euros", summable=True),
        ), (10, 14)),
        Entity("players", "player", "players", (
            key("player_id", "player id"),
            label("full_name", "name", person),
            ref("club_id", "clubs", "club", of="under contract with {v}", has="has signed", have="have signed",
                hasnt="have not signed any", whose="the club of {v}"),
            cat("position", "position", "positions", ("midfielder", "defender", "forward", "goalkeeper"),
                "playing as a {v}"),
            day("born_on", "date of birth", "born", dates("1988-01-01", "2007-01-01")),
            num("goals", "number of goals", ints(0, 31), more="with more than {v} goals",
                less="with fewer than {v} goals", summable=True),
            dec("market_value", "market value", money(20000, 4000000, 500000), top="most valuable",
                low="least valuable", unit="euros", summable=True, blank=0.15),
        ), (45, 70)),
        Entity("matches", "match", "matches", (
            code("match_no", "match number", "M{n}", "match numbers"),
            ref("home_id", "clubs", "home club", of="hosted by {v}", has="has hosted", have="have hosted",
                hasnt="have not hosted any", whose="the home club of {v}"),
            day("played_on", "match date", "played", dates("2024-08-10", "2025-05-20")),
            num("home_goals", "number of home goals", ints(0, 6), more="with more than {v} home goals",
                less="with fewer than {v} home goals", summable=True),
            num("away_goals", "number of away goals", ints(0, 5), more="with more than {v} away goals",
                less="with fewer than {v} away goals", summable=True),
            num("attendance", "attendance", ints(800, 32000), more="attended by more than {v} people",
                less="attended by fewer than {v} people", summable=True, blank=0.12),
        ), (36, 60)),
    ),
    (
        "I write for a regional football magazine.",
        "The league office wants this checked.",
        "A reader asked us about our football league.",
    ),
)

DOMAINS = (LIBRARY, CINEMA, MUSEUM, UNIVERSITY, FOOTBALL)
