"""Kinds of product for the home, and things to eat and drink. Invariant: the columns are those of ``kinds_wear``."""

HOME = """
console table | console tables | Furniture > Living Room > Tables | furniture | color dimension | 145
coffee table | coffee tables | Furniture > Living Room > Tables | furniture | color dimension | 160
night stand | nightstands | Furniture > Bedroom > Nightstands | furniture | color | 88
book case | bookcases | Furniture > Home Office > Bookcases | furniture | color tier | 110
sectional sofa | sofas | Furniture > Living Room > Sofas | furniture cushion | color style piece | 890
love seat | sofas | Furniture > Living Room > Sofas | furniture cushion | color | 520
recliner chair | living room chairs | Furniture > Living Room > Chairs | furniture cushion | color style | 380
accent chair | living room chairs | Furniture > Living Room > Chairs | furniture cushion | color | 190
bar stool | bar stools | Furniture > Kitchen > Stools | furniture | color pack | 95
dining set | dining sets | Furniture > Kitchen > Table Sets | furniture | color piece | 420
bed frame | bed frames | Furniture > Bedroom > Beds | furniture | bed color | 260
mattress | mattresses | Furniture > Bedroom > Mattresses | cushion bedding | bed thickness | 480
storage ottoman | ottomans | Furniture > Living Room > Ottomans | furniture cushion | color dimension | 72
throw pillow | decorative pillows | Bedding > Pillows > Throw | bedding decor cushion | color dimension | 18
bed sheets | sheets | Bedding > Sheets > Sets | bedding fabric | bed color pattern | 36
duvet cover | duvet covers | Bedding > Duvets > Covers | bedding | bed color pattern | 48
throw blanket | throws | Bedding > Blankets > Throws | bedding fabric | color dimension | 29
window curtains | curtains | Decor > Windows > Curtains | decor bedding | color panel pattern | 33
area rug | area rugs | Decor > Floors > Rugs | decor mat | color rug | 98
bath mat | bath mats | Bath > Floors > Mats | mat fabric | color dimension | 19
wall art | wall art | Decor > Walls > Prints | decor | pattern dimension | 42
wall mirror | mirrors | Decor > Walls > Mirrors | decor furniture | color dimension | 85
scented candle | candles | Decor > Fragrance > Candles | candle | scent ounce | 15
table lamp | table lamps | Lighting > Lamps > Table | light | color style | 46
floor lamp | floor lamps | Lighting > Lamps > Floor | light | color | 78
pendant light | pendant lights | Lighting > Ceiling > Pendants | light | color piece | 69
wall sconce | wall lights | Lighting > Walls > Sconces | light | color piece | 54
ceiling fan | ceiling fans | Lighting > Ceiling > Fans | light appliance | color inch | 150
frying pan | skillets | Kitchen > Cookware > Skillets | kitchen | inch color | 32
cutting board | cutting boards | Kitchen > Tools > Boards | kitchen | dimension pack | 21
water bottle | water bottles | Kitchen > Drinkware > Bottles | kitchen sport | color fluid | 20
lunch box | lunch containers | Kitchen > Storage > Lunch Boxes | kitchen bag | color piece style | 23
coffee maker | coffee makers | Kitchen > Appliances > Coffee | appliance kitchen | color style | 79
food storage containers | food containers | Kitchen > Storage > Containers | kitchen | piece color | 27
knife set | kitchen knives | Kitchen > Tools > Knives | kitchen tool | piece style | 64
"""

GROCERY = """
granola bars | granola bars | Snacks > Bars > Granola | snack food | flavor count | 14
protein bars | protein bars | Snacks > Bars > Protein | snack food | flavor count | 23
potato chips | chips | Snacks > Crisps > Potato | snack | flavor ouncepack | 12
tortilla chips | chips | Snacks > Crisps > Tortilla | snack | flavor ouncepack | 11
trail mix | trail mixes | Snacks > Nuts > Mixes | snack food | flavor ouncepack | 16
roasted almonds | nuts | Snacks > Nuts > Almonds | snack food | flavor ouncepack | 18
dried mango | dried fruit | Snacks > Fruit > Dried | snack food | ouncepack | 15
beef jerky | jerky | Snacks > Meat > Jerky | snack food | flavor ouncepack | 17
rice crackers | crackers | Snacks > Crackers > Rice | snack | flavor ouncepack | 13
oat cookies | cookies | Snacks > Cookies > Oat | snack bake | flavor ouncepack | 11
gummy candy | gummies | Candy > Soft > Gummies | snack | flavor ouncepack | 10
chocolate truffles | chocolates | Candy > Chocolate > Truffles | snack bake | flavor count | 19
breakfast cereal | cereals | Breakfast > Cereals > Cold | food bake | flavor ouncepack | 12
instant oatmeal | oatmeal | Breakfast > Cereals > Hot | food bake | flavor count | 11
pancake mix | baking mixes | Baking > Mixes > Pancake | bake food | flavor ouncepack | 13
almond flour | flours | Baking > Flours > Nut | bake food | ouncepack | 16
cake mix | baking mixes | Baking > Mixes > Cake | bake | flavor ouncepack | 12
vanilla extract | extracts | Baking > Flavors > Extracts | bake food | fluid | 14
olive oil | cooking oils | Pantry > Oils > Olive | food | fluid pack | 21
pasta sauce | pasta sauces | Pantry > Sauces > Pasta | food | flavor ouncepack | 13
hot sauce | hot sauces | Pantry > Sauces > Hot | food | flavor fluid | 10
lentil pasta | pasta | Pantry > Pasta > Legume | food | style ouncepack | 15
chicken broth | soups | Pantry > Soups > Broths | food | fluid pack | 17
tuna pouches | canned fish | Pantry > Fish > Tuna | food | flavor ouncepack | 18
spice blend | seasonings | Pantry > Seasonings > Blends | food | flavor ouncepack | 9
ground coffee | coffee | Beverages > Coffee > Ground | drink | roast ouncepack | 19
herbal tea | tea | Beverages > Tea > Herbal | drink | flavor count | 10
green tea | tea | Beverages > Tea > Green | drink | flavor count | 11
drink powder | drink mixes | Beverages > Mixes > Powders | drink | flavor count | 14
coconut water | coconut water | Beverages > Juices > Coconut | drink | flavor fluidpack | 22
protein shake | protein drinks | Beverages > Shakes > Protein | drink food | flavor fluidpack | 29
"""
