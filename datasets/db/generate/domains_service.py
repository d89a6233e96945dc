"""Domains of care and service: hospital, hotel, restaurant, help desk, veterinary clinic, record label. Invariant: data only."""

from __future__ import annotations

from fields import (
    cat, code, dates, day, dec, flag, ints, key, label, later, mix, moment, money, note, num, ordinal, person, pick, ref, tenths, times,
)  # fmt: skip
from model import Domain, Entity
from words import ADJECTIVES, CITIES, COUNTRIES, NOUNS, TOWNS

HOSPITAL = Domain(
    "hospital",
    (
        Entity("wards", "ward", "wards", (
            key("ward_id", "ward id"),
            label("ward_name", "name", mix("{}", ("Cardiology", "Paediatrics", "Surgery", "Oncology", "Neurology", "Maternity",
                  "Orthopaedics", "Geriatrics", "Urology", "Dermatology", "Radiology", "Psychiatry"))),
            num("beds", "bed count", ints(6, 48), more="with more than {v} beds", less="with fewer than {v} beds", summable=True),
            ordinal("floor_no", "floor number", ints(0, 6)),
        ), (8, 11)),
        Entity("doctors", "doctor", "doctors", (
            key("doctor_id", "doctor id"),
            label("full_name", "name", person),
            ref("ward_id", "wards", "ward", of="assigned to {v}", has="employs", have="employ", hasnt="do not employ any", whose="the ward of {v}"),
            cat("grade", "grade", "grades", ("resident", "specialist", "consultant"), "with the grade {v}"),
            day("hired_on", "hiring date", "hired", dates("2004-01-01", "2024-05-01")),
            dec("monthly_salary", "monthly salary", money(3100, 9800, 5000), top="best-paid", low="lowest-paid", unit="euros", summable=True),
        ), (20, 30)),
        Entity("patients", "patient", "patients", (
            key("patient_id", "patient id"),
            label("full_name", "name", person),
            day("born_on", "date of birth", "born", dates("1935-01-01", "2018-01-01")),
            cat("blood_type", "blood type", "blood types", ("O+", "A+", "B+", "AB+", "O-", "A-"), "with blood type {v}", blank=0.15),
            cat("city", "city", "cities", CITIES[:6], "living in {v}"),
            flag("insured", "insurance status", "with health insurance", "without health insurance", 0.7),
        ), (30, 44)),
        Entity("admissions", "admission", "admissions", (
            code("admission_no", "admission number", "ADM-{n}"),
            ref("patient_id", "patients", "patient", of="of {v}", has="has had", have="have had", hasnt="have not had any", whose="the patient of {v}"),
            ref("doctor_id", "doctors", "doctor", of="handled by {v}", has="has handled", have="have handled",
                hasnt="have not handled any", whose="the doctor who handled {v}"),
            day("admitted_on", "admission date", "registered", dates("2024-01-01", "2025-03-01")),
            day("discharged_on", "discharge date", "discharged", later("admitted_on", 1, 35), blank=0.2),
            dec("cost", "cost", money(180, 14000, 500), top="most expensive", low="cheapest", unit="euros", summable=True),
            note("diagnosis_note", "diagnosis note", ("needs follow-up", "transferred from another clinic", "no complications", "allergy observed"), blank=0.45),
        ), (48, 75), spans=(("admitted_on", "discharged_on", "length of stay"),)),
    ),
    ("I work in the administration of a hospital.", "The hospital's quality board needs this.",
     "A head nurse asked me to look something up."),
)  # fmt: skip

