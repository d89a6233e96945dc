"""Domains of transport, trade and industry, and an observatory. Invariant: data only."""

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
    person,
    ref,
    tenths,
    times,
)
from model import Domain, Entity
from words import ADJECTIVES, CITIES, COUNTRIES, TOWNS

# fmt: off

LOGISTICS = Domain(
    "logistics",
    (
        Entity("depots", "depot", "depots", (
            key("depot_id", "depot id"),
            label("depot_name", "name", mix("{} Depot", TOWNS)),
            cat("region", "region", "regions", ("north", "south", "east", "west"), "in the {v} region"),
            num("docks", "dock count", ints(2, 24), more="with more than {v} docks",
                less="with fewer than {v} docks", summable=True),
        ), (9, 13)),
        Entity("drivers", "driver", "drivers", (
            key("driver_id", "driver id"),
            label("full_name", "name", person),
            ref("depot_id", "depots", "depot", of="based at {v}", has="employs", have="employ",
                hasnt="do not employ any", whose="the home depot of {v}"),
            day("hired_on", "hiring date", "hired", dates("2008-01-01", "2024-06-01")),
            cat("licence", "licence class", "licence classes", ("C", "CE", "C1", "D"),
                "holding a class {v} licence"),
            dec("hourly_wage", "hourly wage", money(14, 32), top="best-paid", low="lowest-paid", unit="euros"),
        ), (18, 28)),
        Entity("shipments", "shipment", "shipments", (
            code("tracking_no", "tracking number", "TRK{n}"),
            ref("depot_id", "depots", "origin depot", of="sent from {v}", has="has dispatched",
                have="have dispatched", hasnt="have not dispatched any", whose="the origin depot of {v}"),
            ref("driver_id", "drivers", "driver", of="carried by {v}", has="has carried", have="have carried",
                hasnt="have not carried any", whose="the driver of {v}"),
            cat("destination", "destination", "destinations", CITIES[:8], "bound for {v}"),
            dec("weight_kg", "weight", tenths(2, 1900), digits=1, more="heavier than {v} kg",
                less="lighter than {v} kg", top="heaviest", low="lightest", unit="kilograms", summable=True),
            day("sent_on", "dispatch date", "dispatched", dates("2024-06-01", "2025-04-01")),
            day("delivered_on", "delivery date", "delivered", later("sent_on", 1, 21), blank=0.18),
            flag("fragile", "fragile mark", "marked as fragile", "not marked as fragile", 0.3),
        ),
            (50, 80),
            spans=(("sent_on", "delivered_on", "delivery time"),),
        ),
    ),
    (
        "I dispatch lorries for a freight company.",
        "A customer of our freight company is on hold.",
        "This goes into the weekly logistics report.",
    ),
)

