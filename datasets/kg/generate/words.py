"""Word lists that names are drawn from. Invariant: their order matters for reproducibility."""

from __future__ import annotations


def _words(text: str, between: str | None = None) -> tuple[str, ...]:
    return tuple(text.split(between))


FIRST_NAMES = _words(
    "Abel Adela Agata Aino Alban Alma Alvar Amalia Amina Anatol Anselm Antje Arne Arvid Asha Astrid Aurora Balint Basil Bela "
    "Benno Berta Birgit Bodil Boris Branka Bryn Camila Casimir Celia Cesar Chiara Cyril Dagny Damir Danica Daria Delphine Denis "
    "Dilara Dora Dragan Ebba Edgar Edith Eino Elena Elias Ella Elmar Elsa Emre Enid Enzo Erik Ernest Esther Ewa Fabian Faisal "
    "Fatima Felix Feodor Flora Frida Gaston Gemma Gerda Gideon Gisela Goran Gunnar Gwen Halina Harald Hedda Helga Henning Hilda "
    "Hugo Ibrahim Igor Ilona Inga Iolanda Irma Isak Ismail Jakob Jarmila Jasper Joana Jovan Judith Julius Kamil Karin Kasper "
    "Katia Kemal Klara Konrad Lajos Laila Lambert Leonor Levan Lidia Liv Lorenz Lotte Lucian Ludwig Maeve Magnus Malin Marta "
    "Matej Matilda Maud Mehmet Mirela Mirko Moritz Nadine Nestor Nikola Nina Norbert Odile Ola Olga Orsolya Osman Otto Pamina "
    "Paulina Percy Philippa Quentin Ragna Rainer Ramona Renata Rikke Roald Rolf Rosalind Rufus Sabina Sander Saskia Sergio "
    "Sigrid Silvia Sonja Stellan Sven Tamara Tariq Tatiana Tekla Thora Tibor Tilda Tobias Torsten Ulla Ulrich Ursula Valentin "
    "Vanja Veronika Vilma Vincent Viola Vito Walter Wilma Xavier Yasmin Ylva Yorick Yvette Zara Zdenka Zelda Zoltan"
)
LAST_STARTS = _words(
    "Aber Ald Ambro Ander Arm Bal Bar Beck Ber Blan Bor Bran Brun Cal Car Cas Cor Dal Dan Del Dor Dra Eck Ehr El Eng Fab Far "
    "Fer Fin Flo For Fran Gal Gar Ger Gol Gran Gro Hal Han Har Hel Her Hol Hor Ing Jan Jar Jor Kal Kar Kel Kin Kol Kra Lam "
    "Lar Lem Lin Lor Lun Mac Mal Mar Mel Mor Nar Nev Nor Ober Ol Or Pal Par Pel Per Pol Quin Ral Ram Ros Rud Sal San Sar Sel "
    "Sol Stan Sten Tal Tar Tol Tor Ul Val Var Ver Vor Wal War Wen Wil Yar Zab Zan Zel"
)
LAST_ENDS = _words(
    "son berg mann ov ova ini elli ez ic ski quist lund strom feld hardt ier ot aux ani escu aki oglu dottir sen gaard by ley "
    "ton worth ham ard eau ente ara eda uchi"
)
PLACE_STARTS = _words(
    "Ael Alb Alth Ard Arn Ast Bal Bel Ber Bol Bran Bre Cael Cal Car Cer Cor Cul Dal Dar Del Dor Dra Dun Eld Elm Er Esk Fal Fen "
    "Fer Gal Gar Gel Glen Gor Hal Har Hel Hol Il Is Jar Jel Kal Kar Kel Kil Kor Lan Lar Lin Lor Lun Mal Mar Mel Mir Mor Nar Nel "
    "Nor Ob Ol Or Os Pal Par Pel Pol Por Quel Rad Ral Rav Ros Sal Sar Sel Sil Sol Stor Tal Tar Tel Thal Tor Tul Ul Ur Val Var Vel "
    "Ver Vin Vol Wal Wes Wil Yar Yel Zal Zar Zel"
)
PLACE_MIDDLES = _words("a e i o u an en in on ar er or al el il am em im and end ing ath eth ow ev av iv")
CITY_ENDS = _words(
    "ford haven burg ton wick mere stad grad ville port by holm dale mouth bridge field gate minster cliff hurst"
)
COUNTRY_ENDS = _words("ia land stan ora avia onia una ara eria istan mark")
REGION_ENDS = _words("shire mark vale wold moor lund ria ette ana esse")
TITLE_ADJECTIVES = _words(
    "Silent Golden Hidden Northern Broken Distant Crimson Quiet Hollow Winter Burning Forgotten Paper Silver Endless Restless "
    "Pale Crooked Velvet Frozen Last Gentle Wild Drowned Lonely Amber Second Secret Scarlet Sleeping Glass Wandering Bitter"
)
TITLE_NOUNS = _words(
    "Harbour Garden Mirror River Lantern Orchard Bridge Compass Island Letter Market Mountain Night Promise Road Shadow Song "
    "Station Storm Tower Voyage Window Clock Forest Signal Kingdom Witness Stranger Sister Carnival Thunder Feather Anchor "
    "Winterland Cathedral Echo Meadow Riddle Tide Crown"
)
TITLE_PLURALS = _words(
    "Shadows Strangers Letters Rivers Promises Wolves Ghosts Lanterns Mirrors Orchards Storms Sisters Bells Ashes Roads Sparrows"
)
TITLE_TAILS = _words(
    "of the North|of Salt|of Glass|at Midnight|in Winter|before Dawn|without a Name|on the Hill|of Ravens|under the Ice|for Two|"
    "of Dust|by the Sea|in Blue|after the Rain",
    "|",
)
BAND_ADJECTIVES = _words(
    "Electric Velvet Broken Lunar Paper Rusty Neon Hollow Silver Midnight Static Wooden Plastic Feral Solar Copper Sleepy Magnetic "
    "Crooked Arctic"
)
BAND_NOUNS = _words(
    "Foxes Engines Satellites Parrots Monks Wires Tigers Prophets Kettles Owls Drifters Pilots Serpents Marbles Comets Gardeners "
    "Poets Walruses Machines Sailors"
)
ANIMALS = _words(
    "Falcons Wolves Bears Lions Hawks Badgers Otters Sharks Bulls Ravens Stags Herons Lynxes Cobras Bisons Eagles Panthers Rams "
    "Foxes Pikes"
)
MASCOT_ANIMALS = _words(
    "Badger Falcon Otter Beaver Heron Moose Ram Owl Lynx Stag Hedgehog Crane Bison Marten Walrus Puffin Magpie Tortoise Gecko Trout"
)
MASCOT_NAMES = _words(
    "Benny Cosmo Dotty Fergus Goldie Hopper Juno Lumpy Monty Nellie Ollie Pogo Rusty Scout Tuffy Waldo Ziggy Biscuit Clover Dusty"
)
COMPANY_TAILS = _words("Works|Systems|Group|Industries|Holdings|Labs|Partners|Technologies|Brothers|Dynamics", "|")
PRODUCT_STARTS = _words(
    "Aero Omni Lumi Nova Ever Tri Vita Moto Hydro Sono Terra Opti Velo Pyro Cryo Astro Duo Neo Iso Xeno"
)
PRODUCT_ENDS = _words("max core lite desk cut wave pad clean lock fit mix glow trak press brew cell vox mat flex span")

