"""Kinds of product to wear and to care for oneself with.

Invariant: the columns are name, query, categories, attribute pools, option groups, usual price.
"""

FASHION = """
running shoes | women's sneakers | Women > Shoes > Athletic | shoe sport | shoe color | 58
walking shoes | women's sneakers | Women > Shoes > Athletic | shoe sport | shoe color | 52
trail shoes | men's athletic shoes | Men > Shoes > Athletic | shoe sport | shoe color | 74
loafers | men's loafers | Men > Shoes > Slip-Ons | shoe leather | shoe color | 49
oxford shoes | men's oxfords | Men > Shoes > Dress Shoes | shoe leather | shoe color | 66
work boots | men's boots | Men > Shoes > Boots | shoe leather | shoe color | 92
ankle boots | women's boots | Women > Shoes > Boots | shoe leather | shoe color | 55
platform sandals | women's sandals | Women > Shoes > Sandals | shoe | shoe color | 34
hiking sandals | men's sandals | Men > Shoes > Sandals | shoe sport | shoe color | 44
slippers | women's slippers | Women > Shoes > Slippers | shoe sleep | size color | 24
dress shirt | men's dress shirts | Men > Clothing > Shirts | fabric top | size color fit | 33
polo shirt | men's polos | Men > Clothing > Shirts | fabric top | size color fit | 27
henley shirt | men's henleys | Men > Clothing > Shirts | fabric top | size color | 25
tunic | women's tunics | Women > Clothing > Tops | fabric top | size color | 23
blouse | women's blouses | Women > Clothing > Tops | fabric top | size color | 28
tank top | women's tanks | Women > Clothing > Tops | fabric top sport | size color | 16
hoodie | men's hoodies | Men > Clothing > Hoodies | fabric top | size color fit | 36
cardigan | women's sweaters | Women > Clothing > Sweaters | fabric top | size color | 38
rain jacket | women's coats | Women > Clothing > Coats | fabric top sport | size color | 62
jogger pants | men's pants | Men > Clothing > Pants | fabric bottom | size color fit | 29
cargo shorts | men's shorts | Men > Clothing > Shorts | fabric bottom | size color | 26
leggings | women's leggings | Women > Clothing > Leggings | fabric bottom | size color style | 19
maxi skirt | women's skirts | Women > Clothing > Skirts | fabric bottom | size color | 27
sun dress | women's dresses | Women > Clothing > Dresses | fabric top | size color | 32
swim suit | women's swimsuits | Women > Clothing > Swim | fabric swim bottom | size color | 30
pajama set | women's sleepwear | Women > Clothing > Sleep | fabric top sleep | size color | 31
bath robe | women's sleepwear | Women > Clothing > Sleep | fabric sleep top | size color | 35
wallet | men's wallets | Men > Accessories > Wallets | leather bag | color | 22
tote bag | women's handbags | Women > Accessories > Handbags | leather bag | color style | 41
backpack | luggage backpacks | Luggage > Travel Gear > Backpacks | bag | color volume style | 46
duffel bag | luggage duffels | Luggage > Travel Gear > Duffels | bag sport | color size style | 39
"""

BEAUTY = """
face cream | face moisturizers | Skin Care > Face > Creams | skin | ounce scent | 19
night serum | face serums | Skin Care > Face > Serums | skin | ounce | 24
eye gel | eye treatments | Skin Care > Eyes > Gels | skin | ounce | 17
face cleanser | face cleansers | Skin Care > Face > Cleansers | skin | ounce scent | 13
clay mask | face masks | Skin Care > Face > Masks | skin | ounce scent | 15
sunscreen lotion | sunscreens | Skin Care > Sun > Body | skin | ounce style | 14
body lotion | body moisturizers | Skin Care > Body > Lotions | skin | ounce scent style | 12
body scrub | body scrubs | Skin Care > Body > Scrubs | skin | ounce scent | 16
hand cream | hand care | Skin Care > Hands > Creams | skin | ounce scent | 9
foot balm | foot care | Skin Care > Feet > Balms | skin | ounce | 11
bar soap | bath soaps | Personal Care > Bath > Soaps | skin | scent pack | 8
deodorant stick | deodorants | Personal Care > Deodorants > Sticks | skin | scent pack | 9
shampoo | shampoos | Hair Care > Wash > Shampoos | hair | ounce scent | 14
hair conditioner | conditioners | Hair Care > Wash > Conditioners | hair | ounce scent | 14
hair mask | hair treatments | Hair Care > Treatments > Masks | hair | ounce | 18
hair oil | hair treatments | Hair Care > Treatments > Oils | hair | ounce scent | 16
styling gel | hair styling | Hair Care > Styling > Gels | hair | ounce | 10
hair spray | hair styling | Hair Care > Styling > Sprays | hair | ounce scent | 11
hair brush | hair brushes | Hair Care > Tools > Brushes | tool hair | color style | 13
flat iron | hair straighteners | Hair Care > Tools > Irons | tool appliance | color | 45
lipstick | lip makeup | Makeup > Lips > Lipsticks | makeup | color | 10
lip balm | lip care | Skin Care > Lips > Balms | skin makeup | flavor pack | 7
mascara | eye makeup | Makeup > Eyes > Mascaras | makeup | color | 11
eyeshadow palette | eye makeup | Makeup > Eyes > Shadows | makeup | color style | 18
liquid foundation | face makeup | Makeup > Face > Foundations | makeup skin | color ounce style | 16
nail polish | nail polish | Nail Care > Color > Polishes | makeup | color style pack | 8
makeup brushes | makeup tools | Makeup > Tools > Brushes | tool makeup | color pack | 15
tooth brush | toothbrushes | Oral Care > Brushes > Manual | oral tool | color pack | 9
tooth paste | toothpaste | Oral Care > Pastes > Adults | oral | flavor ounce | 7
mouth wash | mouthwash | Oral Care > Rinses > Adults | oral | flavor ounce | 8
nail clipper | nail tools | Nail Care > Tools > Clippers | tool | style | 9
"""