AIRLINE = Domain(
    "airline",
    (
        Entity("airports", "airport", "airports", (
            code("airport_code", "airport code", "X{n}"),
            cat("city", "city", "cities", CITIES, "in {v}"),
            cat("country", "country", "countries", COUNTRIES[:6], "located in {v}"),
            num("runways", "runway count", ints(1, 6), more="with more than {v} runways",
                less="with fewer than {v} runways", summable=True),
            num("elevation_m", "elevation", ints(-3, 2100), more="lying higher than {v} m",
                less="lying lower than {v} m", top="highest", low="lowest", unit="metres"),
        ), (10, 15)),
        Entity("aircraft", "aeroplane", "aeroplanes", (
            code("tail_no", "tail number", "EH-{n}"),
            cat("model", "model", "models", ("Condor 200", "Swift 90", "Atlas 310", "Heron 45"),
                "of the model {v}"),
            num("seats", "seat count", ints(44, 310), more="with more than {v} seats",
                less="with fewer than {v} seats", summable=True),
            day("built_on", "build date", "built", dates("1998-01-01", "2023-01-01")),
            day("inspected_on", "last inspection date", "last inspected", dates("2024-01-01", "2025-03-01"),
                blank=0.2),
        ), (11, 16)),
        Entity("flights", "flight", "flights", (
            code("flight_no", "flight number", "ZX{n}"),
            ref("origin", "airports", "departure airport", of="departing from {v}", has="has been the origin of",
                have="have been the origin of", hasnt="have not been the origin of any",
                whose="the departure airport of {v}"),
            ref("tail_no", "aircraft", "aeroplane", of="operated with {v}", has="has operated",
                have="have operated", hasnt="have not operated any", whose="the aeroplane of {v}"),
            moment("departs_at", "departure time", "departing", times("2025-01-05", "2025-06-20", from_hour=5)),
            num("distance_km", "distance", ints(180, 9200), more="covering more than {v} km",
                less="covering less than {v} km", top="longest", low="shortest", unit="kilometres", summable=True),
            num("delay_min", "delay", ints(1, 210), more="delayed by more than {v} minutes",
                less="delayed by less than {v} minutes", unit="minutes", summable=True, blank=0.35),
            dec("base_fare", "base fare", money(29, 890, 100), top="most expensive", low="cheapest", unit="euros"),
        ), (50, 80)),
    ),
    (
        "I work in the operations centre of a small airline.",
        "The airline's punctuality report is due.",
        "A colleague in crew planning wants to know this.",
    ),
)

WAREHOUSE = Domain(
    "warehouse",
    (
        Entity("suppliers", "supplier", "suppliers", (
            key("supplier_id", "supplier id"),
            label("company", "company name", mix("{} {}", ADJECTIVES, ("Trading", "Supplies", "Works", "Imports",
                "Tools"))),
            cat("country", "country", "countries", COUNTRIES[:7], "based in {v}"),
            dec("discount_pct", "discount rate", tenths(0.5, 18), digits=1, unit="percent", blank=0.2),
        ), (11, 16)),
        Entity("products", "product", "products", (
            code("sku", "SKU", "SKU-{n}", "SKUs"),
            ref("supplier_id", "suppliers", "supplier", of="delivered by {v}", has="supplies", have="supply",
                hasnt="do not supply any", whose="the supplier of {v}"),
            cat("category", "category", "categories", ("fasteners", "hand tools", "lighting", "paint",
                "safety gear"), "in the category {v}"),
            dec("unit_price", "unit price", money(0.8, 240), top="most expensive", low="cheapest", unit="euros"),
            num("stock", "stock level", ints(3, 900), more="with more than {v} units in stock",
                less="with fewer than {v} units in stock", summable=True),
            num("reorder_level", "reorder level", ints(5, 120, 5)),
            flag("discontinued", "discontinued mark", "marked as discontinued", "not marked as discontinued", 0.25),
        ),
            (36, 55),
            products=(("stock", "unit_price", "stock value"),),
        ),
        Entity("orders", "order", "orders", (
            code("order_no", "order number", "PO-{n}"),
            cat("customer", "customer", "customers", tuple(f"{t} Builders" for t in TOWNS[:9]), "placed by {v}"),
            day("ordered_on", "order date", "placed", dates("2024-03-01", "2025-03-15")),
            day("shipped_on", "shipping date", "shipped", later("ordered_on", 1, 30), blank=0.22),
            cat("priority", "priority", "priorities", ("normal", "low", "urgent"), "with {v} priority"),
        ),
            (24, 36),
            spans=(("ordered_on", "shipped_on", "waiting time"),),
        ),
        Entity("order_lines", "order line", "order lines", (
            code("line_no", "line number", "LI{n}"),
            ref("order_no", "orders", "order", of="belonging to {v}", has="contains", have="contain",
                hasnt="do not contain any", whose="the order of {v}"),
            ref("sku", "products", "product", of="for {v}", has="appears on", have="appear on",
                hasnt="do not appear on any", whose="the product of {v}"),
            num("quantity", "quantity", ints(1, 60), summable=True),
            dec("line_total", "line amount", money(4, 2900, 25), unit="euros", summable=True),
        ), (55, 85)),
    ),
    (
        "I manage the stock of a hardware warehouse.",
        "Our auditors are looking at the warehouse books.",
        "Purchasing asked the warehouse for this.",
    ),
)