LISTS = {
    "profession": (
        "accountant|actuary|anthropologist|archaeologist|archivist|baker|barber|beekeeper|biochemist|blacksmith|bookbinder|botanist|"
        "broker|butcher|carpenter|cartographer|cellist|choreographer|civil engineer|clockmaker|composer|conductor|cook|curator|"
        "dentist|detective|diplomat|editor|electrician|farmer|firefighter|fisher|florist|forester|geologist|glassblower|goldsmith|"
        "harpist|historian|illustrator|interpreter|jeweller|journalist|judge|lawyer|librarian|linguist|luthier|magician|"
        "mathematician|mechanic|meteorologist|midwife|miner|nurse|optician|pharmacist|philosopher|photographer|physicist|pilot|"
        "plumber|potter|printer|psychologist|sculptor|surgeon|surveyor|tailor|veterinarian"
    ),
    "film_genre": (
        "comedy|drama|western|thriller|film noir|musical|documentary|horror|science fiction|fantasy|romance|adventure|war|crime|"
        "mystery|animation|biography|disaster|heist|martial arts|road movie|satire|silent comedy|spy"
    ),
    "music_genre": (
        "jazz|blues|folk|punk|soul|funk|reggae|ska|techno|house|ambient|swing|bebop|metal|grunge|shoegaze|synth-pop|bluegrass|"
        "bossa nova|flamenco|gospel|klezmer|polka|post-rock|tango|trip hop|waltz|zydeco|chamber pop|garage rock"
    ),
    "instrument": (
        "accordion|banjo|bassoon|bass guitar|cello|clarinet|cornet|double bass|drum kit|fiddle|flute|French horn|guitar|harmonica|"
        "harp|harpsichord|lute|mandolin|marimba|oboe|organ|piano|saxophone|sitar|synthesizer|theremin|trombone|trumpet|ukulele|viola"
    ),
    "book_genre": (
        "historical novel|gothic fiction|travel writing|poetry|memoir|satirical novel|detective fiction|epistolary novel|fable|"
        "magic realism|pastoral|picaresque novel|utopian fiction|war novel|adventure novel|short fiction|essay|coming-of-age novel|"
        "ghost story|sea story|political thriller|romance novel|science fiction novel|family saga"
    ),
    "subject": (
        "friendship|exile|slavery|music|childhood|betrayal|the sea|mountaineering|war|illness|migration|faith|cooking|trains|winter|"
        "loneliness|jealousy|education|horses|money|fishing|astronomy|chess|justice|dreams|harvest|marriage|old age|revenge|"
        "espionage|gardens|hunger|islands|journalism|labour|lighthouses|medicine|memory|motherhood|myths|night|pilgrimage|poverty|"
        "prisons|rivers|shipwrecks|sibling rivalry|storms|theatre|time travel|treasure|twins|volcanoes|wolves|work|youth|birds|"
        "bridges|carnivals|circuses|deserts|elections|forests|fire|flight|grief|honesty|language|maps|masks"
    ),
    "movement": (
        "Impressionism|Cubism|Surrealism|Expressionism|Symbolism|Futurism|Realism|Fauvism|Dadaism|Minimalism|Pointillism|Romanticism|"
        "Constructivism|Tonalism|Precisionism|Vorticism|Orphism|Suprematism|Naturalism|Neo-Primitivism|Photorealism|Rayonism|"
        "Synthetism|Verism|Luminism|Abstraction"
    ),
    "medium": (
        "oil paint|watercolour|tempera|charcoal|pastel|ink|gouache|acrylic paint|bronze|marble|terracotta|limestone|oak wood|collage|"
        "etching|woodcut|lithography|mosaic|stained glass|textile|wax|silver leaf"
    ),
    "game_genre": (
        "puzzle|platformer|racing|role-playing|strategy|shooter|simulation|rhythm|stealth|survival|fighting|sports|sandbox|"
        "adventure puzzle|card battle|tower defence|city-building|dungeon crawler"
    ),
    "sport": (
        "football|basketball|handball|volleyball|ice hockey|field hockey|rugby|cricket|baseball|water polo|lacrosse|curling|floorball|"
        "korfball|bandy|netball"
    ),
    "position": (
        "goalkeeper|left wing|right wing|centre|captain|defender|sweeper|striker|playmaker|pivot|setter|libero|point guard|forward|"
        "prop|hooker|scrum-half|full-back|pitcher|catcher|bowler|wicket-keeper|skip|midfielder"
    ),
    "industry": (
        "automotive|aerospace|brewing|ceramics|chemical|clothing|construction|cosmetics|dairy|electronics|energy|fishing|food|"
        "forestry|furniture|glass|insurance|jewellery|leather|logistics|machine tool|mining|packaging|paint|paper|pharmaceutical|"
        "plastics|printing|publishing|railway|retail|rubber|shipbuilding|software|steel|sugar|telecommunications|textile|toy|tyre"
    ),
    "product_category": (
        "alarm clocks|backpacks|bicycles|blenders|bookshelves|cameras|chainsaws|coffee machines|desk lamps|dishwashers|drills|"
        "fountain pens|garden hoses|guitars|hair dryers|headphones|helmets|ice skates|kettles|keyboards|lawn mowers|loudspeakers|"
        "mattresses|microscopes|ovens|printers|rucksacks|sewing machines|skis|tents|toasters|vacuum cleaners|watches|wheelchairs"
    ),
    "job_title": (
        "chief executive|finance director|head of research|sales director|plant manager|chief engineer|general counsel|press officer|"
        "personnel director|quality inspector|chief designer|head of logistics|treasurer|technical director|marketing director|"
        "chief chemist|regional manager|head of security|export manager|data officer|chief economist|works doctor|fleet manager|"
        "head of training|product manager|purchasing director|project leader|internal auditor|art director|chief archivist"
    ),
    "field": (
        "agronomy|algebra|anatomy|anthropology|archaeology|art history|astronomy|biochemistry|botany|choreography|classical philology|"
        "criminology|dentistry|ecology|econometrics|ethics|forestry|genetics|geography|geology|hydrology|immunology|journalism|"
        "jurisprudence|linguistics|logic|marine biology|metallurgy|meteorology|musicology|neurology|nursing|oceanography|optics|"
        "palaeontology|pharmacology|phonetics|robotics|sociology|statistics|theology|topology|urban planning|veterinary science"
    ),
    "degree": (
        "Bachelor of Arts|Bachelor of Science|Bachelor of Laws|Bachelor of Music|Master of Arts|Master of Science|Master of Laws|"
        "Master of Fine Arts|Doctor of Philosophy|Doctor of Medicine|Doctor of Laws|Licentiate"
    ),
    "ideology": (
        "liberalism|conservatism|socialism|agrarianism|federalism|monarchism|republicanism|environmentalism|populism|centrism|"
        "regionalism|libertarianism|social democracy|Christian democracy|secularism|pacifism"
    ),
    "discipline": (
        "acting|architecture|biography|chemistry|choral music|comedy|design|directing|documentary film|drama|engineering|"
        "fiction|"
        "illustration|journalism|lighting|mathematics|medicine|painting|peace work|photography|physics|poetry|"
        "screenwriting|translation"
    ),
    "element_group": (
        "light metals|heavy metals|pale gases|brittle metals|glowing metals|soft metals|inert gases|salt formers|earth metals|"
        "twin metals|shell metals|slow metals|deep metals|acid formers"
    ),
    "science_field": (
        "acoustics|aerodynamics|bacteriology|ballistics|biophysics|crystallography|cybernetics|electrochemistry|entomology|"
        "fluid dynamics|"
        "geodesy|glaciology|haematology|information theory|magnetism|mycology|nuclear physics|photonics|polymer chemistry|rheology|"
        "seismology|spectroscopy|thermodynamics|tribology|virology|vulcanology"
    ),
    "symptom": (
        "fever|dry cough|dizziness|nausea|headache|skin rash|joint pain|fatigue|blurred vision|hearing loss|shortness of breath|"
        "chest pain|numbness|tremor|insomnia|weight loss|swollen glands|itching|muscle cramps|palpitations|sore throat|hoarseness|"
        "memory loss|nosebleeds|chills|night sweats|loss of appetite|loss of smell|stiff neck|back pain|bruising|pale skin|hiccups|"
        "drowsiness|dry mouth|excessive thirst|flushing|hair loss|heartburn|jaundice|leg swelling|light sensitivity|mouth ulcers|"
        "sneezing|runny nose|slurred speech|stomach pain|sweating|tinnitus|vertigo|vomiting|watery eyes|wheezing|yawning|confusion|"
        "anxiety|cold hands|dark urine|double vision|ear pain|eye redness|facial pain|fainting|foot pain|gum bleeding|irritability|"
        "knee swelling|limping|low blood pressure|nail discolouration|rapid breathing|restlessness|shivering|slow healing|"
        "tingling fingers|tooth pain|unsteady gait|weak grip|wrist pain|bloating"
    ),
    "body_part": (
        "liver|kidney|heart|lung|stomach|spleen|pancreas|thyroid|retina|cornea|inner ear|larynx|trachea|oesophagus|small intestine|"
        "colon|bladder|spine|hip|knee|ankle|wrist|elbow|shoulder|jaw|brain|pituitary gland|skin|scalp|tongue|tonsil|sinus|bone marrow|"
        "lymph node|aorta|gall bladder"
    ),
    "risk_factor": (
        "smoking|lack of sleep|lack of exercise|high salt intake|sugar consumption|alcohol consumption|air pollution|noise exposure|"
        "cold exposure|heat exposure|dust exposure|asbestos exposure|sunburn|tick bites|mosquito bites|contaminated water|"
        "raw meat consumption|vitamin deficiency|iron deficiency|obesity|old age|pregnancy|stress|shift work|heavy lifting|"
        "repetitive motion|high altitude|family history|dental neglect|overcrowding|mould exposure|pesticide exposure|"
        "radiation exposure|solvent exposure"
    ),
    "specialty": (
        "cardiology|dermatology|endocrinology|gastroenterology|geriatrics|gynaecology|haematology|immunology|nephrology|neurology|"
        "oncology|ophthalmology|orthopaedics|otology|paediatrics|pathology|psychiatry|pulmonology|radiology|rheumatology|toxicology|urology"
    ),
    "ingredient": (
        "almond|anchovy|anise|apple|apricot|artichoke|asparagus|aubergine|bacon|barley|basil|bay leaf|bean|beef|beetroot|blackberry|"
        "broccoli|buckwheat|butter|cabbage|caper|caraway|cardamom|carrot|cauliflower|celery|cherry|chervil|chestnut|chickpea|chicory|"
        "chilli|chive|cinnamon|clove|cod|coriander|courgette|crab|cranberry|cream|cucumber|cumin|currant|date|dill|duck|egg|endive|"
        "fennel|fig|garlic|ginger|goose|gooseberry|grape|haddock|ham|hazelnut|herring|honey|horseradish|juniper|kale|lamb|leek|"
        "lemon|lentil|lettuce|lime|lobster|mackerel|marjoram|melon|millet|mint|mushroom|mussel|mustard|nettle|nutmeg|oat|octopus|olive|"
        "onion|orange|oregano|oyster|paprika|parsley|parsnip|pea|peach|pear|pepper|pike|pistachio|plum|poppy seed|pork|potato|"
        "pumpkin|quail|quince|rabbit|radish|raisin|raspberry|rhubarb|rice|rosemary|rye|saffron|sage|salmon|sardine|sesame|shallot|"
        "shrimp|sorrel|spinach|squid|strawberry|tarragon|thyme|tomato|trout|turnip|vanilla"
    ),
    "habitat": (
        "tundra|steppe|savanna|mangrove swamp|coral reef|cloud forest|salt marsh|river delta|peat bog|pine forest|rain forest|"
        "rocky shore|desert dune|alpine meadow|cave system|kelp forest|open ocean|bamboo thicket|oak woodland|reed bed"
    ),
    "temperament": (
        "alertness|bravery|calmness|cheerfulness|cleverness|curiosity|docility|eagerness|energy|fearlessness|friendliness|gentleness|"
        "independence|intelligence|kindness|loyalty|obedience|patience|playfulness|protectiveness|reserve|sensitivity|sociability|"
        "stubbornness|tenacity|trustworthiness|vigilance|watchfulness|willingness|wariness"
    ),
    "building_style": (
        "Baroque|Gothic|Brutalism|Art Nouveau|Art Deco|Neoclassicism|Rococo|Functionalism|Modernism|Postmodernism|Romanesque|"
        "Historicism|"
        "Deconstructivism|Mannerism|Palladianism|Organicism|High-Tech|Metabolism|Structuralism|Rationalism|Byzantine Revival|"
        "Gothic Revival|Mission Revival|Tudor Revival"
    ),
    "crew_role": (
        "commander|pilot|flight engineer|payload specialist|mission doctor|navigator|science officer|docking specialist"
    ),
}  # fmt: skip