HOTEL = Domain(
    "hotel",
    (
        Entity("hotels", "hotel", "hotels", (
            key("hotel_id", "hotel id"),
            label("hotel_name", "name", mix("{} {}", ("Hotel", "Pension", "Villa", "Residence"), NOUNS)),
            cat("city", "city", "cities", CITIES[:7], "in {v}"),
            num("stars", "star rating", ints(1, 5), more="with more than {v} stars", less="with fewer than {v} stars"),
            day("renovated_on", "last renovation date", "last renovated", dates("2005-01-01", "2024-01-01"), blank=0.15),
        ), (10, 14)),
        Entity("rooms", "room", "rooms", (
            code("room_code", "room code", "RM{n}"),
            ref("hotel_id", "hotels", "hotel", of="in {v}", has="has", have="have", hasnt="do not have any", whose="the hotel of {v}"),
            cat("room_type", "room type", "room types", ("double", "single", "suite", "family"), "of the type {v}"),
            dec("nightly_rate", "nightly rate", money(45, 420, 50), top="most expensive", low="cheapest", unit="euros"),
            num("area_m2", "floor area", ints(12, 88), more="larger than {v} square metres", less="smaller than {v} square metres",
                top="largest", low="smallest", unit="square metres", summable=True),
            flag("balcony", "balcony mark", "with a balcony", "without a balcony"),
        ), (34, 50)),
        Entity("guests", "guest", "guests", (
            key("guest_id", "guest id"),
            label("full_name", "name", person),
            cat("nationality", "nationality", "nationalities", ("Norwegian", "Portuguese", "Japanese", "Kenyan", "Chilean", "Greek"), "with {v} nationality"),
            num("points", "loyalty point balance", ints(10, 9800, 10), summable=True, blank=0.2),
        ), (24, 34)),
        Entity("bookings", "booking", "bookings", (
            code("booking_no", "booking number", "BK{n}"),
            ref("room_code", "rooms", "room", of="for {v}", has="has received", have="have received", hasnt="have not received any", whose="the room of {v}"),
            ref("guest_id", "guests", "guest", of="made by {v}", has="has made", have="have made", hasnt="have not made any", whose="the guest who made {v}"),
            day("check_in", "check-in date", "starting", dates("2024-09-01", "2025-06-01")),
            day("check_out", "check-out date", "ending", later("check_in", 1, 16)),
            dec("amount_paid", "amount paid", money(60, 3800, 50), more="with more than {v} euros paid", less="with less than {v} euros paid",
                unit="euros", summable=True, blank=0.18),
            cat("channel", "booking channel", "booking channels", ("website", "phone", "agency", "walk-in"), "received through the channel {v}"),
        ), (50, 78), spans=(("check_in", "check_out", "length of stay"),)),
    ),
    ("I am the night auditor of a small hotel group.", "The hotel group's sales team needs this.", "Reception wants a quick answer."),
)  # fmt: skip

RESTAURANT = Domain(
    "restaurant",
    (
        Entity("branches", "branch", "branches", (
            key("branch_id", "branch id"),
            label("branch_name", "name", mix("{} {}", TOWNS, ("Kitchen", "Table", "Grill"))),
            cat("city", "city", "cities", CITIES[:6], "in {v}"),
            num("seats", "seat count", ints(24, 160), more="with more than {v} seats", less="with fewer than {v} seats", top="largest",
                low="smallest", summable=True),
            day("opened_on", "opening date", "opened", dates("2009-01-01", "2024-01-01")),
        ), (9, 13)),
        Entity("dishes", "dish", "dishes", (
            key("dish_id", "dish id"),
            label("dish_name", "name", mix("{} {}", ("Roasted", "Smoked", "Spicy", "Braised", "Grilled", "Stuffed"),
                  ("Pumpkin", "Salmon", "Lamb", "Mushrooms", "Aubergine", "Chicken", "Beans", "Trout", "Peppers"))),
            cat("course", "course", "courses", ("main", "starter", "side"), "served as a {v}"),
            dec("price", "price", money(4, 34, 10), top="most expensive", low="cheapest", unit="euros"),
            num("calories", "calorie count", ints(120, 1180), more="with more than {v} calories", less="with fewer than {v} calories", blank=0.15),
            flag("vegetarian", "vegetarian mark", "labelled as vegetarian", "not labelled as vegetarian"),
        ), (24, 34)),
        Entity("orders", "order", "orders", (
            code("order_no", "order number", "RO-{n}"),
            ref("branch_id", "branches", "branch", of="taken at {v}", has="has taken", have="have taken", hasnt="have not taken any", whose="the branch of {v}"),
            ref("dish_id", "dishes", "dish", of="for {v}", has="appears in", have="appear in", hasnt="do not appear in any", whose="the dish ordered in {v}"),
            moment("placed_at", "order time", "placed", times("2025-01-02", "2025-05-30", from_hour=11)),
            num("portions", "number of portions", ints(1, 14), more="for more than {v} portions", less="for fewer than {v} portions", summable=True),
            dec("tip", "tip", money(0.5, 22, 10), unit="euros", summable=True, blank=0.3),
            num("wait_min", "waiting time", ints(6, 68), unit="minutes", more="with a wait of more than {v} minutes",
                less="with a wait of less than {v} minutes"),
        ), (55, 85)),
    ),
    ("I supervise several restaurant branches.", "The chef wants to know this before the menu changes.",
     "We compare our restaurants every month."),
)  # fmt: skip

