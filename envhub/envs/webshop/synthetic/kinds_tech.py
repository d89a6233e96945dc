"""Kinds of product with a plug, and things for free time. Invariant: the columns are those of ``kinds_wear``."""

ELECTRONICS = """
~wireless earbuds | earbud headphones | Audio > Headphones > Earbuds | audio battery | color | 39
studio headphones | over ear headphones | Audio > Headphones > Over-Ear | audio | color style | 88
~portable speaker | bluetooth speakers | Audio > Speakers > Portable | audio battery | color | 45
sound bar | soundbars | Audio > Home Theater > Soundbars | audio video | style | 140
desk microphone | microphones | Audio > Recording > Microphones | audio computing | color | 52
radio clock | clock radios | Audio > Radios > Clocks | audio battery | color | 27
phone case | phone cases | Phones > Cases > Basic | case | color device style | 15
screen protector | screen protectors | Phones > Protection > Screens | case | device pack | 10
car phone mount | phone mounts | Phones > Car > Mounts | case cable | style | 19
power bank | portable chargers | Phones > Power > Banks | battery cable | color capacity | 32
wall charger | phone chargers | Phones > Power > Wall | cable battery | color watt | 18
charging cable | charging cables | Phones > Power > Cables | cable | length color | 12
hdmi cable | hdmi cables | Video > Cables > Hdmi | cable video | length pack | 13
ethernet cable | ethernet cables | Computers > Networking > Cables | cable | length color | 14
coaxial cable | antenna cables | Video > Cables > Coaxial | cable | length | 11
usb hub | usb hubs | Computers > Accessories > Hubs | computing cable | style color | 28
wifi router | routers | Computers > Networking > Routers | computing | style | 92
laptop computer | laptops | Computers > Laptops > Traditional | computing battery | storage memory style | 870
desktop computer | desktops | Computers > Desktops > Towers | computing | storage memory | 940
tablet | tablets | Computers > Tablets > Standard | computing battery | color storage style | 230
computer keyboard | keyboards | Computers > Accessories > Keyboards | computing battery | color style | 44
computer mouse | mice | Computers > Accessories > Mice | computing battery | color | 24
laptop sleeve | laptop bags | Computers > Accessories > Sleeves | bag case | color inch | 22
security camera | security cameras | Camera > Security > Indoor | video | style piece | 58
action camera | action cameras | Camera > Digital > Action | video battery | color | 130
camera tripod | tripods | Camera > Supports > Tripods | sport office | color inch | 36
camera lens | camera lenses | Camera > Optics > Lenses | video | style | 310
video projector | projectors | Video > Projectors > Home | video | color | 170
television | televisions | Video > Displays > Led | video | inch | 640
streaming stick | media players | Video > Streaming > Sticks | video | style | 41
smart watch | smartwatches | Wearables > Watches > Smart | battery sport | color inch | 99
watch band | watch bands | Wearables > Watches > Bands | leather sport | color millimeter | 14
alkaline batteries | household batteries | Power > Batteries > Alkaline | battery | cell count | 13
surge protector | surge protectors | Power > Strips > Surge | cable office | length color | 25
"""

LEISURE = """
yoga mat | yoga mats | Sports > Yoga > Mats | mat sport | color thickness | 28
resistance bands | exercise bands | Sports > Strength > Bands | sport | color pack | 17
~adjustable dumbbell | dumbbells | Sports > Strength > Weights | sport tool | pound color | 68
bike helmet | bike helmets | Sports > Cycling > Helmets | sport | color size | 45
camping tent | tents | Outdoors > Camping > Tents | outdoor sport | color person | 120
sleeping bag | sleeping bags | Outdoors > Camping > Bags | outdoor sleep | color style | 56
camping chair | camp chairs | Outdoors > Camping > Chairs | outdoor sport | color | 39
patio umbrella | patio umbrellas | Garden > Shade > Umbrellas | outdoor | color inch | 76
garden hose | garden hoses | Garden > Watering > Hoses | outdoor | length color | 34
plant pot | planters | Garden > Plants > Pots | outdoor decor | color inch | 19
bird feeder | bird feeders | Garden > Birds > Feeders | outdoor | color style | 22
dog bed | dog beds | Pets > Dogs > Beds | pet cushion | color size | 42
dog treats | dog treats | Pets > Dogs > Treats | pet | flavor ouncepack | 13
dog leash | dog leashes | Pets > Dogs > Leashes | pet sport | color length | 16
cat food | cat food | Pets > Cats > Food | pet | flavor ouncepack | 21
cat tree | cat furniture | Pets > Cats > Trees | pet furniture | color inch | 74
plush bear | stuffed animals | Toys > Plush > Bears | toy | color inch | 18
building blocks | building toys | Toys > Building > Blocks | toy | piece style | 31
toy truck | toy vehicles | Toys > Vehicles > Trucks | toy | color | 22
board game | board games | Toys > Games > Board | toy office | style | 29
baby bottle | baby bottles | Baby > Feeding > Bottles | baby | color fluid | 14
baby carrier | baby carriers | Baby > Travel > Carriers | baby fabric | color style | 63
gel pens | pens | Office > Writing > Pens | office | color count | 9
sketch book | drawing paper | Office > Paper > Sketchbooks | office | dimension pack | 13
desk organizer | desk organizers | Office > Storage > Organizers | office furniture | color style | 24
office chair | desk chairs | Office > Seating > Chairs | furniture cushion | color style | 180
filing cabinet | file cabinets | Office > Storage > Cabinets | office furniture | color tier | 150
whiteboard | whiteboards | Office > Boards > White | office mat | dimension | 48
"""
