"""The stemmer: the examples of its paper, and where Lucene's differs from it."""

import pytest

from envhub.envs.webshop.porter import stem

EXAMPLES = {
    "1a": "caresses caress, ponies poni, ties ti, caress caress, cats cat",
    "1b": "feed feed, agreed agre, plastered plaster, bled bled, motoring motor, sing sing",
    "1b, then": (
        "conflated conflat, troubled troubl, sized size, hopping hop, tanned tan, falling fall, hissing hiss, fizzed fizz, "
        "failing fail, filing file, snowing snow, boxing box"
    ),
    "1c": "happy happi, sky sky",
    "2": (
        "relational relat, conditional condit, rational ration, valenci valenc, hesitanci hesit, digitizer digit, "
        "radicalli radic, differentli differ, vileli vile, analogousli analog, vietnamization vietnam, predication predic, "
        "operator oper, feudalism feudal, decisiveness decis, hopefulness hope, callousness callous, formaliti formal, "
        "sensitiviti sensit, sensibiliti sensibl"
    ),
    "3": (
        "triplicate triplic, formative form, formalize formal, electriciti electr, electrical electr, hopeful hope, "
        "goodness good"
    ),
    "4": (
        "revival reviv, allowance allow, inference infer, airliner airlin, gyroscopic gyroscop, adjustable adjust, "
        "defensible defens, irritant irrit, replacement replac, adjustment adjust, dependent depend, adoption adopt, "
        "homologou homolog, communism commun, activate activ, angulariti angular, homologous homolog, effective effect, "
        "bowdlerize bowdler"
    ),
    "5": "probate probat, rate rate, cease ceas, controll control, roll roll",
}


@pytest.mark.parametrize("step", EXAMPLES)
def test_examples_of_the_paper(step: str) -> None:
    for example in EXAMPLES[step].split(", "):
        word, expected = example.split()
        assert stem(word) == expected, word


def test_words_of_two_characters_stay() -> None:
    assert [stem(word) for word in ("is", "as", "ed", "s", "")] == ["is", "as", "ed", "s", ""]


def test_two_rules_beyond_the_paper() -> None:
    assert stem("possibli") == "possibl"
    assert stem("archaeologi") == "archaeolog"


def test_y_is_a_vowel_after_a_consonant_only() -> None:
    assert [stem(word) for word in ("toy", "toys", "flying", "syzygy", "employed")] == [
        "toi",
        "toi",
        "fly",
        "syzygi",
        "emploi",
    ]


def test_digits_and_other_letters_are_consonants() -> None:
    assert [stem(word) for word in ("500mls", "3x", "naïve", "café", "12inches")] == [
        "500ml",
        "3x",
        "naïv",
        "café",
        "12inch",
    ]