HELPDESK = Domain(
    "helpdesk",
    (
        Entity("teams", "team", "teams", (
            key("team_id", "team id"),
            label("team_name", "name", mix("{}", ("Network", "Desktop", "Payments", "Accounts", "Security", "Mobile", "Printing", "Storage", "Telephony", "Cloud"))),
            cat("site", "site", "sites", ("Leiden", "Linz", "Galway"), "located in {v}"),
            dec("monthly_budget", "monthly budget", money(4000, 60000, 10000), unit="euros", summable=True),
        ), (8, 10)),
        Entity("agents", "agent", "agents", (
            key("agent_id", "agent id"),
            label("full_name", "name", person),
            ref("team_id", "teams", "team", of="on {v}", has="includes", have="include", hasnt="do not include any", whose="the team of {v}"),
            day("hired_on", "hiring date", "hired", dates("2012-01-01", "2024-09-01")),
            cat("shift", "shift", "shifts", ("early", "late", "night"), "working the {v} shift"),
            num("certificates", "number of certificates", ints(1, 9), more="holding more than {v} certificates",
                less="holding fewer than {v} certificates", summable=True, blank=0.15),
        ), (20, 30)),
        Entity("tickets", "ticket", "tickets", (
            code("ticket_no", "ticket number", "TCK-{n}"),
            ref("agent_id", "agents", "agent", of="handled by {v}", has="has handled", have="have handled", hasnt="have not handled any",
                whose="the agent who handled {v}"),
            cat("severity", "severity", "severities", ("medium", "low", "high", "critical"), "with {v} severity"),
            cat("product", "product", "products", ("mail", "VPN", "billing portal", "intranet", "scanner"), "about the product {v}"),
            day("opened_on", "opening date", "opened", dates("2024-05-01", "2025-04-20")),
            day("closed_on", "closing date", "closed", later("opened_on", 1, 40), blank=0.22),
            num("minutes_spent", "working time", ints(5, 600), more="taking more than {v} minutes of work", less="taking less than {v} minutes of work",
                unit="minutes", summable=True),
            num("satisfaction", "satisfaction score", ints(1, 10), blank=0.3),
        ), (55, 85), spans=(("opened_on", "closed_on", "resolution time"),)),
    ),
    ("I lead an IT help desk.", "Management wants numbers from the help desk.", "We are reviewing our support tickets."),
)  # fmt: skip

