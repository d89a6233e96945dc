"""Word lists that names and titles are drawn from. Invariant: lists only; order matters for reproducibility."""

FIRST_NAMES = (
    "Ada", "Adil", "Agnes", "Aiko", "Alba", "Amara", "Amir", "Anders", "Anika", "Arjun", "Asta", "Aurel", "Beata",
    "Bilal", "Bruno", "Carla", "Cem", "Chidi", "Clara", "Dario", "Delia", "Dmitri", "Edda", "Eleni", "Elif",
    "Emeka", "Emil", "Esra", "Eva", "Farah", "Fiona", "Freya", "Gael", "Greta", "Hakan", "Hana", "Henrik", "Ida",
    "Ilse", "Imran", "Ines", "Ingrid", "Iris", "Ivo", "Jana", "Jonas", "Kaito", "Karim", "Kira", "Lars", "Leila",
    "Lena", "Linus", "Luca", "Lucia", "Magda", "Malik", "Marek", "Maya", "Mila", "Milan", "Mina", "Nadia", "Nils",
    "Noor", "Olaf", "Omar", "Oskar", "Paula", "Pavel", "Petra", "Priya", "Rafael", "Rania", "Rosa", "Ruben",
    "Samir", "Sanna", "Selma", "Simon", "Sofia", "Stefan", "Suki", "Tara", "Tarek", "Teodor", "Thea", "Tomas",
    "Uma", "Vera", "Viktor", "Wanda", "Yara", "Yusuf", "Zeno", "Zoe",
)  # fmt: skip
LAST_NAMES = (
    "Abara", "Acker", "Adeyemi", "Almeida", "Andersen", "Arslan", "Baier", "Banerjee", "Barros", "Bauer", "Becker",
    "Berg", "Bianchi", "Blanc", "Borg", "Castell", "Chen", "Costa", "Dahl", "Demir", "Diallo", "Dreyer", "Duarte",
    "Eklund", "Falk", "Farkas", "Ferrer", "Fischer", "Fonseca", "Gallo", "Gruber", "Haas", "Hansen", "Haugen",
    "Hoang", "Holm", "Horvat", "Ibarra", "Iversen", "Jansen", "Kaya", "Keller", "Khan", "Klein", "Koch", "Kovacs",
    "Kruger", "Kumar", "Lang", "Larsen", "Lindqvist", "Lopez", "Madsen", "Marin", "Mendes", "Meyer", "Moreau",
    "Moser", "Mwangi", "Nakata", "Novak", "Nyberg", "Okafor", "Olsen", "Orlov", "Ortega", "Park", "Pereira",
    "Petrov", "Pinto", "Quist", "Rahman", "Ramos", "Reyes", "Ricci", "Rossi", "Roux", "Sandoval", "Santos", "Sato",
    "Schmid", "Silva", "Sorensen", "Stein", "Suzuki", "Tanaka", "Torres", "Usman", "Varga", "Vidal", "Vogel",
    "Weber", "Winter", "Wolff", "Yilmaz", "Zeman", "Ziegler",
)  # fmt: skip
COUNTRIES = (
    "Norway", "Portugal", "Japan", "Kenya", "Chile", "Austria", "India", "Canada", "Greece", "Poland",
)  # fmt: skip
CITIES = (
    "Bergen", "Porto", "Graz", "Tampere", "Leiden", "Aarhus", "Bilbao", "Gdansk", "Lyon", "Trieste", "Galway",
    "Linz",
)  # fmt: skip
TOWNS = (
    "Alderford", "Brackwell", "Cresthaven", "Dunmere", "Eastbrook", "Fernhill", "Glenrock", "Harrowgate", "Ivyton",
    "Kingsferry", "Larchmont", "Millbrook", "Norwick", "Oakridge", "Pinecliff", "Ravensworth", "Stonebury",
    "Thornfield", "Underhill", "Westmarch", "Wolfsdale", "Yarrowdale", "Ashcombe", "Birchwood", "Copperfield",
    "Daleham",
)  # fmt: skip
ADJECTIVES = (
    "Silent", "Golden", "Hidden", "Northern", "Broken", "Distant", "Crimson", "Quiet", "Hollow", "Winter",
    "Burning", "Forgotten", "Paper", "Silver", "Endless", "Restless", "Pale", "Crooked", "Velvet", "Frozen", "Last",
    "Gentle",
)  # fmt: skip
NOUNS = (
    "Harbour", "Garden", "Mirror", "River", "Lantern", "Orchard", "Bridge", "Compass", "Island", "Letter", "Market",
    "Mountain", "Night", "Promise", "Road", "Shadow", "Song", "Station", "Storm", "Tower", "Voyage", "Window",
    "Clock", "Forest", "Signal", "Kingdom",
)  # fmt: skip
