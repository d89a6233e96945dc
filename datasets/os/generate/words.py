"""Names that tasks are filled with; the test split draws its projects from a pool of its own."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

PROJECTS = (
    "atlas", "beacon", "bramble", "canopy", "cinder", "cobalt", "comet", "copper", "coral", "delta", "ember", "falcon", "fjord",
    "garnet", "glacier", "granite", "harbor", "hazel", "heron", "indigo", "juniper", "kestrel", "lagoon", "lantern", "larch",
    "linden", "lotus", "magnet", "maple", "meadow", "merlin", "mosaic", "nectar", "nimbus", "onyx", "orchid", "osprey", "otter",
    "pebble", "pelican", "pepper", "piston", "plover", "poplar", "prairie", "quartz", "quill", "raven", "ripple", "rowan",
    "saffron", "sierra", "slate", "sorrel", "sparrow", "summit", "tern", "thistle", "timber", "topaz", "tulip", "umber", "velvet",
    "violet", "walnut", "willow", "zephyr", "zinnia",
)  # fmt: skip
UNSEEN_PROJECTS = (
    "acorn", "alder", "amber", "anvil", "badger", "basalt", "birch", "bison", "cedar", "clover", "condor", "crocus", "curlew",
    "cypress", "dahlia", "dune", "fennel", "flint", "gannet", "ginger", "hemlock", "iris", "ivory", "jasper", "lynx", "mallow",
    "marlin", "moss", "myrtle", "nutmeg", "opal", "peregrine", "puffin", "sage", "spruce", "tundra", "yarrow",
)  # fmt: skip
PEOPLE = (
    "adele", "akira", "alma", "amir", "anneke", "arturo", "beatriz", "bjorn", "carmen", "cedric", "chloe", "dario", "dmitri", "edith",
    "elif", "emeka", "erik", "fatima", "felix", "freya", "gita", "goran", "hana", "helga", "hugo", "ibrahim", "ines", "ivan", "jonas",
    "josefa", "kaito", "karin", "lena", "leila", "luca", "magda", "malik", "mateo", "mei", "milan", "nadia", "naomi", "nils", "noor",
    "olga", "omar", "paavo", "petra", "quentin", "rafael", "rosa", "samir", "selma", "sofia", "stefan", "tamar", "tariq", "tomas", "ursula",
    "vera", "viktor", "wanda", "xenia", "yara", "yusuf", "zoltan",
)  # fmt: skip
STEMS = (
    "account", "archive", "asset", "audit", "backup", "banner", "batch", "billing", "budget", "cache", "catalog", "channel", "chart",
    "client", "contract", "customer", "delivery", "device", "digest", "draft", "event", "export", "feature", "feed", "filter", "forecast",
    "gallery", "index", "intake", "invoice", "journal", "ledger", "letter", "lookup", "manual", "matrix", "media", "memo", "metric", "module",
    "notice", "offer", "order", "outline", "parcel", "payment", "permit", "photo", "plan", "policy", "portal", "price", "profile", "quota",
    "quote", "record", "refund", "region", "release", "report", "request", "roster", "route", "sample", "schedule", "schema", "sensor",
    "session", "shipment", "signal", "snapshot", "source", "status", "stock", "summary", "survey", "target", "template", "ticket", "token",
    "trace", "vendor", "voucher", "widget",
)  # fmt: skip
PARTS = (
    "alpha", "api", "april", "assets", "august", "bin", "build", "client", "common", "conf", "core", "data", "docs", "drafts", "east",
    "final", "incoming", "internal", "january", "july", "legacy", "local", "main", "march", "may", "misc", "new", "north", "october",
    "old", "outgoing", "parts", "private", "public", "raw", "server", "shared", "south", "staging", "static", "temp", "tests", "tools",
    "vendor", "west",
)  # fmt: skip
WORDS = (
    "about", "across", "after", "again", "answer", "apple", "arrow", "basket", "before", "below", "bridge", "bright", "butter", "button",
    "candle", "carpet", "castle", "circle", "clever", "cloud", "corner", "cotton", "cradle", "danger", "desert", "distant", "dragon",
    "early", "engine", "evening", "fabric", "farmer", "feather", "finger", "flower", "forest", "garden", "gentle", "golden", "hammer",
    "handle", "hidden", "island", "jacket", "kitchen", "ladder", "little", "marble", "market", "middle", "mirror", "morning", "narrow",
    "needle", "ocean", "orange", "paper", "pencil", "picture", "pocket", "purple", "quiet", "river", "saddle", "season", "shadow",
    "silver", "simple", "spring", "stone", "summer", "table", "thunder", "travel", "valley", "village", "window", "winter", "yellow",
)  # fmt: skip
CITIES = (
    "Aarhus", "Bergen", "Bilbao", "Brno", "Cork", "Dakar", "Delft", "Évora", "Galway", "Ghent", "Graz", "Haifa", "Kaunas", "Kyoto",
    "Leeds", "Lima", "Lyon", "Malmö", "Nantes", "Osaka", "Oulu", "Parma", "Porto", "Pune", "Quito", "Riga", "Salta", "Split", "Turin",
    "Uppsala", "Varna", "Zadar",
)  # fmt: skip
SERVICES = (
    "authd", "balancer", "billingd", "cached", "collector", "courier", "dispatcher", "exporter", "fetcher", "forwarder", "gateway",
    "importer", "indexer", "ingestd", "janitor", "keeper", "mailer", "notifier", "poller", "reaper", "relay", "renderer", "replicator",
    "router", "scheduler", "shipper", "sorter", "syncd", "tracker", "uploader", "watcher", "worker",
)  # fmt: skip