ENERGY = Domain(
    "energy",
    (
        Entity("operators", "operator", "operators", (
            key("operator_id", "operator id"),
            label("company", "company name", mix("{} {}", TOWNS, ("Energy", "Power", "Utilities", "Grid"))),
            cat("ownership", "type of ownership", "types of ownership", ("private", "municipal", "cooperative"),
                "under {v} ownership"),
            num("employees", "number of employees", ints(25, 2600), more="with more than {v} employees",
                less="with fewer than {v} employees", summable=True),
        ), (10, 14)),
        Entity("plants", "power plant", "power plants", (
            key("plant_id", "plant id"),
            label("plant_name", "name", mix("{} {}", TOWNS, ("Ridge", "Valley", "Point", "Falls", "Moor"))),
            ref("operator_id", "operators", "operator", of="run by {v}", has="runs", have="run",
                hasnt="do not run any", whose="the operator of {v}"),
            cat("source", "energy source", "energy sources", ("wind", "solar", "hydro", "gas", "biomass"),
                "using {v} as their energy source"),
            dec("capacity_mw", "capacity", tenths(1.2, 640), digits=1, more="with a capacity above {v} MW",
                less="with a capacity below {v} MW", unit="megawatts", summable=True),
            day("opened_on", "opening date", "opened", dates("1968-01-01", "2023-06-01")),
            day("licence_until", "licence expiry date", "licensed until a day", dates("2026-01-01", "2045-01-01"),
                blank=0.2),
        ), (30, 44)),
        Entity("outages", "outage", "outages", (
            code("outage_no", "outage number", "OUT-{n}"),
            ref("plant_id", "plants", "power plant", of="at {v}", has="has suffered", have="have suffered",
                hasnt="have not suffered any", whose="the power plant affected by {v}"),
            moment("began_at", "starting time", "beginning", times("2024-01-01", "2025-04-01", from_hour=0,
                to_hour=23)),
            num("duration_min", "duration", ints(4, 1400), more="lasting longer than {v} minutes",
                less="lasting less than {v} minutes", top="longest", low="shortest", unit="minutes", summable=True),
            cat("cause", "cause", "causes", ("maintenance", "storm", "equipment fault", "operator error"),
                "caused by {v}"),
            dec("lost_mwh", "lost energy", tenths(0.4, 820), digits=1, unit="megawatt hours", summable=True,
                blank=0.2),
        ), (45, 75)),
    ),
    (
        "I am an analyst at the grid regulator.",
        "The energy ministry sent us a question.",
        "We are reviewing last year's supply security.",
    ),
)

