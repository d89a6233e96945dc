"""What fits into what: the kinds of things each kind of receptacle takes.

Invariant: in every official game a receptacle takes a thing exactly when this table says so; ``pddl.parse_game`` checks it.
The facts are those of the ALFWorld package (MIT, Copyright (c) 2020 Mohit Shridhar and others).
"""

from __future__ import annotations

from collections.abc import Mapping

_TABLE = """
    AlarmClock Apple AppleSliced BaseballBat BasketBall Book Bowl Box Bread BreadSliced ButterKnife CD Candle
    CellPhone Cloth CreditCard Cup DishSponge Egg Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop
    Lettuce LettuceSliced Mug Newspaper Pan PaperTowel Pen Pencil PepperShaker Plate Pot Potato PotatoSliced
    RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle Statue TennisRacket TissueBox ToiletPaper
    ToiletPaperRoll Tomato TomatoSliced Vase Watch WateringCan WineBottle
    """
_SEAT = """
    BasketBall Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
    """

_WORDS: Mapping[str, str] = {
    "ArmChair": _SEAT,
    "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
    "Bed": """
        BaseballBat BasketBall Book CellPhone Laptop Newspaper Pillow TennisRacket
        """,
    "Cabinet": """
        Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan PepperShaker
        Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper ToiletPaperRoll Vase
        WateringCan WineBottle
        """,
    "Cart": """
        Candle Cloth DishSponge HandTowel Mug PaperTowel Plunger SoapBar SoapBottle SprayBottle Statue TissueBox
        ToiletPaper ToiletPaperRoll Vase
        """,
    "CoffeeMachine": "Mug",
    "CoffeeTable": _TABLE,
    "CounterTop": _TABLE,
    "Desk": """
        AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle KeyChain Laptop Mug
        Newspaper Pen Pencil Plate RemoteControl SoapBottle SprayBottle Statue TennisRacket TissueBox ToiletPaper
        ToiletPaperRoll Vase Watch WateringCan WineBottle
        """,
    "DiningTable": _TABLE,
    "Drawer": """
        Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle Newspaper
        Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle TissueBox
        ToiletPaper ToiletPaperRoll Watch WateringCan
        """,
    "Dresser": """
        AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle KeyChain Laptop Mug
        Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper ToiletPaperRoll
        Vase Watch WateringCan WineBottle
        """,
    "Fridge": """
        Apple AppleSliced Bowl Bread BreadSliced Cup Egg Glassbottle Lettuce LettuceSliced Mug Pan Plate Pot Potato
        PotatoSliced Tomato TomatoSliced WineBottle
        """,
    "GarbageCan": """
        Apple AppleSliced Bread BreadSliced CD Cloth DishSponge Egg HandTowel Lettuce LettuceSliced Newspaper PaperTowel
        Pen Pencil Potato PotatoSliced SoapBar SoapBottle SprayBottle TissueBox ToiletPaper ToiletPaperRoll Tomato
        TomatoSliced WineBottle
        """,
    "HandTowelHolder": "HandTowel",
    "LaundryHamper": "Cloth",
    "Microwave": """
        Apple AppleSliced Bowl Bread BreadSliced Cup Egg Glassbottle Mug Plate Potato PotatoSliced Tomato TomatoSliced
        """,
    "Ottoman": _SEAT,
    "Safe": "CD CellPhone CreditCard KeyChain Statue Vase Watch",
    "Shelf": """
        AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel Kettle
        KeyChain Mug Newspaper PaperTowel Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar SoapBottle
        SprayBottle Statue TissueBox ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle
        """,
    "SideTable": _TABLE,
    "SinkBasin": """
        Apple AppleSliced Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle
        Lettuce LettuceSliced Mug Pan Plate Pot Potato PotatoSliced SoapBar Spatula Spoon Tomato TomatoSliced
        """,
    "Sofa": _SEAT,
    "StoveBurner": "Kettle Pan Pot",
    "TVStand": "TissueBox",
    "Toaster": "BreadSliced",
    "Toilet": """
        Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper
        ToiletPaperRoll
        """,
    "ToiletPaperHanger": "ToiletPaper ToiletPaperRoll",
    "TowelHolder": "Towel",
}

ACCEPTS: Mapping[str, frozenset[str]] = {kind: frozenset(words.split()) for kind, words in _WORDS.items()}
"""By kind of receptacle, the kinds of things that can be put into it."""