VETERINARY = Domain(
    "veterinary",
    (
        Entity("owners", "owner", "owners", (
            key("owner_id", "owner id"),
            label("full_name", "name", person),
            cat("town", "town", "towns", TOWNS[5:11], "living in {v}"),
            day("registered_on", "registration date", "registered", dates("2014-01-01", "2024-06-01")),
            dec("balance", "open balance", money(5, 480, 50), unit="euros", summable=True, blank=0.3),
        ), (14, 20)),
        Entity("pets", "pet", "pets", (
            code("chip_no", "chip number", "CH{n}"),
            ref("owner_id", "owners", "owner", of="owned by {v}", has="owns", have="own", hasnt="do not own any", whose="the owner of {v}"),
            cat("species", "species", "species", ("dog", "cat", "rabbit", "parrot", "hamster"), "of the species {v}"),
            dec("weight_kg", "weight", tenths(0.3, 48), digits=1, more="heavier than {v} kg", less="lighter than {v} kg", top="heaviest",
                low="lightest", unit="kilograms", summable=True),
            day("born_on", "date of birth", "born", dates("2010-01-01", "2024-06-01"), blank=0.15),
            flag("neutered", "neutering status", "recorded as neutered", "not recorded as neutered", 0.5),
        ), (28, 42)),
        Entity("vets", "vet", "vets", (
            key("vet_id", "vet id"),
            label("full_name", "name", person),
            cat("speciality", "speciality", "specialities", ("surgery", "dentistry", "general care"), "specialised in {v}"),
            dec("hourly_rate", "hourly rate", money(55, 140, 50), unit="euros"),
        ), (8, 10)),
        Entity("visits", "visit", "visits", (
            code("visit_no", "visit number", "V-{n}"),
            ref("chip_no", "pets", "pet", of="of {v}", has="has had", have="have had", hasnt="have not had any", whose="the pet seen in {v}"),
            ref("vet_id", "vets", "vet", of="attended by {v}", has="has attended", have="have attended", hasnt="have not attended any",
                whose="the vet of {v}"),
            moment("visited_at", "visit time", "taking place", times("2024-01-08", "2025-05-10", from_hour=8, to_hour=18)),
            cat("reason", "reason", "reasons", ("vaccination", "check-up", "injury", "dental cleaning"), "with the reason {v}"),
            dec("fee", "fee", money(18, 640, 50), top="most expensive", low="cheapest", unit="euros", summable=True),
            day("follow_up_on", "follow-up date", "with a follow-up", later("visited_at", 5, 90), blank=0.5),
        ), (48, 75)),
    ),
    ("I run the front desk of a veterinary clinic.", "One of our vets is preparing the week.", "The clinic's bookkeeper asked for this."),
    held_out=True,
)  # fmt: skip

RECORDS = Domain(
    "record_label",
    (
        Entity("bands", "band", "bands", (
            key("band_id", "band id"),
            label("band_name", "name", mix("The {} {}s", ADJECTIVES, ("Lantern", "Compass", "Mirror", "Signal", "Tower", "Shadow", "Orchard"))),
            cat("home_city", "home city", "home cities", CITIES[4:10], "from {v}"),
            ordinal("formed_year", "founding year", ints(1984, 2021), more="formed after the year {v}", less="formed before the year {v}",
                top="youngest", low="oldest"),
            num("members", "number of members", ints(2, 9), more="with more than {v} members", less="with fewer than {v} members", summable=True),
        ), (12, 18)),
        Entity("albums", "album", "albums", (
            key("album_id", "album id"),
            label("title", "title", mix("{} {}", ADJECTIVES, NOUNS), quote=True),
            ref("band_id", "bands", "band", of="recorded by {v}", has="has recorded", have="have recorded", hasnt="have not recorded any",
                whose="the band behind {v}"),
            cat("style", "style", "styles", ("folk", "jazz", "rock", "electronic"), "in the style {v}"),
            day("released_on", "release date", "released", dates("2005-01-01", "2025-01-01")),
            num("copies_sold", "number of copies sold", ints(350, 88000), top="best-selling", low="worst-selling",
                more="with more than {v} copies sold", less="with fewer than {v} copies sold", summable=True, blank=0.12),
        ), (28, 42)),
        Entity("tracks", "track", "tracks", (
            code("isrc", "track code", "TR{n}"),
            ref("album_id", "albums", "album", of="on {v}", has="contains", have="contain", hasnt="do not contain any", whose="the album with {v}"),
            num("seconds", "length", ints(95, 560), more="longer than {v} seconds", less="shorter than {v} seconds", top="longest",
                low="shortest", unit="seconds", summable=True),
            flag("instrumental", "instrumental mark", "marked as instrumental", "not marked as instrumental", 0.25),
            num("streams", "stream count", ints(1200, 950000), more="streamed more than {v} times", less="streamed fewer than {v} times",
                top="most streamed", low="least streamed", summable=True),
            dec("royalty", "royalty", money(2, 900, 5), unit="euros", summable=True, blank=0.2),
        ), (60, 95)),
    ),
    ("I do the royalties of an independent record label.", "A journalist is writing about our record label.",
     "The label's yearly accounts are due."),
    held_out=True,
)  # fmt: skip

DOMAINS = (HOSPITAL, HOTEL, RESTAURANT, HELPDESK, VETERINARY, RECORDS)