AGRICULTURE = Domain(
    "agriculture",
    (
        Entity("farms", "farm", "farms", (
            key("farm_id", "farm id"),
            label("farm_name", "name", mix("{} {} Farm", ADJECTIVES, ("Meadow", "Creek", "Hill", "Oak", "Brook"))),
            cat("district", "district", "districts", TOWNS[:5], "in the {v} district"),
            num("area_ha", "area", ints(12, 480), more="larger than {v} hectares",
                less="smaller than {v} hectares", top="largest", low="smallest", unit="hectares", summable=True),
            flag("organic", "organic certificate", "with an organic certificate", "without an organic certificate"),
        ), (11, 16)),
        Entity("fields", "field", "fields", (
            code("field_code", "field code", "F{n}"),
            ref("farm_id", "farms", "farm", of="belonging to {v}", has="owns", have="own", hasnt="do not own any",
                whose="the farm that owns {v}"),
            cat("crop", "crop", "crops", ("wheat", "barley", "potatoes", "rapeseed", "maize", "clover"),
                "planted with {v}"),
            dec("size_ha", "size", tenths(0.8, 46), digits=1, more="larger than {v} hectares",
                less="smaller than {v} hectares", unit="hectares", summable=True),
            cat("soil", "soil type", "soil types", ("clay", "loam", "sand"), "on {v} soil", blank=0.12),
            day("sown_on", "sowing date", "sown", dates("2023-09-01", "2024-05-20")),
        ), (34, 50)),
        Entity("harvests", "harvest", "harvests", (
            code("harvest_no", "harvest number", "H-{n}"),
            ref("field_code", "fields", "field", of="from {v}", has="has yielded", have="have yielded",
                hasnt="have not yielded any", whose="the field of {v}"),
            day("harvested_on", "harvest date", "brought in", later("field_code.sown_on", 90, 320)),
            dec("tonnes", "yield", tenths(1, 190), digits=1, unit="tonnes", summable=True),
            dec("moisture_pct", "moisture content", tenths(9, 24), digits=1, unit="percent", blank=0.2),
            dec("price_per_tonne", "price per tonne", money(80, 420, 50), unit="euros"),
        ),
            (45, 75),
            products=(("tonnes", "price_per_tonne", "sales value"),),
        ),
    ),
    (
        "I keep the books of a farming cooperative.",
        "The agriculture office wants figures from our cooperative.",
        "An agronomist asked for this.",
    ),
)

OBSERVATORY = Domain(
    "observatory",
    (
        Entity("telescopes", "telescope", "telescopes", (
            key("telescope_id", "telescope id"),
            label("telescope_name", "name", mix("{} {}", ("North", "South", "Summit", "Valley", "Dome"),
                ("Reflector", "Array", "Refractor", "Eye"))),
            dec("aperture_m", "aperture", tenths(0.3, 8.4), digits=1, unit="metres"),
            day("first_light", "date of first light", "commissioned", dates("1985-01-01", "2020-01-01"),
                blank=0.12),
        ), (8, 11)),
        Entity("targets", "target", "targets", (
            key("target_id", "target id"),
            label("target_name", "name", mix("{} {}", ("Lyra", "Vela", "Corvus", "Hydra", "Cetus", "Draco"),
                tuple(str(n) for n in range(11, 60)))),
            cat("kind", "kind", "kinds", ("galaxy", "star", "nebula", "cluster", "comet"), "of the kind {v}"),
            dec("magnitude", "magnitude", tenths(2, 18), digits=1, more="with a magnitude above {v}",
                less="with a magnitude below {v}"),
            num("distance_ly", "distance", ints(12, 90000), top="most distant", low="nearest", unit="light years",
                blank=0.2),
        ), (26, 38)),
        Entity("observations", "observation", "observations", (
            code("run_no", "run number", "OBS{n}"),
            ref("telescope_id", "telescopes", "telescope", of="made with {v}", has="has made", have="have made",
                hasnt="have not made any", whose="the telescope used in {v}"),
            ref("target_id", "targets", "target", of="of {v}", has="has been the object of",
                have="have been the object of", hasnt="have not been the object of any", whose="the target of {v}"),
            moment("started_at", "starting time", "starting", times("2024-02-01", "2025-05-01", from_hour=18,
                to_hour=23)),
            num("exposure_s", "exposure time", ints(20, 3600, 10), more="exposed for more than {v} seconds",
                less="exposed for less than {v} seconds", unit="seconds", summable=True),
            dec("seeing_arcsec", "seeing", tenths(0.4, 3.5), digits=1, unit="arcseconds", blank=0.2),
            note("comment", "comment", ("thin clouds", "guiding lost", "excellent night", "moonlight"), blank=0.55),
        ), (50, 80)),
    ),
    (
        "I schedule telescope time at an observatory.",
        "A visiting astronomer asked for this.",
        "We are writing the observatory's yearly report.",
    ),
    held_out=True,
)

DOMAINS = (LOGISTICS, AIRLINE, WAREHOUSE, ENERGY, AGRICULTURE, OBSERVATORY)
